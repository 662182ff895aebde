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
//! makes of it what it should be.
//!
//! A deposed leader changes nothing, wherever it was stopped and whenever it goes on. Each write passes
//! a fence ([`Leadership::fence`]), which compares the clock with the instant until which the replica
//! leads, before the connection has the request. A request that the connection has already is without
//! effect: updates, applies and deletes carry the uid and resourceVersion that they are based on
//! ([`netqos_cluster::ObjectVersion`]), and what is created has a deterministic name.
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
mod leadership;
mod metrics;
mod node_slos;
mod reports;
mod server;
mod slices;
mod statuses;

pub use election::{Election, Pace};
pub use engine::{Options, run};
pub use leadership::Leadership;
pub use metrics::Metrics;
pub use server::{Desk, Health, Seen, serve};
