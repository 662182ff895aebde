use netqos_core::objects::{NetworkDefinition, PeerSlice};
use netqos_k8s::{Object, objects_from_yaml};

use super::*;

/// A gate, and what it lets through, in words.
struct Told {
    gate: Gate,
    now: Instant,
}

/// What a text in YAML says.
fn said(text: &str) -> Change {
    match objects_from_yaml(text).remove(0).unwrap() {
        Object::Policy(policy) => Change::Policy(policy),
        Object::Pod(pod, ..) => Change::Pod(*pod),
        Object::Network(network) => Change::NetworkDefinition(network),
        other => panic!("{other:?}"),
    }
}

fn pod(name: &str, app: &str) -> Change {
    said(&format!(
        "{{apiVersion: v1, kind: Pod, spec: {{nodeName: node1}}, \
         metadata: {{name: {name}, namespace: games, uid: {name}, labels: {{app: {app}}}}}}}"
    ))
}

fn gone(pod: &Change) -> Change {
    match pod {
        Change::Pod(pod) => Change::PodGone(pod.id.clone()),
        other => panic!("{other:?}"),
    }
}

/// A policy for the pods of app `a`, to those of another app.
fn policy(priority: u8, to: &str, networks: &str) -> Change {
    said(&format!(
        "{{apiVersion: k8s.ovn.org/v1alpha1, kind: NetworkQoS, \
         metadata: {{name: p, namespace: games}}, \
         spec: {{priority: {priority}, podSelector: {{matchLabels: {{app: a}}}}, {networks} \
         egress: [{{dscp: 1, classifier: {{to: [{{podSelector: {{matchLabels: {{app: {to}}}}}}}]}}}}]}}}}"
    ))
}

/// The slice that says that a set is published.
fn head(gate: &Gate, set: &str) -> Change {
    let all = gate.policies.values().flat_map(|entry| &entry.names);
    let (id, of) = { all }
        .find(|(_, of)| format!("{:?}", of.pods).contains(&format!("{set:?}")))
        .unwrap();
    Change::PeerSlice(PeerSlice {
        name: ObjectName::new("games", &head_name(*id)),
        set: *id,
        network: of.network.clone(),
        addresses: BTreeSet::new(),
    })
}

impl Told {
    fn new() -> Self {
        let mut told = Self {
            gate: Gate::new("netqos-system".into()),
            now: Instant::now(),
        };
        told.take([pod("a1", "a")]);
        told
    }

    /// What of these the index is told; slices come through, which is not said.
    fn take<const N: usize>(&mut self, changes: [Change; N]) -> Vec<String> {
        let passed = self
            .gate
            .take(changes.into(), self.now, |_| Stands::default());
        let words = passed.into_iter().filter_map(|change| match change {
            Change::Policy(policy) => Some(format!("policy {}", policy.priority.get())),
            Change::PolicyGone(_) => Some("no policy".to_owned()),
            Change::NetworkDefinition(NetworkDefinition { name, .. }) => {
                Some(format!("network {}", name.name))
            }
            Change::PeerSliceGone(_) => Some("no slice".to_owned()),
            Change::Pod(_) | Change::PodGone(_) | Change::PeerSlice(_) => None,
            other => panic!("{other:?}"),
        });
        words.collect()
    }

    fn publish(&mut self, set: &str) -> Vec<String> {
        let head = head(&self.gate, set);
        self.take([head])
    }

    fn wanted(&mut self) -> usize {
        self.gate.wanted().sets.values().map(BTreeSet::len).sum()
    }
}

#[test]
fn a_policy_is_told_when_its_sets_are_published_and_the_one_before_stays_until_then() {
    let mut told = Told::new();
    assert_eq!(told.take([policy(1, "b", "")]), [""; 0]);
    assert_eq!(told.wanted(), 1);
    assert_eq!(told.gate.missing(false).count(), 1);
    assert_eq!(told.publish("b"), ["policy 1"]);
    // What names no other sets does not wait.
    assert_eq!(told.take([policy(2, "b", "")]), ["policy 2"]);
    assert_eq!(told.take([policy(3, "c", "")]), [""; 0]);
    assert_eq!((told.wanted(), told.gate.missing(false).count()), (2, 0));
    assert_eq!(told.gate.problems(told.now), []);
    told.now = told.gate.due(told.now).unwrap();
    assert_eq!(told.gate.problems(told.now).len(), 1);
    assert_eq!(told.publish("c"), ["policy 3"]);
    assert_eq!((told.wanted(), told.gate.problems(told.now)), (1, vec![]));
    let name = ObjectName::new("games", "p");
    assert_eq!(told.take([Change::PolicyGone(name)]), ["no policy"]);
    assert_eq!(told.wanted(), 0);
}

#[test]
fn a_policy_for_nobody_here_is_not_told_and_one_for_a_pod_that_went_stays_for_a_while() {
    let mut told = Told::new();
    let only = pod("a1", "a");
    told.take([gone(&only)]);
    told.take([policy(1, "b", "")]);
    assert_eq!(
        told.publish("b"),
        ["policy 1"],
        "another may take its place"
    );
    told.now = told.gate.due(told.now).unwrap();
    assert_eq!(told.take([]), ["no policy"]);
    assert_eq!((told.wanted(), told.gate.wanted().namespaces.len()), (0, 0));
    // Its slices are not watched any more.
    let Change::PeerSlice(slice) = head(&told.gate, "b") else {
        panic!("no slice");
    };
    assert_eq!(told.take([Change::PeerSliceGone(slice.name)]), ["no slice"]);
    assert_eq!(told.take([pod("a2", "a")]), [""; 0]);
    assert_eq!(told.publish("b"), ["policy 1"]);
    // Labels that change are as good as a pod that comes or goes.
    assert_eq!(told.take([pod("a2", "z")]), ["no policy"]);
    assert_eq!(told.take([pod("a2", "a")]), ["policy 1"]);
}

/// The controller may know before this node does that nobody names a set any more.
#[test]
fn slices_of_a_set_that_goes_stay_while_what_is_in_force_names_it() {
    let mut told = Told::new();
    told.take([policy(1, "b", "")]);
    told.publish("b");
    let Change::PeerSlice(first) = head(&told.gate, "b") else {
        panic!("no slice");
    };
    let second = PeerSlice {
        name: ObjectName::new("games", "second"),
        ..first.clone()
    };
    let there = || Change::PeerSlice(second.clone());
    let gone = |slice: &PeerSlice| Change::PeerSliceGone(slice.name.clone());
    // One of a set that is published is not needed any more.
    told.take([there()]);
    assert_eq!(told.take([gone(&second)]), ["no slice"]);
    told.take([there()]);
    assert_eq!(told.take([gone(&second), gone(&first)]), [""; 0]);
    // It is published again, without the one.
    assert_eq!(told.take([Change::PeerSlice(first.clone())]), ["no slice"]);
    told.take([gone(&first)]);
    assert_eq!(told.take([policy(2, "c", "")]), [""; 0]);
    assert_eq!(told.publish("c"), ["policy 2", "no slice"]);
}

#[test]
fn a_network_that_comes_waits_for_the_sets_that_a_policy_names_on_it() {
    let mut told = Told::new();
    let definition = |name: &str| {
        said(&format!(
            "{{apiVersion: k8s.cni.cncf.io/v1, kind: NetworkAttachmentDefinition, \
             metadata: {{name: {name}, namespace: games}}, spec: {{config: '{{}}'}}}}"
        ))
    };
    let networks = "netAttachRefs: [{kind: NetworkAttachmentDefinition, name: blue}, \
                    {kind: NetworkAttachmentDefinition, name: red}],";
    assert_eq!(told.take([definition("blue")]), ["network blue"]);
    assert_eq!(told.take([policy(1, "b", networks)]), [""; 0]);
    assert_eq!(told.publish("b"), ["policy 1"]);
    assert_eq!(told.take([definition("red")]), [""; 0]);
    assert_eq!(told.wanted(), 2);
    let names = told.gate.policies.values().flat_map(|entry| &entry.names);
    let heads: Vec<Change> = names
        .map(|(id, of)| {
            Change::PeerSlice(PeerSlice {
                name: ObjectName::new("games", &head_name(*id)),
                set: *id,
                network: of.network.clone(),
                addresses: BTreeSet::new(),
            })
        })
        .collect();
    let mut passed = Vec::new();
    for head in heads {
        passed.extend(told.take([head]));
    }
    assert_eq!(passed, ["network red"]);
}

#[test]
fn what_an_earlier_process_had_in_force_comes_back_where_what_is_told_waits() {
    let mut told = Told::new();
    told.take([policy(2, "c", "")]);
    let Change::Policy(earlier) = policy(1, "b", "") else {
        panic!("no policy");
    };
    assert_eq!(told.gate.missing(true).count(), 0, "nothing was in force");
    told.gate.remember([(earlier, Stands::default())]);
    assert_eq!(told.take([]), [""; 0]);
    assert_eq!((told.wanted(), told.gate.missing(true).count()), (2, 1));
    let id = |gate: &Gate, text: &str| {
        let entry = gate.policies.values().next().unwrap();
        let all = entry.remembered.iter().flat_map(|it| &it.names);
        let mut all = all.filter(|(_, set)| format!("{:?}", set.pods).contains(text));
        all.next().map(|(id, set)| (*id, set.network.clone()))
    };
    let (set, network) = id(&told.gate, "\"b\"").unwrap();
    let published = Change::PeerSlice(PeerSlice {
        name: ObjectName::new("games", &head_name(set)),
        set,
        network,
        addresses: BTreeSet::new(),
    });
    assert_eq!(told.take([published]), ["policy 1"]);
    assert_eq!(told.gate.missing(true).count(), 0);
    assert_eq!(told.publish("c"), ["policy 2"]);
}
