//! Who else is at work on the node, as far as the node itself tells.

use std::fs;
use std::path::Path;

use netqos_api::CALICO_IFB;
use netqos_bpf::CiliumBandwidth;
use netqos_coexistence::AtWork;
use netqos_netlink::Socket;

/// Where terway-qos pins its maps, in a BPF file system.
const TERWAY: &str = "terway";

/// The programs that may send packets past a pod's host link, by what begins the names of their pins.
const REDIRECTORS: [(&str, &str); 2] = [("cilium_", "Cilium"), ("cali", "Calico")];

/// Returns the CNI whose eBPF programs are pinned in a BPF file system: they may deliver packets to pods by
/// `bpf_redirect_peer`. (Cilium does where it has host routing, and Calico in its eBPF data plane, the only one with pins.)
pub(crate) fn redirecting_cni(bpffs: &Path) -> Option<&'static str> {
    let pins = fs::read_dir(bpffs.join("tc/globals")).ok()?;
    let names: Vec<_> = pins.flatten().map(|pin| pin.file_name()).collect();
    let is_of = |(prefix, _): &&(&str, &str)| {
        let mut names = names.iter();
        names.any(|name| name.to_string_lossy().starts_with(prefix))
    };
    REDIRECTORS.iter().find(is_of).map(|(_, name)| *name)
}

/// Returns true if Calico limits a pod of the node.
pub(crate) fn calico_limits() -> bool {
    let links = Socket::open().and_then(|mut socket| socket.links());
    links.is_ok_and(|links| {
        let mut links = links.iter();
        links.any(|link| link.kind == "ifb" && link.name.starts_with(CALICO_IFB))
    })
}

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
        calico: before.calico,
        cilium_egress: cilium.egress,
        cilium_ingress: cilium.ingress,
        terway_qos: bpffs.join(TERWAY).is_dir(),
        ..AtWork::default()
    }
}
