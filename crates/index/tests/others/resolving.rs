//! What a controller learns of the peer sets that policies name.

use netqos_index::{Change, PeerChange, PeerIndex};

use crate::objects::{ip, name, namespace, pod, policy, rule, selector, to_pods};

/// A policy with one rule to the pods `app=web` of its namespace.
fn to_web(text: &str, mark: u8) -> Change {
    let web = to_pods(None, Some(selector(&[("app", "web")])));
    Change::Policy(policy(text, 1, vec![rule(mark, vec![web])]))
}

fn web(text: &str, address: &str) -> Change {
    Change::Pod(pod(text, &[("app", "web")], &[address]))
}

/// What is gone and new, of all sets together.
fn taken(
    peers: &mut PeerIndex,
    changes: impl IntoIterator<Item = Change>,
) -> (Vec<String>, Vec<String>) {
    changes.into_iter().for_each(|change| peers.apply(change));
    let changes = peers.take_changes();
    let all = |of: fn(&PeerChange) -> &Vec<std::net::IpAddr>| {
        let all = changes.iter().flat_map(of);
        all.map(ToString::to_string).collect()
    };
    (all(|change| &change.gone), all(|change| &change.new))
}

fn these(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| ip(text).to_string()).collect()
}

#[test]
fn a_set_is_one_however_many_policies_name_it_and_goes_with_the_last() {
    let mut peers = PeerIndex::default();
    let first = taken(&mut peers, [web("a/web", "10.0.0.5"), to_web("a/one", 1)]);
    assert_eq!(first, (vec![], these(&["10.0.0.5"])));
    assert_eq!(peers.sets(), 1);
    let nothing = (vec![], vec![]);
    // In each step something else holds the set.
    assert_eq!(taken(&mut peers, [to_web("a/two", 2)]), nothing);
    assert_eq!(taken(&mut peers, [to_web("a/one", 3)]), nothing);
    let gone = |text| Change::PolicyGone(name(text));
    assert_eq!(taken(&mut peers, [gone("a/one")]), nothing);
    let moved = [gone("a/two"), to_web("a/three", 4)];
    assert_eq!(taken(&mut peers, moved), nothing);
    assert_eq!(peers.sets(), 1);
    let last = taken(&mut peers, [gone("a/three")]);
    assert_eq!(last, (these(&["10.0.0.5"]), vec![]));
    assert_eq!(peers.sets(), 0);
    // Of another namespace it is another set, without pods.
    assert_eq!(taken(&mut peers, [to_web("b/one", 1)]), nothing);
    assert_eq!(peers.sets(), 1);
}

#[test]
fn an_address_of_several_pods_of_a_set_is_told_once() {
    let mut peers = PeerIndex::default();
    let both = [
        to_web("a/qos", 1),
        web("a/web", "10.0.0.5"),
        web("a/web2", "10.0.0.5"),
    ];
    assert_eq!(taken(&mut peers, both), (vec![], these(&["10.0.0.5"])));
    let left = |text: &str| Change::PodGone(pod(text, &[], &[]).id);
    assert_eq!(taken(&mut peers, [left("a/web")]), (vec![], vec![]));
    let last = taken(&mut peers, [left("a/web2")]);
    assert_eq!(last, (these(&["10.0.0.5"]), vec![]));
}

#[test]
fn only_what_changed_is_told_and_what_came_back_is_not() {
    let everywhere = to_pods(Some(selector(&[("tier", "shared")])), None);
    let mut peers = PeerIndex::default();
    let all = [
        Change::Policy(policy("a/qos", 1, vec![rule(1, vec![everywhere])])),
        namespace("b", &[("tier", "shared")]),
        web("b/web", "10.0.0.5"),
        web("c/web", "10.0.0.6"),
    ];
    assert_eq!(taken(&mut peers, all), (vec![], these(&["10.0.0.5"])));
    let relabelled = [namespace("b", &[]), namespace("c", &[("tier", "shared")])];
    let told = taken(&mut peers, relabelled);
    assert_eq!(told, (these(&["10.0.0.5"]), these(&["10.0.0.6"])));
    let there_and_back = [web("c/web", "10.0.0.7"), web("c/web", "10.0.0.6")];
    assert_eq!(taken(&mut peers, there_and_back), (vec![], vec![]));
}

/// Agents wait for it.
#[test]
fn a_set_is_told_of_when_it_is_first_named_and_when_it_is_not_any_more() {
    let mut peers = PeerIndex::default();
    let mut named = |change| {
        peers.apply(change);
        let changes = peers.take_changes();
        changes.iter().map(|it| it.named).collect::<Vec<_>>()
    };
    assert_eq!(named(to_web("a/one", 1)), [true]);
    assert_eq!(named(to_web("a/two", 1)), [false; 0]);
    assert_eq!(named(web("a/web", "10.0.0.5")), [true]);
    assert_eq!(named(Change::PolicyGone(name("a/one"))), [false; 0]);
    assert_eq!(named(Change::PolicyGone(name("a/two"))), [false]);
}
