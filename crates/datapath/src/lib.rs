//! Holds a pod's interfaces to their limits: plans what the kernel should hold, makes it, reads
//! it back.
//!
//! ```text
//!  Limits ─► Shape (numbers) ─► Queue on a link            egress: the pod's own interface
//!                                 TBF 1: ─ pfifo_fast 2:    ingress: the host's veth
//!                                 Hook: rank program        others: an ifb, by a Detour
//!                                 alias: netqos:<attachment>   and a Backstop behind it
//!  Record in /run/netqos, written before the first change: whatever dies, DEL and GC know.
//! ```
//!
//! [`LimitDatapath`] is the way in: `apply`, `check`, `inspect`, `teardown`, `collect`. Each may be repeated,
//! and killed anywhere and repeated. What is not ours is never removed; a limit that somebody
//! else's qdisc stands in the way of is an error.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(
        clippy::print_stdout,
        clippy::print_stderr,
        reason = "the macros of std panic on a closed pipe and on a full disk"
    )
)]

mod attached;
mod backstop;
mod bypass;
mod check;
mod clsact;
mod collect;
mod detour;
mod endpoint;
mod error;
mod features;
mod files;
mod hook;
mod install;
mod kernel;
mod legacy;
mod limits;
mod locate;
mod lock;
mod owner;
mod paths;
mod plan;
mod programs;
mod queue;
mod record;
mod repairs;
#[cfg(feature = "rules")]
pub mod rules;
mod shape;
mod stall;
mod teardown;
mod unfilter;

pub use attached::{AttachedPod, AttachedPods};
pub use bypass::{BypassDetector, EndCounts};
pub use check::QueueStatus;
pub use endpoint::HostLinks;
pub use error::{Error, Result};
pub use features::{Feature, Features, Mode, Support, try_fq_codel};
pub use files::Documents;
pub use hook::HookKind;
pub use limits::{Applied, LimitDatapath, Request, Shaped};
pub use locate::{Known, Located, Reach, locate, locate_first};
pub use lock::FileLock;
pub use owner::Owner;
pub use paths::Paths;
pub use record::{QueueName, Record, Records, SideName};
pub use repairs::RepairBudget;
pub use shape::Shape;
pub use stall::{Pace, StallDetector, StallState};
