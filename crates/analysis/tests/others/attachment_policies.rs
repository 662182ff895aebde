//! The policies that today's NADs need.

use std::collections::BTreeMap;

use netqos_analysis::{NamespacePolicies, Snapshot, attachment_policies};
use netqos_api::npwg::{AttachmentGrant, AttachmentNeeds, AttachmentPolicy};
use netqos_core::Labels;
use netqos_k8s::{Object, object_from_value};
use serde_json::{Value, json};

use crate::objects::{annotated, nad, object, selecting, web};

fn proposed(objects: &[Value]) -> BTreeMap<String, NamespacePolicies> {
    let mut snapshot = Snapshot::of_cluster();
    objects.iter().for_each(|it| snapshot.put(it));
    let all = attachment_policies(&snapshot, None).into_iter();
    all.map(|it| (it.namespace.clone(), it)).collect()
}

/// The policies, by an API server's schema.
fn read(proposed: &BTreeMap<String, NamespacePolicies>) -> Vec<AttachmentPolicy> {
    let policies = proposed.values().flat_map(|it| &it.policies);
    let policies = policies.map(|policy| match object_from_value(policy).unwrap() {
        Object::AttachmentPolicy(policy) => policy,
        other => panic!("{other:?}"),
    });
    policies.collect()
}

fn labels(namespace: &str) -> Labels {
    Labels::from([("kubernetes.io/metadata.name".into(), namespace.into())])
}

/// The judgement of a NAD by policies.
fn refusals(policies: &[AttachmentPolicy], namespace: &str, config: &Value) -> Vec<String> {
    let mut grant = AttachmentGrant::default();
    for policy in policies {
        if policy.namespaces.matches(&labels(namespace)) {
            grant.unite(policy.grant.clone());
        }
    }
    let needs = AttachmentNeeds::of_nad(&config.to_string(), "a").unwrap();
    let refusals = grant.refusals(&needs);
    refusals.iter().map(ToString::to_string).collect()
}

fn opens(policies: &[AttachmentPolicy], of: &str, to: &str) -> bool {
    let about = policies
        .iter()
        .filter(|it| it.namespaces.matches(&labels(of)));
    let mut open = about.filter_map(|it| it.open_to.as_ref());
    open.any(|it| it.matches(&labels(to)))
}

fn macvlan(master: &str) -> Value {
    json!({"type": "macvlan", "master": master, "ipam": {"type": "host-local"}})
}

#[test]
fn policies_permit_exactly_the_nads_of_today() {
    let today = [
        ("games/lan", macvlan("eth1")),
        ("games/default", json!({"type": "ipvlan"})),
        (
            "games/card",
            json!({"type": "host-device", "pciBusID": "0000:03:00.1"}),
        ),
        ("games/any", macvlan("eth*")),
        (
            "games/file",
            json!({"type": "dummy", "ipam": {"type": "host-local", "dataDir": "/"}}),
        ),
        (
            "games/gateway",
            json!({"type": "bridge", "bridge": "br9", "isGateway": true}),
        ),
        (
            "games/new",
            json!({"type": "vlan", "master": "eth9", "Master": "eth0"}),
        ),
        (
            "games/other",
            json!({"type": "flannel", "delegate": {"type": "bridge"}}),
        ),
        (
            "games/up",
            json!({"type": "host-device", "kernelpath": "/sys/devices/../x"}),
        ),
        ("shop/lan", macvlan("eth2")),
    ];
    let objects: Vec<Value> = today
        .iter()
        .map(|(name, config)| nad(name, config))
        .collect();
    let proposed = proposed(&objects);
    let policies = read(&proposed);
    assert_eq!(policies.len(), 2);
    for (name, config) in &today {
        let (namespace, _) = name.split_once('/').unwrap();
        assert_eq!(refusals(&policies, namespace, config), [""; 0], "{name}");
        assert_ne!(refusals(&policies, "elsewhere", config), [""; 0], "{name}");
    }
    // What an author could write tomorrow.
    for (namespace, config) in [
        ("games", macvlan("eth2")),
        ("games", macvlan("eth0")),
        ("games", json!({"type": "vlan", "master": "eth1"})),
        (
            "games",
            json!({"type": "macvlan", "master": "eth1", "new": 1}),
        ),
        (
            "games",
            json!({"type": "host-device", "pciBusID": "0000:03:00.2"}),
        ),
        (
            "games",
            json!({"type": "host-device", "pciBusID": "0000:03:00.1", "ipam": {"type": "host-local"}}),
        ),
        (
            "games",
            json!({"type": "ipvlan", "ipam": {"type": "host-local", "dataDir": "/"}}),
        ),
        ("games", json!({"type": "bridge", "bridge": "br9"})),
        (
            "games",
            json!({"type": "flannel", "delegate": {"type": "ptp"}}),
        ),
        ("shop", macvlan("eth1")),
        ("shop", json!({"type": "ipvlan"})),
    ] {
        assert_ne!(refusals(&policies, namespace, &config), [""; 0], "{config}");
    }
    // Each permission beyond plain names is said.
    let notes = &proposed["games"].notes;
    for (name, words) in [
        ("any", r#"plugins[0].master: interface "eth*""#),
        ("file", r#"plugins[0].ipam.dataDir: path "/""#),
        ("gateway", "plugins[0].isGateway: bridge.isGateway changes"),
        ("new", "plugins[0].Master: vlan has no such key"),
        (
            "other",
            "plugins[0].type: netqos does not know the keys of plugin flannel",
        ),
        ("card", "plugins[0].pciBusID: device \"0000:03:00.1\""),
        ("up", "plugins[0].kernelpath: device \"/sys/devices/../x\""),
    ] {
        let start = format!("games/{name} is permitted as a whole, by digest ");
        let note = notes.iter().find(|it| it.starts_with(&start)).unwrap();
        assert!(note.contains(words), "{note}");
    }
    assert_eq!(notes.len(), 7, "{notes:#?}");
    let spec = &proposed["games"].policies[0]["spec"];
    assert_eq!(spec["masters"], json!(["default-route", "eth1"]));
    for absent in ["devices", "hostPaths", "hostKeys", "openTo"] {
        assert!(spec.get(absent).is_none(), "{spec}");
    }
}

#[test]
fn nad_that_no_policy_can_permit_is_named_and_gets_no_permission() {
    let mut without_config = object(
        "NetworkAttachmentDefinition",
        "games/disk",
        &json!({"spec": {}}),
    );
    without_config["spec"] = json!({});
    let mut broken = without_config.clone();
    broken["metadata"]["name"] = "broken".into();
    broken["spec"]["config"] = "{".into();
    let proposed = proposed(&[
        nad("games/loop", &json!({"type": "multus"})),
        nad("games/empty", &json!({"plugins": []})),
        without_config,
        broken,
        // It opens nothing either.
        selecting("shop/a", "games/loop"),
    ]);
    let games = &proposed["games"];
    assert_eq!(games.policies, [] as [Value; 0]);
    assert_eq!(games.notes, [""; 0]);
    for (name, words) in [
        ("loop", "multus would attach the pod's networks once more"),
        ("empty", "the list has no plugins"),
        ("disk", "has no spec.config"),
        (
            "broken",
            "cannot be read: spec.config: not a CNI configuration in JSON",
        ),
    ] {
        let mut reasons = games.not_permitted.iter();
        let found =
            reasons.any(|it| it.starts_with(&format!("games/{name} ")) && it.contains(words));
        assert!(found, "{name}: {:#?}", games.not_permitted);
    }
    assert_eq!(games.not_permitted.len(), 4);
}

#[test]
fn namespace_is_opened_to_the_namespaces_whose_pods_select_its_nads() {
    let default = json!({"v1.multus-cni.io/default-network": "main"});
    let mut ended = selecting("ended/a", "games/lan");
    ended["status"] = json!({"phase": "Failed"});
    let proposed = proposed(&[
        nad("games/lan", &macvlan("eth1")),
        nad("kube-system/main", &macvlan("eth0")),
        selecting("shop/a", "games/lan,games/lan"),
        selecting("shop/b", r#"[{"name": "lan", "namespace": "games"}]"#),
        selecting("games/own", "lan"),
        selecting("missing/a", "games/wan"),
        selecting("invalid/a", "games/lan,a/b/c"),
        annotated("desk/a", &default),
        ended,
        web("quiet/a"),
    ]);
    let policies = read(&proposed);
    for (of, to, is_open) in [
        ("games", "shop", true),
        ("kube-system", "desk", true),
        ("games", "missing", false),
        ("games", "invalid", false),
        ("games", "ended", false),
        ("games", "desk", false),
        ("kube-system", "shop", false),
    ] {
        assert_eq!(opens(&policies, of, to), is_open, "{of} to {to}");
    }
    assert_eq!(
        proposed["games"].notes,
        [
            "pods of namespace shop may select each NAD: pod shop/a selects games/lan, and 2 more selections"
        ]
    );
}

#[test]
fn needs_that_one_policy_has_no_room_for_are_in_several() {
    let mut objects = Vec::new();
    for number in 0..300 {
        objects.push(nad(
            &format!("games/n{number}"),
            &macvlan(&format!("eth{number}")),
        ));
        objects.push(selecting(&format!("other{number}/a"), "games/n1"));
        let unknown = json!({"type": "dummy", "new": number});
        objects.push(nad(&format!("games/x{number}"), &unknown));
    }
    let proposed = proposed(&objects);
    let names = proposed["games"]
        .policies
        .iter()
        .map(|it| it["metadata"]["name"].as_str().unwrap());
    let names: Vec<&str> = names.collect();
    assert_eq!(
        names,
        [
            "nads.games",
            "nads.games.2",
            "nads.games.3",
            "nads.games.4",
            "nads.games.5"
        ]
    );
    let policies = read(&proposed);
    for number in 0..300 {
        assert_eq!(
            refusals(&policies, "games", &macvlan(&format!("eth{number}"))),
            [""; 0]
        );
        assert_eq!(
            refusals(&policies, "games", &json!({"type": "dummy", "new": number})),
            [""; 0]
        );
        assert!(opens(&policies, "games", &format!("other{number}")));
    }
}
