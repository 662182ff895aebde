//! What a server adds to its own objects, and refuses of them, as far as netqos can meet it.

use netqos_k8s::FieldError;
use serde_json::{Value, json};

use crate::resource::Resource;

/// Fills in what is not said.
pub(crate) fn set(object: &mut Value, resource: &Resource) {
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "pods") => pod(object),
        ("", "namespaces") => {
            let name = object["metadata"]["name"].clone();
            object["metadata"]["labels"]["kubernetes.io/metadata.name"] = name;
            default(object, &["spec", "finalizers"], json!(["kubernetes"]));
            default(object, &["status", "phase"], json!("Active"));
        }
        ("", "services") => {
            default(object, &["spec", "type"], json!("ClusterIP"));
            default(object, &["spec", "sessionAffinity"], json!("None"));
            default(object, &["status", "loadBalancer"], json!({}));
            for port in items(object, &["spec", "ports"]) {
                let number = port["port"].clone();
                default(port, &["protocol"], json!("TCP"));
                default(port, &["targetPort"], number);
            }
        }
        ("", "nodes") => default(object, &["spec"], json!({})),
        ("", "secrets") => default(object, &["type"], json!("Opaque")),
        (_, "mutatingwebhookconfigurations" | "validatingwebhookconfigurations") => {
            for webhook in items(object, &["webhooks"]) {
                default(webhook, &["failurePolicy"], json!("Fail"));
                default(webhook, &["matchPolicy"], json!("Equivalent"));
                default(webhook, &["timeoutSeconds"], json!(10));
                default(webhook, &["namespaceSelector"], json!({}));
                default(webhook, &["objectSelector"], json!({}));
                for rule in items(webhook, &["rules"]) {
                    default(rule, &["scope"], json!("*"));
                }
            }
        }
        (_, "validatingadmissionpolicies") => {
            default(object, &["spec", "failurePolicy"], json!("Fail"));
            let of = ["spec", "matchConstraints"];
            for (name, value) in [
                ("matchPolicy", json!("Equivalent")),
                ("namespaceSelector", json!({})),
                ("objectSelector", json!({})),
            ] {
                default(object, &[of[0], of[1], name], value);
            }
            for rule in items(object, &[of[0], of[1], "resourceRules"]) {
                default(rule, &["scope"], json!("*"));
            }
        }
        _ => {}
    }
}

fn pod(object: &mut Value) {
    default(object, &["spec", "restartPolicy"], json!("Always"));
    default(object, &["spec", "dnsPolicy"], json!("ClusterFirst"));
    default(
        object,
        &["spec", "schedulerName"],
        json!("default-scheduler"),
    );
    default(
        object,
        &["spec", "terminationGracePeriodSeconds"],
        json!(30),
    );
    default(object, &["spec", "enableServiceLinks"], json!(true));
    default(object, &["spec", "securityContext"], json!({}));
    default(object, &["status", "phase"], json!("Pending"));
    default(object, &["status", "qosClass"], json!("BestEffort"));
    for container in items(object, &["spec", "containers"]) {
        default(container, &["resources"], json!({}));
        default(container, &["imagePullPolicy"], json!("Always"));
        for port in items(container, &["ports"]) {
            default(port, &["protocol"], json!("TCP"));
        }
    }
}

/// Sets a field that is not there.
fn default(object: &mut Value, path: &[&str], value: Value) {
    let mut place = object;
    for name in path {
        place = &mut place[*name];
    }
    if place.is_null() {
        *place = value;
    }
}

/// The items of a list, if it is there.
fn items<'o>(object: &'o mut Value, path: &[&str]) -> impl Iterator<Item = &'o mut Value> {
    let place = path
        .iter()
        .try_fold(object, |place, name| place.get_mut(*name));
    place.and_then(Value::as_array_mut).into_iter().flatten()
}

/// What is wrong with an object whose types are right.
pub(crate) fn check(new: &Value, old: Option<&Value>, resource: &Resource) -> Vec<FieldError> {
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "pods") => check_pod(new, old),
        (_, "leases") => {
            let seconds = new["spec"]["leaseDurationSeconds"].as_i64();
            let wrong = seconds.filter(|seconds| *seconds < 1);
            let told = wrong
                .map(|_| FieldError::new("spec.leaseDurationSeconds", "must be greater than 0"));
            told.into_iter().collect()
        }
        (_, "customresourcedefinitions") => crate::crds::check(new),
        _ => Vec::new(),
    }
}

fn check_pod(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let containers = new["spec"]["containers"].as_array();
    if containers.is_none_or(Vec::is_empty) {
        errors.push(FieldError::new("spec.containers", "missing"));
    }
    for (index, container) in containers.into_iter().flatten().enumerate() {
        if container["image"].as_str().is_none_or(str::is_empty) {
            let path = format!("spec.containers[{index}].image");
            errors.push(FieldError::new(path, "missing"));
        }
    }
    if let Some(old) = old
        && fixed(old) != fixed(new)
    {
        errors.push(FieldError::new(
            "spec",
            "may not change in other fields than the images of containers, \
             activeDeadlineSeconds, terminationGracePeriodSeconds and tolerations",
        ));
    }
    errors
}

/// What of a pod may not change.
fn fixed(pod: &Value) -> Value {
    let mut spec = pod["spec"].clone();
    if let Some(fields) = spec.as_object_mut() {
        for other in [
            "activeDeadlineSeconds",
            "terminationGracePeriodSeconds",
            "tolerations",
        ] {
            fields.remove(other);
        }
        for list in ["containers", "initContainers"] {
            let containers = fields.get_mut(list).and_then(Value::as_array_mut);
            for container in containers.into_iter().flatten() {
                container["image"] = Value::Null;
            }
        }
    }
    spec
}
