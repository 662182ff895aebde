//! `netqos describe pod` and `netqos explain`, of a cluster and of files.

use serde_json::{Value, json};

use crate::world::World;
use crate::{assert_code, run, stderr, stdout};

/// A pod with an annotation, a profile and two policies; two peers.
fn world() -> World {
    let world = World::new();
    world.node("node1");
    let ten = json!({"kubernetes.io/egress-bandwidth": "10M"});
    world.pod("a", "web", "10.0.0.1", &ten);
    world.pod("b", "db", "10.0.0.2", &json!({}));
    world.pod("c", "db", "10.0.0.3", &json!({}));
    let profile = json!({"spec": {
        "podSelector": {}, "egress": {"rate": "5M"}, "ingress": {"rate": "20M", "burst": "8M"}
    }});
    world.put("BandwidthProfile", &world.name("all"), profile);
    let to_db = json!({"podSelector": {"matchLabels": {"app": "db"}}});
    world.policy(
        "low",
        "web",
        5,
        &json!([{"dscp": 10, "bandwidth": {"rate": 1000}, "classifier": {"to": [to_db]}}]),
    );
    let port = json!({"ports": [{"protocol": "TCP", "port": 443}]});
    world.policy("high", "web", 6, &json!([{"dscp": 20, "classifier": port}]));
    world.report("node1", &[("low", 1), ("high", 1)], &json!([]));
    world
}

#[test]
fn a_pod_of_a_cluster_is_described_with_what_its_node_has_said() {
    let world = world();
    let games = world.games.clone();
    let describe = || world.json(&["describe", "pod", "a", "-n", &games]).0;
    let pod = describe();
    assert_eq!(
        (&pod["pod"], &pod["node"]),
        (&json!(world.name("a")), &json!("node1"))
    );
    let profile = format!("BandwidthProfile {games}/all");
    assert_eq!(
        pod["limits"],
        json!([
            {"direction": "ingress", "rate": 20_000_000, "burst": 1_000_000, "by": profile},
            {
                "direction": "egress", "rate": 10_000_000, "by": "annotation",
                "passedOver": [profile]
            },
        ])
    );
    assert_eq!(
        pod["policies"],
        json!([
            {"policy": world.name("high"), "priority": 6, "inForce": true},
            {"policy": world.name("low"), "priority": 5, "inForce": true},
        ])
    );
    let [high, low] = pod["rules"].as_array().unwrap().as_slice() else {
        panic!("{pod}");
    };
    assert_eq!(
        (
            &high["to"],
            &high["ports"],
            &high["dscp"],
            high.get("peers")
        ),
        (&json!("anywhere"), &json!(["TCP/443"]), &json!(20), None)
    );
    assert_eq!(
        (&low["to"], &low["peers"], &low["rate"]),
        (
            &json!("pods app=db in its own namespace"),
            &json!(2),
            &json!(1_000_000)
        )
    );
    let table = stdout(&world.run(&["describe", "pod", "a", "-n", &games]));
    for words in ["10 Mbit/s", "annotation", "TCP/443", "low[0]"] {
        assert!(table.contains(words), "{words}: {table}");
    }

    // What the node says against it.
    let problem = json!([{
        "kind": "Pod", "namespace": games, "name": "a", "reason": "EndpointUnreachable",
        "message": "its interface was not found"
    }]);
    world.report("node1", &[("high", 1)], &problem);
    let pod = describe();
    let [high, low] = pod["policies"].as_array().unwrap().as_slice() else {
        panic!("{pod}");
    };
    assert_eq!(high["inForce"], false, "{pod}");
    assert!(
        high["why"]
            .as_str()
            .unwrap()
            .contains("its interface was not found"),
        "{high}"
    );
    assert_eq!(low.get("inForce"), None, "{low}");
    assert!(
        low["why"]
            .as_str()
            .unwrap()
            .contains("has not put generation 1"),
        "{low}"
    );
    let problems = pod["problems"].to_string();
    assert!(
        problems.contains("NQOS0404") && problems.contains("EndpointUnreachable"),
        "{pod}"
    );
}

#[test]
fn a_pod_of_files_is_described_without_a_cluster() {
    let folder = tempfile::tempdir().unwrap();
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "a", "namespace": "games",
            "labels": {"koordinator.sh/qosClass": "LS"},
            "annotations": {
                "kubernetes.io/ingress-bandwidth": "1M",
                "koordinator.sh/networkQOS": r#"{"ingressRequest": 20, "egressLimit": "5M",
                    "PortsNetwrokQOS": [{"Port": 443, "QoSClass": "BE", "egressLimit": 50}]}"#
            }
        }
    });
    let policy = json!({
        "apiVersion": "k8s.ovn.org/v1alpha1", "kind": "NetworkQoS",
        "metadata": {"name": "p", "namespace": "games"},
        "spec": {"priority": 1, "podSelector": {}, "egress": [{"dscp": 3}]}
    });
    let file = folder.path().join("all.json");
    std::fs::write(&file, format!("{pod}\n{policy}")).unwrap();
    let file = file.display().to_string();
    let output = run(&["describe", "pod", "games/a", "-f", &file, "-o", "yaml"]);
    assert_code(&output, 0);
    let pod: Value = serde_saphyr::from_str(&stdout(&output)).unwrap();
    assert_eq!(pod["limits"][0]["rate"], 1_000_000);
    assert_eq!(pod["rules"][0]["dscp"], 3);
    let asks = json!([
        {"direction": "ingress", "request": "20 %"},
        {"direction": "egress", "limit": "5 Mbit/s"},
        {"direction": "ingress", "port": 443, "class": "best-effort"},
        {"direction": "egress", "port": 443, "class": "best-effort", "limit": "50 %"}
    ]);
    let label = "label koordinator.sh/qosClass";
    let class = json!({"class": "latency-sensitive", "by": label, "asks": asks});
    assert_eq!(pod["class"], class);
    let table = stdout(&run(&["describe", "pod", "games/a", "-f", &file]));
    let line = "class: latency-sensitive, by label koordinator.sh/qosClass";
    assert!(table.contains(line) && table.contains("50 %"), "{table}");
    // Nobody expects a node in a file.
    assert_eq!(pod.get("remark"), None, "{pod}");
    let policy = &pod["policies"][0];
    assert_eq!(
        (policy.get("inForce"), &policy["why"]),
        (None, &json!("no node was asked"))
    );
    let output = run(&["describe", "pod", "games/b", "-f", &file]);
    assert_code(&output, 1);
    assert!(
        stderr(&output).contains("there is no pod games/b"),
        "{output:?}"
    );
}

#[test]
fn pod_of_files_is_described_with_its_networks() {
    let folder = tempfile::tempdir().unwrap();
    let annotations = json!({
        "k8s.v1.cni.cncf.io/networks":
            r#"[{"name": "lan", "bandwidth": {"egressRate": 8000000}}, {"name": "gone", "interface": "x0"}]"#,
        "k8s.v1.cni.cncf.io/network-status":
            r#"[{"name": "games/lan", "interface": "net1", "ips": ["10.1.0.5"], "dns": {}}]"#,
    });
    let pod = json!({"apiVersion": "v1", "kind": "Pod",
                     "metadata": {"name": "a", "namespace": "games", "annotations": annotations},
                     "status": {"podIPs": [{"ip": "10.0.0.5"}]}});
    let nad = json!({"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
                     "metadata": {"name": "lan", "namespace": "games"}, "spec": {"config": "{\"type\": \"bridge\"}"}});
    let file = folder.path().join("all.json");
    std::fs::write(&file, format!("{pod}\n{nad}")).unwrap();
    let file = file.display().to_string();
    let output = run(&["describe", "pod", "games/a", "-f", &file, "-o", "json"]);
    let pod: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let lan = json!({
        "network": "games/lan", "interface": "net1", "addresses": ["10.1.0.5"], "default": false,
        "limits": [{"direction": "egress", "rate": 8_000_000, "by": "annotation"}], "driver": "cni",
        "state": "attached",
    });
    assert_eq!(pod["networks"][1], lan, "{pod}");
    let table = stdout(&run(&["describe", "pod", "games/a", "-f", &file]));
    for words in [
        "10.1.0.5",
        "egress 8 Mbit/s",
        "attached",
        "nad-missing",
        "no NetworkAttachmentDefinition games/gone",
    ] {
        assert!(table.contains(words), "{words}: {table}");
    }
}

#[test]
fn a_packet_is_explained_from_the_objects_of_a_cluster() {
    let world = world();
    let (from, to) = (world.name("a"), world.name("b"));
    let explain = |port: &str| {
        let arguments = [
            "explain", "--from", &from, "--to", &to, "--proto", "tcp", "--port", port,
        ];
        let (explanation, code) = world.json(&arguments);
        assert_eq!(code, Some(0), "{explanation}");
        explanation["outcome"]["dscp"].clone()
    };
    assert_eq!((explain("443"), explain("80")), (json!(20), json!(10)));
    let output = world.run(&["explain", "--from", "games/none", "--to", &to]);
    assert_code(&output, 1);
}
