//! Objects, and what is said of them.

use netqos_analysis::{Snapshot, analyze};
use serde_json::{Value, json};

const GROUPS: [(&str, &str); 11] = [
    ("Pod", "v1"),
    ("Node", "v1"),
    ("Namespace", "v1"),
    ("NetworkQoS", "k8s.ovn.org/v1alpha1"),
    ("NetworkQoSQuota", "netqos.io/v1alpha1"),
    ("BandwidthProfile", "netqos.io/v1alpha1"),
    ("NetworkQoSNodeReport", "netqos.io/v1alpha1"),
    ("NetworkAttachmentDefinition", "k8s.cni.cncf.io/v1"),
    ("NetworkAttachmentPolicy", "netqos.io/v1alpha1"),
    ("UserDefinedNetwork", "k8s.ovn.org/v1"),
    ("List", "v1"),
];

/// An object; a name with a slash has a namespace.
pub fn object(kind: &str, name: &str, more: &Value) -> Value {
    let (namespace, name) = name.split_once('/').unwrap_or(("", name));
    let (_, api_version) = GROUPS.iter().find(|(it, _)| *it == kind).unwrap();
    let mut object = json!({
        "apiVersion": api_version, "kind": kind, "metadata": {"name": name}
    });
    if !namespace.is_empty() {
        object["metadata"]["namespace"] = namespace.into();
    }
    merge(&mut object, more);
    object
}

fn merge(into: &mut Value, more: &Value) {
    let (Some(fields), Some(more)) = (into.as_object_mut(), more.as_object()) else {
        return more.clone_into(into);
    };
    for (key, value) in more {
        merge(fields.entry(key).or_insert(Value::Null), value);
    }
}

pub fn pod(name: &str, app: &str, more: &Value) -> Value {
    let mut pod = object("Pod", name, &json!({"metadata": {"labels": {"app": app}}}));
    merge(&mut pod, &json!({"spec": {"nodeName": "node1"}}));
    merge(&mut pod, more);
    pod
}

/// A pod of the application `web`.
pub fn web(name: &str) -> Value {
    pod(name, "web", &json!({}))
}

pub fn policy(name: &str, app: &str, priority: u8, egress: &Value) -> Value {
    let spec = json!({
        "priority": priority, "podSelector": {"matchLabels": {"app": app}}, "egress": egress
    });
    let of = json!({"metadata": {"generation": 2}, "spec": spec});
    object("NetworkQoS", name, &of)
}

pub fn to(cidr: &str) -> Value {
    json!({"dscp": 1, "classifier": {"to": [{"ipBlock": {"cidr": cidr}}]}})
}

pub fn report(policies: &Value, problems: &Value) -> Value {
    let of = json!({"agentVersion": "0.1.0", "policies": policies, "problems": problems});
    object("NetworkQoSNodeReport", "node1", &of)
}

pub fn in_force(name: &str, generation: i64) -> Value {
    json!([{"namespace": "games", "name": name, "generation": generation}])
}

pub fn annotated(name: &str, annotations: &Value) -> Value {
    pod(
        name,
        "web",
        &json!({"metadata": {"annotations": annotations}}),
    )
}

/// The messages about a cluster of these objects: level, code and object, and the words.
pub fn said(objects: &[Value]) -> Vec<(String, String)> {
    let mut snapshot = Snapshot::of_cluster();
    objects.iter().for_each(|it| snapshot.put(it));
    let messages = analyze(&snapshot, None).into_iter();
    let split = |text: String| {
        let (head, words) = text.split_once(") ").unwrap();
        (format!("{head})"), words.to_owned())
    };
    messages.map(|it| split(it.to_string())).collect()
}

/// A NetworkAttachmentDefinition with this configuration.
pub fn nad(name: &str, config: &Value) -> Value {
    let spec = json!({"spec": {"config": config.to_string()}});
    object("NetworkAttachmentDefinition", name, &spec)
}

/// A pod that selects networks.
pub fn selecting(name: &str, networks: &str) -> Value {
    annotated(name, &json!({"k8s.v1.cni.cncf.io/networks": networks}))
}

pub fn attachment_policy(name: &str, spec: &Value) -> Value {
    object("NetworkAttachmentPolicy", name, &json!({"spec": spec}))
}
