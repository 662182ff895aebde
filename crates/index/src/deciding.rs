//! Who holds a pod to what: its annotations, or which profile.

use netqos_core::{Direction, Limit, ObjectName};

use crate::index::Index;

/// What holds a pod in one direction, and what does not because of that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decided {
    /// To what.
    pub limit: Limit,
    /// By which profile; `None`: by the pod's annotations.
    pub by: Option<ObjectName>,
    /// The profiles that limit the pod in this direction, too, and do not decide, in the order in which
    /// they would.
    pub passed_over: Vec<ObjectName>,
}

impl Index {
    /// What decides about a pod's limit in a direction. `None`: nothing limits it, or there is no such
    /// pod. It agrees with the plan, and is looked up among the objects as each call asks.
    pub fn decided(&self, pod: &ObjectName, direction: Direction) -> Option<Decided> {
        let pods = &self.cluster.pods;
        let pod = &pods.get(pods.find(pod)?)?.pod;
        let profiles = self
            .profiles
            .selecting(&pod.id.name.namespace, &pod.labels)
            .filter_map(|it| Some((it.limits.of(direction)?, it.name.clone())));
        let mut deciding = profiles.map(|(limit, name)| (limit, Some(name)));
        let own = pod.limits.of(direction).map(|limit| (limit, None));
        let (limit, by) = own.or_else(|| deciding.next())?;
        Some(Decided {
            limit,
            by,
            passed_over: deciding.filter_map(|(_, name)| name).collect(),
        })
    }
}
