//! What the engine is told, and asked.

use std::collections::BTreeMap;
use std::sync::Arc;

use netqos_coexistence::AtWork;
use netqos_core::{ObjectName, PolicyVersion, Problem};
use netqos_index::Change;

use crate::classes::ClassInput;
#[cfg(feature = "daemon")]
use crate::classes::NetFiles;

/// What a source has to say at once. The first one of a source says all that it knows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// Which source says it.
    pub source: &'static str,
    /// What has changed.
    pub changes: Vec<Change>,
    /// All that is wrong with the source and its objects now, in place of what was said before.
    pub problems: Vec<Problem>,
    /// How many objects of each kind it knows now.
    pub objects: BTreeMap<&'static str, u64>,
    /// Which version of each policy is in force once these changes are, of the namespaces that this
    /// node's pods are in. None of those that come from no API server.
    pub policies: BTreeMap<ObjectName, PolicyVersion>,
    /// Who else is at work on this node, as the cluster's objects say.
    pub at_work: AtWork,
    /// All that it says of who shares the node's lines; `None` of one that says nothing of that.
    pub classes: Option<Arc<ClassInput>>,
}

#[cfg(feature = "daemon")]
impl Batch {
    /// The batch of a source that has no objects, and may have a problem.
    pub(crate) fn of_problem(source: &'static str, problem: Option<Problem>) -> Self {
        Self {
            source,
            problems: problem.into_iter().collect(),
            ..Self::default()
        }
    }
}

/// What a source said last of how things are.
#[cfg(feature = "daemon")]
#[derive(Debug, Default)]
pub(crate) struct Said(Option<Batch>);

#[cfg(feature = "daemon")]
impl Said {
    /// True when a batch says something new, as the first one always does: then it is said from now
    /// on.
    pub(crate) fn is_news(&mut self, batch: &Batch) -> bool {
        let now = Batch {
            source: batch.source,
            changes: Vec::new(),
            problems: batch.problems.clone(),
            objects: batch.objects.clone(),
            policies: batch.policies.clone(),
            at_work: batch.at_work,
            classes: batch.classes.clone(),
        };
        let is_news = !batch.changes.is_empty() || self.0.as_ref() != Some(&now);
        self.0 = Some(now);
        is_news
    }

    /// True when something was said.
    pub(crate) fn anything(&self) -> bool {
        self.0.is_some()
    }
}

/// What the engine hears.
#[cfg(feature = "daemon")]
#[derive(Debug)]
pub enum Event {
    /// A source has something to say.
    Batch(Batch),
    /// All pods whose cgroups lead to an interface, by their uids.
    InCgroups(BTreeMap<Arc<str>, netqos_core::objects::LocalInterface>),
    /// The cgroups of all pods, by their uids, below the root of the hierarchy.
    Cgroups(BTreeMap<Arc<str>, std::path::PathBuf>),
    /// What another agent says in files of who shares the node's lines.
    NetFiles(Arc<NetFiles>),
    /// Links came or went, or default routes.
    Links(netqos_netlink::News),
    /// A source has nothing to say yet.
    Waiting {
        /// Which.
        source: &'static str,
        /// What it waits for, for people.
        why: String,
    },
    /// Somebody wants to know how things are.
    Look(Look),
    /// It shall end, and leave everything in force.
    Stop,
}

#[cfg(feature = "daemon")]
impl Event {
    /// True for what may change what is to be in force.
    pub(crate) fn is_news(&self) -> bool {
        match self {
            Self::Batch(_) | Self::InCgroups(_) | Self::Cgroups(_) | Self::NetFiles(_) => true,
            Self::Links(_) | Self::Waiting { .. } | Self::Look(_) | Self::Stop => false,
        }
    }
}

/// A look at the engine, between two changes: it takes with it only what it wants to know.
#[cfg(feature = "daemon")]
pub struct Look(Box<dyn FnOnce(&crate::Engine) + Send>);

#[cfg(feature = "daemon")]
impl Look {
    /// Looks, and hands over what was seen. Whoever asked may have gone: then nobody gets it.
    pub fn new<T: Send + 'static>(
        look: impl FnOnce(&crate::Engine) -> T + Send + 'static,
    ) -> (Self, tokio::sync::oneshot::Receiver<T>) {
        let (answer, answered) = tokio::sync::oneshot::channel();
        let look = move |engine: &crate::Engine| {
            let _ = answer.send(look(engine));
        };
        (Self(Box::new(look)), answered)
    }

    pub(crate) fn take(self, engine: &crate::Engine) {
        (self.0)(engine);
    }
}

#[cfg(feature = "daemon")]
impl std::fmt::Debug for Look {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Look")
    }
}
