//! What the end-to-end tests stand on: a node of their own, pods on it, and other people's programs.
//!
//! A [`Node`] is the calling thread in a network and a mount namespace of its own. Nothing that a
//! test does in there is seen outside, and the kernel takes it all away when the thread ends, also
//! when the test was killed: links, qdiscs, pinned programs, records, namespaces.
//!
//! ```no_run
//! # fn main() -> anyhow::Result<()> {
//! let Some(node) = netqos_testkit::Node::new()? else { return Ok(()) }; // skipped, and said so
//! let pod = node.pod("a")?;
//! node.run("ip", &["link", "show", pod.host_link()])?;
//! # Ok(())
//! # }
//! ```

#[cfg(feature = "agent")]
pub mod agent;
mod apart;
mod backlog;
mod baseline;
mod bulk;
mod changes;
#[cfg(feature = "classes")]
pub mod classes;
mod cpu;
mod crash;
mod datagrams;
mod delay;
mod executable;
#[cfg(any(feature = "classes", feature = "rules"))]
mod felix;
mod foreign;
mod hooks;
#[cfg(feature = "index")]
pub mod index;
mod lab;
mod lacking;
mod nfnetlink;
mod node;
mod objects;
mod plugin;
mod pod;
mod progress;
pub mod random_changes;
pub mod reference;
#[cfg(feature = "rules")]
pub mod rules;
mod state;
mod steps;

pub use apart::Apart;
pub use aya::programs::TcAttachType;
pub use backlog::{BacklogDrops, assert_loses_no_more_than_tc};
pub use baseline::Baseline;
pub use bulk::Bulk;
pub use changes::Changes;
pub use cpu::children_cpu;
pub use crash::run_killed_at;
pub use datagrams::datagrams_arrive;
pub use delay::DelayLine;
pub use executable::executable;
#[cfg(any(feature = "classes", feature = "rules"))]
pub use felix::Felix;
pub use foreign::{ForeignHook, ForeignProgram, Verdict, cilium_throttle, foreign_map};
pub use hooks::{has_big_tcp, has_tcx};
pub use lab::lab_agent;
pub use lacking::{run_lacking, run_refusing, run_without};
pub use nfnetlink::{Nfnetlink, with_nfnetlink};
pub use node::Node;
pub use objects::mk_pod;
pub use plugin::{Call, Outcome, Running};
pub use pod::Pod;
pub use progress::{assert_progress, time_of_progress, wait_for_backlog};
pub use state::State;
pub use steps::{Step, Then, stop_here};
