//! Pods that select networks: `netqos-multinet` attaches them, and the lab reads what came of it.

use netqos_cni::CniResult;
use netqos_cni::runtime::{CachedAttachment, Runtime};
use netqos_netlink::Namespace;

use super::{LiveInterface, interface};
use crate::LabError;
use crate::manifest::{ManifestError, PodManifest};
use crate::network::Files;
use crate::record::{NodeRecord, PodRecord};

/// The interfaces on the networks that a pod selects, by the results that the plugin keeps.
pub(super) fn interfaces(
    files: &Files,
    node: &NodeRecord,
    namespace: &Namespace,
    record: &PodRecord,
    manifest: &PodManifest,
) -> Result<Vec<LiveInterface>, LabError> {
    let runtime = Runtime::new(node.plugin_dirs.clone(), files.multinet());
    let kept = runtime.cached_attachments();
    let interfaces = manifest.networks.iter().map(|wanted| {
        let mut kept = kept.iter();
        let of_it = |it: &&CachedAttachment| {
            it.container_id == record.netns && it.ifname == wanted.interface
        };
        let kept = kept
            .find(of_it)
            .ok_or(LabError::Panicked("find what netqos-multinet has made"))?;
        let list = kept.list().map_err(ManifestError::Network)?;
        let result = CniResult::from_value(kept.result.clone(), list.version)
            .map_err(|_| LabError::Panicked("read what netqos-multinet has made"))?;
        Ok(interface(
            namespace,
            &wanted.interface,
            wanted.limits,
            &result,
        ))
    });
    interfaces.collect()
}
