//! Which pods a destination means.

use netqos_core::{Destination, LabelSelector, NetworkKey, Operator, Requirement};
use netqos_index::{Change, Index};

use crate::Applied as _;
use crate::objects::{
    default_mark, index, ip, local, namespace, peers, pod, policy, rule, selector, to_block,
    to_pods,
};

/// The sender is `a/p`; there are web and db pods in its own namespace, in `b` (team=x) and in `c`,
/// of which nobody has spoken.
fn with(to: Vec<Destination>) -> Index {
    let mut changes = vec![
        namespace("a", &[("team", "own")]),
        namespace("b", &[("team", "x")]),
        Change::Pod(pod("a/web", &[("app", "web")], &["10.0.0.2"])),
        Change::Pod(pod("a/db", &[("app", "db")], &["10.0.0.3"])),
        Change::Pod(pod("b/web", &[("app", "web")], &["10.0.1.2", "fd00::12"])),
        Change::Pod(pod("b/db", &[("app", "db")], &["10.0.1.3"])),
        Change::Pod(pod("c/web", &[("app", "web")], &["10.0.2.2"])),
        Change::Policy(policy("a/qos", 1, vec![rule(20, to)])),
    ];
    changes.extend(local("a/p", &[], "10.0.0.1"));
    index(changes)
}

#[test]
fn absent_and_empty_selectors_are_different_things() {
    let all = LabelSelector::everything;
    let web = || selector(&[("app", "web")]);
    let team_x = || selector(&[("team", "x")]);
    let named_c = selector(&[("kubernetes.io/metadata.name", "c")]);
    let not_web = LabelSelector::new([Requirement {
        key: "app".into(),
        operator: Operator::NotIn([("web".into())].into()),
    }]);
    let own = ["10.0.0.1", "10.0.0.2", "10.0.0.3"];
    let of_b = ["10.0.1.2", "fd00::12", "10.0.1.3"];
    for (namespaces, pods, wanted) in [
        (None, Some(all()), own.to_vec()),
        (None, Some(web()), vec!["10.0.0.2"]),
        (None, Some(not_web), vec!["10.0.0.1", "10.0.0.3"]),
        (Some(team_x()), None, of_b.to_vec()),
        (Some(team_x()), Some(all()), of_b.to_vec()),
        (Some(team_x()), Some(web()), vec!["10.0.1.2", "fd00::12"]),
        (
            Some(all()),
            Some(web()),
            vec!["10.0.0.2", "10.0.1.2", "fd00::12", "10.0.2.2"],
        ),
        (Some(named_c), None, vec!["10.0.2.2"]),
        (Some(all()), None, [&own[..], &of_b, &["10.0.2.2"]].concat()),
        (Some(selector(&[("team", "y")])), Some(all()), vec![]),
    ] {
        let index = with(vec![to_pods(namespaces.clone(), pods.clone())]);
        let wanted = wanted.into_iter().map(ip).collect();
        let said = peers(&index, &NetworkKey::Default);
        assert_eq!(said, wanted, "{namespaces:?} {pods:?}");
        for address in said {
            let mark = default_mark(&index, "a/p", &address.to_string());
            assert_eq!(mark, Some(20));
        }
        let elsewhere = default_mark(&index, "a/p", "192.0.2.1");
        assert_eq!(
            elsewhere, None,
            "an empty selector means pods, not everybody"
        );
    }
}

#[test]
fn no_destination_is_every_destination() {
    for (to, mark) in [
        (vec![], Some(20)),
        (vec![Destination::Anywhere], Some(20)),
        (
            vec![to_block("10.9.0.0/16"), Destination::Anywhere],
            Some(20),
        ),
        (vec![to_block("10.9.0.0/16")], None),
    ] {
        assert_eq!(default_mark(&with(to), "a/p", "192.0.2.1"), mark);
    }
}

#[test]
fn destinations_of_a_rule_are_alternatives() {
    let web = to_pods(None, Some(selector(&[("app", "web")])));
    let index = with(vec![web, to_block("192.0.2.0/24")]);
    for (to, mark) in [
        ("10.0.0.2", Some(20)),
        ("192.0.2.7", Some(20)),
        ("10.0.0.3", None),
    ] {
        assert_eq!(default_mark(&index, "a/p", to), mark, "{to}");
    }
}

#[test]
fn equal_selectors_are_one_set_however_they_are_written() {
    let index = with(vec![
        to_pods(Some(selector(&[("team", "x")])), None),
        to_pods(
            Some(selector(&[("team", "x")])),
            Some(LabelSelector::everything()),
        ),
    ]);
    assert_eq!(index.plan().sets.len(), 1);
}

#[test]
fn what_is_labelled_otherwise_belongs_elsewhere() {
    let team_x = to_pods(
        Some(selector(&[("team", "x")])),
        Some(selector(&[("app", "web")])),
    );
    let mut index = with(vec![team_x]);
    let mut marked = |change| {
        index.applied(change);
        let addresses = ["10.0.1.2", "10.0.1.3", "10.0.2.2"];
        addresses.map(|to| default_mark(&index, "a/p", to).is_some())
    };
    let db_is_web = pod("b/db", &[("app", "web")], &["10.0.1.3"]);
    assert_eq!(marked(Change::Pod(db_is_web)), [true, true, false]);
    let c = namespace("c", &[("team", "x")]);
    assert_eq!(marked(c), [true, true, true]);
    let b = namespace("b", &[("team", "y")]);
    assert_eq!(marked(b), [false, false, true]);
    let gone = Change::NamespaceGone("c".into());
    assert_eq!(marked(gone), [false, false, false]);
}

#[test]
fn host_network_and_finished_pods_are_no_peers() {
    let mut index = with(vec![to_pods(None, Some(selector(&[("app", "web")])))]);
    let web = || pod("a/web", &[("app", "web")], &["10.0.0.2"]);
    for (host_network, finished, mark) in [
        (true, false, None),
        (false, false, Some(20)),
        (false, true, None),
    ] {
        index.applied(Change::Pod(netqos_core::objects::Pod {
            host_network,
            finished,
            ..web()
        }));
        assert_eq!(default_mark(&index, "a/p", "10.0.0.2"), mark);
    }
}
