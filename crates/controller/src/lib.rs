//! What is to be done once for a whole cluster, and not on each of its nodes.
//!
//! ```text
//!  API server ──watch──► Feed ──► PeerIndex ──► Slicer ──► SliceWriter ──► NetworkQoSPeerSlice
//!      ▲                   │          │
//!      │                   │          └─ subjects ─┐
//!      │                   └─ reports of nodes ────┴─► Statuses ──► NetworkQoS status, events
//!      │                   └─ nodes, slo-controller-config ──► NodeSlos ──► NodeSLO
//!      └── Lease ◄── Election: who of the replicas writes
//! ```
//!
//! Every replica watches and knows everything; the one that holds the Lease writes. A replica that
//! loses it, or dies in the middle of writing, leaves what nodes can go on with, and the next one
//! makes of it what it should be. A write of a slice names the version that it replaces: what a
//! replica writes that does not know yet that it was deposed is refused.
//!
//! Nothing that is in force depends on the controller being there: without it, agents keep what they
//! know.
#![forbid(unsafe_code)]

mod agents;
mod budget;
mod contested;
mod debug;
mod election;
mod engine;
mod events;
mod feed;
mod metrics;
mod node_slos;
mod server;
mod slices;
mod spans;
mod statuses;

pub use election::{Election, Pace};
pub use engine::{Options, run};
pub use metrics::Metrics;
pub use server::{Desk, Health, Seen, serve};
