//! The program that marks and limits per destination, its maps, and how they are reached.
//!
//! ```text
//!   bpf/rules.bpf.c ─clang─► object ─aya─► <bpffs>/netqos/v1/
//!                                            rules-<digest> return-<digest>     programs
//!                                            endpoints chains blocks4 blocks6   maps
//!                                            networks classes ports rules …
//! ```
//!
//! The object and its maps lie beside the ranking program's, whose limiters and flows they share.
//! [`Rules`] is the way in; what the tables mean is in `bpf/rules.h`.

mod btf;
mod conntrack;
mod counters;
mod layout;
mod peers;
mod pins;
mod run;
mod table;

pub use counters::Counters as RuleCounters;
#[cfg(feature = "classes")]
pub(crate) use layout::plain;
pub use layout::{
    Bitmap, Block, Block4, Block6, CHAIN_RULES, Chain, ChainFlags, ChainServiceKey, ClassKey,
    Counter, CounterKey, Crowd, Endpoint, EndpointFlags, Peer, PortKey, Rule, RuleKey,
    SERVICE_KINDS, Service, ServiceKey, Share, ShareKey,
};
pub use peers::Networks;
pub use pins::Rules;
pub use run::{Ran, Verdict};
pub use table::{Entries, Plain, Table};

pub use crate::sys::wait_for_programs;
