//! Who else is at work on the node, as far as the node itself tells.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use netqos_api::{CALICO_IFB, calico_ifb_name};
use netqos_bpf::{CiliumBandwidth, TcxHook};
use netqos_coexistence::AtWork;
use netqos_netlink::Socket;
use netqos_netlink::link::Link;

/// Where terway-qos pins its maps, in a BPF file system.
const TERWAY: &str = "terway";

/// The beginning of the names of Calico's pins, and of the host's ends of its pods' interfaces.
const CALICO: &str = "cali";

/// The programs that may send packets past a pod's host link, by what begins the names of their pins.
const REDIRECTORS: [(&str, &str); 2] = [("cilium_", "Cilium"), (CALICO, "Calico")];

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

/// Looks at the links of the node for what Calico does. `redirecting_cni` is the CNI whose programs are pinned.
pub(crate) fn look_for_calico(at_work: &mut AtWork, redirecting_cni: Option<&str>) {
    let Ok(links) = Socket::open().and_then(|mut socket| socket.links()) else {
        return;
    };
    let ifbs = links.iter().filter(|link| link.kind == "ifb");
    let ifbs = ifbs.filter(|link| link.name.starts_with(CALICO_IFB));
    let ifbs: BTreeSet<&str> = ifbs.map(|link| link.name.as_str()).collect();
    let has_ifb = |link: &Link| ifbs.contains(calico_ifb_name(&link.name).as_str());
    // Those of links that are gone may be left of a Calico that is gone.
    let limits = !ifbs.is_empty() && links.iter().any(has_ifb);
    at_work.calico = limits.then_some(Some(true));
    let ends = links.iter().filter(|it| it.name.starts_with(CALICO));
    let mut ends = ends.peekable();
    at_work.calico_by_tc = redirecting_cni == Some("Calico")
        && ends.peek().is_some()
        && !ends.any(|end| TcxHook::Ingress.has_foreign(end.index));
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
        calico_by_tc: before.calico_by_tc,
        cilium_egress: cilium.egress,
        cilium_ingress: cilium.ingress,
        terway_qos: bpffs.join(TERWAY).is_dir(),
        ..AtWork::default()
    }
}
