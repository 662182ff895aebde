//! `netqos check` of an installation in a cluster.

use k8s_openapi::ByteString;
use netqos_faults::Fault;
use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use serde_json::json;

use crate::cluster_check::{checks, of, only, states};
use crate::world::World;

/// Definitions, a node with an agent, a leader, a Deployment and a webhook.
fn installed() -> World {
    let world = World::new();
    world.node("node1");
    world.put("Namespace", "netqos-system", json!({}));
    world.leader(0);
    world.agents(1, 1, &json!({}));
    world.controllers(env!("CARGO_PKG_VERSION"), 2);
    webhooks(&world, Some(&authority(2020, 2100)));
    world.report("node1", &[], &json!([]));
    world
}

/// An authority that was good from one year on until another began.
fn authority(from: i32, to: i32) -> String {
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.not_before = date_time_ymd(from, 1, 1);
    authority.not_after = date_time_ymd(to, 1, 1);
    let key = KeyPair::generate().unwrap();
    authority.self_signed(&key).unwrap().pem()
}

fn webhooks(world: &World, authorities: Option<&str>) {
    webhook(world, "Validating", authorities);
    webhook(world, "Mutating", authorities);
}

fn webhook(world: &World, kind: &str, authorities: Option<&str>) {
    let service = json!({"name": "netqos-webhook", "namespace": "netqos-system"});
    let mut client = json!({"service": service});
    if let Some(authorities) = authorities {
        client["caBundle"] =
            serde_json::to_value(ByteString(authorities.as_bytes().to_vec())).unwrap();
    }
    world.put(
        &format!("{kind}WebhookConfiguration"),
        "netqos",
        json!({"webhooks": [{
            "name": "pods.netqos.io", "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "clientConfig": client, "failurePolicy": "Ignore", "rules": []
        }]}),
    );
}

#[test]
fn of_an_installation_that_is_whole_every_line_is_well() {
    let world = installed();
    let (all, code) = checks(&world, &["--cluster"]);
    assert_eq!(code, Some(0), "{all:?}");
    assert!(all.iter().all(|it| it["state"] == "ok"), "{all:#?}");
    for what in ["API server", "agents", "controller", "admission webhook"] {
        assert_eq!(states(&all, what), ["ok"], "{what}: {all:?}");
    }
    let definitions = all.iter().filter(|it| {
        let what = it["what"].as_str().unwrap();
        what.starts_with("definition ")
    });
    assert_eq!(definitions.count(), netqos_k8s::definitions().len());
}

#[test]
fn what_is_missing_or_of_another_version_is_named() {
    let world = installed();
    let failing = |what: &str, state: &str, words: &str| {
        let (all, _) = checks(&world, &["--cluster"]);
        let found = of(&all, what);
        let hit = found.iter().any(|(is, message, remedy)| {
            is == state && message.contains(words) && !remedy.is_empty()
        });
        assert!(hit, "{what} is not {state} with {words}: {found:?}");
    };
    world.controllers("0.0.9", 2);
    failing("controller", "warning", "it is of version 0.0.9");
    webhook(&world, "Validating", None);
    failing("admission webhook", "failed", "caBundle");
    world.node("node2");
    world.agents(2, 2, &json!({}));
    failing("agents", "failed", "on node node2");
    let problem = json!([{
        "kind": "Node", "name": "node2", "reason": "KernelFeatureMissing", "message": "no tcx"
    }]);
    let report = json!({"agentVersion": "0.0.9", "policies": [], "problems": problem});
    world.put("NetworkQoSNodeReport", "node2", report);
    failing("agents", "warning", "1 are of version 0.0.9");
    failing("agents", "warning", "KernelFeatureMissing: no tcx");
}

#[test]
fn an_authority_that_is_none_or_good_no_more_is_named_in_either_configuration() {
    let world = installed();
    let failed = |words: &str| {
        let (all, code) = checks(&world, &["--cluster"]);
        assert_eq!(code, Some(1), "{all:?}");
        let (state, message, _) = only(&all, "admission webhook");
        assert_eq!(state, "failed");
        assert!(message.contains(words), "{message}");
        assert!(message.starts_with("mutating"), "{message}");
    };
    webhook(&world, "Mutating", None);
    failed("has no caBundle");
    webhook(&world, "Mutating", Some("nothing"));
    failed("has no certificate");
    webhook(&world, "Mutating", Some(&authority(2020, 2021)));
    failed("is not good at this time");
    // That of before may stay in it.
    webhook(
        &world,
        "Mutating",
        Some(&(authority(2020, 2021) + &authority(2020, 2100))),
    );
    let (all, _) = checks(&world, &["--cluster"]);
    assert_eq!(states(&all, "admission webhook"), ["ok"], "{all:?}");
}

#[test]
fn agents_that_are_dead_are_named_though_their_reports_are_there() {
    let world = installed();
    world.agents(1, 0, &json!({}));
    let (all, code) = checks(&world, &["--cluster"]);
    assert_eq!(code, Some(1), "{all:?}");
    let (state, message, remedy) = only(&all, "agents");
    let right = "DaemonSet netqos-system/netqos-agent: 0 of 1 are ready";
    assert_eq!((state.as_str(), message.as_str()), ("failed", right));
    assert!(remedy.contains("component=agent"), "{remedy}");
    world.agents(1, 1, &json!({}));
    world.controllers(env!("CARGO_PKG_VERSION"), 1);
    let (all, code) = checks(&world, &["--cluster"]);
    assert_eq!(code, Some(0), "{all:?}");
    assert_eq!(states(&all, "controller"), ["warning"], "{all:?}");
    world.controllers(env!("CARGO_PKG_VERSION"), 0);
    let (all, _) = checks(&world, &["--cluster"]);
    assert_eq!(states(&all, "controller"), ["failed"], "{all:?}");
}

#[test]
fn that_netqos_leaves_is_told_in_place_of_agents_that_are_missed() {
    let world = installed();
    world.leaving(1, 1);
    world.no_report("node1");
    let (all, code) = checks(&world, &["--cluster"]);
    assert_eq!(code, Some(1), "{all:?}");
    let (state, message, remedy) = only(&all, "agents");
    assert_eq!(state, "failed");
    assert!(message.contains("netqos is leaving"), "{message}");
    assert!(remedy.contains("Leaving"), "{remedy}");
}

#[test]
fn who_may_not_see_whether_agents_live_is_told() {
    let world = installed();
    let front = world.front();
    front.inject(Fault::status(403).on("list", "daemonsets"));
    let (all, code) = checks(&world, &["--cluster"]);
    assert_eq!(code, Some(0), "{all:?}");
    let (state, message, _) = only(&all, "agents");
    assert_eq!(state, "warning");
    assert!(
        message.contains("whether their agents live is not known"),
        "{message}"
    );
    assert_eq!(states(&all, "daemonsets"), ["warning"], "{all:?}");
}

#[test]
fn without_a_daemon_set_of_agents_reports_prove_nothing() {
    let world = World::new();
    world.node("node1");
    world.report("node1", &[], &json!([]));
    let (all, code) = checks(&world, &["--cluster"]);
    assert_eq!(code, Some(1), "{all:?}");
    let (state, message, _) = only(&all, "agents");
    assert_eq!(state, "failed");
    assert!(
        message.starts_with("there is no DaemonSet of them"),
        "{message}"
    );
    assert_eq!(states(&all, "controller"), ["failed"], "{all:?}");
}

#[test]
fn a_definition_that_lacks_fields_or_is_not_there_is_named() {
    let world = World::empty();
    let profiles = "bandwidthprofiles.netqos.io";
    for definition in netqos_k8s::definitions() {
        let mut crd = serde_json::to_value(definition.crd().unwrap()).unwrap();
        match definition.name().as_str() {
            "networkqosquotas.netqos.io" => continue,
            name if name == profiles => {
                let schema = &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
                let spec = &mut schema["properties"]["spec"];
                let egress = spec["properties"]["egress"]["properties"].as_object_mut();
                egress.unwrap().remove("latency").unwrap();
                // Rules that speak of the field would not compile.
                let fields = spec.as_object_mut().unwrap();
                fields.remove("x-kubernetes-validations");
                let egress = &mut spec["properties"]["egress"];
                egress
                    .as_object_mut()
                    .unwrap()
                    .remove("x-kubernetes-validations");
            }
            _ => {}
        }
        world.put("CustomResourceDefinition", &definition.name(), crd);
    }
    let (all, code) = checks(&world, &["--cluster"]);
    assert_eq!(code, Some(1), "{all:?}");
    let (state, message, remedy) = only(&all, "definition networkqosquotas.netqos.io");
    assert_eq!(
        (state.as_str(), message.as_str()),
        ("failed", "it is not there")
    );
    assert_eq!(remedy, "kubectl apply --server-side -k deploy/crds");
    let (state, message, _) = only(&all, &format!("definition {profiles}"));
    assert_eq!(state, "warning");
    assert!(
        message.starts_with("it has no spec.egress.latency:"),
        "{message}"
    );
}
