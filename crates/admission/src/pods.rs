//! Bandwidth annotations and classes of pods, and of what makes pods, and limits in the wrong place of them.

use netqos_k8s::FieldError;
use netqos_k8s::check::places::check_places;
use netqos_k8s::check::pods::{
    check_pod_annotations, pod_annotations, pod_class_label, runtime_consequence,
};
use serde_json::Value;

use crate::findings::Findings;

/// What is wrong with the annotations of an object of this kind, where they are other ones than
/// before: what is written again unchanged was said already.
pub(crate) fn check(
    (group, kind): (&str, &str),
    object: &Value,
    old: Option<&Value>,
    strict: bool,
) -> Findings {
    let mut findings = Findings::default();
    let misplaced = |object| check_places(group, kind, object);
    let before = old.map(misplaced).unwrap_or_default();
    let misplaced = misplaced(object).into_iter();
    for error in misplaced.filter(|it| !before.contains(it)) {
        findings.warn(error.to_string());
    }
    let said = |object| {
        let annotations = pod_annotations(group, kind, object);
        (annotations, pod_class_label(group, kind, object))
    };
    if old.is_some_and(|old| said(old) == said(object)) {
        return findings;
    }
    for mistake in check_pod_annotations(group, kind, object) {
        let FieldError { path, message } = mistake.error;
        // The runtime has read a running pod's annotations already.
        let is_running = kind == "Pod" && old.is_some();
        let refused = (mistake.stops_runtime && !is_running).then(|| runtime_consequence(kind));
        if strict {
            let refused = refused.map_or_else(String::new, |refused| format!("; {refused}"));
            let error = FieldError::new(path, format!("{message}{refused}"));
            findings.invalid.push(error);
            continue;
        }
        let consequence = refused.unwrap_or_else(|| {
            match is_running {
                true if mistake.stops_runtime => {
                    "netqos keeps the last valid limit of this direction"
                }
                _ => "netqos does not follow this",
            }
            .to_owned()
        });
        // The consequence first: clients shorten a long warning.
        findings.warn(format!("{consequence}: {message}"));
    }
    findings
}
