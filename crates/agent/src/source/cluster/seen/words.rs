//! What there is to say of it: what is missing, and why.

use std::collections::BTreeSet;
use std::time::Duration;

use netqos_cluster::Kind;
use netqos_core::{ObjectName, ObjectRef, Problem, Reason};

use super::Seen;

/// What to say of an object that cannot be read, and why.
pub(super) fn unreadable(kind: Kind, name: &ObjectName, why: &str, is_kept: bool) -> String {
    let name = match &*name.namespace {
        "" => name.name.to_string(),
        _ => name.to_string(),
    };
    match is_kept {
        true => {
            format!("{kind} {name} is in force as it was before, since it cannot be read: {why}")
        }
        false => format!("left out: {kind} {name}: {why}"),
    }
}

impl Seen {
    /// What is still waited for, and why it does not come.
    pub(in super::super) fn waiting(&self) -> String {
        let mut kinds = Vec::new();
        let mut why = BTreeSet::new();
        for (selection, watched) in self.watched.iter().filter(|(_, it)| !it.spoke) {
            kinds.push(selection.kind.plural());
            why.extend(&watched.silent);
        }
        kinds.dedup();
        if kinds.is_empty() && !self.knows_node() {
            return format!(
                "the cluster has no Node {}: --node has to be the nodeName of its pods",
                self.node
            );
        }
        if kinds.is_empty() {
            return String::new();
        }
        let why: Vec<&str> = why.into_iter().map(String::as_str).collect();
        match why.is_empty() {
            true => format!("{} were not listed yet", kinds.join(", ")),
            false => format!("{} cannot be listed: {}", kinds.join(", "), why.join("; ")),
        }
    }

    /// The kinds of ours that the server does not know.
    pub(super) fn undefined(&self) -> Option<Problem> {
        let ours = self.watched.iter().filter(|(selection, watched)| {
            let kind = selection.kind;
            let is_ours = kind.group() == "netqos.io" || kind == Kind::NetworkQoS;
            is_ours && watched.unknown.is_some() && watched.silent.is_none()
        });
        let mut kinds: Vec<&str> = ours.map(|(selection, _)| selection.kind.plural()).collect();
        kinds.dedup();
        (!kinds.is_empty()).then(|| Problem {
            object: ObjectRef::Node(self.node.clone()),
            reason: Reason::DefinitionMissing,
            message: format!(
                "the API server does not know {}: it is as if there were none; install the \
                 definitions of this version (kubectl apply --server-side -k deploy/crds)",
                kinds.join(", ")
            ),
        })
    }

    /// That the server does not answer: one problem, whatever was asked.
    pub(super) fn silence(&self) -> Option<Problem> {
        let mut kinds = Vec::new();
        let mut why = BTreeSet::new();
        let mut oldest: Option<u64> = None;
        for (selection, watched) in &self.watched {
            if let Some(silent) = &watched.silent {
                kinds.push(selection.kind.plural());
                why.insert(silent.as_str());
            }
            oldest = oldest.into_iter().chain(watched.remembered).min();
        }
        kinds.dedup();
        if kinds.is_empty() && oldest.is_none() {
            return None;
        }
        let why = why.into_iter().collect::<Vec<_>>().join("; ");
        let stays = match oldest {
            None => "what was known before stays in force".to_owned(),
            Some(at) => format!(
                "what an agent before this one knew is in force (written down {})",
                stamp(at)
            ),
        };
        Some(Problem {
            object: ObjectRef::Node(self.node.clone()),
            reason: Reason::ApiUnavailable,
            message: format!(
                "the API server does not tell of {}: {why}; {stays}, and it is asked again",
                kinds.join(", ")
            ),
        })
    }
}

/// When it was: not how long ago, since a problem's text must not change by itself.
fn stamp(at: u64) -> String {
    let at = std::time::UNIX_EPOCH + Duration::from_secs(at);
    let at = k8s_openapi::jiff::Timestamp::try_from(at);
    at.map_or_else(|_| "at an unknown time".to_owned(), |at| at.to_string())
}
