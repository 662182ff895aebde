//! An API server takes every object: a real one where the environment names one.

use kube::api::{Api, DynamicObject, ObjectMeta, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use netqos_apiserver::Cluster;
use serde_json::{Value, json};

use super::super::chart::{Chart, NAMESPACE};
use super::everything;

/// The Prometheus operator's definition of a kind, as far as it is needed to have one.
fn definition(kind: &str, plural: &str) -> Value {
    json!({
        "metadata": {"name": format!("{plural}.monitoring.coreos.com")},
        "spec": {
            "group": "monitoring.coreos.com",
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase(), "listKind": format!("{kind}List")},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "x-kubernetes-preserve-unknown-fields": true,
                }},
            }],
        },
    })
}

#[tokio::test]
async fn an_api_server_takes_every_object() {
    let cluster = Cluster::start().await.unwrap();
    for (kind, plural) in [
        ("ServiceMonitor", "servicemonitors"),
        ("PrometheusRule", "prometheusrules"),
    ] {
        let definition = serde_json::from_value(definition(kind, plural)).unwrap();
        cluster.define(&definition).await.unwrap();
    }
    for definition in netqos_k8s::definitions() {
        let definition = serde_saphyr::from_str(&definition.yaml().unwrap()).unwrap();
        cluster.define(&definition).await.unwrap();
    }
    let client = cluster.client("installer").await.unwrap();
    let namespace = k8s_openapi::api::core::v1::Namespace {
        metadata: ObjectMeta {
            name: Some(NAMESPACE.to_owned()),
            ..ObjectMeta::default()
        },
        ..Default::default()
    };
    let namespaces = Api::all(client.clone());
    namespaces
        .create(&PostParams::default(), &namespace)
        .await
        .unwrap();
    for (name, object) in Chart::read().unwrap().objects(&everything()).unwrap() {
        let (group, version) = match object["apiVersion"].as_str().unwrap() {
            "v1" => ("", "v1"),
            other => other.split_once('/').unwrap(),
        };
        let kind = GroupVersionKind::gvk(group, version, object["kind"].as_str().unwrap());
        let resource = ApiResource::from_gvk(&kind);
        let objects: Api<DynamicObject> = match object["metadata"]["namespace"].as_str() {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
            None => Api::all_with(client.clone(), &resource),
        };
        let new: DynamicObject = serde_json::from_value(object.clone()).unwrap();
        let created = objects.create(&PostParams::default(), &new).await;
        let created = created.unwrap_or_else(|why| panic!("{name}: {why}"));
        // Nothing is pruned, whatever defaults come to it.
        let created = serde_json::to_value(created).unwrap();
        assert_eq!(missing(&object, &created), None, "{name}");
    }
}

/// Who has the token of one node's agent says nothing of other nodes.
#[tokio::test]
async fn an_agent_reports_of_its_own_node_alone() {
    let cluster = Cluster::start().await.unwrap();
    for definition in netqos_k8s::definitions() {
        let definition = serde_saphyr::from_str(&definition.yaml().unwrap()).unwrap();
        cluster.define(&definition).await.unwrap();
    }
    let client = cluster.client("installer").await.unwrap();
    let chart = Chart::read().unwrap();
    let off = json!({"agent": {"ownReportOnly": false}});
    let without = chart.objects(&off).unwrap();
    for (name, object) in chart.objects(&json!({})).unwrap() {
        if without.contains_key(&name) {
            continue;
        }
        let kind = object["kind"].as_str().unwrap();
        let kind = GroupVersionKind::gvk("admissionregistration.k8s.io", "v1", kind);
        let all: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::from_gvk(&kind));
        let new = serde_json::from_value(object).unwrap();
        all.create(&PostParams::default(), &new).await.unwrap();
    }
    let agent = format!("system:serviceaccount:{NAMESPACE}:netqos-agent");
    let apply = async |node: &str, version: &str, user: &str, of: Option<&str>| {
        let path = format!("/apis/netqos.io/v1alpha1/networkqosnodereports/{node}?fieldManager=a");
        let report = json!({
            "apiVersion": "netqos.io/v1alpha1", "kind": "NetworkQoSNodeReport",
            "metadata": {"name": node}, "agentVersion": version, "policies": [], "problems": [],
        });
        let mut request = http::Request::patch(path)
            .header("content-type", "application/apply-patch+yaml")
            .header("impersonate-user", user)
            // Of who may write what is no question here.
            .header("impersonate-group", "system:masters");
        if let Some(of) = of {
            let header = "impersonate-extra-authentication.kubernetes.io%2fnode-name";
            request = request.header(header, of);
        }
        let body = kube::client::Body::from(serde_json::to_vec(&report).unwrap());
        let sent = client.send(request.body(body).unwrap()).await;
        sent.unwrap().status().as_u16()
    };
    // A server takes its time to learn of a policy.
    let began = std::time::Instant::now();
    let mut tries = 0;
    while apply("node2", &format!("0.{tries}.0"), &agent, Some("node1")).await != 403 {
        assert!(began.elapsed().as_secs() < 60, "it may say everything");
        tries += 1;
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    for (node, version, user, of, expected) in [
        ("node1", "0.1.0", agent.as_str(), Some("node1"), 201),
        ("node1", "0.1.1", &agent, Some("node1"), 200),
        ("node1", "0.1.2", &agent, Some("node2"), 403),
        ("node1", "0.1.3", &agent, None, 403),
        (
            "node3",
            "0.1.0",
            "system:serviceaccount:default:netqos-agent",
            None,
            201,
        ),
    ] {
        let code = apply(node, version, user, of).await;
        assert_eq!(code, expected, "{node} {version} by {user} of {of:?}");
    }
}

/// Where something of the one is not in the other.
fn missing(of: &Value, within: &Value) -> Option<String> {
    match (of, within) {
        (Value::Object(of), Value::Object(within)) => {
            of.iter().find_map(|(name, value)| match within.get(name) {
                None => Some(name.clone()),
                Some(there) => missing(value, there).map(|path| format!("{name}.{path}")),
            })
        }
        (Value::Array(of), Value::Array(within)) if of.len() == within.len() => {
            let mut pairs = of.iter().zip(within);
            pairs.find_map(|(of, within)| missing(of, within))
        }
        _ => (of != within).then(|| format!("{of} against {within}")),
    }
}
