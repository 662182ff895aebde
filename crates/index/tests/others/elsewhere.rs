//! What others on the node enforce is not in the plan, and is again when they do not any more.

use netqos_core::objects::{NetworkDefinition, NetworkName, Pod};
use netqos_core::{
    BitRate, Elsewhere, LabelSelector, Limit, Limits, NetworkChoice, NetworkKey, NetworkRef,
    Policy, Priority, Profile,
};
use netqos_index::{Change, Index};

use crate::Applied as _;
use crate::objects::{
    NODE, attached, attachment, definition, index, interface, local, mark, name, pod, policy, rule,
    tcp,
};

/// `a/p` is on the default network, on `a/mac`, and on OVN-Kubernetes' `a/ovn`; a policy marks all
/// that it sends on each.
fn marked() -> Index {
    let mut changes = local("a/p", &[], "10.0.0.1").to_vec();
    let networks = [
        ("eth0", NetworkName::Default),
        ("net1", NetworkName::Attachment(name("a/mac"))),
        ("net2", NetworkName::Attachment(name("a/ovn"))),
    ];
    let interfaces = networks.map(|(of_pod, network)| interface(of_pod, network, &["10.0.0.1"]));
    changes.push(attached("a/p", interfaces.to_vec()));
    changes.push(Change::NetworkDefinition(definition("a/mac", "mac")));
    changes.push(Change::NetworkDefinition(NetworkDefinition {
        is_of_ovn: true,
        ..definition("a/ovn", "ovn")
    }));
    let attachments = ["a/mac", "a/ovn"].map(|text| NetworkRef::Attachment(name(text)));
    let on_all = [&[NetworkRef::Default][..], &attachments].concat();
    changes.push(Change::Policy(Policy {
        networks: NetworkChoice::AnyOf(on_all),
        ..policy("a/qos", 1, vec![rule(20, vec![])])
    }));
    index(changes)
}

fn marks(index: &Index) -> [Option<u8>; 3] {
    let networks = [
        NetworkKey::Default,
        attachment("a/mac"),
        attachment("a/ovn"),
    ];
    networks.map(|network| mark(index, "a/p", &network, tcp("10.0.0.2", 80)))
}

#[test]
fn policies_are_left_on_the_default_network_and_on_ovn_kubernetes_own_or_on_all() {
    let mut index = marked();
    let mut after = |elsewhere| {
        index.apply(Change::Elsewhere(elsewhere));
        let changed = !index.take_delta().is_empty();
        (marks(&index), changed)
    };
    let (none, mark) = (Elsewhere::default(), Some(20));
    let left = Elsewhere {
        policies: true,
        ..none
    };
    let every = Elsewhere {
        every_policy: true,
        ..none
    };
    assert_eq!(after(none), ([mark; 3], false));
    assert_eq!(after(left), ([None, mark, None], true));
    assert_eq!(after(left), ([None, mark, None], false));
    assert_eq!(after(every), ([None; 3], true));
    assert_eq!(after(none), ([mark; 3], true));
}

/// Whether it is known before or after the pods.
#[test]
fn annotations_are_left_by_direction_and_profiles_are_not() {
    let limit = |megabits: u64| {
        Some(Limit::of(BitRate::from_bits_per_second(
            megabits * 1_000_000,
        )))
    };
    let limits = |ingress, egress| Limits { ingress, egress };
    let annotated = Change::Pod(Pod {
        node: Some(NODE.into()),
        limits: limits(limit(1), limit(2)),
        ..pod("a/annotated", &[], &[])
    });
    let half = Change::Pod(Pod {
        node: Some(NODE.into()),
        limits: limits(limit(1), None),
        ..pod("a/half", &[], &[])
    });
    let profile = Change::Profile(Profile {
        name: name("a/all"),
        pods: LabelSelector::everything(),
        priority: Priority::try_new(1).unwrap(),
        limits: limits(limit(3), limit(4)),
    });
    let held = |index: &Index, pod: &str| {
        let mut endpoints = index.plan().endpoints.values();
        let found = endpoints.find(|endpoint| endpoint.pod.name == name(pod));
        found.map_or_else(Limits::default, |endpoint| endpoint.limits)
    };
    let egress = Change::Elsewhere(Elsewhere {
        egress: true,
        ..Elsewhere::default()
    });
    let both = Change::Elsewhere(Elsewhere {
        ingress: true,
        egress: true,
        ..Elsewhere::default()
    });
    for first in [true, false] {
        let mut changes = vec![annotated.clone(), half.clone(), profile.clone()];
        changes.insert(if first { 0 } else { 3 }, egress.clone());
        let mut index = index(changes);
        assert_eq!(held(&index, "a/annotated"), limits(limit(1), None));
        assert_eq!(held(&index, "a/half"), limits(limit(1), limit(4)));
        index.applied(both.clone());
        assert_eq!(held(&index, "a/annotated"), Limits::default());
        assert_eq!(held(&index, "a/half"), limits(None, limit(4)));
        index.applied(Change::Elsewhere(Elsewhere::default()));
        assert_eq!(held(&index, "a/annotated"), limits(limit(1), limit(2)));
        assert_eq!(held(&index, "a/half"), limits(limit(1), limit(4)));
    }
}
