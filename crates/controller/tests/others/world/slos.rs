//! How nodes' lines are divided: a ConfigMap, and what is made of it.

use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::{Replica, World};

/// The name of the ConfigMap.
const CONFIG: &str = "slo-controller-config";
const NODE: (&str, &str, &str) = ("v1", "Node", "");
const NODE_SLO: (&str, &str, &str) = ("slo.koordinator.sh/v1alpha1", "NodeSLO", "");

impl World {
    pub(crate) fn define_node_slo(&self) {
        let crd = netqos_k8s::node_slo_definition().crd().unwrap();
        self.define(&serde_json::to_value(crd).unwrap());
    }

    /// A replica that is told of the ConfigMap of this world.
    pub(crate) fn slo_replica(&self, name: &str, more: &[&str]) -> Replica {
        let config = format!("--slo-config={}/{CONFIG}", self.namespace);
        let more = more.iter().copied();
        let all: Vec<&str> = [config.as_str()].into_iter().chain(more).collect();
        self.replica_with(name, &all)
    }

    pub(crate) fn create_node(&self, name: &str, labels: &Value, annotations: &Value) {
        let metadata = json!({"name": name, "labels": labels, "annotations": annotations});
        self.create(NODE.0, NODE.1, NODE.2, json!({"metadata": metadata}));
    }

    pub(crate) fn annotate_node(&self, name: &str, total: &str) {
        let annotations = json!({"node.koordinator.sh/network-bandwidth": total});
        self.merge(
            NODE,
            name,
            &json!({"metadata": {"annotations": annotations}}),
        );
    }

    pub(crate) fn delete_node(&self, name: &str) {
        self.delete(NODE, name);
    }

    pub(crate) fn node_uid(&self, name: &str) -> Value {
        self.get(NODE, name).unwrap()["metadata"]["uid"].clone()
    }

    /// Writes the ConfigMap's keys, each as JSON or, a text, as it is.
    pub(crate) fn write_config(&self, resources: &Value, system: &Value) {
        self.write_config_in(&self.namespace, resources, system);
    }

    pub(crate) fn write_config_in(&self, namespace: &str, resources: &Value, system: &Value) {
        let text = |value: &Value| match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let data = json!({
            "resource-qos-config": text(resources),
            "system-config": text(system),
            "colocation-config": "not ours",
        });
        let of = ("v1", "ConfigMap", namespace);
        // Whole from the beginning: an empty one says what is so by default.
        match self.get(of, CONFIG) {
            Some(_) => self.merge(of, CONFIG, &json!({"data": data})),
            None => {
                let metadata = json!({"name": CONFIG});
                self.create(
                    of.0,
                    of.1,
                    of.2,
                    json!({"metadata": metadata, "data": data}),
                );
            }
        }
    }

    pub(crate) fn delete_config(&self) {
        self.delete(("v1", "ConfigMap", &self.namespace), CONFIG);
    }

    /// The spec of a node's NodeSLO; null where there is none.
    pub(crate) fn slo(&self, node: &str) -> Value {
        let found = self.node_slo(node);
        found.map_or(Value::Null, |it| it["spec"].clone())
    }

    pub(crate) fn node_slo(&self, node: &str) -> Option<Value> {
        self.get(NODE_SLO, node)
    }

    pub(crate) fn delete_node_slo(&self, node: &str) {
        self.delete(NODE_SLO, node);
    }

    /// Waits until a field of a node's NodeSLO has this value.
    pub(crate) fn wait_for_slo(&self, node: &str, path: &str, value: &Value) {
        let mut last = Value::Null;
        let what = format!("{path} of {node} is not {value}");
        self.eventually(&what, || {
            let slo = self.slo(node);
            last = slo.pointer(path).cloned().unwrap_or_default();
            last == *value
        });
    }

    /// Somebody makes a NodeSLO, or changes it, by a write that is no apply.
    pub(crate) fn write_slo_as(&self, manager: &str, node: &str, spec: &Value) {
        let api = self.api(NODE_SLO.0, NODE_SLO.1, NODE_SLO.2);
        let written = async {
            if api.get_opt(node).await.unwrap().is_none() {
                let object = json!({
                    "apiVersion": NODE_SLO.0, "kind": NODE_SLO.1,
                    "metadata": {"name": node}, "spec": spec
                });
                let object: DynamicObject = serde_json::from_value(object).unwrap();
                let parameters = PostParams {
                    field_manager: Some(manager.to_owned()),
                    ..PostParams::default()
                };
                return api.create(&parameters, &object).await;
            }
            let parameters = PatchParams {
                field_manager: Some(manager.to_owned()),
                ..PatchParams::default()
            };
            let patch = json!({"spec": spec});
            api.patch(node, &parameters, &Patch::Merge(&patch)).await
        };
        self.runtime.block_on(written).unwrap();
    }

    /// How often a replica has written a NodeSLO.
    pub(crate) fn slo_writes(&self, of: &str) -> usize {
        let requests = self.requests(of).into_iter();
        let wrote = requests.filter(|(verb, resource)| verb == "patch" && resource == "nodeslos");
        wrote.count()
    }

    /// What events of a reason say about an object of a kind: of the ConfigMap in its namespace, of nodes
    /// in the default one.
    pub(crate) fn slo_events(&self, kind: &str, name: &str, reason: &str) -> Vec<String> {
        let namespace = match kind {
            "Node" => "default",
            _ => &self.namespace,
        };
        let events = self.list(("events.k8s.io/v1", "Event", namespace));
        let events = events.into_iter().map(|it| it.data);
        let about = events.filter(|it| {
            it["regarding"]["kind"] == kind
                && it["regarding"]["name"] == name
                && it["reason"] == reason
        });
        about
            .map(|it| it["note"].as_str().unwrap().to_owned())
            .collect()
    }

    /// Waits for an event about the ConfigMap, and gives back what it says.
    pub(crate) fn config_event(&self, reason: &str) -> String {
        self.eventually(&format!("no event {reason}"), || {
            !self.slo_events("ConfigMap", CONFIG, reason).is_empty()
        });
        self.slo_events("ConfigMap", CONFIG, reason).remove(0)
    }

    /// The same about a node.
    pub(crate) fn node_event(&self, node: &str, reason: &str) -> String {
        self.eventually(&format!("no event {reason} of {node}"), || {
            !self.slo_events("Node", node, reason).is_empty()
        });
        self.slo_events("Node", node, reason).remove(0)
    }
}
