//! An index that sees only its node, and learns of peers from slices, plans what one plans that sees
//! the whole cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use netqos_core::objects::{PeerSlice, Pod, PodAddresses};
use netqos_core::plan::{PeerSet, SetId};
use netqos_core::{NetworkKey, NodePlan, ObjectName, PodId};
use netqos_index::{
    Change, Explanation, Index, PeerIndex, PeerSource, Query, Refusal, SliceWrite, Slicer, To,
};
use netqos_k8s::{NetworkQoSPeerSlice, convert};
use netqos_testkit::reference::Cluster;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::Applied as _;
use crate::arbitrary::{change, config, note, packet, rule_with_rate};
use crate::objects::{
    NODE, definition, ip, local, name, namespace, on, peers, pod, policy, rule, selector, tcp,
    to_pods,
};

/// Where the controller runs.
const CONTROLLER: &str = "netqos";

/// A server, a controller, and an agent that sees its own node's pods only.
struct Seam {
    cluster: Cluster,
    resolving: PeerIndex,
    slicer: Slicer,
    server: BTreeMap<ObjectName, PeerSlice>,
    node: Index,
    here: BTreeMap<ObjectName, PodId>,
}

fn sliced() -> Index {
    let controller = CONTROLLER.into();
    Index::with_peers(NODE, PeerSource::Slices { controller })
}

impl Seam {
    fn new() -> Self {
        Self {
            cluster: Cluster {
                node: NODE.into(),
                ..Cluster::default()
            },
            resolving: PeerIndex::default(),
            slicer: Slicer::new(CONTROLLER),
            server: BTreeMap::new(),
            node: sliced(),
            here: BTreeMap::new(),
        }
    }

    /// Tells everybody of a change who gets to know of it. Gives back what it is to somebody who
    /// sees all: what is found of a pod's interfaces is in its status, too.
    fn tell(&mut self, change: Change) -> Vec<Change> {
        note(&mut self.cluster, change.clone());
        let of_pod = match &change {
            Change::Pod(pod) => Some(pod.id.name.clone()),
            Change::PodGone(id) => Some(id.name.clone()),
            Change::Attachments { pod, .. } => Some(pod.clone()),
            _ => None,
        };
        let mut all = Vec::new();
        if !matches!(change, Change::Pod(_)) {
            self.node.apply(change.clone());
            self.resolving.apply(change.clone());
            all.push(change);
        }
        if let Some(name) = of_pod {
            let pod = self.cluster.pods.get(&name);
            let pod = pod.map(|pod| reported(&self.cluster, pod));
            if let Some(pod) = &pod {
                self.resolving.apply(Change::Pod(pod.clone()));
                all.push(Change::Pod(pod.clone()));
            }
            match pod.filter(|pod| pod.node.as_deref().is_none_or(|node| node == NODE)) {
                Some(pod) => {
                    self.here.insert(name, pod.id.clone());
                    self.node.apply(Change::Pod(pod));
                }
                None => {
                    let left = self.here.remove(&name).map(Change::PodGone);
                    left.into_iter().for_each(|left| self.node.apply(left));
                }
            }
        }
        all
    }

    /// The controller writes, and the agent reads.
    fn publish(&mut self) {
        self.slicer.change(self.resolving.take_changes());
        for write in self.slicer.take_writes() {
            match write {
                SliceWrite::Put(slice) => {
                    let object = serde_json::to_value(NetworkQoSPeerSlice::of(&slice)).unwrap();
                    let read: NetworkQoSPeerSlice = serde_json::from_value(object).unwrap();
                    let read = convert::peer_slice(&read).unwrap();
                    assert_eq!(read, slice);
                    self.server.insert(slice.name.clone(), slice);
                    self.node.apply(Change::PeerSlice(read));
                }
                SliceWrite::Delete(name) => {
                    assert!(self.server.remove(&name).is_some(), "{name} is not there");
                    self.node.apply(Change::PeerSliceGone(name));
                }
            }
        }
        self.node.take_delta();
    }
}

/// A pod whose status says what was found of it on its node, if anything was.
fn reported(cluster: &Cluster, pod: &Pod) -> Pod {
    let mut pod = pod.clone();
    let here = pod.node.as_deref().is_none_or(|node| node == NODE);
    if let Some((uid, found)) = cluster.found.get(&pod.id.name)
        && here
        && !found.is_empty()
        && uid.as_ref().is_none_or(|uid| pod.is_known_by(uid))
    {
        let found = found.iter().map(|interface| PodAddresses {
            network: interface.network.clone(),
            interface: Some(interface.name.clone()),
            addresses: interface.addresses.clone(),
        });
        pod.addresses = found.collect();
    }
    pod
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn the_plan_is_that_of_an_index_that_sees_all_pods(
        steps in vec((change(rule_with_rate()), any::<bool>()), 1..60),
        packets in vec(packet(), 4),
    ) {
        let mut seam = Seam::new();
        let mut all = Index::for_node(NODE);
        let last = steps.len() - 1;
        for (number, (change, take)) in steps.into_iter().enumerate() {
            seam.tell(change).into_iter().for_each(|change| all.apply(change));
            if take || number == last {
                all.take_delta();
                // Chains that are new ask for slices that are there already.
                seam.node.take_delta();
                seam.publish();
                prop_assert_eq!(seam.node.plan(), all.plan());
                prop_assert_eq!(seam.node.problems(), all.problems());
            }
        }
        for pod in seam.here.keys() {
            for packet in &packets {
                let query = Query {
                    from: pod.clone(),
                    network: NetworkKey::Default,
                    to: To::Address(packet.destination),
                    protocol: packet.protocol,
                    port: packet.port,
                };
                let (here, right) = (seam.node.explain(&query), all.explain(&query));
                let told = |it: &Explanation| {
                    let cases = it.cases.iter().map(|it| it.outcome.clone()).collect::<Vec<_>>();
                    (it.refusal.clone(), it.outcome.clone(), cases)
                };
                prop_assert_eq!(told(&here), told(&right));
            }
        }

        // Another agent, which starts now, plans the same, whatever it hears of first.
        let mut late = sliced();
        let slices = seam.server.values().cloned().map(Change::PeerSlice);
        slices.for_each(|slice| late.apply(slice));
        let mut cluster = seam.cluster.clone();
        cluster.pods.retain(|name, _| seam.here.contains_key(name));
        let reported: Vec<Pod> = cluster.pods.values().map(|it| reported(&cluster, it)).collect();
        cluster.pods = reported.into_iter().map(|pod| (pod.id.name.clone(), pod)).collect();
        let changes = crate::arbitrary::changes_to(&cluster, true);
        changes.into_iter().for_each(|change| late.apply(change));
        late.take_delta();
        prop_assert_eq!(late.plan(), all.plan());

        // All that goes leaves nothing.
        for policy in seam.cluster.policies.clone().into_keys() {
            seam.tell(Change::PolicyGone(policy));
        }
        seam.publish();
        prop_assert_eq!(seam.server.len(), 0);
        prop_assert_eq!(seam.resolving.sets(), 0);
        prop_assert!(seam.node.plan().peers.is_empty() && seam.node.plan().sets.is_empty());
    }
}

/// An agent with one pod, whose rule goes to the pods `app=web` of its namespace, and that set.
fn asking() -> (Index, SetId) {
    let mut index = sliced();
    let web = to_pods(None, Some(selector(&[("app", "web")])));
    let rule = rule(20, vec![web]);
    index.apply(Change::Policy(policy("a/qos", 1, vec![rule])));
    for change in local("a/p", &[], "10.0.0.1") {
        index.apply(change);
    }
    let delta = index.take_delta();
    let wanted: Vec<(SetId, PeerSet)> = index.plan().sets.clone().into_iter().collect();
    let [(id, set)] = &wanted[..] else {
        panic!("it says which set it wants: {wanted:?}");
    };
    assert_eq!(delta.sets[id].as_ref(), Some(set));
    (index, *id)
}

fn slice(text: &str, set: SetId, addresses: &[&str]) -> PeerSlice {
    PeerSlice {
        name: name(text),
        set,
        network: NetworkKey::Default,
        addresses: addresses.iter().map(|address| ip(address)).collect(),
    }
}

fn addresses(index: &Index) -> BTreeSet<IpAddr> {
    peers(index, &NetworkKey::Default)
}

fn ips(texts: &[&str]) -> BTreeSet<IpAddr> {
    texts.iter().map(|text| ip(text)).collect()
}

#[test]
fn an_address_in_several_slices_of_a_set_counts_once() {
    let (mut index, set) = asking();
    let changes = [
        slice("a/one", set, &["10.0.0.5", "10.0.0.6"]),
        slice("a/two", set, &["10.0.0.6", "::ffff:10.0.0.7"]),
    ];
    for slice in changes {
        index.apply(Change::PeerSlice(slice));
    }
    let delta = index.take_delta();
    let all = ["10.0.0.5", "10.0.0.6", "10.0.0.7"];
    assert_eq!((delta.peers.len(), delta.classes.len()), (3, 1));
    assert_eq!(addresses(&index), ips(&all));

    // In one slice less it is still there; what changes is what is written.
    index.apply(Change::PeerSlice(slice("a/one", set, &["10.0.0.5"])));
    assert!(index.take_delta().is_empty());
    let delta = index.applied(Change::PeerSlice(slice("a/two", set, &["10.0.0.7"])));
    let gone = [(NetworkKey::Default, ip("10.0.0.6"), None)];
    assert_eq!(delta.peers, gone.into_iter().collect());
    index.apply(Change::PeerSliceGone(name("a/one")));
    assert_eq!(index.take_delta().peers.len(), 1);
    assert_eq!(addresses(&index), ips(&["10.0.0.7"]));
}

#[test]
fn slices_of_other_sets_wait_until_a_chain_names_them() {
    let (mut index, web) = asking();
    let db = to_pods(None, Some(selector(&[("app", "db")])));
    let both = policy("a/db", 2, vec![rule(30, vec![db])]);
    let other = {
        let mut asks = sliced();
        asks.apply(Change::Policy(both.clone()));
        local("a/p", &[], "10.0.0.1")
            .into_iter()
            .for_each(|it| asks.apply(it));
        asks.take_delta();
        *asks.plan().sets.keys().next().unwrap()
    };
    index.apply(Change::PeerSlice(slice("a/web", web, &["10.0.0.5"])));
    index.apply(Change::PeerSlice(slice(
        "a/db",
        other,
        &["10.0.0.5", "10.0.0.6"],
    )));
    assert_eq!(
        index.take_delta().peers.len(),
        1,
        "nobody asks for the other"
    );
    index.apply(Change::Policy(both));
    assert_eq!(index.take_delta().peers.len(), 2);
    assert_eq!(addresses(&index), ips(&["10.0.0.5", "10.0.0.6"]));
    index.applied(Change::PolicyGone(name("a/db")));
    assert_eq!(addresses(&index), ips(&["10.0.0.5"]));
}

/// Whoever may write objects in one namespace does not decide who is a peer in another.
#[test]
fn a_slice_counts_only_where_its_set_has_its_slices() {
    let (mut index, set) = asking();
    index.apply(Change::PeerSlice(slice("b/one", set, &["10.0.0.5"])));
    index.apply(Change::PeerSlice(slice("netqos/one", set, &["10.0.0.6"])));
    let elsewhere = PeerSlice {
        network: NetworkKey::Cluster("wide".into()),
        ..slice("a/one", set, &["10.0.0.7"])
    };
    index.apply(Change::PeerSlice(elsewhere));
    assert!(index.take_delta().is_empty());

    let everywhere = to_pods(Some(selector(&[])), None);
    let rules = vec![rule(30, vec![everywhere])];
    index.applied(Change::Policy(policy("a/qos", 1, rules)));
    let set = *index.plan().sets.keys().next().unwrap();
    index.apply(Change::PeerSlice(slice("a/two", set, &["10.0.0.8"])));
    assert!(index.take_delta().is_empty(), "it is of several namespaces");
    index.applied(Change::PeerSlice(slice("netqos/two", set, &["10.0.0.8"])));
    assert_eq!(addresses(&index), ips(&["10.0.0.8"]));
}

#[test]
fn pods_are_no_peers_where_slices_say_who_is() {
    let (mut index, _) = asking();
    let web = [("app", "web")];
    index.apply(namespace("b", &web));
    index.apply(Change::Pod(pod("a/web", &web, &["10.0.0.5"])));
    for change in local("a/web2", &web, "10.0.0.6") {
        index.apply(change);
    }
    let delta = index.take_delta();
    assert!(delta.peers.is_empty() && delta.classes.is_empty());
    assert_eq!(delta.endpoints.len(), 1);
}

#[test]
fn slices_are_nothing_to_an_index_that_sees_all_pods() {
    let mut all = Index::for_node(NODE);
    all.apply(Change::PeerSlice(slice("a/one", asking().1, &["10.0.0.5"])));
    all.apply(Change::PeerSliceGone(name("a/one")));
    all.take_delta();
    assert_eq!(*all.plan(), NodePlan::default());
}

#[test]
fn an_explanation_says_which_slice_has_the_address() {
    let (mut index, set) = asking();
    index.applied(Change::PeerSlice(slice("a/one", set, &["10.0.0.5"])));
    let asked = |to: To| Query {
        from: name("a/p"),
        network: NetworkKey::Default,
        to,
        protocol: tcp("10.0.0.5", 80).protocol,
        port: Some(80),
    };
    for (address, says) in [
        ("10.0.0.5", "to 10.0.0.5:80, in peer slice a/one: a/qos[0]"),
        ("10.0.0.6", "to 10.0.0.6:80, in no peer slice: no rule"),
        (
            "10.0.0.1",
            "to 10.0.0.1:80, pod a/p, in no peer slice: no rule",
        ),
    ] {
        let text = index.explain(&asked(To::Address(ip(address)))).to_string();
        assert!(text.contains(says), "{text}");
    }
    let elsewhere = index.explain(&asked(To::Pod(name("a/web"))));
    let refusal = Refusal::NotOfThisNode(name("a/web"));
    assert_eq!(elsewhere.refusal, Some(refusal));
    assert!(
        elsewhere
            .to_string()
            .contains("ask for one of its addresses")
    );
}

/// Sets on a network of their own, whose definition comes last.
#[test]
fn slices_are_made_for_each_network_of_a_policy() {
    let mut seam = Seam::new();
    let web = to_pods(None, Some(selector(&[("app", "web")])));
    let mut qos = policy("a/qos", 1, vec![rule(20, vec![web])]);
    qos.networks = netqos_core::NetworkChoice::AnyOf(vec![
        netqos_core::NetworkRef::Default,
        netqos_core::NetworkRef::Attachment(name("a/fast")),
    ]);
    let fast = netqos_core::objects::NetworkName::Attachment(name("a/fast"));
    let mut there = pod("a/web", &[("app", "web")], &["10.0.0.5"]);
    there.addresses.push(on(fast, &["10.9.0.5"]));
    seam.tell(Change::Policy(qos));
    seam.tell(Change::Pod(there));
    seam.publish();
    assert_eq!(seam.server.len(), 1);
    seam.tell(Change::NetworkDefinition(definition("a/fast", "fast")));
    seam.publish();
    let networks = seam
        .server
        .values()
        .map(|it| (it.network.to_string(), it.addresses.clone()));
    let right = [
        ("a/fast", ips(&["10.9.0.5"])),
        ("default", ips(&["10.0.0.5"])),
    ];
    let right = right.map(|(network, addresses)| (network.to_owned(), addresses));
    assert_eq!(networks.collect::<BTreeMap<_, _>>(), right.into());
}
