//! What pods are held to by profiles and by their annotations, whatever comes first.

use std::collections::BTreeMap;
use std::sync::Arc;

use netqos_core::objects::{NetworkName, Pod};
use netqos_core::{
    BitRate, Direction, LabelSelector, Limit, Limits, NetworkKey, ObjectName, Priority, Profile,
};
use netqos_index::{Change, Index};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::Applied as _;
use crate::arbitrary::config;
use crate::objects::{NODE, attached, index, interface, labels, local, name, pod, selector};

fn limit(megabits: u64) -> Option<Limit> {
    let rate = BitRate::from_bits_per_second(megabits * 1_000_000);
    (megabits > 0).then(|| Limit::of(rate))
}

/// Rates in Mbit/s; 0: not limited.
fn limits(ingress: u64, egress: u64) -> Limits {
    Limits {
        ingress: limit(ingress),
        egress: limit(egress),
    }
}

fn profile(text: &str, priority: i64, pods: LabelSelector, limits: Limits) -> Profile {
    Profile {
        name: name(text),
        pods,
        priority: Priority::try_new(priority).unwrap(),
        limits,
    }
}

fn here(app: &str, limits: Limits) -> Pod {
    Pod {
        node: Some(NODE.into()),
        limits,
        ..pod("a/p", &[("app", app)], &[])
    }
}

/// What the plan holds a pod's first interface to.
fn held(index: &Index, pod: &str) -> Limits {
    let mut endpoints = index.plan().endpoints.iter();
    let found = endpoints.find(|(id, endpoint)| {
        endpoint.pod.name == name(pod) && id.network == NetworkKey::Default && id.ordinal == 0
    });
    let held = found.map_or_else(Limits::default, |(_, endpoint)| endpoint.limits);
    for direction in [Direction::Ingress, Direction::Egress] {
        let decided = index.decided(&name(pod), direction);
        let limit = decided.as_ref().map(|it| it.limit);
        assert_eq!(limit, held.of(direction), "{direction}: {decided:?}");
    }
    held
}

#[test]
fn who_decides_is_named_and_who_is_passed_over() {
    let all = || LabelSelector::everything();
    let mut index = index([
        Change::Pod(here("web", limits(0, 3))),
        Change::Profile(profile("a/low", 1, all(), limits(5, 5))),
        Change::Profile(profile("a/high", 2, all(), limits(7, 7))),
        Change::Profile(profile(
            "a/other",
            3,
            selector(&[("app", "db")]),
            limits(1, 1),
        )),
    ]);
    index.take_delta();
    let decided = |direction| {
        let decided = index.decided(&name("a/p"), direction).unwrap();
        (decided.by, decided.passed_over)
    };
    let (low, high) = (name("a/low"), name("a/high"));
    assert_eq!(
        decided(Direction::Ingress),
        (Some(high.clone()), vec![low.clone()])
    );
    assert_eq!(decided(Direction::Egress), (None, vec![high, low]));
    assert_eq!(index.decided(&name("a/q"), Direction::Egress), None);
}

#[test]
fn limits_change_with_the_profile_the_labels_and_the_annotations() {
    let mut index = index(local("a/p", &[("app", "web")], "10.0.0.1"));
    let mut after = |change: Change| {
        index.applied(change);
        held(&index, "a/p")
    };
    let web = selector(&[("app", "web")]);
    let one = |limits| Change::Profile(profile("a/one", 1, web.clone(), limits));
    assert_eq!(after(one(limits(10, 20))), limits(10, 20));
    assert_eq!(after(one(limits(5, 0))), limits(5, 0));
    // In another namespace it is for others.
    let other = profile("b/one", 100, LabelSelector::everything(), limits(1, 1));
    assert_eq!(after(Change::Profile(other)), limits(5, 0));
    // Labels.
    let none = Limits::default();
    assert_eq!(after(Change::Pod(here("db", none))), none);
    assert_eq!(after(Change::Pod(here("web", none))), limits(5, 0));
    // Annotations, each direction by itself and as a whole.
    let all = || LabelSelector::everything();
    let slow = Limits {
        ingress: None,
        egress: Some(Limit {
            latency: Some(std::time::Duration::from_millis(40)),
            ..limit(8).unwrap()
        }),
    };
    let two = Change::Profile(profile("a/two", 0, all(), slow));
    assert_eq!(after(two), limits(5, 0).or(slow));
    let annotated = after(Change::Pod(here("web", limits(0, 3))));
    assert_eq!(annotated, limits(5, 3), "without the profile's latency");
    assert_eq!(after(Change::Pod(here("web", limits(4, 3)))), limits(4, 3));
    assert_eq!(after(Change::Pod(here("web", none))), limits(5, 0).or(slow));
    // Priority, and among equals the name.
    let high = |text, priority| Change::Profile(profile(text, priority, all(), limits(7, 0)));
    assert_eq!(after(high("a/zero", 0)).ingress, limit(5));
    assert_eq!(after(high("a/zero", 2)).ingress, limit(7));
    assert_eq!(after(high("a/zero", 1)).ingress, limit(5));
    assert_eq!(after(high("a/alpha", 1)).ingress, limit(7));
    for gone in ["a/alpha", "a/zero", "a/one", "a/two"] {
        after(Change::ProfileGone(name(gone)));
    }
    assert_eq!(held(&index, "a/p"), none);
    assert_eq!(index.plan().endpoints.len(), 0);
}

#[test]
fn only_the_first_interface_on_the_default_network_is_held() {
    let changes = [
        Change::Pod(here("web", Limits::default())),
        attached(
            "a/p",
            vec![
                interface("eth0", NetworkName::Default, &[]),
                interface("net1", NetworkName::Default, &[]),
            ],
        ),
        Change::Profile(profile(
            "a/one",
            1,
            LabelSelector::everything(),
            limits(1, 1),
        )),
    ];
    let index = index(changes);
    let ids = index.plan().endpoints.keys();
    let ordinals: Vec<_> = ids.map(|id| id.ordinal).collect();
    assert_eq!(ordinals, [0]);
}

type Step = (u8, i64, u8, u64, u64);

fn step() -> impl Strategy<Value = Step> {
    (0..5_u8, 0..3_i64, 0..3_u8, 0..4_u64, 0..4_u64)
}

/// Directly: of all that limit a direction, the first by priority and name.
fn right(profiles: &BTreeMap<Arc<str>, Profile>, pod: &Pod) -> Limits {
    let first = |of: fn(&Limits) -> Option<Limit>| {
        let selecting = profiles.values();
        let selecting = selecting.filter(|it| it.pods.matches(&pod.labels));
        let limiting = selecting.filter(|it| of(&it.limits).is_some());
        let best = limiting.min_by_key(|it| (-i64::from(it.priority.get()), it.name.name.clone()));
        of(&pod.limits).or(best.and_then(|best| of(&best.limits)))
    };
    Limits {
        ingress: first(|limits| limits.ingress),
        egress: first(|limits| limits.egress),
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn whatever_happens_the_first_that_limits_a_direction_decides_it(steps in vec(step(), 1..40)) {
        let mut index = index(local("a/p", &[], "10.0.0.1"));
        let mut profiles = BTreeMap::new();
        let mut now = here("0", Limits::default());
        index.apply(Change::Pod(now.clone()));
        for (which, priority, app, ingress, egress) in steps {
            let app_name = app.to_string();
            let change = match which {
                0 => {
                    now.labels = labels(&[("app", app_name.as_str())]);
                    Change::Pod(now.clone())
                }
                1 => {
                    now.limits = limits(ingress, egress);
                    Change::Pod(now.clone())
                }
                // A name goes that a profile may have.
                2 => {
                    let name = ObjectName::new("a", &app_name);
                    profiles.remove(&name.name);
                    Change::ProfileGone(name)
                }
                _ => {
                    let pods = match app {
                        0 => LabelSelector::everything(),
                        _ => selector(&[("app", app_name.as_str())]),
                    };
                    let text = format!("a/{}", (u64::from(which) + ingress) % 3);
                    let profile = profile(&text, priority, pods, limits(ingress, egress));
                    profiles.insert(profile.name.name.clone(), profile.clone());
                    Change::Profile(profile)
                }
            };
            index.applied(change);
            prop_assert_eq!(held(&index, "a/p"), right(&profiles, &now));
        }
    }
}
