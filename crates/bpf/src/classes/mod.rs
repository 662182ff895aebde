//! The programs that choose among a line's classes, their maps, and how they are reached.
//!
//! ```text
//!   bpf/classes.bpf.c ─clang─► object ─aya─► <bpffs>/netqos/classes-v2/
//!                                              stamp-<digest> egress-… ingress-…   programs
//!                                              pods links addresses cgroups …      maps
//! ```
//!
//! [`Classes`] is the way in; what the tables mean is in `bpf/classes.h`.

mod layout;
mod pins;

pub use layout::{
    Flow, FlowFlags, FlowKey, Leaf, LeafKey, MOST_CGROUP_LEVELS, MOST_POD_FLOWS, MOST_PODS,
    MOST_TUNNEL_PORTS, Pod, Settings, Slot, TREE_MAJOR, cgroup_class, link_entry,
};
pub use pins::Classes;
