//! What is wrong with objects by themselves, or because others are not there.

use netqos_core::{ObjectName, ObjectRef, Reason};
use netqos_index::Index;

use crate::code::{CONFLICT, NETWORK, QUOTA, TOO_MANY_RULES};
use crate::message::{Message, Subject};
use crate::snapshot::{Snapshot, invalid};

/// Objects that cannot be read, and what the index finds wrong with those that can.
pub(crate) fn look(snapshot: &Snapshot, index: &Index) -> Vec<Message> {
    let mut messages = Vec::new();
    for (kind, name, found) in snapshot.objects() {
        if let Err(errors) = &found.object {
            messages.extend(invalid(kind, name, found, errors));
        }
    }
    for problem in index.problems() {
        let code = match problem.reason {
            // Which namespace a quota is for, and which networks there are, others may know.
            Reason::QuotaExceeded if snapshot.known().quotas() => &QUOTA,
            Reason::NetworkNotFound if snapshot.known().networks() => &NETWORK,
            Reason::Conflict => &CONFLICT,
            Reason::TooManyRules => &TOO_MANY_RULES,
            // Nobody looked for interfaces.
            _ => continue,
        };
        let subject = match &problem.object {
            ObjectRef::Policy(name) => Subject::new("NetworkQoS", name),
            ObjectRef::Pod(name) => Subject::new("Pod", name),
            ObjectRef::Quota(name) => Subject::new("NetworkQoSQuota", &ObjectName::new("", name)),
            ObjectRef::Profile(name) => Subject::new("BandwidthProfile", name),
            ObjectRef::Node(name) => Subject::node(name),
            ObjectRef::File(_) => continue,
        };
        messages.push(Message::new(code, subject, problem.message));
    }
    messages
}
