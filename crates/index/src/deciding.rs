//! Who holds an interface of a pod to what: the pod's annotations, its selection of the network, or which profile; and
//! which quota bounds that.

use std::sync::Arc;

use netqos_core::objects::Pod;
use netqos_core::{Direction, Limit, ObjectName};

use crate::index::Index;
use crate::places::{Place, places};

/// What holds a pod in one direction, and what does not because of that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decided {
    /// To what.
    pub limit: Limit,
    /// By which profile; `None`: by the pod's annotations, or by the record of the attachment.
    pub by: Option<ObjectName>,
    /// The profiles that limit the pod in this direction, too, and do not decide, in the order in which
    /// they would.
    pub passed_over: Vec<ObjectName>,
    /// The NetworkQoSQuota whose highest rate the limit is, in place of a higher one.
    pub bounded_by: Option<Arc<str>>,
}

impl Index {
    /// What decides about the limit of a pod's first interface in a direction. `None`: nothing limits it, or there is no such
    /// pod. It agrees with the plan, and is looked up among the objects as each call asks.
    pub fn decided(&self, pod: &ObjectName, direction: Direction) -> Option<Decided> {
        let (pod, first) = self.first(pod)?;
        self.decided_at(pod, &first, direction)
    }

    /// The interface of a pod that its annotations of bandwidth are for, that on its primary network. `None`: it was not
    /// found, or the pod does not exist.
    pub fn annotated_interface(&self, pod: &ObjectName) -> Option<String> {
        let (_, first) = self.first(pod)?;
        Some(first.attach?.interface()?.name.clone())
    }

    fn first(&self, pod: &ObjectName) -> Option<(&Pod, Place)> {
        let pods = &self.cluster.pods;
        let pod = &pods.get(pods.find(pod)?)?.pod;
        let places = places(
            pod,
            self.local.interfaces(pod),
            &self.cluster.networks,
            &self.cluster.namespaces,
        );
        let first = places.into_iter().find(Place::is_first)?;
        Some((pod, first))
    }

    /// The same of any interface. Beside the first those are limited that `netqos-multinet` attached.
    pub(crate) fn decided_at(
        &self,
        pod: &Pod,
        place: &Place,
        direction: Direction,
    ) -> Option<Decided> {
        let own = match place.recorded {
            Some(recorded) if place.is_first() => pod.limits.lower(recorded.selected),
            None if place.is_first() => pod.limits,
            Some(recorded) => recorded.limits,
            None => return None,
        };
        let namespace = &pod.id.name.namespace;
        let profiles = self
            .profiles
            .selecting(namespace, &pod.labels)
            .filter_map(|it| Some((it.limits.of(direction)?, it.name.clone())));
        let mut deciding = profiles.map(|(limit, name)| (limit, Some(name)));
        let own = own.of(direction).map(|limit| (limit, None));
        let (mut limit, by) = own.or_else(|| deciding.next())?;
        let labels = self.cluster.namespaces.labels(namespace);
        let bound = self.cluster.quotas.max_rate(&labels);
        let bound = bound.filter(|(rate, _)| *rate < limit.rate);
        if let Some((rate, _)) = bound {
            // A burst that was chosen for one rate says nothing of another.
            (limit.rate, limit.burst) = (rate, None);
        }
        Some(Decided {
            limit,
            by,
            passed_over: deciding.filter_map(|(_, name)| name).collect(),
            bounded_by: bound.map(|(_, quota)| quota.clone()),
        })
    }
}
