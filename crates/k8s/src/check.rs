//! What is wrong with an object, as far as netqos reads it: the same for the admission webhook, for
//! `netqos validate` and for the agent.

pub mod places;
pub mod pods;
pub mod slo;

use netqos_api::koordinator::{BACKEND_LABEL, BackendKind, annotated};
use netqos_core::Reason;
use serde_json::Value;

use crate::{FieldError, Object, object_from_value};

/// What was found wrong with an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// What netqos cannot follow.
    pub errors: Vec<FieldError>,
    /// What it follows, and is hardly meant.
    pub warnings: Vec<FieldError>,
}

impl Findings {
    fn errors(errors: Vec<FieldError>) -> Self {
        Self {
            errors,
            ..Self::default()
        }
    }
}

/// What is wrong with an object; `None` if nothing of netqos reads objects of this kind.
pub fn check_object(value: &Value) -> Option<Findings> {
    #[cfg(feature = "validate")]
    {
        if crate::Definition::of(value).is_some() {
            return Some(Findings::errors(crate::validate(value)));
        }
    }
    check_read(value, &object_from_value(value))
}

/// The same of an object that was read as this, but for the schema.
pub fn check_read(value: &Value, read: &Result<Object, Vec<FieldError>>) -> Option<Findings> {
    let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
    let (group, _) = text("apiVersion").split_once('/').unwrap_or_default();
    let kind = text("kind");
    let of_pods = pods::check_pod_annotations(group, kind, value);
    let of_pods = of_pods.into_iter().map(|mut mistake| {
        if mistake.stops_runtime {
            let consequence = pods::runtime_consequence(kind);
            mistake.error.message.push_str(&format!("; {consequence}"));
        }
        mistake.error
    });
    let mut errors: Vec<FieldError> = of_pods.collect();
    let misplaced = places::check_places(group, kind, value);
    match read {
        Err(unreadable) => Some(Findings::errors(unreadable.clone())),
        Ok(Object::Other { .. }) => {
            pods::pod_annotations(group, kind, value)?;
            let warnings = misplaced;
            Some(Findings { errors, warnings })
        }
        Ok(Object::SloConfig(..)) => Some(slo::check_slo_config(value)),
        Ok(Object::NodeSlo(..)) => Some(slo::check_node_slo(value)),
        Ok(Object::Pod(_, problems, _)) => {
            // An annotation of the pod's networks, which a CNI plugin writes: it stops nothing else.
            let unread = problems.iter().filter(|it| it.reason == Reason::Invalid);
            let warnings = unread.map(|it| match it.message.split_once(": ") {
                Some((path, message)) => FieldError::new(path, message),
                None => FieldError::new("", &it.message),
            });
            let warnings = warnings.chain(misplaced).collect();
            Some(Findings { errors, warnings })
        }
        Ok(Object::Node(node)) => {
            let annotation = annotated(&node.annotations).err();
            errors.extend(annotation.map(|mistake| {
                FieldError::new(
                    format!("metadata.annotations[{}]", mistake.path),
                    mistake.what,
                )
            }));
            let label = node.labels.get(BACKEND_LABEL);
            let label = label.and_then(|name| name.parse::<BackendKind>().err());
            let path = format!("metadata.labels[{BACKEND_LABEL}]");
            errors.extend(label.map(|not| FieldError::new(path, not)));
            let warnings = misplaced;
            Some(Findings { errors, warnings })
        }
        Ok(_) => Some(Findings::default()),
    }
}
