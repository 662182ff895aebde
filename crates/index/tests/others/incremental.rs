//! However a cluster came to be what it is, the plan is the same, and deltas say just what changed.

use netqos_core::NodePlan;
use netqos_index::{Change, Index};
use netqos_testkit::reference::Cluster;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::Applied as _;
use crate::arbitrary::{change, changes_to, config, note, rule_with_rate};
use crate::objects::{NODE, default_mark, index, ip, local, namespace, peers, pod, policy, rule};
use crate::objects::{selector, to_pods};
use netqos_core::NetworkKey;

fn anew(cluster: &Cluster, policies_first: bool) -> Index {
    index(changes_to(cluster, policies_first))
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn deltas_make_the_plan_that_an_index_from_scratch_has(
        steps in vec((change(rule_with_rate()), any::<bool>()), 1..60),
    ) {
        let mut cluster = Cluster { node: NODE.into(), ..Cluster::default() };
        let mut index = Index::for_node(NODE);
        let mut copy = NodePlan::default();
        let last = steps.len() - 1;
        for (number, (change, take)) in steps.into_iter().enumerate() {
            note(&mut cluster, change.clone());
            index.apply(change);
            if take || number == last {
                let delta = index.take_delta();
                prop_assert_eq!(&copy.delta_to(index.plan()), &delta);
                copy.apply(&delta);
                prop_assert_eq!(&copy, index.plan());
                prop_assert!(index.take_delta().is_empty());
            }
        }
        for policies_first in [true, false] {
            let anew = anew(&cluster, policies_first);
            prop_assert_eq!(anew.plan(), index.plan());
            prop_assert_eq!(anew.problems(), index.problems());
        }
    }

    #[test]
    fn everything_that_goes_leaves_nothing(changes in vec(change(rule_with_rate()), 1..40)) {
        let mut cluster = Cluster { node: NODE.into(), ..Cluster::default() };
        let mut index = Index::for_node(NODE);
        for change in changes {
            note(&mut cluster, change.clone());
            index.apply(change);
        }
        index.take_delta();
        for policy in cluster.policies.into_keys() {
            index.apply(Change::PolicyGone(policy));
        }
        for pod in cluster.pods.into_values() {
            index.apply(Change::PodGone(pod.id));
        }
        index.take_delta();
        prop_assert_eq!(index.plan(), &NodePlan::default());
        prop_assert_eq!(index.problems(), vec![]);
    }
}

fn watched() -> Index {
    let everyone = to_pods(Some(selector(&[])), Some(selector(&[("app", "web")])));
    let mut changes = vec![
        namespace("b", &[]),
        Change::Policy(policy("a/qos", 1, vec![rule(20, vec![everyone])])),
        Change::Pod(pod("b/web", &[("app", "web")], &["10.0.1.1"])),
    ];
    changes.extend(local("a/p", &[], "10.0.0.1"));
    index(changes)
}

#[test]
fn a_pod_that_comes_is_one_entry() {
    let mut index = watched();
    let delta = index.applied(Change::Pod(pod("b/web2", &[("app", "web")], &["10.0.1.2"])));
    assert_eq!(delta.peers.len(), 1, "{delta:?}");
    assert!(delta.classes.is_empty() && delta.chains.is_empty() && delta.endpoints.is_empty());

    index.apply(Change::Pod(pod("b/db", &[("app", "db")], &["10.0.1.3"])));
    assert!(index.take_delta().is_empty(), "nobody asks for it");
}

#[test]
fn what_comes_and_goes_between_two_looks_is_not_seen() {
    let mut index = watched();
    let web = pod("b/web2", &[("app", "web")], &["10.0.1.2"]);
    index.apply(Change::Pod(web.clone()));
    index.apply(Change::PodGone(web.id));
    index.apply(Change::PolicyGone(crate::objects::name("a/qos")));
    let everyone = to_pods(Some(selector(&[])), Some(selector(&[("app", "web")])));
    index.apply(Change::Policy(policy(
        "a/qos",
        1,
        vec![rule(20, vec![everyone])],
    )));
    assert!(index.take_delta().is_empty());
}

#[test]
fn a_changed_policy_is_a_new_chain_over_the_same_sets() {
    let mut index = watched();
    let everyone = to_pods(Some(selector(&[])), Some(selector(&[("app", "web")])));
    let delta = index.applied(Change::Policy(policy(
        "a/qos",
        1,
        vec![rule(21, vec![everyone])],
    )));
    assert_eq!((delta.chains.len(), delta.endpoints.len()), (2, 1));
    assert!(delta.sets.is_empty() && delta.classes.is_empty() && delta.peers.is_empty());
    assert_eq!(default_mark(&index, "a/p", "10.0.1.1"), Some(21));
}

#[test]
fn peers_are_there_only_for_chains_in_force() {
    let mut index = watched();
    assert_eq!(peers(&index, &NetworkKey::Default), [ip("10.0.1.1")].into());
    let here = index.plan().endpoints.values().next().unwrap().pod.clone();
    index.applied(Change::PodGone(here));
    assert_eq!(*index.plan(), NodePlan::default());
}
