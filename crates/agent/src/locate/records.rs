//! The records of `netqos-multinet`: all attachments of a pod, with their networks, addresses and bandwidths.
//!
//! The plugin writes them as root. So what a record says of a pod counts in place of what the pod's annotations say, which
//! a tenant may write.

use std::fs;
use std::path::Path;

use netqos_api::multinet::PodRecord;
use netqos_core::objects::{NetworkName, RecordedLimits};
use netqos_core::{Attachment, ObjectName};

use super::{Memory, PRIMARY_INTERFACE, Sandboxed, Source, interface};

/// Reads a record. None: it is gone.
pub(super) fn read(path: &Path) -> Result<Option<PodRecord>, String> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(why) => return Err(why.to_string()),
    };
    let record = serde_json::from_slice(&bytes);
    record.map_err(|why| format!("not a record of netqos-multinet: {why}"))
}

/// The interfaces of a record. Empty: it is not of a pod, not all its networks are made, or its namespace is gone.
pub(super) fn interfaces(
    record: &PodRecord,
    memory: &Memory<'_>,
) -> Result<Vec<Sandboxed>, String> {
    let (Some(pod), Some(_), Some(netns)) = (&record.pod, &record.status, &record.netns) else {
        return Ok(Vec::new());
    };
    let mut networks = Vec::with_capacity(record.attachments.len() + 1);
    for (index, network) in record.attachments.iter().enumerate() {
        let name = match network.nad.as_deref().and_then(|it| it.split_once('/')) {
            // Also one that stands in for the cluster's.
            _ if index == 0 => NetworkName::Default,
            Some((namespace, name)) => NetworkName::Attachment(ObjectName::new(namespace, name)),
            None => return Err("an attachment names no NetworkAttachmentDefinition".to_owned()),
        };
        let limits = match index {
            0 => network.limits_without_annotations(),
            _ => network.limits(),
        };
        networks.push((network, &*network.interface, name, limits));
    }
    // OVN-Kubernetes makes it in the ADD of the default network.
    if let Some(first) = record.attachments.first()
        && !record.addresses(first, PRIMARY_INTERFACE).is_empty()
    {
        let network = NetworkName::Primary(None);
        networks.push((first, PRIMARY_INTERFACE, network, RecordedLimits::default()));
    }
    let mut found = Vec::with_capacity(networks.len());
    for (attached, name, network, limits) in networks {
        let attachment = Attachment::try_new(attached.network(), &record.container_id, name);
        let attachment = attachment.map_err(|why| why.to_string())?;
        let addresses = record.addresses(attached, name);
        let recorded = attached.ends.filter(|_| *attached.interface == *name);
        let known = memory.of(&attachment, recorded, &[]);
        let Some(mut interface) = interface(&attachment, netns, known, addresses) else {
            return Ok(Vec::new());
        };
        interface.network = network;
        interface.recorded = Some(limits);
        found.push(Sandboxed {
            source: Source::Record,
            pod: ObjectName::new(&pod.namespace, &pod.name),
            uid: pod.uid.as_deref().map(Into::into),
            container: record.container_id.clone(),
            interface,
        });
    }
    Ok(found)
}
