//! Plans to go between. They differ in everything that a plan can say.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use netqos_core::classes::{
    Ask, Asked, ClassPlan, ClassedPod, LineShares, Place, Share, Shares, TrafficClass,
};
use netqos_core::{BitRate, ObjectName, PodId};

/// The lines of every world.
pub const LINES: [&str; 2] = ["line-a", "line-b"];
/// A pod's cgroup, which is there in every world, below the root of the hierarchy.
pub const CGROUPS: [&str; 2] = [
    "/kubepods/pod-host",
    "/kubelet/kubelet-kubepods.slice/pod-other",
];

pub const fn mbit(megabits: u64) -> BitRate {
    BitRate::from_bits_per_second(megabits * 1_000_000)
}

const fn share(min: u64, max: u64) -> Share {
    Share {
        min: mbit(min),
        max: mbit(max),
    }
}

fn line(total: u64, l1: (u64, u64), l2: (u64, u64)) -> LineShares {
    // Never more together than the line, which not every backend could tell; and nobody is guaranteed
    // nothing, which not every backend's kernel knows.
    let other = (total / 10, total / 2);
    let shares = |l1: (u64, u64), l2: (u64, u64)| {
        Shares::try_new(mbit(total), share(l1.0, l1.1), share(l2.0, l2.1)).unwrap()
    };
    LineShares {
        ingress: shares(other, other),
        egress: shares(l1, l2),
    }
}

/// A pod: its class, what it may send at most, and where it is.
fn pod(
    uid: &str,
    class: TrafficClass,
    max: Option<u64>,
    addresses: &[&str],
    cgroup: Option<&str>,
) -> (Arc<str>, ClassedPod) {
    let addresses: BTreeSet<_> = addresses.iter().map(|it| it.parse().unwrap()).collect();
    let pod = ClassedPod {
        id: PodId {
            name: ObjectName::new("games", uid),
            uid: uid.into(),
        },
        class,
        place: Place {
            host_network: addresses.is_empty(),
            addresses,
            host_links: BTreeSet::new(),
            cgroup: cgroup.map(Into::into),
        },
        asked: Asked {
            egress: Ask {
                min: mbit(if max.is_some() { 5 } else { 0 }),
                max: max.map(mbit),
            },
            ..Asked::default()
        },
        flows: Vec::new(),
    };
    (uid.into(), pod)
}

fn plan(
    lines: impl IntoIterator<Item = (&'static str, LineShares)>,
    pods: impl IntoIterator<Item = (Arc<str>, ClassedPod)>,
) -> ClassPlan {
    ClassPlan {
        lines: lines
            .into_iter()
            .map(|(name, line)| (name.into(), line))
            .collect(),
        pods: pods.into_iter().collect(),
    }
}

/// Both lines, a pod of each class, one with a limit and one on the host's network.
pub fn old() -> ClassPlan {
    let (system, ls, be) = (
        TrafficClass::System,
        TrafficClass::LatencySensitive,
        TrafficClass::BestEffort,
    );
    plan(
        [
            (LINES[0], line(1000, (300, 600), (300, 400))),
            (LINES[1], line(100, (20, 50), (10, 50))),
        ],
        [
            pod(
                "first",
                system,
                None,
                &["10.99.1.2", "fd99:1::2"],
                Some("/kubepods/pod-first"),
            ),
            pod(
                "second",
                ls,
                Some(200),
                &["10.99.2.2", "fd99:2::2"],
                Some("/kubepods/pod-second"),
            ),
            pod(
                "third",
                be,
                None,
                &["10.99.3.2"],
                Some("/kubepods/pod-third"),
            ),
            pod("host", ls, Some(100), &[], Some(CGROUPS[0])),
        ],
    )
}

/// Other shares; of the pods one is gone, one is new, two have another class and another limit.
pub fn new() -> ClassPlan {
    let (ls, be) = (TrafficClass::LatencySensitive, TrafficClass::BestEffort);
    plan(
        [
            (LINES[0], line(1000, (500, 500), (100, 500))),
            (LINES[1], line(200, (20, 50), (10, 150))),
        ],
        [
            pod(
                "second",
                be,
                Some(80),
                &["10.99.2.2", "fd99:2::2"],
                Some("/kubepods/pod-second"),
            ),
            pod(
                "third",
                be,
                Some(100),
                &["10.99.3.2"],
                Some("/kubepods/pod-third"),
            ),
            pod(
                "fourth",
                ls,
                None,
                &["10.99.4.2", "fd99:4::2"],
                Some("/kubepods/pod-fourth"),
            ),
            pod("host", be, None, &[], Some(CGROUPS[0])),
            pod("other", ls, Some(90), &[], Some(CGROUPS[1])),
        ],
    )
}

/// Only the first line, and nobody on it.
pub fn little() -> ClassPlan {
    plan([(LINES[0], line(1000, (300, 600), (300, 400)))], [])
}

/// A plan in which the second pod may send so little that it has to wait.
pub fn slow(mut plan: ClassPlan) -> ClassPlan {
    let second = plan.pods.get_mut("second").unwrap();
    second.asked.egress = Ask {
        min: mbit(0),
        max: Some(mbit(1)),
    };
    plan
}

/// A plan, with a pod more of which nothing is known by which it could be told.
pub fn with_unknown(mut plan: ClassPlan) -> ClassPlan {
    plan.pods.extend([pod(
        "unknown",
        TrafficClass::BestEffort,
        Some(10),
        &[],
        None,
    )]);
    plan
}

/// What each class has.
pub fn classes(shares: &Shares) -> BTreeMap<TrafficClass, (BitRate, BitRate)> {
    TrafficClass::ALL
        .into_iter()
        .map(|class| (class, (shares.of(class).min, shares.of(class).max)))
        .collect()
}
