//! Bandwidth annotations of pods, Koordinator's `koordinator.sh/networkQOS` among them, and of what makes pods: who writes a Deployment never sees what is
//! said to the pods that come of it.

use std::collections::BTreeMap;

use netqos_api::annotations::pod_limit_errors;
use netqos_api::koordinator::{NETWORK_QOS_ANNOTATION, PodNetworkQos};
use netqos_k8s::FieldError;
use serde_json::Value;

use crate::findings::Findings;

/// Where the annotations of pods are in an object of this kind; `None` when it is about no pods.
fn path(kind: &str) -> Option<&'static [&'static str]> {
    Some(match kind {
        "Pod" => &["metadata", "annotations"],
        "CronJob" => &[
            "spec",
            "jobTemplate",
            "spec",
            "template",
            "metadata",
            "annotations",
        ],
        "DaemonSet"
        | "Deployment"
        | "Job"
        | "ReplicaSet"
        | "ReplicationController"
        | "StatefulSet" => &["spec", "template", "metadata", "annotations"],
        _ => return None,
    })
}

/// What is wrong with the annotations of an object of this kind, where they are other ones than
/// before: what is written again unchanged was said already.
pub(crate) fn check(kind: &str, object: &Value, old: Option<&Value>, strict: bool) -> Findings {
    let mut findings = Findings::default();
    let Some(path) = path(kind) else {
        return findings;
    };
    let now = annotations(object, path);
    if old.is_some_and(|old| annotations(old, path) == now) {
        return findings;
    }
    let limits = pod_limit_errors(&now);
    let limits = limits.into_iter().map(|error| error.to_string());
    let shares = now.get(NETWORK_QOS_ANNOTATION);
    let shares = shares.and_then(|text| PodNetworkQos::parse(text).err());
    let shares = shares.into_iter().flatten();
    for error in limits.chain(shares.map(|it| format!("annotation {it}"))) {
        match strict {
            true => findings
                .invalid
                .push(FieldError::new(path.join("."), error)),
            false => findings.warn(format!("netqos does not follow this: {error}")),
        }
    }
    findings
}

fn annotations(object: &Value, path: &[&str]) -> BTreeMap<String, String> {
    let found = path.iter().try_fold(object, |value, name| value.get(name));
    let entries = found.and_then(Value::as_object).into_iter().flatten();
    let texts =
        entries.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())));
    texts.collect()
}
