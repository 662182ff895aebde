//! The plugin's records, for people and for annotations of pods.

use std::fs;
use std::path::Path;
use std::time::SystemTime;

use netqos_api::multinet::PodRecord;
use netqos_core::Direction;

use crate::status::AttachmentStatus;

/// Reads the records in a directory, each with its time. One that is gone by now, or that the plugin will set aside, is
/// passed over.
pub(super) fn records(directory: &Path) -> impl Iterator<Item = (SystemTime, PodRecord)> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    paths.filter_map(|path| {
        path.extension().filter(|it| *it == "json")?;
        let time = fs::metadata(&path).and_then(|it| it.modified()).ok()?;
        let text = fs::read(&path).ok()?;
        Some((time, serde_json::from_slice(&text).ok()?))
    })
}

/// Returns the attachments of all pods, in the order of their names and of their attachments, with the limits that were
/// requested.
pub(crate) fn attachments(directory: &Path) -> Vec<AttachmentStatus> {
    let mut records: Vec<PodRecord> = records(directory).map(|(_, record)| record).collect();
    records.sort_by(|a, b| (&a.pod, &a.container_id).cmp(&(&b.pod, &b.container_id)));
    records.iter().flat_map(of_record).collect()
}

fn of_record(record: &PodRecord) -> Vec<AttachmentStatus> {
    let (namespace, name) = match &record.pod {
        Some(pod) => (pod.namespace.clone(), pod.name.clone()),
        None => Default::default(),
    };
    let is_gone = record.netns.as_deref().is_some_and(|it| !it.exists());
    let attachments = record.attachments.iter().enumerate();
    let status = attachments.map(|(index, attachment)| {
        let limits = attachment.limits().limits;
        let rate = |direction| Some(limits.of(direction)?.rate.bits_per_second());
        let addresses = record.addresses(attachment, &attachment.interface);
        let state = match () {
            () if is_gone => "its sandbox is gone, and the runtime has not called DEL",
            () if index < record.made => "attached",
            () if index == record.made => "being attached",
            () => "waits for the attachment before it",
        };
        AttachmentStatus {
            namespace: namespace.clone(),
            name: name.clone(),
            container_id: record.container_id.clone(),
            network: (attachment.nad.as_deref().unwrap_or(attachment.network())).to_owned(),
            interface: attachment.interface.clone(),
            addresses: addresses.iter().map(ToString::to_string).collect(),
            ingress: rate(Direction::Ingress),
            egress: rate(Direction::Egress),
            driver: attachment.driver.clone(),
            state: state.to_owned(),
        }
    });
    status.collect()
}
