//! The socket on which `netqos-multinet` asks.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;

use netqos_api::multinet::{About, Answer, Message, NadName, PROTOCOL, PodFile, PodName};
use serde_json::json;

use super::stage::{self, Agent};

use super::stage::MULTINET_SOCKET as SOCKET;

fn ask(about: About) -> Answer {
    let message = Message {
        version: PROTOCOL,
        pod: PodName {
            namespace: "games".to_owned(),
            name: "a".to_owned(),
            uid: None,
        },
        about,
    };
    stage::ask_multinet(&serde_json::to_vec(&message).unwrap())
}

fn lan() -> About {
    About::Nads(vec![NadName {
        namespace: "games".to_owned(),
        name: "lan".to_owned(),
    }])
}

#[test]
fn nads_policies_and_annotations_of_the_folder_are_answered() {
    let Some(node) = stage::node() else { return };
    let (a, _) = stage::pods(&node);
    let annotations = json!({"k8s.v1.cni.cncf.io/networks": "lan"});
    stage::put("a.json", &stage::manifest(&a, annotations));
    let _agent = Agent::start();
    let mode = std::fs::metadata(SOCKET).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let selected = Answer::Annotations {
        networks: Some("lan".to_owned()),
        default_network: None,
    };
    assert_eq!(ask(About::Annotations), selected);
    let missing = Answer::Refused("no NetworkAttachmentDefinition games/lan exists".to_owned());
    assert_eq!(ask(lan()), missing);

    let nad = json!({
        "apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
        "metadata": {"name": "lan", "namespace": "games"}, "spec": {"config": "{\"type\": \"bridge\"}"},
    });
    let policy = json!({
        "apiVersion": "netqos.io/v1alpha1", "kind": "NetworkAttachmentPolicy",
        "metadata": {"name": "bridges"}, "spec": {"pluginTypes": ["bridge"]},
    });
    stage::put("lan.json", &nad.to_string());
    stage::put("policy.json", &policy.to_string());
    let permitted = || match ask(lan()) {
        Answer::Nads(found) => found[0].grant.plugin_types.contains("bridge"),
        _ => false,
    };
    assert!(stage::eventually(permitted), "{:?}", ask(lan()));
}

#[test]
fn message_of_another_version_is_to_be_tried_again_and_no_message_stops_the_socket() {
    let Some(_node) = stage::node() else { return };
    let _agent = Agent::start();
    let newer = json!({"version": PROTOCOL + 1, "something": "else"});
    let answer = stage::ask_multinet(newer.to_string().as_bytes());
    assert!(
        matches!(&answer, Answer::TryAgain(why) if why.contains("version")),
        "{answer:?}"
    );
    for text in ["", "{", "[]", "{\"version\": 1}", "\u{0}"] {
        let answer = stage::ask_multinet(text.as_bytes());
        assert!(
            matches!(&answer, Answer::Refused(_)),
            "{text:?}: {answer:?}"
        );
    }
    // One that says nothing keeps no place from others.
    let silent: Vec<UnixStream> = (0..100)
        .map(|_| UnixStream::connect(SOCKET).unwrap())
        .collect();
    assert!(matches!(ask(lan()), Answer::Refused(_)));
    drop(silent);
}

#[test]
fn metrics_count_answers_by_result() {
    let Some(node) = stage::node() else { return };
    let (a, _) = stage::pods(&node);
    let annotations = json!({"k8s.v1.cni.cncf.io/networks": "lan"});
    stage::put("a.json", &stage::manifest(&a, annotations));
    let _agent = Agent::start();
    assert!(matches!(
        ask(About::Annotations),
        Answer::Annotations { .. }
    ));
    for _ in 0..2 {
        assert!(matches!(ask(lan()), Answer::Refused(_)));
    }
    let newer = json!({"version": PROTOCOL + 1}).to_string();
    for _ in 0..3 {
        assert!(matches!(
            stage::ask_multinet(newer.as_bytes()),
            Answer::TryAgain(_)
        ));
    }
    let metrics = stage::ask("/metrics");
    for sample in [
        "netqos_multinet_answers_total{result=\"answered\"} 1",
        "netqos_multinet_answers_total{result=\"refused\"} 2",
        "netqos_multinet_answers_total{result=\"try_again\"} 3",
    ] {
        assert!(metrics.contains(sample), "{sample} is not in {metrics}");
    }
}

#[test]
fn files_of_pods_outlive_the_agent_and_stale_ones_go_when_it_returns() {
    let Some(node) = stage::node() else { return };
    let (a, b) = stage::pods(&node);
    let annotations = json!({"k8s.v1.cni.cncf.io/networks": "lan"});
    stage::put("a.json", &stage::manifest(&a, annotations));
    stage::put("b.json", &stage::manifest(&b, json!({})));
    let directory = "/run/netqos/multinet-pods";
    let path = |name: &str| format!("{directory}/{}.json", PodFile::document("games", name));
    let networks = |name: &str| {
        let file: PodFile = serde_json::from_slice(&std::fs::read(path(name)).ok()?).ok()?;
        file.annotations.map(|it| it.networks)
    };
    let agent = Agent::start();
    let written = || networks("a") == Some(Some("lan".to_owned())) && networks("b") == Some(None);
    assert!(stage::eventually(written));
    let mode = |path: &str| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(directory), mode(&path("a"))), (0o700, 0o600));
    let changed = json!({"k8s.v1.cni.cncf.io/networks": "wire"});
    stage::put("a.json", &stage::manifest(&a, changed));
    assert!(stage::eventually(
        || networks("a") == Some(Some("wire".to_owned()))
    ));

    agent.kill();
    std::fs::remove_file(format!("{}/b.json", stage::MANIFESTS)).unwrap();
    assert!(networks("b").is_some());
    let _agent = Agent::start();
    assert!(stage::eventually(|| networks("b").is_none()));
    assert_eq!(networks("a"), Some(Some("wire".to_owned())));
}
