//! The bandwidth annotations of pods, Koordinator's `koordinator.sh/networkQOS` among them, and of the
//! templates of workloads: who writes a Deployment never sees what is said to the pods that come of it.

use std::collections::BTreeMap;

use netqos_api::annotations::parse_pod_limits;
use netqos_api::koordinator::class::{QOS_CLASS_LABEL, QosClass};
use netqos_api::koordinator::{NETWORK_QOS_ANNOTATION, PodNetworkQos};
use serde_json::Value;

use crate::FieldError;

/// A mistake in an annotation or the class of a pod, or of a template of pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnnotationMistake {
    /// The field that it is in, and the mistake.
    pub error: FieldError,
    /// Container runtimes parse the annotation, too, and refuse a pod for it.
    pub stops_runtime: bool,
}

/// The path of the metadata of pods in an object of this group and kind; `None` if it has no pods.
pub(super) fn metadata(group: &str, kind: &str) -> Option<&'static [&'static str]> {
    Some(match (group, kind) {
        ("", "Pod") => &["metadata"],
        ("batch", "CronJob") => &["spec", "jobTemplate", "spec", "template", "metadata"],
        ("apps", "DaemonSet" | "Deployment" | "ReplicaSet" | "StatefulSet")
        | ("batch", "Job")
        | ("", "ReplicationController") => &["spec", "template", "metadata"],
        _ => return None,
    })
}

/// The annotations of pods in an object of this group and kind: its own, or those of its template.
/// `None` if it has no pods.
pub fn pod_annotations(
    group: &str,
    kind: &str,
    object: &Value,
) -> Option<BTreeMap<String, String>> {
    texts(group, kind, object, "annotations")
}

/// Their class, likewise, as a label says it.
pub fn pod_class_label(group: &str, kind: &str, object: &Value) -> Option<String> {
    texts(group, kind, object, "labels")?.remove(QOS_CLASS_LABEL)
}

fn texts(group: &str, kind: &str, object: &Value, field: &str) -> Option<BTreeMap<String, String>> {
    let mut path = metadata(group, kind)?.iter().chain([&field]);
    let found = path.try_fold(object, |value, name| value.get(name));
    let entries = found.and_then(Value::as_object).into_iter().flatten();
    let texts =
        entries.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())));
    Some(texts.collect())
}

/// Every mistake in the annotations of pods that an object of this group and kind has, and in the label of their class.
pub fn check_pod_annotations(group: &str, kind: &str, object: &Value) -> Vec<AnnotationMistake> {
    let Some((path, annotations)) = metadata(group, kind).zip(pod_annotations(group, kind, object))
    else {
        return Vec::new();
    };
    let place = path.join(".");
    let class = pod_class_label(group, kind, object).filter(|class| !class.is_empty());
    let class = class.and_then(|class| class.parse::<QosClass>().err());
    let class = class.map(|not| AnnotationMistake {
        stops_runtime: false,
        error: FieldError::new(format!("{place}.labels[{QOS_CLASS_LABEL}]"), not),
    });
    let path = format!("{place}.annotations");
    let (_, limits) = parse_pod_limits(&annotations);
    let limits = limits.into_iter().map(|error| AnnotationMistake {
        stops_runtime: error.stops_runtime(),
        error: FieldError::new(path.as_str(), error),
    });
    let shares = annotations.get(NETWORK_QOS_ANNOTATION);
    let shares = shares.and_then(|text| PodNetworkQos::parse(text).err());
    let shares = shares.into_iter().flatten();
    let shares = shares.map(|mistake| AnnotationMistake {
        stops_runtime: false,
        error: FieldError::new(path.as_str(), format!("annotation {mistake}")),
    });
    limits.chain(shares).chain(class).collect()
}

/// What becomes of a pod, or of the pods of a template, whose annotation container runtimes refuse.
pub fn runtime_consequence(kind: &str) -> String {
    let pods = match kind {
        "Pod" => "this pod",
        _ => "pods of this template",
    };
    format!(
        "the container runtime will not start {pods}; write bits per second like \"10M\", from 1k to 1P"
    )
}
