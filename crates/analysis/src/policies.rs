//! Policies and profiles that are for nobody, or go to nobody.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use netqos_core::objects::Pod;
use netqos_core::{
    Destination, LabelSelector, Labels, NetworkChoice, ObjectName, PeerSelector, Policy,
};
use netqos_datapath::rules::usual_burst;
use netqos_index::Index;

use crate::code::{BURST, Code, EMPTY_NAMESPACE, HOST_NETWORK, NO_PEER, NO_POD, NOT_ATTACHED};
use crate::message::{Message, Subject};
use crate::snapshot::{Found, Snapshot};

/// The MTU of nearly every pod network.
pub(crate) const USUAL_MTU: u32 = 1_500;

/// Each policy and profile, with the pods that it is for, and each destination.
pub(crate) fn look(snapshot: &Snapshot, index: &Index) -> Vec<Message> {
    let mut messages = Vec::new();
    // Of manifests without pods nothing can be said of who is selected.
    let with_pods = snapshot.is_live() || snapshot.pods().next().is_some();
    let with_pods_of =
        |name: &ObjectName| with_pods && snapshot.known().all_in("Pod", &name.namespace);
    let in_force = in_force(index);
    let mut peers = Peers::of(snapshot);
    for (policy, found) in snapshot.policies() {
        let subject = Subject::new("NetworkQoS", &policy.name);
        if with_pods_of(&policy.name) {
            let on_networks = selected(snapshot, &subject, &policy.pods, found, &mut messages);
            let has_rules = !policy.rules.is_empty();
            let networks = has_known_networks(snapshot, policy);
            if networks && on_networks > 0 && has_rules && !in_force.contains(&policy.name) {
                let text = format!(
                    "it selects {on_networks} pods, none of which is on a network that it is for"
                );
                let message = Message::new(&NOT_ATTACHED, subject.clone(), text);
                messages.push(message.in_place(&found.place));
            }
        }
        if with_pods {
            messages.extend(peers.unmatched(policy, found));
        }
        messages.extend(bursts(policy, found));
    }
    for (profile, found) in snapshot.profiles() {
        if with_pods_of(&profile.name) {
            let subject = Subject::new("BandwidthProfile", &profile.name);
            selected(snapshot, &subject, &profile.pods, found, &mut messages);
        }
    }
    // What keeps a policy out as a whole is said by itself: that it is on no network follows from it.
    let problems = index.problems();
    messages.retain(|message| {
        message.code != &NOT_ATTACHED
            || !problems
                .iter()
                .any(|it| it.object.to_string() == message.subject.to_string())
    });
    messages
}

/// True when it is known which networks a policy is for.
pub(crate) fn has_known_networks(snapshot: &Snapshot, policy: &Policy) -> bool {
    policy.networks == NetworkChoice::Default || snapshot.known().networks()
}

/// The policies that are in force on any interface.
fn in_force(index: &Index) -> BTreeSet<ObjectName> {
    let rules = index.plan().chains.values().flat_map(|chain| &chain.rules);
    rules.map(|rule| rule.id.policy.clone()).collect()
}

/// How many pods with a network of their own an object selects, and what there is to say of that.
fn selected(
    snapshot: &Snapshot,
    subject: &Subject,
    pods: &LabelSelector,
    found: &Found,
    messages: &mut Vec<Message>,
) -> usize {
    let mut say = |code: &'static Code, text: String| {
        let message = Message::new(code, subject.clone(), text);
        messages.push(message.in_place(&found.place));
    };
    let namespace = &subject.namespace;
    let here: Vec<&Pod> = snapshot.pods_in(namespace).collect();
    let here: Vec<&Pod> = here.into_iter().filter(|pod| !pod.finished).collect();
    if here.is_empty() {
        let text = format!("there is no pod in namespace {namespace}");
        say(&EMPTY_NAMESPACE, text);
        return 0;
    }
    let selected: Vec<&Pod> = here
        .iter()
        .filter(|pod| pods.matches(&pod.labels))
        .copied()
        .collect();
    if selected.is_empty() {
        let text = format!(
            "none of the {} of namespace {namespace} has the labels {pods}",
            many(here.len(), "pod")
        );
        say(&NO_POD, text);
    }
    let of_nodes: Vec<&&Pod> = selected.iter().filter(|pod| pod.host_network).collect();
    if let Some(first) = of_nodes.first() {
        let text = format!(
            "of the {} that it selects, {} in the node's own network, such as {}",
            many(selected.len(), "pod"),
            match of_nodes.len() {
                1 => "1 is".to_owned(),
                number => format!("{number} are"),
            },
            first.id.name
        );
        say(&HOST_NETWORK, text);
    }
    selected.len() - of_nodes.len()
}

/// Whom selectors of destinations find.
struct Peers<'s> {
    namespaces: BTreeMap<Arc<str>, Labels>,
    snapshot: &'s Snapshot,
    /// Many policies name the same: each is looked up once.
    known: BTreeMap<(Arc<str>, PeerSelector), bool>,
}

impl<'s> Peers<'s> {
    fn of(snapshot: &'s Snapshot) -> Self {
        Self {
            namespaces: snapshot.namespaces(),
            snapshot,
            known: BTreeMap::new(),
        }
    }

    fn unmatched(&mut self, policy: &Policy, found: &Found) -> Vec<Message> {
        let mut messages = Vec::new();
        for (rule, to) in policy.rules.iter().enumerate() {
            for (index, destination) in to.to.iter().enumerate() {
                let Destination::Pods(selector) = destination else {
                    continue;
                };
                if self.can_be_known(&policy.name.namespace, selector)
                    && !self.finds(&policy.name.namespace, selector)
                {
                    let subject = Subject::new("NetworkQoS", &policy.name);
                    let text = format!("there are no {selector}");
                    let field = format!("spec.egress[{rule}].classifier.to[{index}]");
                    let message = Message::new(&NO_PEER, subject, text).at(field);
                    messages.push(message.in_place(&found.place));
                }
            }
        }
        messages
    }

    /// True when all were read that it could find.
    fn can_be_known(&self, own: &str, selector: &PeerSelector) -> bool {
        let known = self.snapshot.known();
        match selector.namespaces {
            Some(_) => known.all("Pod") && known.all("Namespace"),
            None => known.all_in("Pod", own),
        }
    }

    fn finds(&mut self, own: &Arc<str>, selector: &PeerSelector) -> bool {
        // A selector that names namespaces means the same in each.
        let of = match selector.namespaces {
            Some(_) => "".into(),
            None => own.clone(),
        };
        let (namespaces, snapshot) = (&self.namespaces, self.snapshot);
        let known = self.known.entry((of, selector.clone()));
        *known.or_insert_with(|| match &selector.namespaces {
            None => has_pod(snapshot, own, selector),
            Some(wanted) => namespaces
                .iter()
                .filter(|(_, labels)| wanted.matches(labels))
                .any(|(name, _)| has_pod(snapshot, name, selector)),
        })
    }
}

fn has_pod(snapshot: &Snapshot, namespace: &str, selector: &PeerSelector) -> bool {
    let mut pods = snapshot.pods_in(namespace);
    let everything = LabelSelector::everything();
    let wanted = selector.pods.as_ref().unwrap_or(&everything);
    pods.any(|pod| !pod.finished && wanted.matches(&pod.labels))
}

fn bursts(policy: &Policy, found: &Found) -> Vec<Message> {
    let rules = policy.rules.iter().enumerate();
    let raised = rules.filter_map(|(index, rule)| {
        let bandwidth = rule.bandwidth?;
        let asked = bandwidth.burst?;
        let least = usual_burst(bandwidth, USUAL_MTU);
        (asked < least).then(|| {
            let text = format!(
                "{asked} is too small for {} to be reached; {least} is in force",
                bandwidth.rate
            );
            Message::new(&BURST, Subject::new("NetworkQoS", &policy.name), text)
                .at(format!("spec.egress[{index}].bandwidth.burst"))
                .in_place(&found.place)
        })
    });
    raised.collect()
}

/// `1 pod`, `2 pods`.
pub(crate) fn many(number: usize, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}
