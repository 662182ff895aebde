//! `netqos analyze`: a cluster, files, and both.

use netqos_faults::Fault;
use serde_json::{Value, json};

use crate::world::World;
use crate::{assert_code, run, stderr, stdout};

const TO_ALL: &str = r#"[{"dscp": 10}]"#;

/// A policy that selects nobody, a pod with a bad annotation, and a node without an agent.
fn world() -> World {
    let world = World::new();
    let all: Value = serde_json::from_str(TO_ALL).unwrap();
    world.node("node1");
    let bad = json!({"kubernetes.io/egress-bandwidth": "fast"});
    world.pod("a", "web", "10.0.0.1", &bad);
    world.policy("one", "web", 5, &all);
    world.policy("nobody", "db", 6, &all);
    world
}

#[test]
fn of_a_cluster_each_message_has_a_code_and_an_object() {
    let world = world();
    let games = world.games.clone();
    let output = world.run(&["analyze", "-n", &games]);
    assert_code(&output, 1);
    let said = stdout(&output);
    for (start, words) in [
        ("Error [NQOS0301] (Pod GAMES/a) ", "egress-bandwidth"),
        ("Error [NQOS0401] (Node node1) ", "such as GAMES/a"),
        ("Warning [NQOS0201] (NetworkQoS GAMES/nobody) ", "app=db"),
    ] {
        let (start, words) = (
            start.replace("GAMES", &games),
            words.replace("GAMES", &games),
        );
        let mut lines = said.lines();
        let found = lines.any(|line| line.starts_with(&start) && line.contains(&words));
        assert!(found, "{start}: {said}");
    }
    assert_eq!(said.lines().count(), 3, "{said}");
    assert_eq!(stderr(&output), "netqos: 2 errors, 1 warnings, 0 notes\n");

    let (report, code) = world.json(&["analyze", "-A"]);
    let of_game = |it: &&Value| it["namespace"] == json!(games) && it["code"] == "NQOS0201";
    let messages = report["messages"].as_array().unwrap();
    let found = messages.iter().find(of_game).unwrap();
    assert_eq!(
        (
            &found["level"],
            &found["kind"],
            &found["name"],
            &found["type"]
        ),
        (
            &json!("Warning"),
            &json!("NetworkQoS"),
            &json!("nobody"),
            &json!("SelectsNoPod")
        )
    );
    assert!(found["remedy"].as_str().unwrap().contains("--show-labels"));
    assert_eq!(code, Some(1));
    let yaml = stdout(&world.run(&["analyze", "-A", "-o", "yaml"]));
    let yaml: Value = serde_saphyr::from_str(&yaml).unwrap();
    assert_eq!(yaml, report);
    let table = stdout(&world.run(&["analyze", "-A", "-o", "table"]));
    assert!(
        table.contains("NQOS0201") && table.contains("LEVEL"),
        "{table}"
    );
}

#[test]
fn what_is_a_failure_is_a_choice() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("p.yaml");
    let pod = "{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: games}}";
    let policy = format!(
        "{{apiVersion: k8s.ovn.org/v1alpha1, kind: NetworkQoS, \
         metadata: {{name: p, namespace: games}}, \
         spec: {{priority: 1, podSelector: {{matchLabels: {{a: b}}}}, egress: {TO_ALL}}}}}"
    );
    std::fs::write(&file, format!("{pod}\n---\n{policy}\n")).unwrap();
    let file = file.display().to_string();
    for (threshold, code) in [("error", 0), ("warning", 1), ("info", 1)] {
        let output = run(&["analyze", "-f", &file, "--failure-threshold", threshold]);
        assert_eq!(output.status.code(), Some(code), "{threshold}: {output:?}");
        let said = stdout(&output);
        assert!(
            said.starts_with("Warning [NQOS0201] (NetworkQoS games/p, ")
                && said.lines().count() == 1,
            "{said}"
        );
    }
    let output = run(&["analyze", "-f", &file, "-A", "-n", "games"]);
    assert_code(&output, 2);
    let output = run(&["analyze", "-f", "/nowhere.yaml"]);
    assert_code(&output, 2);
}

#[test]
fn files_are_laid_over_a_cluster_where_one_is_named() {
    let world = world();
    let games = world.games.clone();
    let policy = json!({
        "apiVersion": "k8s.ovn.org/v1alpha1", "kind": "NetworkQoS",
        "metadata": {"name": "nobody", "namespace": games},
        "spec": {"priority": 6, "podSelector": {"matchLabels": {"app": "web"}}, "egress": [{"dscp": 1}]}
    });
    let file = world.file("p.json", &policy.to_string());
    // Alone, nobody knows whom it selects.
    let output = world.run(&["analyze", "-f", &file]);
    assert_eq!(
        (output.status.code(), stdout(&output).as_str()),
        (Some(0), "")
    );
    // It selects the pod now, goes before the other, and hides it.
    let output = world.run(&["analyze", "-f", &file, "-n", &games]);
    let said = stdout(&output);
    assert!(!said.contains("NQOS0201"), "{said}");
    let hidden = format!("Warning [NQOS0204] (NetworkQoS {games}/one) ");
    assert!(said.contains(&hidden), "{said}");
    // It was not applied.
    let said = stdout(&world.run(&["analyze", "-n", &games]));
    assert!(
        said.contains("NQOS0201") && !said.contains("NQOS0204"),
        "{said}"
    );
}

#[test]
fn no_cluster_ends_with_3_and_says_what_to_do() {
    let world = World::empty();
    let file = world.file(
        "nowhere",
        &world.cluster.kubeconfig().replace("127.0.0.1", "127.0.0.2"),
    );
    for arguments in [
        &["analyze", "--kubeconfig", "/nowhere"][..],
        &["analyze", "--context", "other"],
        &["analyze", "--kubeconfig", &file],
    ] {
        let output = world.run(arguments);
        assert_eq!(output.status.code(), Some(3), "{arguments:?}: {output:?}");
        let last = arguments.last().unwrap();
        let said = stderr(&output);
        assert!(said.contains(last) || said.contains("API server"), "{said}");
        assert_eq!(stdout(&output), "");
    }
}

#[test]
fn who_may_not_list_all_is_told_so_and_of_no_errors_that_follow_from_it() {
    let world = World::new();
    let front = world.front();
    world.node("node1");
    world.pod("a", "web", "10.0.0.1", &json!({}));
    let of_others = json!([{"dscp": 10, "classifier": {"to": [
        {"podSelector": {"matchLabels": {"app": "db"}}, "namespaceSelector": {}}
    ]}}]);
    world.policy("one", "web", 5, &of_others);
    for kind in [
        "nodes",
        "networkqosnodereports",
        "network-attachment-definitions",
    ] {
        front.inject(Fault::status(403).on("list", kind));
    }
    // Of all namespaces; in the one that is meant they may be listed.
    front.inject(Fault::status(403).on("list", "pods").times(1));
    let output = world.run(&["analyze", "-n", &world.games]);
    assert_eq!(
        (output.status.code(), stdout(&output)),
        (Some(0), String::new()),
        "{output:?}"
    );
    let said = stderr(&output);
    let of_pods = format!(
        "of pods those of namespace {} alone are looked at",
        world.games
    );
    for words in [
        of_pods.as_str(),
        "what depends on networkqosnodereports is left out",
    ] {
        assert_eq!(said.matches(words).count(), 1, "{words}: {said}");
    }
    let (pod, code) = world.json(&["describe", "pod", &world.name("a")]);
    assert_eq!((code, &pod["problems"]), (Some(0), &json!([])), "{pod}");
}
