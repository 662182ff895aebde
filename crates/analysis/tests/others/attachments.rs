//! Networks that pods select, and networks that no policy permits.

use netqos_analysis::{Extent, Snapshot, analyze};
use serde_json::{Value, json};

use crate::objects::{annotated, attachment_policy, nad, object, said, selecting};

fn codes(snapshot: &Snapshot) -> Vec<&'static str> {
    let messages = analyze(snapshot, None).into_iter();
    messages.map(|it| it.code.code).collect()
}

fn cluster(objects: &[Value]) -> Snapshot {
    let mut snapshot = Snapshot::of_cluster();
    objects.iter().for_each(|it| snapshot.put(it));
    snapshot
}

fn lan() -> Value {
    nad("games/lan", &json!({"type": "macvlan", "master": "eth1"}))
}

#[test]
fn cluster_without_the_nad_crd_has_no_message_about_networks() {
    let objects = [selecting("games/a", "lan"), selecting("games/b", "x/y/z")];
    let mut snapshot = cluster(&objects);
    assert_eq!(codes(&snapshot), ["NQOS0306", "NQOS0305"]);
    snapshot.set_absent("NetworkAttachmentDefinition");
    assert_eq!(codes(&snapshot), [""; 0]);
}

#[test]
fn kinds_that_were_not_read_are_not_missed() {
    for (code, kind) in [
        ("NQOS0306", "NetworkAttachmentDefinition"),
        ("NQOS0307", "NetworkAttachmentPolicy"),
        ("NQOS0307", "Namespace"),
    ] {
        let mut snapshot = cluster(&[selecting("games/a", "wan"), lan()]);
        assert!(codes(&snapshot).contains(&code), "{code}");
        snapshot.limit(kind, Extent::Nothing);
        assert!(!codes(&snapshot).contains(&code), "{code} without {kind}");
    }
    let mut snapshot = cluster(&[lan()]);
    snapshot.set_absent("NetworkAttachmentPolicy");
    assert_eq!(codes(&snapshot), [""; 0]);
}

#[test]
fn manifests_alone_miss_only_networks_and_permissions_of_kinds_that_they_have() {
    let of = |objects: &[Value]| {
        let mut snapshot = Snapshot::default();
        let texts: Vec<String> = objects.iter().map(Value::to_string).collect();
        snapshot.put_text("a.yaml", &texts.join("\n---\n"));
        codes(&snapshot)
    };
    let (pod, permits) = (selecting("games/a", "wan"), |spec| {
        attachment_policy("p", &spec)
    });
    assert_eq!(of(std::slice::from_ref(&pod)), [""; 0]);
    assert_eq!(of(&[pod, lan()]), ["NQOS0306"]);
    assert_eq!(of(&[lan(), permits(json!({}))]), ["NQOS0307"]);
    let enough = json!({"pluginTypes": ["macvlan"], "masters": ["eth1"]});
    assert_eq!(of(&[lan(), permits(enough)]), [""; 0]);
}

#[test]
fn policy_permits_in_the_namespaces_that_it_selects() {
    let labelled = |value: &str| {
        object(
            "Namespace",
            "games",
            &json!({"metadata": {"labels": {"tier": value}}}),
        )
    };
    let policy = attachment_policy(
        "p",
        &json!({
            "namespaceSelector": {"matchLabels": {"tier": "gold"}},
            "pluginTypes": ["macvlan"], "masters": ["eth1"],
        }),
    );
    assert_eq!(
        codes(&cluster(&[lan(), labelled("gold"), policy.clone()])),
        [""; 0]
    );
    assert_eq!(
        codes(&cluster(&[lan(), labelled("iron"), policy])),
        ["NQOS0307"]
    );
}

#[test]
fn pod_without_networks_of_its_own_has_no_message_about_them() {
    let mut on_host = selecting("games/a", "x/y/z");
    on_host["spec"]["hostNetwork"] = true.into();
    let mut ended = selecting("games/b", "wan");
    ended["status"] = json!({"phase": "Succeeded"});
    assert_eq!(said(&[on_host, ended]), []);
}

#[test]
fn network_that_ovn_kubernetes_makes_a_nad_for_exists() {
    let udn = object("UserDefinedNetwork", "games/blue", &json!({"spec": {}}));
    assert_eq!(said(&[selecting("games/a", "blue"), udn]), []);
}

#[test]
fn default_network_is_looked_for_in_kube_system() {
    let pod = annotated(
        "games/a",
        &json!({"v1.multus-cni.io/default-network": "lan"}),
    );
    let said = said(&[pod]);
    let [(head, words)] = &said[..] else {
        panic!("{said:?}")
    };
    assert_eq!(head, "Error [NQOS0306] (Pod games/a)");
    assert!(
        words.starts_with("metadata.annotations[v1.multus-cni.io/default-network]: ")
            && words.ends_with(": kube-system/lan"),
        "{words}"
    );
}

#[test]
fn messages_about_what_tenants_write_are_bounded() {
    let networks: Vec<String> = (0..64).map(|it| format!("net{it:02}")).collect();
    let mut config = json!({"type": "macvlan", "master": "eth\n0"});
    for number in 0..10_000 {
        config[format!("key{number:05}\n{}", "x".repeat(500))] = 1.into();
    }
    let unreadable = format!(r#"[{{"name": "lan", "{}\n": 1}}]"#, "k".repeat(9_000));
    let said = said(&[
        selecting("games/a", &networks.join(",")),
        selecting("games/b", &unreadable),
        nad("games/lan", &config),
    ]);
    for (head, end) in [
        ("Error [NQOS0306] (Pod games/a)", "games/net04, and 59 more"),
        ("Error [NQOS0305] (Pod games/b)", ""),
        (
            "Warning [NQOS0307] (NetworkAttachmentDefinition games/lan)",
            ", and 9997 more",
        ),
    ] {
        let (_, words) = said.iter().find(|(it, _)| it == head).unwrap();
        assert!(words.ends_with(end), "{words}");
        assert!(words.len() < 2_000 && !words.contains('\n'), "{words}");
    }
    assert_eq!(said.len(), 3);
}
