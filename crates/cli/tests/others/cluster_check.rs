//! `netqos check` of a cluster before an installation.

use netqos_faults::Fault;
use serde_json::{Value, json};

use crate::stdout;
use crate::world::World;

pub(crate) fn checks(world: &World, arguments: &[&str]) -> (Vec<Value>, Option<i32>) {
    let (report, code) = world.json(&[&["check"], arguments].concat());
    (report["checks"].as_array().unwrap().clone(), code)
}

/// What a check says: state, message and remedy.
pub(crate) fn of(checks: &[Value], what: &str) -> Vec<(String, String, String)> {
    let of = checks.iter().filter(|it| it["what"] == what);
    let text = |it: &Value, field: &str| it[field].as_str().unwrap_or_default().to_owned();
    of.map(|it| (text(it, "state"), text(it, "message"), text(it, "remedy")))
        .collect()
}

/// The same of the only one of its name.
#[track_caller]
pub(crate) fn only(checks: &[Value], what: &str) -> (String, String, String) {
    let mut found = of(checks, what);
    assert_eq!(found.len(), 1, "{what}: {checks:?}");
    found.remove(0)
}

pub(crate) fn states(checks: &[Value], what: &str) -> Vec<String> {
    of(checks, what)
        .into_iter()
        .map(|(state, ..)| state)
        .collect()
}

#[test]
fn before_an_installation_it_looks_at_server_permissions_and_nodes() {
    let world = World::empty();
    world.node("node1");
    let (all, code) = checks(&world, &["--pre"]);
    assert_eq!(code, Some(0), "{all:?}");
    for what in [
        "API server",
        "permissions",
        "architecture",
        "kernel",
        "container runtime",
    ] {
        assert_eq!(states(&all, what), ["ok"], "{what}: {all:?}");
    }
    let table = stdout(&world.run(&["check", "--pre"]));
    assert!(
        table.contains("✓ kernel: node1 has kernel 6.18.1\n"),
        "{table}"
    );

    let old = json!({
        "architecture": "arm64", "operatingSystem": "linux", "kernelVersion": "4.18.0",
        "containerRuntimeVersion": "docker://20", "kubeletVersion": "v1.33.0",
        "osImage": "x", "bootID": "", "machineID": "", "systemUUID": "", "kubeProxyVersion": ""
    });
    world.put("Node", "node2", json!({"status": {"nodeInfo": old}}));
    let (all, code) = checks(&world, &["--pre"]);
    assert_eq!(code, Some(0), "{all:?}");
    for what in ["architecture", "kernel", "container runtime"] {
        let found = of(&all, what);
        let warned = found.iter().find(|(state, ..)| state == "warning").unwrap();
        assert!(warned.1.starts_with("node2 has "), "{found:?}");
        assert!(!warned.2.is_empty(), "{found:?}");
    }
}

#[test]
fn check_names_crds_that_the_api_server_refuses() {
    let world = World::empty();
    let (all, _) = checks(&world, &["--pre"]);
    assert_eq!(states(&all, "CRDs"), ["ok"], "{all:?}");
    let (all, _) = checks(&world, &["--cluster"]);
    let (_, message, remedy) = only(&all, "definition networkqosquotas.netqos.io");
    assert_eq!(message, "it is not there");
    assert!(remedy.contains("kubectl apply"), "{remedy}");

    let front = world.front();
    front.inject(Fault::status(422).on("patch", "customresourcedefinitions"));
    let (all, code) = checks(&world, &["--pre"]);
    assert_eq!(code, Some(1), "{all:?}");
    let refused = of(&all, "CRDs");
    assert_eq!(refused.len(), netqos_k8s::definitions().len(), "{all:?}");
    for (state, message, remedy) in refused {
        assert_eq!(state, "failed");
        assert!(message.starts_with("the API server refuses "), "{message}");
        assert!(
            remedy.contains("supports this Kubernetes version"),
            "{remedy}"
        );
    }
    // The command that would fail is not recommended.
    let (all, _) = checks(&world, &["--cluster"]);
    let (_, message, remedy) = only(&all, "definition networkqosquotas.netqos.io");
    assert!(message.contains("; the API server refuses"), "{message}");
    assert!(!remedy.contains("kubectl apply"), "{remedy}");
}

#[test]
fn what_one_may_not_do_is_named_with_what_to_do() {
    let world = World::empty();
    let groups = |name: &str, resources: &[&str], verbs: &[&str]| json!({"apiGroups": [name], "resources": resources, "verbs": verbs});
    let others = [
        "get",
        "list",
        "watch",
        "update",
        "patch",
        "delete",
        "deletecollection",
        "escalate",
        "bind",
    ];
    let mut rules = vec![groups("*", &["*"], &others)];
    for group in [
        "",
        "admissionregistration.k8s.io",
        "apiextensions.k8s.io",
        "apps",
        "policy",
    ] {
        rules.push(groups(group, &["*"], &["create"]));
    }
    let roles = ["clusterrolebindings", "roles", "rolebindings"];
    rules.push(groups("rbac.authorization.k8s.io", &roles, &["create"]));
    world.act_as(&rules);
    let (all, code) = checks(&world, &["--pre"]);
    assert_eq!(code, Some(1), "{all:?}");
    let (state, message, remedy) = only(&all, "permissions");
    assert_eq!(state, "failed");
    assert_eq!(message, "you may not create clusterroles");
    assert!(remedy.contains("administrator"), "{remedy}");
    let table = stdout(&world.run(&["check", "--pre"]));
    let line = "✗ permissions: you may not create clusterroles\n    → have a cluster";
    assert!(table.contains(line), "{table}");
}

#[test]
fn who_else_enforces_the_same_is_named() {
    let world = World::empty();
    world.node("node1");
    let (all, _) = checks(&world, &["--pre"]);
    assert_eq!(states(&all, "coexistence"), ["ok"], "{all:?}");
    world.put("Namespace", "kube-system", json!({}));
    let on = json!({"data": {"enable-bandwidth-manager": "true"}});
    world.put("ConfigMap", "kube-system/cilium-config", on);
    for arguments in [&["--pre"][..], &["--cluster"]] {
        let (all, _) = checks(&world, arguments);
        let (state, message, remedy) = only(&all, "coexistence");
        assert!(
            state == "warning" && message.contains("Cilium"),
            "{message}"
        );
        assert!(!remedy.is_empty());
    }
}

#[test]
fn that_lines_are_left_to_koordlet_is_named() {
    let world = World::empty();
    world.node("node1");
    world.put("Namespace", "koordinator-system", json!({}));
    let labels = json!({"koord-app": "koordlet"});
    let container = json!({"name": "koordlet", "image": "i"});
    let pod = json!({
        "metadata": {"labels": labels}, "spec": {"hostNetwork": true, "containers": [container]}
    });
    let set = json!({"spec": {"selector": {"matchLabels": labels}, "template": pod}});
    world.put("DaemonSet", "koordinator-system/koordlet", set);
    let said = |words: &str, to_do: &str| {
        for arguments in [&["--pre"][..], &["--cluster"]] {
            let (all, _) = checks(&world, arguments);
            let (state, message, remedy) = only(&all, "coexistence");
            assert_eq!(state, "warning");
            assert!(message.contains(words), "{message}");
            assert!(remedy.contains(to_do), "{remedy}");
        }
    };
    said("koordlet is at work: what it puts", "networkQOS");
    world.define_node_slo();
    let policies = json!({"netQOSPolicy": "terway-qos"});
    let slo = json!({"spec": {"resourceQOSStrategy": {"policies": policies}}});
    world.put("NodeSLO", "node1", slo);
    let label = "netqos.io/class-backend=kernel";
    said("netqos leaves the node's lines to it", label);
    let labelled = json!({"metadata": {"labels": {"netqos.io/class-backend": "kernel"}}});
    world.put("Node", "node1", labelled);
    said("both do", "feature gates");
}

#[test]
fn who_may_make_roles_and_has_not_their_rights_may_not_install() {
    let world = World::empty();
    // Whoever has all the rights needs neither escalate nor bind.
    let verbs = [
        "get",
        "list",
        "watch",
        "create",
        "update",
        "patch",
        "delete",
        "deletecollection",
    ];
    let all_of = |group: &str| json!({"apiGroups": [group], "resources": ["*"], "verbs": verbs});
    world.act_as(&[all_of("*")]);
    let (all, _) = checks(&world, &["--pre"]);
    assert_eq!(states(&all, "permissions"), ["ok"], "{all:?}");
    // All but one right of the agents.
    let groups = [
        "",
        "admissionregistration.k8s.io",
        "apiextensions.k8s.io",
        "apps",
        "authentication.k8s.io",
        "batch",
        "coordination.k8s.io",
        "discovery.k8s.io",
        "events.k8s.io",
        "k8s.cni.cncf.io",
        "k8s.ovn.org",
        "policy",
        "rbac.authorization.k8s.io",
        "slo.koordinator.sh",
    ];
    let mut rules: Vec<Value> = groups.into_iter().map(all_of).collect();
    let but = [
        "get",
        "list",
        "watch",
        "create",
        "update",
        "delete",
        "deletecollection",
    ];
    rules.push(
        json!({"apiGroups": ["netqos.io"], "resources": ["networkqosnodereports"], "verbs": but}),
    );
    let rest = [
        "networkqosnodereports/status",
        "networkqospeerslices",
        "networkqosquotas",
        "networkqosquotas/status",
        "networkqosdefaults",
        "networkqosdefaults/status",
        "bandwidthprofiles",
        "bandwidthprofiles/status",
        "networkattachmentpolicies",
        "networkattachmentpolicies/status",
    ];
    rules.push(json!({"apiGroups": ["netqos.io"], "resources": rest, "verbs": verbs}));
    world.act_as(&rules);
    let (all, code) = checks(&world, &["--pre"]);
    assert_eq!(code, Some(1), "{all:?}");
    let (state, message, _) = only(&all, "permissions");
    assert_eq!(state, "failed");
    assert!(message.contains("patch networkqosnodereports"), "{message}");
    // What the installation itself consists of.
    let mut rules: Vec<Value> = groups
        .into_iter()
        .filter(|it| *it != "policy")
        .map(all_of)
        .collect();
    rules.push(all_of("netqos.io"));
    rules.push(
        json!({"apiGroups": ["policy"], "resources": ["poddisruptionbudgets"], "verbs": but}),
    );
    world.act_as(&rules);
    let (all, _) = checks(&world, &["--pre"]);
    let (_, message, _) = only(&all, "permissions");
    assert_eq!(
        message,
        "you may not patch poddisruptionbudgets in namespace netqos-system"
    );
}
