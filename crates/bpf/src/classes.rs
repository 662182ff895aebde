//! The programs that choose among a line's classes, their maps, and how they are reached.
//!
//! ```text
//!   bpf/classes.bpf.c ─clang─► object ─aya─► <bpffs>/netqos/classes-v4/
//!                                              stamp-<digest> choose-… egress-… …  programs
//!                                              pods links addresses cgroups …      maps
//! ```
//!
//! [`Classes`] is the way in; what the tables mean is in `bpf/classes.h`.

mod hooks;
mod layout;
mod leaves;
mod line;
mod numbered;
mod pins;

pub use hooks::{choose_no_more, probe_stamp, stamp_no_more};
pub use layout::{
    CGROUP_MAJOR, Flow, FlowFlags, FlowKey, Leaf, LeafKey, MOST_CGROUP_LEVELS, MOST_POD_FLOWS,
    MOST_PODS, MOST_TUNNELS, Pod, Settings, Slot, Tree, Tunnel, TunnelKind, cgroup_class,
    link_entry,
};
pub use leaves::Leaves;
pub use line::{Line, Passed};
pub use numbered::Numbered;
pub use pins::Classes;
