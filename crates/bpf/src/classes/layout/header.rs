//! The programs have the same layout.

use super::settings::TunnelEntry;
use super::*;
use crate::header::{Header, layout};

#[test]
fn the_programs_have_the_same() {
    let header = Header(include_str!("../../../bpf/classes.h"));
    let handle = |major: u16| u64::from(major) << 16;
    for (name, here) in [
        ("EGRESS_MAJOR", handle(EGRESS_MAJOR)),
        ("INGRESS_MAJOR", handle(INGRESS_MAJOR)),
        ("CGROUP_CLASS", handle(CGROUP_MAJOR)),
        ("INGRESS", way(Direction::Ingress).into()),
        ("EGRESS", way(Direction::Egress).into()),
        ("SLOT_SYSTEM", Slot::of(TrafficClass::System).0.into()),
        (
            "SLOT_LATENCY_SENSITIVE",
            Slot::of(TrafficClass::LatencySensitive).0.into(),
        ),
        (
            "SLOT_BEST_EFFORT",
            Slot::of(TrafficClass::BestEffort).0.into(),
        ),
        ("CLASSES", Slot::FIRST_FREE.0.into()),
        ("STAMP", STAMP.into()),
        ("STAMP_POD", MOST_PODS.into()),
        ("LINK_FLOWS", LINK_FLOWS.into()),
        ("MOST_POD_FLOWS", MOST_POD_FLOWS as u64),
        ("MOST_CGROUP_LEVELS", MOST_CGROUP_LEVELS as u64),
        ("MOST_TUNNELS", MOST_TUNNELS as u64),
        ("TUNNEL_VXLAN", TunnelKind::Vxlan as u64),
        ("TUNNEL_GENEVE", TunnelKind::Geneve as u64),
        ("TUNNEL_WIREGUARD", TunnelKind::WireGuard as u64),
        ("FLOW_PEER", FlowFlags::PEER.into()),
        ("FLOW_PORT", FlowFlags::PORT.into()),
        ("FLOW_DSCP", FlowFlags::DSCP.into()),
        ("FLOW_MARKS", FlowFlags::MARKS.into()),
        ("NEAR_TREES", NEAR_TREES as u64),
        ("NEAR_SLOTS", NEAR_SLOTS.into()),
    ] {
        assert_eq!(header.number(name), here, "{name}");
    }
    for (name, first) in [
        ("LEAF_QUICK(slot)", Slot(0).quick()),
        ("LEAF_BULK(slot)", Slot(0).bulk()),
    ] {
        assert_eq!(
            header.macro_text(name),
            format!("({first:#x} + 2 * (slot))")
        );
    }
    for (name, here) in [
        ("class_tunnel", layout!(TunnelEntry, kind)),
        (
            "class_settings",
            layout!(Settings, opaque_slot, has_ip_in_ip, tunnels),
        ),
        (
            "class_pod",
            layout!(Pod, flows, is_known, address, address6),
        ),
        ("class_flow_key", layout!(FlowKey, index)),
        (
            "class_flow",
            layout!(Flow, peer_bits, way, flags, dscp, slot, mark),
        ),
        ("class_trees", layout!(Trees)),
        ("class_leaf_key", layout!(LeafKey, slot)),
        (
            "class_leaf",
            layout!(Leaf, allowance, hold, cost_shift, class, may_pass),
        ),
    ] {
        assert_eq!(header.layout(name), here, "{name}");
    }
}
