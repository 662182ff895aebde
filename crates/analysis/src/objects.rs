//! What is wrong with objects by themselves, or because others are not there.

use netqos_core::{ObjectName, ObjectRef, Reason};
use netqos_index::Index;
use netqos_k8s::check::Findings;
use netqos_k8s::{FieldError, Object};

use crate::code::{CONFLICT, DOUBTFUL, INVALID, NETWORK, QUOTA, TOO_MANY_RULES};
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

/// What is wrong with objects that can be read, as `netqos validate` and the webhook find it, where no message says it.
pub(crate) fn findings(snapshot: &Snapshot, said: &[Message]) -> Vec<Message> {
    let mut messages = Vec::new();
    for (kind, name, found) in snapshot.objects() {
        let is_finished = matches!(&found.object, Ok(Object::Pod(pod, ..)) if pod.finished);
        let Findings { errors, warnings } = &found.findings;
        if is_finished || errors.is_empty() && warnings.is_empty() {
            continue;
        }
        let subject = Subject::new(kind, name);
        let is_said = |error: &FieldError| {
            let mut said = said.iter().filter(|message| message.subject == subject);
            said.any(|message| {
                error.message.starts_with(&message.text) || message.text.contains(&error.message)
            })
        };
        let errors = errors.iter().map(|error| (&INVALID, error));
        let warnings = warnings.iter().map(|warning| (&DOUBTFUL, warning));
        for (code, error) in errors.chain(warnings).filter(|(_, error)| !is_said(error)) {
            let message = Message::new(code, subject.clone(), &error.message);
            messages.push(message.at(&error.path).in_place(&found.place));
        }
    }
    messages
}
