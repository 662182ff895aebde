//! The pods of this node: their interfaces, and what is in force on them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use netqos_core::objects::{LocalInterface, Pod};
use netqos_core::plan::{Attach, Chain, Endpoint};
use netqos_core::{EndpointId, Limits, ObjectName, ObjectRef, Problem, Reason};

use crate::chains::{ChainKey, Taken};
use crate::places::Place;
use crate::pods::PodKey;

/// What is known of this node.
#[derive(Debug)]
pub(crate) struct Local {
    node: Arc<str>,
    attachments: HashMap<ObjectName, Attached>,
    by_namespace: HashMap<Arc<str>, BTreeSet<PodKey>>,
    pods: HashMap<PodKey, InForce>,
}

/// What was found on the node of a pod of some name.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Attached {
    pub(crate) uid: Option<Arc<str>>,
    pub(crate) interfaces: Vec<LocalInterface>,
}

/// What is in force on a pod.
#[derive(Debug, Default)]
pub(crate) struct InForce {
    pub(crate) endpoints: BTreeMap<EndpointId, Option<Arc<ChainKey>>>,
    pub(crate) problems: Vec<Problem>,
}

/// True when a pod sends packets from interfaces of its own.
pub(crate) fn is_on_networks(pod: &Pod) -> bool {
    !pod.host_network && !pod.finished
}

impl Local {
    pub(crate) fn new(node: &str) -> Self {
        Self {
            node: node.into(),
            attachments: HashMap::new(),
            by_namespace: HashMap::new(),
            pods: HashMap::new(),
        }
    }

    /// The interfaces of a pod were found, or none of them. True when others were before.
    pub(crate) fn attach(&mut self, pod: ObjectName, attached: Attached) -> bool {
        if attached.interfaces.is_empty() {
            return self.attachments.remove(&pod).is_some();
        }
        if self.attachments.get(&pod) == Some(&attached) {
            return false;
        }
        self.attachments.insert(pod, attached);
        true
    }

    /// The interfaces that were found of this very pod.
    pub(crate) fn interfaces(&self, pod: &Pod) -> &[LocalInterface] {
        let elsewhere = pod.node.as_ref().is_some_and(|node| *node != self.node);
        match self.attachments.get(&pod.id.name) {
            Some(Attached { uid, interfaces })
                if !elsewhere && uid.as_ref().is_none_or(|uid| pod.is_known_by(uid)) =>
            {
                interfaces
            }
            _ => &[],
        }
    }

    /// True when a pod of this node can have something in force: one that was given to the node,
    /// or to none and has interfaces here.
    pub(crate) fn has(&self, pod: &Pod) -> bool {
        let here = match &pod.node {
            Some(node) => *node == self.node,
            None => !self.interfaces(pod).is_empty(),
        };
        here && is_on_networks(pod)
    }

    /// The names of pods with interfaces that this is true of.
    pub(crate) fn attached(
        &self,
        mut with: impl FnMut(&LocalInterface) -> bool,
    ) -> impl Iterator<Item = &ObjectName> {
        let attachments = self.attachments.iter();
        attachments
            .filter(move |(_, attached)| attached.interfaces.iter().any(&mut with))
            .map(|(name, _)| name)
    }

    /// A pod is of this node, or is not any more. True when it is or was.
    pub(crate) fn enlist(&mut self, key: PodKey, namespace: &Arc<str>, here: bool) -> bool {
        if here {
            let pods = self.by_namespace.entry(namespace.clone()).or_default();
            pods.insert(key);
            return true;
        }
        let Some(pods) = self.by_namespace.get_mut(namespace) else {
            return false;
        };
        let was = pods.remove(&key);
        if pods.is_empty() {
            self.by_namespace.remove(namespace);
        }
        was
    }

    /// The node's pods in a namespace.
    pub(crate) fn in_namespace(&self, namespace: &Arc<str>) -> impl Iterator<Item = PodKey> {
        let pods = self.by_namespace.get(namespace);
        pods.into_iter().flatten().copied()
    }

    /// The node's pods.
    pub(crate) fn all(&self) -> impl Iterator<Item = PodKey> {
        self.by_namespace.values().flatten().copied()
    }

    /// Something else is in force on a pod now. Gives back what was.
    pub(crate) fn put_in_force(&mut self, key: PodKey, now: InForce) -> InForce {
        let before = if now.endpoints.is_empty() && now.problems.is_empty() {
            self.pods.remove(&key)
        } else {
            self.pods.insert(key, now)
        };
        before.unwrap_or_default()
    }

    pub(crate) fn in_force(&self, key: PodKey) -> Option<&InForce> {
        self.pods.get(&key)
    }

    pub(crate) fn all_in_force(&self) -> impl Iterator<Item = (PodKey, &InForce)> {
        self.pods.iter().map(|(key, in_force)| (*key, in_force))
    }
}

/// The endpoint at a place of a pod that is held to these limits, if anything is in force there, and what is wrong with it.
pub(crate) fn endpoint(
    pod: &Pod,
    limits: Limits,
    place: Place,
    chain: Option<&Taken>,
    problems: &mut Vec<Problem>,
) -> Option<(EndpointId, Endpoint)> {
    let rules = chain.and_then(|chain| chain.id);
    if rules.is_none() && limits.is_unlimited() {
        return None;
    }
    let network = &place.network;
    let object = ObjectRef::Pod(pod.id.name.clone());
    if let Some(left_out) = chain.map(|chain| chain.left_out).filter(|many| *many > 0) {
        let most = Chain::MAX_RULES;
        problems.push(Problem {
            object: object.clone(),
            reason: Reason::TooManyRules,
            message: format!(
                "{} rules are for it on network {network}, of which {most} can be in force: the \
                 {left_out} of least precedence are left out; give it fewer policies",
                most + left_out
            ),
        });
    }
    let is_expected = place.attach.is_some() || !pod.starting;
    let attach = place.attach.unwrap_or_else(|| Attach::Unsupported {
        reason: match pod.starting {
            true => "it has no interface yet: it is about to start".into(),
            false => "its interface was not found on this node".into(),
        },
    });
    if let Attach::Unsupported { reason } = &attach
        && is_expected
    {
        let what = match (rules.is_some(), limits.is_unlimited()) {
            (true, true) => "rules are",
            (true, false) => "limits and rules are",
            (false, _) => "limits are",
        };
        problems.push(Problem {
            object,
            reason: Reason::EndpointUnreachable,
            message: format!("its {what} not in force on network {network}: {reason}"),
        });
    }
    let id = EndpointId {
        pod: pod.id.uid.clone(),
        network: place.network,
        ordinal: place.ordinal,
    };
    let endpoint = Endpoint {
        pod: pod.id.clone(),
        attach,
        addresses: place.addresses,
        limits,
        chain: rules,
    };
    Some((id, endpoint))
}
