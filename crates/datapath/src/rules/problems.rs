//! What is wrong, each thing until it is right.

use std::collections::BTreeMap;

use netqos_core::plan::{ChainId, RuleId};
use netqos_core::{EndpointId, NetworkKey, ObjectRef, Problem, Reason};

use crate::{Error, Result};

/// What a problem is cleared by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Subject {
    Endpoint(EndpointId),
    Hook(EndpointId),
    Chain(ChainId),
    Peers(NetworkKey),
    Meter(RuleId),
    Queue(RuleId),
    Burst(RuleId),
    Services,
    ServiceLimits,
    Conntrack,
    Leftovers,
}

/// What is wrong with each thing.
#[derive(Debug, Default)]
pub(super) struct Problems(BTreeMap<Subject, Problem>);

impl Problems {
    /// Notes what became of something that was done whole: what was wrong with it is not any more.
    pub(super) fn settle(&mut self, subject: Subject, object: ObjectRef, result: Result<()>) {
        let problem = result.err().map(|error| of(object, &error));
        self.set(subject, problem);
    }

    /// Notes what failed of something that was done in part: what was wrong with it before may
    /// still be.
    pub(super) fn note(&mut self, subject: Subject, result: Result<()>) {
        if let Err(error) = result {
            self.set(subject, Some(of(node(), &error)));
        }
    }

    /// Says what is wrong with something, or that nothing is.
    pub(super) fn set(&mut self, subject: Subject, problem: Option<Problem>) {
        match problem {
            Some(problem) => self.0.insert(subject, problem),
            None => self.0.remove(&subject),
        };
    }

    pub(super) fn get(&self, subject: &Subject) -> Option<&Problem> {
        self.0.get(subject)
    }

    /// Returns true if netqos leaves something to another process that keeps removing it.
    pub(super) fn is_contested(&self, subject: &Subject) -> bool {
        self.get(subject)
            .is_some_and(|problem| problem.reason == Reason::RepairContested)
    }

    /// True when the peers of some network could not be written.
    pub(super) fn are_peers_behind(&self) -> bool {
        let mut subjects = self.0.keys();
        subjects.any(|subject| matches!(subject, Subject::Peers(_)))
    }

    /// Forgets what is found out anew when everything is made anew: not who comes before us.
    pub(super) fn clear(&mut self, is_known: impl Fn(&EndpointId) -> bool) {
        self.0.retain(|subject, problem| {
            let is_contest = problem.reason == Reason::HookContested;
            matches!(subject, Subject::Hook(id) if is_contest && is_known(id))
        });
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Problem> {
        self.0.values()
    }
}

/// The node itself; whoever asks knows its name.
pub(super) fn node() -> ObjectRef {
    ObjectRef::Node(String::new())
}

fn of(object: ObjectRef, error: &Error) -> Problem {
    let is_pod = matches!(object, ObjectRef::Pod(_));
    Problem {
        object,
        reason: match error {
            Error::CalicosHook(_) => Reason::HookReplaced,
            error if is_pod && error.is_unreachable() => Reason::EndpointUnreachable,
            error if error.is_unsupported() => Reason::KernelFeatureMissing,
            _ => Reason::UpdateFailed,
        },
        message: format!("rules are not in force: {error}"),
    }
}
