//! Limits that are written where nothing reads them, and keys that are nearly ours: what they ask for is never in force.
//!
//! Of others' keys nothing is said: only those of netqos' own prefix and the two of Kubernetes are compared.

use netqos_api::annotations::{
    EGRESS_BANDWIDTH, EGRESS_BURST, EGRESS_LATENCY, INGRESS_BANDWIDTH, INGRESS_BURST,
    INGRESS_LATENCY,
};
use netqos_api::koordinator::BACKEND_LABEL;
use netqos_api::near;
use serde_json::Value;

use super::pods::metadata;
use crate::FieldError;

/// The annotations of pods that limit them.
const LIMITS: [&str; 6] = [
    INGRESS_BANDWIDTH,
    EGRESS_BANDWIDTH,
    INGRESS_BURST,
    EGRESS_BURST,
    INGRESS_LATENCY,
    EGRESS_LATENCY,
];

/// Every limit in the wrong place of an object of this group and kind, and every key near one of ours, with what to
/// write.
pub fn check_places(group: &str, kind: &str, object: &Value) -> Vec<FieldError> {
    let mut found = Vec::new();
    let mut say = |path: String, key: &str, remedy: String| {
        let message = format!("nothing reads this, and it limits nothing; {remedy}");
        found.push(FieldError::new(format!("{path}[{key}]"), message));
    };
    if (group, kind) == ("", "Node") {
        for (field, key) in keys(object, &["metadata"]) {
            let is_label = field == "labels";
            if key != BACKEND_LABEL && meant(key, &[BACKEND_LABEL]).is_some()
                || key == BACKEND_LABEL && !is_label
            {
                let remedy = format!("write the label {BACKEND_LABEL}");
                say(format!("metadata.{field}"), key, remedy);
            }
        }
        return found;
    }
    let Some(of_pods) = metadata(group, kind) else {
        return found;
    };
    let place = of_pods.join(".");
    let has =
        |key: &str| keys(object, of_pods).any(|(field, it)| field == "annotations" && it == key);
    for (field, key) in keys(object, of_pods) {
        let Some(right) = meant(key, &LIMITS) else {
            continue;
        };
        if key != right || field == "labels" {
            let remedy = format!("write {right} in {place}.annotations");
            say(format!("{place}.{field}"), key, remedy);
        }
    }
    // Of what makes pods itself. What a controller made has what that says.
    let is_made = object.pointer("/metadata/ownerReferences").is_some();
    let own: &[&[&str]] = match kind {
        "Pod" => &[],
        _ if is_made => &[],
        "CronJob" => &[&["metadata"], &["spec", "jobTemplate", "metadata"]],
        _ => &[&["metadata"]],
    };
    for of in own {
        for (field, key) in keys(object, of) {
            if let Some(right) = meant(key, &LIMITS).filter(|right| !has(right)) {
                let remedy = format!("write {right} in {place}.annotations");
                say(format!("{}.{field}", of.join(".")), key, remedy);
            }
        }
    }
    let spec: Vec<&str> = { of_pods.iter().copied() }
        .take(of_pods.len() - 1)
        .chain(["spec"])
        .collect();
    for list in ["containers", "initContainers"] {
        let containers = at(object, &spec).and_then(|it| it.get(list)?.as_array());
        for (index, container) in containers.into_iter().flatten().enumerate() {
            for field in ["limits", "requests"] {
                let resources = container.get("resources").and_then(|it| it.get(field));
                for key in resources.and_then(Value::as_object).into_iter().flatten() {
                    if let Some(right) = meant(key.0, &LIMITS) {
                        let path = format!("{}.{list}[{index}].resources.{field}", spec.join("."));
                        let remedy = format!("write {right} in {place}.annotations");
                        say(path, key.0, remedy);
                    }
                }
            }
        }
    }
    found
}

/// The one of these keys that is written, or is likely meant: nearly so written, or with the prefix of the other.
fn meant(key: &str, of: &[&'static str]) -> Option<&'static str> {
    let (prefix, name) = key.split_once('/')?;
    let is_ours = prefix == "netqos.io";
    let named = of.iter().filter_map(|it| Some((it.split_once('/')?, *it)));
    let named = named.filter(|((of, _), _)| *of == prefix || is_ours);
    let named: Vec<(&str, &str)> = named.map(|((_, name), whole)| (name, whole)).collect();
    let near = near(name, named.iter().map(|(name, _)| *name))?;
    let found = of.iter().find(|it| named.contains(&(near, **it)));
    found.copied()
}

/// The keys of annotations and labels below a field.
fn keys<'v>(object: &'v Value, path: &[&str]) -> impl Iterator<Item = (&'static str, &'v str)> {
    let metadata = at(object, path);
    let fields = ["annotations", "labels"].into_iter();
    fields.flat_map(move |field| {
        let map = metadata.and_then(|it| it.get(field)?.as_object());
        map.into_iter()
            .flatten()
            .map(move |(key, _)| (field, key.as_str()))
    })
}

fn at<'v>(object: &'v Value, path: &[&str]) -> Option<&'v Value> {
    path.iter().try_fold(object, |value, name| value.get(name))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(group: &str, kind: &str, object: &Value) -> Vec<String> {
        let found = check_places(group, kind, object).into_iter();
        found.map(|it| it.to_string()).collect()
    }

    #[test]
    fn misspelt_and_misplaced_keys_are_named_with_what_to_write() {
        for (field, key, right) in [
            (
                "annotations",
                "kubernetes.io/igress-bandwidth",
                INGRESS_BANDWIDTH,
            ),
            (
                "annotations",
                "kubernetes.io/egress-bandwith",
                EGRESS_BANDWIDTH,
            ),
            ("annotations", "netqos.io/egress-brust", EGRESS_BURST),
            ("annotations", "netqos.io/Ingress-Latency", INGRESS_LATENCY),
            (
                "annotations",
                "netqos.io/egress-bandwidth",
                EGRESS_BANDWIDTH,
            ),
            ("labels", EGRESS_BANDWIDTH, EGRESS_BANDWIDTH),
        ] {
            let metadata = json!({field: {key: "10M"}});
            let says = format!("write {right} in metadata.annotations");
            let pod = found("", "Pod", &json!({"metadata": metadata}));
            assert!(pod.len() == 1 && pod[0].ends_with(&says), "{key}: {pod:?}");
            assert!(
                pod[0].starts_with(&format!("metadata.{field}[{key}]: ")),
                "{pod:?}"
            );
            let says = says.replace("in metadata", "in spec.template.metadata");
            let template = json!({"spec": {"template": {"metadata": metadata}}});
            let of_template = found("apps", "Deployment", &template);
            assert!(
                of_template.len() == 1 && of_template[0].ends_with(&says),
                "{of_template:?}"
            );
            let own = json!({"metadata": metadata, "spec": {"template": {"metadata": {}}}});
            let own = found("apps", "StatefulSet", &own);
            assert!(own.len() == 1 && own[0].ends_with(&says), "{own:?}");
        }
        let limits = json!({"resources": {"limits": {EGRESS_BANDWIDTH: "10M", "cpu": 1}}});
        let pod = found("", "Pod", &json!({"spec": {"containers": [{}, limits]}}));
        let says = "spec.containers[1].resources.limits[kubernetes.io/egress-bandwidth]: ";
        assert!(pod.len() == 1 && pod[0].starts_with(says), "{pod:?}");
        let own = json!({"annotations": {EGRESS_BANDWIDTH: "10M"}});
        let job = json!({"spec": {"jobTemplate": {"metadata": own, "spec": {}}}});
        let job = found("batch", "CronJob", &job);
        let says = "spec.jobTemplate.metadata.annotations[kubernetes.io/egress-bandwidth]: ";
        assert!(job.len() == 1 && job[0].starts_with(says), "{job:?}");
        assert!(job[0].ends_with("in spec.jobTemplate.spec.template.metadata.annotations"));
        for metadata in [
            json!({"labels": {"netqos.io/class-backed": "tc"}}),
            json!({"annotations": {BACKEND_LABEL: "tc"}}),
        ] {
            let node = found("", "Node", &json!({"metadata": metadata}));
            let says = "write the label netqos.io/class-backend";
            assert!(node.len() == 1 && node[0].ends_with(says), "{node:?}");
        }
    }

    #[test]
    fn others_keys_and_what_controllers_copied_are_passed_over() {
        let annotations = json!({
            EGRESS_BANDWIDTH: "1M", EGRESS_BURST: "1M", "k8s.v1.cni.cncf.io/networks": "a", "netqos.io/x": "a",
            "ovn.kubernetes.io/ingress_rate": "3", "ovn.kubernetes.io/egress_rate": "3", "kubernetes.io/psp": "a",
            "qos.projectcalico.org/ingressBandwidth": "1M", "koordinator.sh/networkQos": "{}",
            "kubernetes.io/egress-burst": "1M", "example.org/egress-bandwith": "1M", "egress-bandwith": "1M",
        });
        let labels = json!({"koordinator.sh/qosclass": "BE", "app.kubernetes.io/name": "a"});
        let metadata = json!({"annotations": annotations, "labels": labels});
        assert_eq!(found("", "Pod", &json!({"metadata": metadata})), [""; 0]);
        // As a Deployment hands its annotations on to a ReplicaSet.
        let own = json!({"annotations": {EGRESS_BANDWIDTH: "1M", INGRESS_BANDWIDTH: "1M"}, "ownerReferences": [{}]});
        let set = json!({"metadata": own, "spec": {"template": {"metadata": metadata}}});
        assert_eq!(found("apps", "ReplicaSet", &set), [""; 0]);
        let own = json!({"annotations": {EGRESS_BANDWIDTH: "1M"}});
        let both = json!({"metadata": own, "spec": {"template": {"metadata": metadata}}});
        assert_eq!(found("apps", "Deployment", &both), [""; 0]);
        let labels = json!({"netqos.io/class-backend": "tc", "netqos.io/leaving": "true", "node.koordinator.sh/x": "a"});
        assert_eq!(
            found("", "Node", &json!({"metadata": {"labels": labels}})),
            [""; 0]
        );
    }
}
