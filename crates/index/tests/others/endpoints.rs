//! Which of the node's interfaces are in the plan, and what is said of those that cannot be reached.

use netqos_core::objects::{LocalInterface, NetworkName, Pod};
use netqos_core::plan::Attach;
use netqos_core::{BitRate, EndpointId, Limit, Limits, NetworkKey, ObjectRef, PodId, Reason};
use netqos_index::{Change, Index};

use crate::Applied as _;
use crate::objects::{attached, index, interface, local, name, pod, policy, rule};

fn limited() -> Limits {
    Limits {
        egress: Some(Limit::of(BitRate::from_bits_per_second(1_000_000))),
        ingress: None,
    }
}

fn here() -> Pod {
    Pod {
        node: Some(crate::objects::NODE.into()),
        ..pod("a/p", &[], &[])
    }
}

fn eth0() -> Change {
    let eth0 = interface("eth0", NetworkName::Cni("cbr0".into()), &["10.0.0.1"]);
    attached("a/p", vec![eth0])
}

fn unreachable(index: &Index) -> Vec<String> {
    let problems = index.problems();
    let about_pod = |object: &ObjectRef| *object == ObjectRef::Pod(name("a/p"));
    problems
        .into_iter()
        .filter(|problem| {
            problem.reason == Reason::EndpointUnreachable && about_pod(&problem.object)
        })
        .map(|problem| problem.message)
        .collect()
}

#[test]
fn only_interfaces_that_something_is_in_force_on_are_in_the_plan() {
    let limited = Pod {
        limits: limited(),
        ..here()
    };
    let qos = || Change::Policy(policy("a/qos", 1, vec![rule(1, vec![])]));
    let empty = Change::Policy(policy("a/qos", 1, vec![]));
    let elsewhere = Pod {
        node: Some("there".into()),
        ..limited.clone()
    };
    let unscheduled = Pod {
        node: None,
        ..limited.clone()
    };
    let host = Pod {
        host_network: true,
        ..limited.clone()
    };
    let finished = Pod {
        finished: true,
        ..limited.clone()
    };
    let (none, one) = ((0, 0), (1, 0));
    for (what, pod, policy, (endpoints, chains)) in [
        ("nothing for it", here(), None, none),
        ("a policy without rules", here(), Some(empty), none),
        ("a limit", limited, None, one),
        ("a rule", here(), Some(qos()), (1, 1)),
        ("on another node", elsewhere, Some(qos()), none),
        (
            "not said where, but found here",
            unscheduled,
            Some(qos()),
            (1, 1),
        ),
        ("on the node's network", host, Some(qos()), none),
        ("ended", finished, Some(qos()), none),
    ] {
        let changes = [Change::Pod(pod), eth0()].into_iter().chain(policy);
        let index = index(changes);
        let plan = index.plan();
        assert_eq!(
            (plan.endpoints.len(), plan.chains.len()),
            (endpoints, chains),
            "{what}"
        );
        assert_eq!(index.problems(), vec![], "{what}");
    }
}

#[test]
fn limits_are_the_first_interfaces() {
    let mut index = index([Change::Pod(Pod {
        limits: limited(),
        ..here()
    })]);
    let default = NetworkName::Default;
    let [eth0, net1] = ["eth0", "net1"].map(|name| interface(name, default.clone(), &[]));
    index.applied(attached("a/p", vec![net1, eth0]));
    let endpoints: Vec<&EndpointId> = index.plan().endpoints.keys().collect();
    assert_eq!(endpoints.len(), 1);
    assert_eq!(endpoints[0].to_string(), "a/p-1@default");
}

#[test]
fn what_cannot_be_reached_is_planned_and_reported() {
    let mut index = index([
        Change::Pod(here()),
        Change::Policy(policy("a/qos", 1, vec![rule(1, vec![])])),
    ]);
    let said = unreachable(&index);
    assert_eq!(said.len(), 1);
    assert!(
        said[0].contains("rules") && said[0].contains("not found"),
        "{said:?}"
    );
    assert_eq!(index.plan().chains.len(), 1);

    index.applied(attached(
        "a/p",
        vec![LocalInterface {
            recorded: None,
            attach: Attach::Unsupported {
                reason: "it is a tunnel".into(),
            },
            ..interface("eth0", NetworkName::Default, &[])
        }],
    ));
    assert!(unreachable(&index)[0].contains("it is a tunnel"));

    index.applied(eth0());
    assert_eq!(unreachable(&index), Vec::<String>::new());
}

/// Before the kubelet has made its sandbox a pod has no interface anywhere.
#[test]
fn of_a_pod_that_has_not_begun_nothing_is_missed() {
    let starting = Pod {
        limits: limited(),
        starting: true,
        ..here()
    };
    let mut index = index([
        Change::Pod(starting.clone()),
        Change::Policy(policy("a/qos", 1, vec![rule(1, vec![])])),
    ]);
    assert_eq!(index.problems(), vec![]);
    assert_eq!(index.plan().endpoints.len(), 1);

    // What was found of it counts already.
    let tunnel = LocalInterface {
        recorded: None,
        attach: Attach::Unsupported {
            reason: "it is a tunnel".into(),
        },
        ..interface("eth0", NetworkName::Default, &[])
    };
    index.applied(attached("a/p", vec![tunnel]));
    assert!(unreachable(&index)[0].contains("it is a tunnel"));
    index.applied(attached("a/p", vec![]));
    assert_eq!(unreachable(&index), Vec::<String>::new());

    let begun = Pod {
        starting: false,
        ..starting
    };
    index.applied(Change::Pod(begun));
    assert!(unreachable(&index)[0].contains("not found"));
}

#[test]
fn interfaces_of_an_older_pod_of_the_same_name_are_not_the_new_ones() {
    let mut index = index(local("a/p", &[], "10.0.0.1"));
    index.apply(Change::Policy(policy("a/qos", 1, vec![rule(1, vec![])])));
    index.applied(Change::Attachments {
        pod: name("a/p"),
        uid: Some("a/p-1".into()),
        interfaces: vec![interface("eth0", NetworkName::Default, &["10.0.0.1"])],
    });
    assert_eq!(unreachable(&index).len(), 0);
    let id = PodId {
        uid: "a/p-2".into(),
        ..here().id
    };
    let delta = index.applied(Change::Pod(Pod { id, ..here() }));
    assert_eq!(
        delta.endpoints.len(),
        2,
        "the old one goes, the new one comes"
    );
    assert_eq!(unreachable(&index).len(), 1, "it has none yet");
    let network = NetworkKey::Default;
    let (id, endpoint) = index.plan().endpoints.first_key_value().unwrap();
    assert_eq!((&*id.pod, &id.network), ("a/p-2", &network));
    assert!(endpoint.addresses.is_empty());
}

/// Runtimes know each pod by its uid, and a manifest that somebody has written has none.
#[test]
fn a_pod_without_a_uid_is_the_one_that_its_name_says() {
    let found = |uid: &str| Change::Attachments {
        pod: name("a/p"),
        uid: Some(uid.into()),
        interfaces: vec![interface("eth0", NetworkName::Default, &["10.0.0.1"])],
    };
    let pod = |uid: &str| {
        let id = PodId {
            uid: uid.into(),
            ..here().id
        };
        Change::Pod(Pod { id, ..here() })
    };
    let rules = Change::Policy(policy("a/qos", 1, vec![rule(1, vec![])]));
    for (own, runtimes, is_found) in [
        ("a/p", "36cee2dc", true),
        ("36cee2dc", "36cee2dc", true),
        ("36cee2dc", "5cf12ab4", false),
        ("36cee2dc", "a/p", false),
        ("a/q", "36cee2dc", false),
    ] {
        let index = index([pod(own), found(runtimes), rules.clone()]);
        assert_eq!(unreachable(&index).is_empty(), is_found, "{own} {runtimes}");
    }
}
