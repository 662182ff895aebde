//! What the controller asks of the API server.

use std::collections::BTreeSet;
use std::fs;
use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

use netqos_k8s::documents;
use serde_json::json;

use crate::world::World;

/// What is allowed and is not asked for here, and when it is.
const ELSEWHERE: [(&str, &str, &str); 2] = [
    (
        "patch",
        "events",
        "the same is told again within six minutes",
    ),
    (
        "update",
        "secrets",
        "a certificate is renewed: crates/admission",
    ),
];

/// What its ClusterRole and its Role allow: verb and resource.
fn allowed() -> BTreeSet<(String, String)> {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../deploy/kustomize/base/controller-rbac.yaml"
    );
    let text = fs::read_to_string(path).unwrap();
    let mut allowed = BTreeSet::new();
    for document in documents(&text) {
        let object = document.value.unwrap();
        let rules = object["rules"].as_array().cloned().unwrap_or_default();
        for rule in rules {
            let words = |field: &str| -> Vec<String> {
                let words = rule[field].as_array().unwrap().iter();
                words.map(|it| it.as_str().unwrap().to_owned()).collect()
            };
            for resource in words("resources") {
                let verbs = words("verbs").into_iter();
                allowed.extend(verbs.map(|verb| (verb, resource.clone())));
            }
        }
    }
    allowed
}

#[test]
fn it_asks_for_what_its_role_allows_and_reads_nothing_for_a_pod() {
    let Some(world) = World::with_fixture() else {
        return;
    };
    world.create_pod("a", "web", "node1", "10.0.0.1");
    world.create_pod("b", "db", "node1", "10.0.0.2");
    world.create_policy("p", "web", "db");
    world.report("node1", &[("p", 1)], &json!([]));
    let one = world.replica("one");
    world.wait_for("p", "Ready", "True", "Ready");
    world.wait_for_peers(&[&["10.0.0.2"]]);
    thread::sleep(Duration::from_secs(1));

    let before = world.requests("one").len();
    world.create_pod("c", "db", "node1", "10.0.0.3");
    world.wait_for_peers(&[&["10.0.0.2", "10.0.0.3"]]);
    thread::sleep(Duration::from_secs(3));
    let asked = world.requests("one").into_iter().skip(before);
    let absent = |resource: &str| resource.contains("definition") || resource.contains("defined");
    let asked = asked.filter(|(_, resource)| resource != "leases" && !absent(resource));
    let asked: Vec<_> = asked.collect();
    let update = ("update".to_owned(), "networkqospeerslices".to_owned());
    assert_eq!(
        asked,
        [update],
        "one write for a pod that starts, and no read"
    );

    // Whatever else it ever asks for.
    let of_pod = json!([{
        "kind": "Pod", "namespace": world.namespace, "name": "a",
        "reason": "InvalidBandwidth", "message": "m"
    }]);
    world.report("node1", &[("p", 1)], &of_pod);
    let defaults = ("netqos.io/v1alpha1", "NetworkQoSDefault", "");
    let default = |priority: u8| {
        json!({
            "metadata": {"name": "free"},
            "spec": {
                "namespaceSelector": {},
                "template": {"spec": {"priority": priority, "egress": [{"dscp": 1}]}}
            }
        })
    };
    world.create(defaults.0, defaults.1, "", default(1));
    world.wait_for("free", "Ready", "False", "Pending");
    world.merge(defaults, "free", &default(2));
    let priority = || world.get(world.policies(), "free").unwrap()["spec"]["priority"].clone();
    world.eventually("the default is not brought up to date", || priority() == 2);
    world.delete(defaults, "free");
    world.eventually("the default stays", || {
        world.get(world.policies(), "free").is_none()
    });
    world.create("v1", "Node", "", json!({"metadata": {"name": "gone"}}));
    world.report("gone", &[], &json!([]));
    world.delete(("v1", "Node", ""), "gone");
    world.delete(world.policies(), "p");
    world.wait_for_peers(&[]);
    let report = ("netqos.io/v1alpha1", "NetworkQoSNodeReport", "");
    let begin = Instant::now();
    while world.get(report, "gone").is_some() {
        assert!(begin.elapsed() < Duration::from_secs(60));
        thread::sleep(Duration::from_millis(200));
    }
    one.stop();
    // What belongs to the webhook, which another replica serves.
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap().to_string();
    drop(free);
    let two = world.replica_with("two", &["--webhook", &address]);
    let configurations = "validatingwebhookconfigurations";
    world.eventually("it does not look for its configurations", || {
        let mut asked = world.requests("two").into_iter();
        asked.any(|(_, resource)| resource == configurations)
    });
    two.stop();

    let requests = world.fixture().requests().into_iter();
    let of_ours = requests.filter(|it| ["one", "two"].contains(&it.client.as_str()));
    let asked: BTreeSet<(String, String)> = of_ours
        .map(|request| {
            let resource = match request.subresource.as_str() {
                "" => request.resource.clone(),
                part => format!("{}/{part}", request.resource),
            };
            (request.verb.to_owned(), resource)
        })
        .collect();
    let allowed = allowed();
    let beyond: Vec<_> = asked.difference(&allowed).collect();
    assert!(beyond.is_empty(), "not allowed: {beyond:?}");
    let mut unused: BTreeSet<_> = allowed.difference(&asked).cloned().collect();
    for (verb, resource, when) in ELSEWHERE {
        let one = (verb.to_owned(), resource.to_owned());
        assert!(
            unused.remove(&one),
            "asked for here: {verb} {resource}, when {when}"
        );
    }
    // There are none of its own to be written to, and none of OVN-Kubernetes' kinds to be watched.
    let absent = [
        "validatingwebhookconfigurations",
        "mutatingwebhookconfigurations",
        "network-attachment-definitions",
        "userdefinednetworks",
        "clusteruserdefinednetworks",
    ];
    unused.retain(|(verb, resource)| {
        !(absent.contains(&resource.as_str()) && ["patch", "watch"].contains(&verb.as_str()))
    });
    assert!(unused.is_empty(), "allowed and never asked for: {unused:?}");
}
