//! Helm renders the chart, kubectl renders the kustomize directories to the same objects, and an API server
//! accepts these objects.

mod api_server;
mod kustomized;
mod multinet;
mod network_definitions;
mod network_status;
mod rendered;
mod server;

use std::sync::LazyLock;

use serde_json::{Value, json};

use super::chart::{CHART, Chart};
use super::kustomize;
use crate::generated::read;

/// The chart, of which all tests together have each choice rendered once.
fn chart() -> &'static Chart {
    static SHARED: LazyLock<Chart> = LazyLock::new(|| Chart::find().unwrap());
    &SHARED
}

/// What may be chosen: each alone, and all that go together.
fn choices() -> Vec<Value> {
    let mut all = vec![
        json!({}),
        json!({"agent": {"ownReportOnly": false}}),
        json!({"multinet": {"enabled": true, "install": true, "configDirectory": "/var/lib/rancher/k3s/agent/etc/cni/net.d"}}),
        json!({"controller": {"webhookFailurePolicy": "Fail"}}),
        json!({"agent": {"enterPods": false, "egress": "ifb", "hook": "clsact"}}),
        json!({
            "agent": {
                "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 1, "preference": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}},
                ]}},
                "extraArgs": ["--context=x: y"],
                "maxUnavailable": 3,
                "nodeSelector": {"a/b": "true"},
                "podAnnotations": {"a": "1"},
                "podLabels": false,
                "tolerations": [],
            },
            "controller": {"extraArgs": ["--a=b"], "tolerations": [{"operator": "Exists"}]},
            "image": {"repository": "registry:5000/netqos", "tag": "x", "pullSecrets": [{"name": "s"}]},
            "monitoring": {"enabled": true, "labels": {"release": "prometheus"}, "dashboardLabels": {}},
        }),
    ];
    let components = kustomize::components().into_iter();
    let components = components.chain(kustomize::optional());
    let components = components.chain(kustomize::departures());
    let components = components.chain(kustomize::departures_of_components());
    all.extend(components.map(|(_, chosen)| chosen));
    all.push(everything());
    all.push(highly_available());
    all
}

/// What the chart's file for that says.
fn highly_available() -> Value {
    let text = read(&format!("{CHART}/values-ha.yaml")).unwrap();
    serde_saphyr::from_str(&text).unwrap()
}

/// All components.
fn everything() -> Value {
    let names: Vec<&str> = kustomize::components()
        .iter()
        .map(|(name, _)| *name)
        .collect();
    chosen(&names)
}

/// What is chosen with these components.
fn chosen(names: &[&str]) -> Value {
    let mut all = serde_json::Map::new();
    let components = kustomize::components().into_iter();
    for (name, chosen) in components.chain(kustomize::departures()) {
        if names.contains(&name) {
            all.extend(chosen.as_object().unwrap().clone());
        }
    }
    Value::Object(all)
}
