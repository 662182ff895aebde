//! NADs that the agent's watch of the API server lacks.

use netqos_api::multinet::{About, Answer, Message, NadName, PROTOCOL, PodName};
use netqos_faults::Fault;
use serde_json::{Value, json};

use super::stage;
use super::world::{AGENT, World};

const RESOURCE: &str = "network-attachment-definitions";

fn crd() -> Value {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "network-attachment-definitions.k8s.cni.cncf.io"},
        "spec": {
            "group": "k8s.cni.cncf.io", "scope": "Namespaced",
            "names": {"plural": RESOURCE, "singular": "network-attachment-definition",
                      "kind": "NetworkAttachmentDefinition"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

fn create(world: &World, name: &str) {
    let nad = json!({"metadata": {"name": name}, "spec": {"config": "{\"type\": \"bridge\"}"}});
    let kind = "NetworkAttachmentDefinition";
    world.create("k8s.cni.cncf.io/v1", kind, "games", nad);
}

fn ask(namespace: &str, name: &str) -> Answer {
    let message = Message {
        version: PROTOCOL,
        pod: PodName {
            namespace: "games".to_owned(),
            name: "a".to_owned(),
            uid: None,
        },
        about: About::Nads(vec![NadName {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }]),
    };
    stage::ask_multinet(&serde_json::to_vec(&message).unwrap())
}

/// The number of GET requests for NADs.
fn gets(world: &World) -> usize {
    let requests = world.asked().into_iter();
    requests
        .filter(|it| it.verb == "get" && it.resource == RESOURCE)
        .count()
}

fn refused(answer: Answer) -> String {
    match answer {
        Answer::Refused(why) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn nad_is_confirmed_by_one_request_and_missing_ones_by_few() {
    let Some(mut world) = World::new() else {
        return;
    };
    world.define(&crd());
    create(&world, "lan");
    world.start_agent();
    assert!(matches!(ask("games", "lan"), Answer::Nads(_)));
    assert_eq!(gets(&world), 0);

    world.front.silence_watches();
    create(&world, "late");
    let Answer::Nads(found) = ask("games", "late") else {
        panic!();
    };
    assert_eq!(found[0].config.as_deref(), Some("{\"type\": \"bridge\"}"));
    assert_eq!(gets(&world), 1);

    for _ in 0..3 {
        let why = refused(ask("games", "none"));
        assert_eq!(why, "no NetworkAttachmentDefinition games/none exists");
    }
    assert_eq!(gets(&world), 2);
    // A pod of another namespace does not learn what exists.
    let why = refused(ask("kube-system", "none"));
    assert!(why.contains("openTo"), "{why}");
    assert_eq!(gets(&world), 2);

    let forbidden = Fault::status(403).on("get", RESOURCE).of(AGENT);
    world.front.inject(forbidden);
    let answer = ask("games", "other");
    assert!(
        matches!(&answer, Answer::TryAgain(why) if why.contains("multinet.enabled")),
        "{answer:?}"
    );
    world.front.heal();

    let answers: Vec<Answer> = (0..60)
        .map(|it| ask("games", &format!("none{it}")))
        .collect();
    let later = answers
        .iter()
        .filter(|it| matches!(it, Answer::TryAgain(_)));
    assert!(later.count() > 20, "{answers:?}");
    assert!(gets(&world) < 40, "{}", gets(&world));
    assert!(matches!(ask("games", "lan"), Answer::Nads(_)));
}
