//! Policies that ask for more than the quotas of their namespaces allow are not in force.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use netqos_core::quota::excesses;
use netqos_core::{ObjectName, ObjectRef, Quota, Reason};
use netqos_index::{Change, Index, PeerIndex, Query, To};
use netqos_testkit::reference::Cluster;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::Applied as _;
use crate::arbitrary::{change, changes_to, config, note, quota, rule_with_rate};
use crate::objects::{
    NODE, default_mark, index, ip, local, name, namespace, pod, policy, rule, selector, to_pods,
};

const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// The policies of a cluster that some quota does not allow.
fn beyond(cluster: &Cluster, quotas: &BTreeMap<Arc<str>, Quota>) -> BTreeSet<ObjectName> {
    let policies = cluster.policies.values().filter(|policy| {
        let namespace = &policy.name.namespace;
        let mut labels = cluster
            .namespaces
            .get(namespace)
            .cloned()
            .unwrap_or_default();
        labels
            .entry(NAME_LABEL.into())
            .or_insert_with(|| namespace.clone());
        !excesses(policy, &labels, quotas.values()).is_empty()
    });
    policies.map(|policy| policy.name.clone()).collect()
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn what_is_beyond_a_quota_is_as_if_it_were_not_there(
        steps in vec(
            prop_oneof![
                6 => change(rule_with_rate()),
                1 => quota().prop_map(Change::Quota),
                1 => prop_oneof![Just("one"), Just("two")].prop_map(|it| Change::QuotaGone(it.into())),
            ],
            1..60,
        ),
    ) {
        let mut cluster = Cluster { node: NODE.into(), ..Cluster::default() };
        let mut quotas = BTreeMap::new();
        let mut index = Index::for_node(NODE);
        let mut peers = PeerIndex::default();
        for change in steps {
            note(&mut cluster, change.clone());
            match &change {
                Change::Quota(quota) => drop(quotas.insert(quota.name.clone(), quota.clone())),
                Change::QuotaGone(name) => drop(quotas.remove(name)),
                _ => {}
            }
            peers.apply(change.clone());
            index.applied(change);
            peers.take_changes();
        }
        let beyond = beyond(&cluster, &quotas);
        cluster.policies.retain(|name, _| !beyond.contains(name));
        let mut allowed_peers = PeerIndex::default();
        let allowed = changes_to(&cluster, false);
        allowed.iter().cloned().for_each(|change| allowed_peers.apply(change));
        allowed_peers.take_changes();
        prop_assert_eq!(peers.sets(), allowed_peers.sets());
        let allowed = crate::objects::index(allowed);
        prop_assert_eq!(index.plan(), allowed.plan());
        let told = index.problems().into_iter();
        let told = told.filter(|it| it.reason == Reason::QuotaExceeded).map(|it| it.object);
        let right: Vec<ObjectRef> = beyond.into_iter().map(ObjectRef::Policy).collect();
        prop_assert_eq!(told.collect::<Vec<_>>(), right);
    }
}

#[test]
fn a_policy_beyond_its_quota_is_left_out_and_says_which_field_passes_which_quota() {
    let web = to_pods(None, Some(selector(&[("app", "web")])));
    let qos = policy("a/qos", 90, vec![rule(20, vec![web])]);
    let mut changes = vec![
        namespace("a", &[("tier", "own")]),
        Change::Policy(qos),
        Change::Pod(pod("a/web", &[("app", "web")], &["10.0.0.5"])),
    ];
    changes.extend(local("a/p", &[], "10.0.0.1"));
    let mut index = index(changes);
    assert_eq!(default_mark(&index, "a/p", "10.0.0.5"), Some(20));

    let mut tenants = Quota {
        namespaces: selector(&[("tier", "own")]),
        max_priority: netqos_core::Priority::try_new(50).unwrap(),
        ..Quota::new("tenants")
    };
    index.applied(Change::Quota(tenants.clone()));
    assert_eq!(default_mark(&index, "a/p", "10.0.0.5"), None);
    let told = index
        .problems()
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>();
    let why = "spec.priority: 90 is not between 0 and 50 (NetworkQoSQuota tenants)";
    let problem = format!("NetworkQoS a/qos: QuotaExceeded: nothing of it is in force: {why}");
    assert_eq!(told, [problem]);
    let explained = index.explain(&Query {
        from: name("a/p"),
        network: netqos_core::NetworkKey::Default,
        to: To::Address(ip("10.0.0.5")),
        protocol: None,
        port: None,
    });
    assert!(
        explained
            .to_string()
            .contains(&format!("is not in force: {why}")),
        "{explained}"
    );

    // It comes into force again by any of these.
    let back = |change: Change, index: &mut Index| {
        index.applied(change);
        (default_mark(index, "a/p", "10.0.0.5"), index.problems())
    };
    let in_force = (Some(20), vec![]);
    assert_eq!(
        back(namespace("a", &[("tier", "shared")]), &mut index),
        in_force
    );
    assert_eq!(back(namespace("a", &[("tier", "own")]), &mut index).0, None);
    tenants.max_priority = netqos_core::Priority::MAX;
    assert_eq!(back(Change::Quota(tenants.clone()), &mut index), in_force);
    tenants.max_rules = Some(0);
    assert_eq!(back(Change::Quota(tenants), &mut index).0, None);
    assert_eq!(
        back(Change::QuotaGone("tenants".into()), &mut index),
        in_force
    );
}
