//! The plugin's records, for people and for annotations of pods.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::SystemTime;

use netqos_api::multinet::{CNI_DRIVER, PodRecord};
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

/// The number of attachments for each driver and state, for `/metrics`. Tenants name networks, and those are counted together.
pub(crate) type AttachmentCounts = BTreeMap<(&'static str, &'static str), u64>;

/// Counts the attachments of all records. There is a count for each state, and drivers that netqos does not know are one.
pub(crate) fn count_attachments(directory: &Path) -> AttachmentCounts {
    let all = [State::Attached, State::Attaching, State::Leftover];
    let mut counts = AttachmentCounts::from(all.map(|state| ((CNI_DRIVER, state.label()), 0)));
    for (_, record) in records(directory) {
        for (index, attachment) in record.attachments.iter().enumerate() {
            let driver = match &*attachment.driver {
                CNI_DRIVER => CNI_DRIVER,
                _ => "other",
            };
            let state = state(&record, index).label();
            *counts.entry((driver, state)).or_default() += 1;
        }
    }
    counts
}

#[derive(Clone, Copy)]
enum State {
    Attached,
    Attaching,
    /// The sandbox is gone, and DEL was not called or has failed.
    Leftover,
}

impl State {
    const fn label(self) -> &'static str {
        match self {
            Self::Attached => "attached",
            Self::Attaching => "attaching",
            Self::Leftover => "leftover",
        }
    }
}

fn state(record: &PodRecord, index: usize) -> State {
    match &record.netns {
        Some(netns) if !netns.exists() => State::Leftover,
        _ if index < record.made => State::Attached,
        _ => State::Attaching,
    }
}

fn of_record(record: &PodRecord) -> Vec<AttachmentStatus> {
    let (namespace, name) = match &record.pod {
        Some(pod) => (pod.namespace.clone(), pod.name.clone()),
        None => Default::default(),
    };
    let attachments = record.attachments.iter().enumerate();
    let status = attachments.map(|(index, attachment)| {
        let limits = attachment.limits().limits;
        let rate = |direction| Some(limits.of(direction)?.rate.bits_per_second());
        let addresses = record.addresses(attachment, &attachment.interface);
        let state = match state(record, index) {
            State::Leftover => "its sandbox is gone, and the runtime has not called DEL",
            State::Attached => "attached",
            State::Attaching if index == record.made => "being attached",
            State::Attaching => "waits for the attachment before it",
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn attachments_are_counted_by_driver_and_state() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, netns: &Path, made: usize, drivers: &[&str]| {
            let attachment = |driver: &&str| {
                json!({"driver": driver, "interface": "net1", "list": {"name": "of a tenant"}, "args": [],
                       "capabilityArgs": {}})
            };
            let attachments: Vec<_> = drivers.iter().map(attachment).collect();
            let record = json!({"containerId": name, "netns": netns, "made": made, "attachments": attachments});
            fs::write(
                directory.path().join(format!("{name}.json")),
                record.to_string(),
            )
            .unwrap();
        };
        let (there, gone) = (directory.path(), Path::new("/none/of/this"));
        write("c1", there, 2, &["cni", "cni", "cni", "cni"]);
        write("c2", gone, 1, &["cni", "x", "y"]);
        fs::write(directory.path().join("broken.json"), "{").unwrap();
        let counts = count_attachments(directory.path());
        let expected = [
            (("cni", "attached"), 2),
            (("cni", "attaching"), 2),
            (("cni", "leftover"), 1),
            (("other", "leftover"), 2),
        ];
        assert_eq!(counts, AttachmentCounts::from(expected));
    }

    #[test]
    fn node_without_records_has_a_count_for_each_state() {
        let counts = count_attachments(Path::new("/none/of/this"));
        let states: Vec<_> = counts.into_iter().collect();
        let zero = ["attached", "attaching", "leftover"].map(|state| (("cni", state), 0));
        assert_eq!(states, zero);
    }
}
