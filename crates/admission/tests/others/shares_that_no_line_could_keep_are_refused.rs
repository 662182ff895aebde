use serde_json::{Value, json};

use crate::stage::{Said, Stage, pod, run};

const HOME: &str = "koordinator-system";

/// The ConfigMap with these strategies of the cluster.
fn config(name: &str, resources: &Value, total: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name},
        "data": {
            "colocation-config": "none of ours",
            "resource-qos-config": json!({"clusterStrategy": resources}).to_string(),
            "system-config":
                json!({"clusterStrategy": {"totalNetworkBandwidth": total}}).to_string(),
        },
    })
}

fn class(name: &str, request: Value, limit: Value) -> Value {
    let network = json!({"egressRequest": request, "egressLimit": limit});
    json!({name: {"networkQOS": network}})
}

fn both(one: Value, other: Value) -> Value {
    let [Value::Object(mut one), Value::Object(other)] = [one, other] else {
        panic!()
    };
    one.extend(other);
    one.into()
}

async fn write(stage: &Stage, namespace: &str, object: &Value) -> Said {
    let path = format!("/api/v1/namespaces/{namespace}/configmaps?dryRun=All");
    stage.post(&path, object).await
}

async fn stage() -> (Stage, crate::stage::Running) {
    let stage = Stage::new().await;
    let crd = netqos_k8s::node_slo_definition().crd().unwrap();
    stage.cluster.define(&crd).await.unwrap();
    let home = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HOME}});
    let made = stage.post("/api/v1/namespaces", &home).await;
    assert_eq!(made.status, 201, "{made:?}");
    let webhook = stage.start().await;
    stage.ask(&webhook).await;
    (stage, webhook)
}

/// What Koordinator's own webhook refuses, and does not.
#[test]
fn in_the_config_map_by_their_paths() {
    run(async {
        let (stage, webhook) = stage().await;
        let name = "slo-controller-config";
        for (resources, total, says) in [
            (json!({}), "0", None),
            // Rates; LSR and LS counted once; percentages of a line that nobody knows.
            (class("lsClass", json!("500M"), json!(100)), "1000M", None),
            (
                both(
                    class("lsrClass", json!(60), json!(100)),
                    class("lsClass", json!(60), json!(100)),
                ),
                "0",
                None,
            ),
            (class("lsClass", json!("50M"), json!(90)), "0", None),
            (
                class("lsClass", json!("50a"), json!(100)),
                "1000M",
                Some((
                    "data.resource-qos-config.clusterStrategy.lsClass.networkQOS.egressRequest",
                    "\"50a\"",
                )),
            ),
            (
                class("lsClass", json!(""), json!(100)),
                "1000M",
                Some((
                    "data.resource-qos-config.clusterStrategy.lsClass.networkQOS.egressRequest",
                    "\"\"",
                )),
            ),
            (
                both(
                    class("lsClass", json!(80), json!(100)),
                    class("beClass", json!(30), json!(100)),
                ),
                "0",
                Some((
                    "data.resource-qos-config.clusterStrategy (egress)",
                    "ClusterStrategy total net bandwidth percentage already over 100: requests of 110 % \
                     together are above 100 %",
                )),
            ),
            (
                both(
                    class("lsClass", json!("800M"), json!(100)),
                    class("beClass", json!("300M"), json!(100)),
                ),
                "1000M",
                Some((
                    "data.resource-qos-config.clusterStrategy (egress)",
                    "total net bandwidth over total network bandwidth in clusterStrategy: requests of 1.1 \
                     Gbit/s together are above the total of 1 Gbit/s",
                )),
            ),
            (
                class("lsClass", json!("80M"), json!("70M")),
                "1000M",
                Some((
                    "data.resource-qos-config.clusterStrategy (egress)",
                    "a request of 80 Mbit/s is above the limit of 70 Mbit/s",
                )),
            ),
            (
                class("lsClass", json!("80M"), json!("70M")),
                // Whatever the line carries.
                "0",
                Some((
                    "data.resource-qos-config.clusterStrategy (egress)",
                    "a request of 80 Mbit/s is above the limit of 70 Mbit/s",
                )),
            ),
            (
                json!({}),
                "lots",
                Some((
                    "data.system-config.clusterStrategy.totalNetworkBandwidth",
                    "\"lots\"",
                )),
            ),
        ] {
            let said = write(&stage, HOME, &config(name, &resources, total)).await;
            match says {
                None => assert_eq!(said.status, 201, "{resources}: {said:?}"),
                Some((field, what)) => {
                    assert_eq!(said.status, 422, "{resources}: {said:?}");
                    assert_eq!(said.fields(), [field]);
                    assert!(said.message().contains(what), "{}", said.message());
                }
            }
        }
        // Of two that share a level and differ the second decides, which is told.
        let other = both(
            class("lsrClass", json!(30), json!(100)),
            class("lsClass", json!(40), json!(100)),
        );
        let said = write(&stage, HOME, &config(name, &other, "0")).await;
        assert_eq!((said.status, said.warnings.len()), (201, 1), "{said:?}");
        assert!(said.warnings[0].contains("lsClass decides"), "{said:?}");
        // A limit of the system is not kept.
        let limited = class("systemClass", json!(10), json!(90));
        let said = write(&stage, HOME, &config(name, &limited, "0")).await;
        assert_eq!((said.status, said.warnings.len()), (201, 1), "{said:?}");
        let says = "data.resource-qos-config.clusterStrategy.systemClass.networkQOS.egressLimit: is not kept";
        assert!(said.warnings[0].contains(says), "{said:?}");
        // Percentages and quantities in one strategy are followed, which Koordinator does not.
        let mixed = both(
            class("beClass", json!(30), json!(100)),
            class("lsClass", json!("400M"), json!(100)),
        );
        let said = write(&stage, HOME, &config(name, &mixed, "1000M")).await;
        assert_eq!((said.status, said.warnings.len()), (201, 1), "{said:?}");
        let says = "only one type can be used for percentages or quantity in clusterStrategy";
        assert!(said.warnings[0].contains(says), "{said:?}");
        for (key, theirs) in [
            ("resource-qos-config", "ResourceQOS"),
            ("system-config", "System"),
        ] {
            let mut unreadable = config(name, &json!({}), "0");
            unreadable["data"][key] = json!("{\"clusterStrategy\": ");
            let said = write(&stage, HOME, &unreadable).await;
            assert_eq!(said.fields(), [format!("data.{key}")], "{said:?}");
            let says = format!("Failed to parse {theirs} config in configmap {HOME}/{name}, err: ");
            assert!(said.message().contains(&says), "{}", said.message());
        }
        webhook.stop().await;
    });
}

/// Nobody is asked about any other, whatever it says.
#[test]
fn and_no_other_config_map_waits_for_that() {
    run(async {
        let (stage, webhook) = stage().await;
        let bad = class("lsClass", json!(110), json!(100));
        for (namespace, name, status) in [
            (HOME, "slo-controller-config", 422),
            (HOME, "other", 201),
            ("games", "slo-controller-config", 201),
        ] {
            let said = write(&stage, namespace, &config(name, &bad, "0")).await;
            assert_eq!(said.status, status, "{namespace}/{name}: {said:?}");
        }
        webhook.stop().await;
    });
}

/// What was wrong before can be labelled, and its other keys be changed.
#[test]
fn what_is_not_changed_is_not_judged() {
    run(async {
        let (stage, webhook) = stage().await;
        let bad = config(
            "slo-controller-config",
            &class("lsClass", json!(110), json!(100)),
            "0",
        );
        stage.forget().await;
        let path = format!("/api/v1/namespaces/{HOME}/configmaps");
        assert_eq!(stage.post(&path, &bad).await.status, 201);
        stage.ask(&webhook).await;
        let path = format!("{path}/slo-controller-config");
        let other = json!({"data": {"colocation-config": "x"}, "metadata": {"labels": {"a": "b"}}});
        let said = stage.merge(&path, &other).await;
        assert_eq!(said.status, 200, "{said:?}");
        let said = stage
            .merge(&path, &json!({"data": {"system-config": ""}}))
            .await;
        assert_eq!(said.status, 422, "{said:?}");
        webhook.stop().await;
    });
}

#[test]
fn in_a_node_slo_that_people_write() {
    run(async {
        let (stage, webhook) = stage().await;
        let slo = |name: &str, resources: &Value| {
            json!({
                "apiVersion": "slo.koordinator.sh/v1alpha1",
                "kind": "NodeSLO",
                "metadata": {"name": name},
                "spec": {
                    "resourceQOSStrategy": resources,
                    "systemStrategy": {"totalNetworkBandwidth": "1000M"},
                },
            })
        };
        let path = "/apis/slo.koordinator.sh/v1alpha1/nodeslos";
        let bad = slo("a", &class("beClass", json!("2G"), json!(100)));
        let said = stage.post(path, &bad).await;
        assert_eq!(said.status, 422, "{said:?}");
        assert_eq!(said.fields(), ["spec (egress)"]);
        let says = "best-effort: 2 Gbit/s is above the total of 1 Gbit/s";
        assert!(said.message().ends_with(says), "{}", said.message());
        let mut bad = slo("a", &class("beClass", json!("80M"), json!("70M")));
        bad["spec"]["systemStrategy"] = json!({});
        let said = stage.post(path, &bad).await;
        assert_eq!(
            (said.status, said.fields()),
            (422, vec!["spec (egress)".into()])
        );
        let good = slo("a", &class("beClass", json!("200M"), json!(100)));
        let said = stage.post(path, &good).await;
        assert_eq!((said.status, said.warnings.len()), (201, 0), "{said:?}");
        let limited = slo("e", &class("systemClass", json!(10), json!(90)));
        let said = stage.post(path, &limited).await;
        assert_eq!((said.status, said.warnings.len()), (201, 1), "{said:?}");
        let says = "spec.resourceQOSStrategy.systemClass.networkQOS.egressLimit: is not kept";
        assert!(said.warnings[0].contains(says), "{said:?}");
        // Koordinator's manager, and netqos' own controller, are not held up.
        for (name, account) in [
            (
                "b",
                "system:serviceaccount:koordinator-system:koord-manager",
            ),
            ("c", "system:serviceaccount:netqos-system:netqos-controller"),
            ("d", "system:serviceaccount:games:koord-manager"),
        ] {
            let bad = slo(name, &class("beClass", json!("2G"), json!(100)));
            let request = kube::client::Body::from(serde_json::to_vec(&bad).unwrap());
            let request = axum::http::Request::post(path)
                .header("content-type", "application/json")
                .header("impersonate-user", account)
                .header("impersonate-group", "system:masters")
                .body(request)
                .unwrap();
            let status = stage.client.send(request).await.unwrap().status().as_u16();
            let right = if name == "d" { 422 } else { 201 };
            assert_eq!(status, right, "{account}");
        }
        webhook.stop().await;
    });
}

#[test]
fn and_of_a_pod_they_are_warned_of() {
    run(async {
        let (stage, webhook) = stage().await;
        let path = "/api/v1/namespaces/games/pods";
        let bad =
            json!({"koordinator.sh/networkQOS": r#"{"egressRequest": 50, "egressLimit": 40}"#});
        let said = stage.post(path, &pod("a", bad)).await;
        assert_eq!((said.status, said.warnings.len()), (201, 1), "{said:?}");
        let says = "annotation koordinator.sh/networkQOS: egressRequest is above egressLimit";
        assert!(said.warnings[0].contains(says), "{said:?}");
        let good = json!({"koordinator.sh/networkQOS": r#"{"IngressLimit": "10M", "EgressLimit": "20M"}"#});
        let said = stage.post(path, &pod("b", good)).await;
        assert_eq!((said.status, said.warnings.len()), (201, 0), "{said:?}");
        webhook.stop().await;
    });
}
