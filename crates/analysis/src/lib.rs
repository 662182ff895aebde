//! What objects mean together, found out from the objects alone: what is wrong with them, and what a
//! pod gets.
//!
//! ```text
//!   manifests ──┐               ┌─► analyze ─► Message: Error [NQOS0103] (NetworkQoS games/free) …
//!               ├─► Snapshot ───┼─► describe ─► what one pod is held to, and by whom
//!   a cluster ──┘      │        ├─► attachment_policies ─► the permissions that today's NADs need
//!                      │        └─► index ─► netqos_index::Explanation
//!                      └ all pods as if on one node: one index answers for the whole cluster
//! ```
//!
//! A message has a [`Code`], which stays the same when its words change; the table of codes is the
//! one place that says what each means and what to do, and `docs/messages.md` is made from it.
//!
//! Who may not list all kinds has a [`Snapshot`] that says so: what depends on objects that nobody has
//! read is not said.
//!
//! No I/O, no clocks, no client.
#![forbid(unsafe_code)]

mod attachment_policies;
mod attachments;
mod code;
mod describe;
mod known;
mod message;
mod nodes;
mod objects;
mod pods;
mod policies;
mod rules;
mod snapshot;

pub use attachment_policies::{NamespacePolicies, attachment_policies};
pub use code::{CODES, Code, Level};
pub use describe::{
    DescribedAsk, DescribedClass, DescribedLimit, DescribedNetwork, DescribedPod, DescribedPolicy,
    DescribedRule, NetworkState, describe,
};
pub use known::Extent;
pub use message::{Message, Subject};
pub use snapshot::{Found, Snapshot};

/// What there is to say of all objects, the worst first, and then by object. With a namespace: of its
/// objects alone, though with an eye to all others.
pub fn analyze(snapshot: &Snapshot, namespace: Option<&str>) -> Vec<Message> {
    let index = snapshot.index();
    let mut messages = snapshot.unreadable_documents().to_vec();
    messages.extend(objects::look(snapshot, &index));
    messages.extend(policies::look(snapshot, &index));
    messages.extend(rules::look(snapshot, &index));
    messages.extend(pods::look(snapshot, &index));
    messages.extend(attachments::messages(snapshot));
    messages.extend(nodes::look(snapshot, &index));
    messages.extend(objects::findings(snapshot, &messages));
    messages.retain(|message| {
        let of = &message.subject.namespace;
        of.is_empty() || namespace.is_none_or(|namespace| **of == *namespace)
    });
    messages.sort_by(|a, b| a.order().cmp(&b.order()));
    messages.dedup();
    messages
}
