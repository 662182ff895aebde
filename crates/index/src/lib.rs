//! What policies mean on a node: objects in, changes of the node's plan out.
//!
//! ```text
//!  Policy ── pods ────────────► local pods ──────┐
//!    │  └─── networks ──► NetworkRef ──► networks┤           one endpoint per interface
//!    │                       ▲                   ├─► chain ──► Endpoint
//!    │        definitions ───┘                   │     │
//!    └─ rules ─ compiled per network ────────────┘     │ the sets of chains in force
//!                                                      ▼
//!  Namespace ──┐                                      sets ──► classes
//!  Pod ────────┴─ labels ─── belongs to ──────────────┘          ▲
//!   └─ addresses on networks ─── claims ──► peers ───────────────┘
//!
//!  Service + EndpointSlice ──► services, where any chain is in force
//! ```
//!
//! An [`Index`] is fed with [`Change`]s in any order; what arrives too early waits for what it
//! refers to. [`Index::take_delta`] says what has become of the plan since the last time, all
//! changes in between taken together: an address that moved from one pod to another is one entry,
//! and nothing is in it that is as it was.
//!
//! A change costs what it changes. The labels of a pod are looked up among selectors, and the
//! requirements of a selector among the labels of pods; neither all policies nor all pods are ever
//! walked. Peer sets live as long as a chain on the node refers to them, and equal selectors are
//! one set.
//!
//! On a cluster no node can be told of all pods. There a controller finds out who is a peer, once for
//! all nodes, and publishes it in slices; an index of [`PeerSource::Slices`] needs the node's own pods
//! and the slices of the sets that it asks for, and plans the same:
//!
//! ```text
//!  controller                                                        agent, on each node
//!  all objects ──► PeerIndex ─ changed sets ─► Slicer ─ PeerSlice ──► Index ──► plan
//!                                                         ▲             │
//!                                                         └── asks for ─┘ the sets of its chains
//! ```
//!
//! Which sets an agent has to know before a policy means what it says, [`PolicySets`] knows; that a set
//! is published as a whole is said by the slice of the name [`head_name`].
//!
//! A pod's limits are what its annotations say, and where they say nothing of a direction, what the
//! profiles of its namespace do.
//!
//! [`Index::explain`] answers for one packet from the objects themselves, slowly and in words.
//!
//! ```
//! use netqos_index::{Change, Index};
//! # use netqos_core::{Labels, objects::Namespace};
//! let mut index = Index::for_node("node1");
//! index.apply(Change::Namespace(Namespace { name: "games".into(), labels: Labels::new() }));
//! let delta = index.take_delta();
//! assert!(delta.is_empty(), "nothing is in force yet");
//! ```
//!
//! No I/O, no clocks, no Kubernetes.
#![forbid(unsafe_code)]

mod addresses;
mod anchors;
mod chains;
mod change;
mod classes;
mod cluster;
mod combinations;
mod deciding;
mod explain;
mod hash;
mod index;
mod intern;
mod local;
mod members;
mod namespaces;
mod networks;
mod numbered;
mod peer_index;
mod places;
mod pods;
mod policies;
mod policy_sets;
mod problems;
mod profiles;
mod quotas;
mod references;
mod search;
mod served;
mod services;
mod sets;
mod slab;
mod slicer;
mod slices;
mod subjects;

pub use change::Change;
pub use deciding::Decided;
pub use explain::{
    Case, Considered, Explanation, LostBecause, Mismatch, Outcome, Query, Refusal, Standing, To,
    Via,
};
pub use index::{Index, PeerSource, Selected};
pub use peer_index::{PeerChange, PeerIndex};
pub use policy_sets::PolicySets;
pub use served::Served;
pub use slicer::{SliceWrite, Slicer, WantedSet, head_name};
pub use subjects::Subjects;
