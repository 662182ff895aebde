//! What the agent of a node says of it to the controller.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::ObjectName;

/// A `NetworkQoSNodeReport`.
///
/// A policy that it names is in force, as of the generation that it names, on every pod of the node
/// that the policy selects, but for the problems. That holds for pods to come, too: a pod that
/// starts changes no report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeReport {
    /// The node's name, which is the report's.
    pub node: Arc<str>,
    /// The version of the agent: `0.1.0`.
    pub agent: String,
    /// Its pod, `namespace/name`. `None`: it runs in none, or is an older one that does not say.
    pub pod: Option<Arc<str>>,
    /// The policies of the namespaces that the node's pods are in, by name, and which of each the
    /// agent has put in force.
    pub policies: BTreeMap<ObjectName, PolicyVersion>,
    /// What is not as it should be.
    pub problems: Vec<ReportedProblem>,
    /// How many problems more there are, which were too many to be named.
    pub more_problems: u64,
}

/// Which of the policies that have, or had, one name, and which of its versions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyVersion {
    /// `metadata.uid`: one that is deleted and made anew has the same name, and may have the same
    /// generation. `None`: who says it does not know, as older agents do not.
    pub uid: Option<Arc<str>>,
    /// `metadata.generation`.
    pub generation: i64,
}

impl PolicyVersion {
    /// True when this stands for that version of the policy of that uid, or for a later one.
    pub fn covers(&self, uid: &str, generation: i64) -> bool {
        let same = self.uid.as_deref().is_none_or(|own| own == uid);
        same && self.generation >= generation
    }
}

/// A [`Problem`](crate::Problem) of a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReportedProblem {
    /// `NetworkQoS`, `Pod`, `NetworkQoSQuota`, `BandwidthProfile` or `Node`.
    pub kind: String,
    /// Its namespace, empty for what is in none, and name.
    pub object: ObjectName,
    /// Which kind of problem: the name of a [`Reason`](crate::Reason), or of one that only an agent
    /// of another version knows.
    pub reason: String,
    /// What, where and what to do.
    pub message: String,
}
