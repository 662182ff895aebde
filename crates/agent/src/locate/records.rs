//! The records of `netqos-multinet`: all attachments of a pod, with their networks, addresses and bandwidths.
//!
//! The plugin writes them as root. So what a record says of a pod counts in place of what the pod's annotations say, which
//! a tenant may write.

use std::collections::BTreeSet;
use std::fs;
use std::net::IpAddr;
use std::path::Path;

use netqos_api::multinet::{AttachedNetwork, AttachedSandbox};
use netqos_api::npwg::NetworkStatus;
use netqos_core::objects::NetworkName;
use netqos_core::{Attachment, ObjectName};

use super::{Sandboxed, Source, interface};

/// Reads the record of a pod. None: it is not of a pod, not all its networks are made, or its namespace is gone.
pub(super) fn read(path: &Path) -> Result<Vec<Sandboxed>, String> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(why) => return Err(why.to_string()),
    };
    let sandbox: AttachedSandbox = serde_json::from_slice(&bytes)
        .map_err(|why| format!("not a record of netqos-multinet: {why}"))?;
    let (Some(pod), Some(status), Some(netns)) = (&sandbox.pod, &sandbox.status, &sandbox.netns)
    else {
        return Ok(Vec::new());
    };
    let mut found = Vec::with_capacity(sandbox.attachments.len());
    for (index, network) in sandbox.attachments.iter().enumerate() {
        let attachment =
            Attachment::try_new(network.network(), &sandbox.container_id, &network.interface);
        let attachment = attachment.map_err(|why| why.to_string())?;
        let addresses = addresses(network, status);
        let Some(mut interface) = interface(&attachment, netns, addresses) else {
            return Ok(Vec::new());
        };
        interface.network = match network.nad.as_deref().and_then(|it| it.split_once('/')) {
            // Also one that stands in for the cluster's.
            _ if index == 0 => NetworkName::Default,
            Some((namespace, name)) => NetworkName::Attachment(ObjectName::new(namespace, name)),
            None => return Err("an attachment names no NetworkAttachmentDefinition".to_owned()),
        };
        interface.recorded = Some(network.limits());
        found.push(Sandboxed {
            source: Source::Record,
            pod: ObjectName::new(&pod.namespace, &pod.name),
            uid: pod.uid.as_deref().map(Into::into),
            container: sandbox.container_id.clone(),
            interface,
        });
    }
    Ok(found)
}

/// The addresses of an attachment's interface.
fn addresses(network: &AttachedNetwork, status: &[NetworkStatus]) -> BTreeSet<IpAddr> {
    let name = network.nad.as_deref().unwrap_or(network.network());
    let is_its = |entry: &&NetworkStatus| {
        // A plugin may report no interface.
        let interface = entry.interface.as_deref();
        entry.name == name && interface.is_none_or(|it| it == network.interface)
    };
    let ips = status.iter().filter(is_its).flat_map(|entry| &entry.ips);
    ips.filter_map(|ip| ip.parse().ok()).collect()
}
