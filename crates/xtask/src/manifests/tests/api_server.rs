//! A real API server accepts every object of every choice.

use std::collections::BTreeSet;

use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use netqos_faults::Cluster;
use serde_json::{Value, json};

use super::{chart, choices};

/// A CRD of the Prometheus operator, with the fields that the chart uses as the operator documents them.
fn operator_crd(kind: &str, plural: &str, spec: Value) -> Value {
    json!({
        "metadata": {"name": format!("{plural}.monitoring.coreos.com")},
        "spec": {
            "group": "monitoring.coreos.com",
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase(), "listKind": format!("{kind}List")},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": object(json!({"spec": spec}))},
            }],
        },
    })
}

/// The schema of an object with these fields.
fn object(properties: Value) -> Value {
    json!({"type": "object", "properties": properties})
}

/// The schema of a list.
fn list(items: Value) -> Value {
    json!({"type": "array", "items": items})
}

fn service_monitor() -> Value {
    let string = json!({"type": "string"});
    let relabeling = object(json!({"sourceLabels": list(string.clone()), "targetLabel": string}));
    let endpoint = object(json!({
        "port": string,
        "interval": string,
        "honorLabels": {"type": "boolean"},
        "relabelings": list(relabeling),
    }));
    let labels = json!({"type": "object", "additionalProperties": string});
    let selector = object(json!({"matchLabels": labels}));
    let spec = object(json!({"selector": selector, "endpoints": list(endpoint)}));
    operator_crd("ServiceMonitor", "servicemonitors", spec)
}

fn prometheus_rule() -> Value {
    let string = json!({"type": "string"});
    let strings = json!({"type": "object", "additionalProperties": string});
    let rule = object(json!({
        "alert": string,
        "expr": string,
        "for": string,
        "labels": strings,
        "annotations": strings,
    }));
    let group = object(json!({"name": string, "rules": list(rule)}));
    let spec = object(json!({"groups": list(group)}));
    operator_crd("PrometheusRule", "prometheusrules", spec)
}

/// The object as the API server would store it. An unknown field is an error.
async fn dry_run(client: &Client, object: &Value) -> kube::Result<Value> {
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
    let name = object["metadata"]["name"].as_str().unwrap();
    // The server holds some of the objects already, with the default values.
    let parameters = PatchParams::apply("helm").force();
    let parameters = parameters.dry_run().validation_strict();
    let patch = Patch::Apply(object);
    let applied = objects.patch(name, &parameters, &patch).await?;
    Ok(serde_json::to_value(applied).unwrap())
}

#[tokio::test]
async fn api_server_accepts_every_object_of_every_choice() {
    let cluster = Cluster::start().await.unwrap();
    for crd in [service_monitor(), prometheus_rule()] {
        let crd = serde_json::from_value(crd).unwrap();
        cluster.define(&crd).await.unwrap();
    }
    let client = cluster.client().await.unwrap();
    let mut accepted = BTreeSet::new();
    for values in choices() {
        for (name, object) in chart().objects(&values).unwrap() {
            if !accepted.insert(object.to_string()) {
                continue;
            }
            let applied = dry_run(&client, &object).await;
            let applied = applied.unwrap_or_else(|error| panic!("{name} with {values}: {error}"));
            // No field is dropped, whatever defaults are added.
            assert_eq!(missing(&object, &applied), None, "{name} with {values}");
        }
    }
    assert!(accepted.len() > choices().len(), "{}", accepted.len());
    // An unknown field of any of these would not have been accepted.
    let values = json!({"monitoring": {"enabled": true}});
    for (name, parent) in [
        ("DaemonSet/netqos-agent", "/spec/template/spec"),
        ("ServiceMonitor/netqos-agent", "/spec/endpoints/0"),
        ("PrometheusRule/netqos", "/spec/groups/0/rules/0"),
    ] {
        let mut object = chart().objects(&values).unwrap()[name].clone();
        object.pointer_mut(parent).unwrap()["hostNetwrok"] = true.into();
        let refused = dry_run(&client, &object).await.unwrap_err().to_string();
        assert!(refused.contains("hostNetwrok"), "{name}: {refused}");
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
