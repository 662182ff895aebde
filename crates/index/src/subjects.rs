//! Whose traffic policies are for, in the whole cluster.

use std::collections::BTreeSet;
use std::sync::Arc;

use netqos_core::plan::{PeerSet, Scope};
use netqos_core::quota::Excess;
use netqos_core::{NetworkKey, NetworkRef, ObjectName, Policy};

use crate::cluster::Cluster;
use crate::local::is_on_networks;
use crate::peer_index::PeerIndex;
use crate::{Change, policies};

/// The pods that a policy is for, and what keeps it from them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subjects {
    /// How many pods it selects: those that are on a node, run, and have a network of their own.
    pub pods: usize,
    /// The nodes that these pods are on.
    pub nodes: BTreeSet<Arc<str>>,
    /// What it asks for and may not: then it is in force on none of them.
    pub excesses: Vec<Excess>,
    /// The networks that it refers to and that are not there.
    pub missing: Vec<NetworkRef>,
}

impl PeerIndex {
    /// The subjects of a policy; `None` when there is none of this name. Costs as much as it has
    /// subjects.
    pub fn subjects(&self, policy: &ObjectName) -> Option<Subjects> {
        let cluster = self.cluster();
        let policies::Entry {
            policy, excesses, ..
        } = cluster.policies.get(cluster.policies.find(policy)?)?;
        let missing = cluster.references.missing(&policy.networks);
        let mut subjects = Subjects {
            excesses: excesses.clone(),
            missing: missing.cloned().collect(),
            ..Subjects::default()
        };
        for key in cluster.pods.of(&selected_by(policy), &cluster.namespaces) {
            let Some(pod) = cluster.pods.get(key).map(|entry| &entry.pod) else {
                continue;
            };
            if is_on_networks(pod)
                && let Some(node) = &pod.node
            {
                subjects.pods += 1;
                subjects.nodes.insert(node.clone());
            }
        }
        Some(subjects)
    }

    /// True when a policy selects a pod.
    pub fn selects(&self, policy: &ObjectName, pod: &ObjectName) -> bool {
        let cluster = self.cluster();
        let policy = cluster.policies.find(policy);
        let policy = policy.and_then(|key| cluster.policies.get(key));
        let pod = cluster.pods.find(pod);
        let pod = pod.and_then(|key| cluster.pods.get(key));
        policy.zip(pod).is_some_and(|(policy, pod)| {
            policy.policy.name.namespace == pod.pod.id.name.namespace
                && policy.policy.pods.matches(&pod.pod.labels)
        })
    }

    /// The namespaces in which policies may have other subjects than the last time: pods came there
    /// or went, or are others in what decides.
    pub fn take_moved(&mut self) -> BTreeSet<Arc<str>> {
        std::mem::take(self.moved())
    }

    /// The policies of a namespace, by name.
    pub fn policies_in(&self, namespace: &Arc<str>) -> impl Iterator<Item = &ObjectName> {
        let policies = self.cluster().policies.in_namespace(namespace);
        policies.map(|entry| &entry.policy.name)
    }
}

/// The namespace in which a change may give policies other subjects. What pods are told of most
/// often, addresses and states of containers, gives none.
pub(crate) fn moved_by(change: &Change, cluster: &Cluster) -> Option<Arc<str>> {
    match change {
        Change::Pod(pod) => {
            let known = cluster.pods.find(&pod.id.name);
            let known = known.and_then(|key| cluster.pods.get(key));
            let same = known.is_some_and(|known| {
                let known = &known.pod;
                known.labels == pod.labels
                    && known.node == pod.node
                    && is_on_networks(known) == is_on_networks(pod)
            });
            (!same).then(|| pod.id.name.namespace.clone())
        }
        Change::PodGone(id) => Some(id.name.namespace.clone()),
        _ => None,
    }
}

/// The pods of a policy as a set.
fn selected_by(policy: &Policy) -> PeerSet {
    PeerSet {
        network: NetworkKey::Default,
        namespaces: Scope::Namespace(policy.name.namespace.clone()),
        pods: policy.pods.clone(),
    }
}

#[cfg(test)]
mod tests {
    use netqos_core::objects::{Namespace, Pod};
    use netqos_core::{Labels, NetworkChoice, Quota};
    use netqos_testkit::index::objects;

    use super::*;

    fn pod(name: &str, app: &str, node: Option<&str>) -> Pod {
        Pod {
            node: node.map(Arc::from),
            ..objects::pod(&format!("games/{name}"), &[("app", app)], &[])
        }
    }

    fn policy(networks: NetworkChoice) -> Policy {
        Policy {
            networks,
            pods: objects::selector(&[("app", "web")]),
            ..objects::policy("games/web", 50, vec![objects::rule(20, vec![])])
        }
    }

    fn nodes(subjects: &Subjects) -> Vec<&str> {
        subjects.nodes.iter().map(|it| &**it).collect()
    }

    #[test]
    fn pods_count_that_run_on_a_node_and_have_a_network_of_their_own() {
        let mut index = PeerIndex::default();
        let name = ObjectName::new("games", "web");
        assert_eq!(index.subjects(&name), None);
        index.apply(Change::Policy(policy(NetworkChoice::Default)));
        for pod in [
            pod("a", "web", Some("node1")),
            pod("b", "web", Some("node1")),
            pod("c", "web", Some("node2")),
            pod("waits", "web", None),
            pod("other", "db", Some("node3")),
            Pod {
                host_network: true,
                ..pod("host", "web", Some("node4"))
            },
            Pod {
                finished: true,
                ..pod("done", "web", Some("node5"))
            },
        ] {
            index.apply(Change::Pod(pod));
        }
        let subjects = index.subjects(&name).unwrap();
        assert_eq!(
            (subjects.pods, nodes(&subjects)),
            (3, vec!["node1", "node2"])
        );
        assert!(index.selects(&name, &ObjectName::new("games", "a")));
        assert!(!index.selects(&name, &ObjectName::new("games", "other")));
        assert!(!index.selects(&name, &ObjectName::new("shop", "a")));
    }

    #[test]
    fn what_keeps_a_policy_from_its_pods_is_said() {
        let mut index = PeerIndex::default();
        let name = ObjectName::new("games", "web");
        let reference = NetworkRef::Attachment(ObjectName::new("games", "blue"));
        let networks = NetworkChoice::AnyOf(vec![reference.clone()]);
        index.apply(Change::Policy(policy(networks)));
        index.apply(Change::Namespace(Namespace {
            name: "games".into(),
            labels: Labels::new(),
        }));
        index.apply(Change::Quota(Quota {
            max_rules: Some(0),
            ..Quota::new("tenants")
        }));
        let subjects = index.subjects(&name).unwrap();
        assert_eq!(subjects.missing, [reference]);
        assert_eq!(subjects.excesses[0].field, "spec.egress");
    }

    #[test]
    fn an_address_moves_nobody_and_a_label_does() {
        let mut index = PeerIndex::default();
        let mut moved = |change: Change| {
            index.apply(change);
            index.take_moved().len()
        };
        let a = pod("a", "web", Some("node1"));
        assert_eq!(moved(Change::Pod(a.clone())), 1);
        let mut addressed = a.clone();
        let network = netqos_core::objects::NetworkName::Default;
        addressed.addresses = vec![objects::on(network, &["10.0.0.1"])];
        assert_eq!(moved(Change::Pod(addressed)), 0);
        assert_eq!(moved(Change::Pod(pod("a", "db", Some("node1")))), 1);
        assert_eq!(moved(Change::Pod(pod("a", "db", Some("node2")))), 1);
        assert_eq!(moved(Change::PodGone(a.id)), 1);
    }
}
