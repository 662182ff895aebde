//! Who else is at work on the node, as far as the node itself tells.

use std::path::Path;

use netqos_bpf::CiliumBandwidth;
use netqos_coexistence::AtWork;

/// Where terway-qos pins its maps, in a BPF file system.
const TERWAY: &str = "terway";

/// Looks at what is pinned in a BPF file system. What cannot be read is as it was `before`.
pub(crate) fn look(bpffs: &Path, before: AtWork) -> AtWork {
    let cilium = CiliumBandwidth::look(bpffs).unwrap_or_else(|why| {
        tracing::debug!("find out whether Cilium's bandwidth manager is at work: {why}");
        CiliumBandwidth {
            egress: before.cilium_egress,
            ingress: before.cilium_ingress,
        }
    });
    AtWork {
        cilium_egress: cilium.egress,
        cilium_ingress: cilium.ingress,
        terway_qos: bpffs.join(TERWAY).is_dir(),
        ..AtWork::default()
    }
}
