//! A Kubernetes API server for tests: in memory, on loopback, with faults on demand and a record of
//! every request.
//!
//! ```text
//!   request ──► Call (verb, resource, name) ──► Faults ──► answer
//!                                                            │
//!       get, list ◄── View ◄── Store ◄── commit ◄── Draft ◄──┤  create, update, patch, apply
//!                                │                           │
//!           watch ◄── Change ────┘                 Record ◄──┘
//! ```
//!
//! Only the benchmark of a large cluster still uses this server. [`Cluster`] gives every test a real one, and a
//! [`Front`] before either has faults on demand. What real clusters have controllers
//! for, it leaves, but for one thing: a namespace that is deleted is emptied and goes.
//!
//! Left out: authorisation (every request is allowed, and recorded; what a fault forbids, a
//! `SelfSubjectAccessReview` says), protobuf, tables, API
//! aggregation, scale, logs and exec, garbage collection by owner references, validation of
//! Kubernetes' own objects beyond their types and what netqos can meet, conversion webhooks, strategic
//! merge's `$setElementOrder` and `$retainKeys`; of admission webhooks, `reinvocationPolicy`, and what
//! concerns bindings and evictions; of admission policies, parameters and variables (see `webhooks/policies.rs`).
//!
//! It is a crate of its own, and not a module of the testkit, since the two have nothing in common:
//! whoever tests a controller needs neither BPF nor namespaces, and whoever tests a plugin needs no
//! HTTP client. Nothing that is shipped depends on it.
#![forbid(unsafe_code)]

mod access;
mod call;
mod cluster;
mod crds;
mod defaults;
mod delete;
mod discovery;
mod draft;
mod events;
mod faults;
mod fields;
mod front;
mod list;
mod listening;
mod names;
mod patch;
mod pods;
mod query;
mod random;
mod record;
mod registry;
mod resource;
mod roles;
mod selectors;
mod server;
mod shared;
mod state;
mod status;
mod store;
mod time;
mod transport;
mod typed;
mod view;
mod webhooks;
mod write;

pub use cluster::{Cluster, without_rules};
pub use faults::{Fault, Gate};
pub use front::Front;
pub use netqos_kubernetes::Account;
pub use record::Request;
pub use roles::{Grant, Roles};
pub use server::{ApiServer, NotServed, Options};
