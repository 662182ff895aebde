//! What of an object is looked at: the rest is neither parsed nor kept.

use netqos_cluster::Kind;
use netqos_coexistence::{Homes, Neighbour};
use serde_json::{Map, Value};

/// What of a pod's spec and status says where it is and whether it runs.
const SPEC: [&str; 2] = ["nodeName", "hostNetwork"];
const STATUS: [&str; 7] = [
    "phase",
    "qosClass",
    "podIP",
    "podIPs",
    "initContainerStatuses",
    "containerStatuses",
    "ephemeralContainerStatuses",
];
/// What `kubectl apply` keeps for itself: the whole object once more.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Takes away what nobody looks at.
pub(super) fn trim(kind: Kind, value: &mut Value, homes: &Homes) {
    if let Some(metadata) = fields(value, "metadata") {
        metadata.remove("managedFields");
    }
    if let Some(annotations) = fields(value, "metadata").and_then(|it| it.get_mut("annotations"))
        && let Some(annotations) = annotations.as_object_mut()
    {
        annotations.remove(LAST_APPLIED);
    }
    match kind {
        Kind::Pod => trim_pod(value, homes),
        Kind::Node | Kind::Namespace => {
            keep(value.as_object_mut(), &["apiVersion", "kind", "metadata"]);
        }
        // The rest is for Koordinator's own agent.
        Kind::NodeSlo => keep(
            fields(value, "spec"),
            &["resourceQOSStrategy", "systemStrategy"],
        ),
        // Written by the controller, for people.
        Kind::NetworkQoS => {
            value.as_object_mut().map(|fields| fields.remove("status"));
        }
        _ => {}
    }
}

fn trim_pod(pod: &mut Value, homes: &Homes) {
    // What it is told is looked at again when it was written down.
    let is_neighbour = Neighbour::of_pod(pod, homes).is_some();
    let containers = is_neighbour.then_some("containers");
    let spec: Vec<&str> = SPEC.into_iter().chain(containers).collect();
    keep(fields(pod, "spec"), &spec);
    keep(fields(pod, "status"), &STATUS);
    for list in &STATUS[4..] {
        let statuses = fields(pod, "status").and_then(|it| it.get_mut(*list));
        let statuses = statuses.and_then(Value::as_array_mut);
        for status in statuses.into_iter().flatten() {
            keep(status.as_object_mut(), &["name", "state"]);
        }
    }
}

fn fields<'v>(value: &'v mut Value, name: &str) -> Option<&'v mut Map<String, Value>> {
    value.get_mut(name)?.as_object_mut()
}

fn keep(fields: Option<&mut Map<String, Value>>, names: &[&str]) {
    if let Some(fields) = fields {
        fields.retain(|name, _| names.contains(&name.as_str()));
    }
}

#[cfg(test)]
mod tests {
    use netqos_k8s::object_from_value;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_trimmed_pod_says_the_same() {
        let mut pod = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": "a", "namespace": "games", "uid": "1", "labels": {"app": "a"},
                "annotations": {
                    LAST_APPLIED: "{}",
                    "kubernetes.io/egress-bandwidth": "10M"
                },
                "deletionTimestamp": "2026-01-01T00:00:00Z"
            },
            "spec": {
                "nodeName": "node1",
                "containers": [{"name": "c", "image": "i", "env": [{"name": "A", "value": "b"}]}]
            },
            "status": {
                "phase": "Running", "qosClass": "BestEffort", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}],
                "conditions": [{"type": "Ready", "status": "True"}],
                "containerStatuses": [{
                    "name": "c", "image": "i", "imageID": "x", "ready": true, "restartCount": 0,
                    "state": {"terminated": {"exitCode": 0}}
                }]
            }
        });
        let whole = object_from_value(&pod).unwrap();
        trim(Kind::Pod, &mut pod, &Homes::default());
        assert_eq!(object_from_value(&pod).unwrap(), whole);
        let text = pod.to_string();
        for word in ["image", "conditions", "last-applied", "env"] {
            assert!(!text.contains(word), "{word}: {text}");
        }
        // Also where it is no such object at all.
        for mut odd in [json!(7), json!({"spec": 7, "status": [], "metadata": null})] {
            trim(Kind::Pod, &mut odd, &Homes::default());
        }
    }
}
