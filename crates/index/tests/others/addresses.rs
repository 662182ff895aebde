//! Addresses that move, and pods that come again.

use netqos_core::objects::{NetworkName, Pod};
use netqos_core::{NetworkKey, PodId, Protocol};
use netqos_index::{Change, Index, Query, To};

use crate::Applied as _;
use crate::objects::{
    attached, default_mark, index, interface, ip, local, name, on, peers, pod, policy, rule,
    selector, service, slice, to_pods,
};

/// Web pods are marked 1, db pods 2, for the sender `a/p`.
fn watched() -> Index {
    let to = |app| vec![to_pods(None, Some(selector(&[("app", app)])))];
    let rules = vec![rule(1, to("web")), rule(2, to("db"))];
    let mut changes = local("a/p", &[], "10.0.0.1").to_vec();
    changes.push(Change::Policy(policy("a/qos", 1, rules)));
    index(changes)
}

fn web(text: &str, address: &str) -> Pod {
    pod(text, &[("app", "web")], &[address])
}

fn db(text: &str, address: &str) -> Pod {
    pod(text, &[("app", "db")], &[address])
}

fn again(pod: Pod) -> Pod {
    let id = PodId {
        uid: "another".into(),
        ..pod.id
    };
    Pod { id, ..pod }
}

#[test]
fn a_pod_of_the_same_name_takes_the_old_ones_place() {
    let mut index = watched();
    let first = web("a/x", "10.0.0.2");
    index.applied(Change::Pod(first.clone()));
    let delta = index.applied(Change::Pod(again(db("a/x", "10.0.0.3"))));
    assert_eq!(
        delta.peers.len(),
        2,
        "the old address goes, the new one comes: {delta:?}"
    );
    assert_eq!(default_mark(&index, "a/p", "10.0.0.2"), None);
    assert_eq!(default_mark(&index, "a/p", "10.0.0.3"), Some(2));

    // The news that the old one is gone comes late.
    index.apply(Change::PodGone(first.id));
    assert!(index.take_delta().is_empty());
}

#[test]
fn an_address_that_moves_to_another_pod_is_one_entry() {
    for gone_first in [true, false] {
        let mut index = watched();
        let old = web("a/x", "10.0.0.2");
        index.applied(Change::Pod(old.clone()));
        let mut changes = [Change::PodGone(old.id), Change::Pod(db("a/y", "10.0.0.2"))];
        if !gone_first {
            changes.reverse();
        }
        for change in changes {
            index.apply(change);
        }
        let delta = index.take_delta();
        assert_eq!(delta.peers.len(), 1);
        assert!(delta.peers.values().all(Option::is_some));
        assert_eq!(default_mark(&index, "a/p", "10.0.0.2"), Some(2));
    }
}

#[test]
fn an_address_of_two_pods_is_of_both_until_one_leaves() {
    let claim = [web("a/x", "10.0.0.2"), db("a/y", "10.0.0.2")];
    for order in [[0, 1], [1, 0]] {
        for (leaves, mark) in [(0, Some(2)), (1, Some(1))] {
            let mut index = watched();
            for pod in order {
                index.applied(Change::Pod(claim[pod].clone()));
            }
            // The later rule, whoever came first.
            assert_eq!(default_mark(&index, "a/p", "10.0.0.2"), Some(2));
            index.applied(Change::PodGone(claim[leaves].id.clone()));
            assert_eq!(default_mark(&index, "a/p", "10.0.0.2"), mark);
        }
    }
}

#[test]
fn a_pod_that_ends_leaves_its_address_to_others() {
    let mut index = watched();
    index.apply(Change::Pod(web("a/x", "10.0.0.2")));
    index.apply(Change::Pod(db("a/y", "10.0.0.2")));
    index.applied(Change::Pod(Pod {
        finished: true,
        ..db("a/y", "10.0.0.2")
    }));
    assert_eq!(default_mark(&index, "a/p", "10.0.0.2"), Some(1));
}

#[test]
fn both_families_of_a_pod_count_and_changes_of_one_touch_one() {
    let mut index = watched();
    let both = |v4, v6| pod("a/x", &[("app", "web")], &[v4, v6]);
    index.applied(Change::Pod(both("10.0.0.2", "fd00::2")));
    for to in ["10.0.0.2", "fd00::2"] {
        assert_eq!(default_mark(&index, "a/p", to), Some(1), "{to}");
    }
    // As many addresses as before, and another one.
    index.apply(Change::Pod(both("10.0.0.2", "fd00::3")));
    assert_eq!(index.take_delta().peers.len(), 2);
    assert_eq!(default_mark(&index, "a/p", "fd00::2"), None);
    assert_eq!(default_mark(&index, "a/p", "fd00::3"), Some(1));
}

#[test]
fn what_was_found_on_the_node_comes_before_what_the_status_says() {
    let mut index = watched();
    let [here, found] = local("a/x", &[("app", "web")], "10.0.0.2");
    let Change::Pod(mut here) = here else {
        unreachable!()
    };
    here.addresses = vec![on(NetworkName::Default, &["10.0.0.9"])];
    index.applied(Change::Pod(here));
    let known = |index: &Index| peers(index, &NetworkKey::Default);
    assert_eq!(known(&index), [ip("10.0.0.9")].into());
    index.applied(found);
    assert_eq!(known(&index), [ip("10.0.0.2")].into());
    let bare = interface("eth0", NetworkName::Default, &[]);
    index.applied(attached("a/x", vec![bare]));
    assert_eq!(known(&index), [ip("10.0.0.9")].into());
}

#[test]
fn an_ipv4_address_that_is_written_as_ipv6_is_the_ipv4_address() {
    let mut index = watched();
    for change in [
        Change::Pod(web("a/x", "::ffff:10.0.0.2")),
        Change::Pod(db("a/y", "10.0.0.2")),
        Change::Service(service(
            "a/s",
            &["::ffff:10.96.0.1"],
            &[("", Protocol::Tcp, 80)],
        )),
        Change::EndpointSlice(slice(
            "a/s-1",
            "s",
            &["::ffff:10.0.0.2"],
            &[("", Protocol::Tcp, 8080)],
        )),
    ] {
        index.apply(change);
    }
    index.take_delta();
    assert_eq!(peers(&index, &NetworkKey::Default), [ip("10.0.0.2")].into());
    assert_eq!(default_mark(&index, "a/p", "10.0.0.2"), Some(2));
    let (virtual_port, backends) = index.plan().services.first_key_value().unwrap();
    assert_eq!(virtual_port.to_string(), "10.96.0.1:80/TCP");
    assert_eq!(backends.first().unwrap().address, ip("10.0.0.2"));
    let explained = index.explain(&Query {
        from: name("a/p"),
        network: NetworkKey::Default,
        to: To::Address(ip("::ffff:10.0.0.2")),
        protocol: None,
        port: None,
    });
    let winner = explained.outcome.and_then(|outcome| outcome.winner);
    assert_eq!(winner.map(|rule| rule.index), Some(1));
}
