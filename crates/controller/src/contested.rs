//! What of a status is somebody else's, and not to be fought for.
//!
//! Conditions of our own types are ours. The text in `status.status`, and conditions
//! `Ready-In-Zone-…`, OVN-Kubernetes writes, too: who has written those before us keeps them. That is
//! found out by writing without force; what the server says then names the fields.

use std::collections::BTreeSet;

use kube::core::response::Status;
use netqos_k8s::NetworkQosStatus;

/// What is not ours of one object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Contested {
    /// The text.
    text: bool,
    /// Types of conditions.
    types: BTreeSet<String>,
}

impl Contested {
    /// What a server has refused to overwrite (409), as far as it is not ours to overwrite.
    pub(crate) fn told_by(refusal: &Status) -> Self {
        let mut contested = Self::default();
        let causes = refusal.details.iter().flat_map(|details| &details.causes);
        for cause in causes {
            if cause.field == ".status.status" {
                contested.text = true;
            } else if let Some(type_) = type_of(&cause.field).filter(|it| is_of_zone(it)) {
                contested.types.insert(type_.to_owned());
            }
        }
        contested
    }

    /// Both.
    pub(crate) fn add(&mut self, more: Self) {
        self.text |= more.text;
        self.types.extend(more.types);
    }

    /// What is left of a status without what is not ours.
    pub(crate) fn ours(&self, mut status: NetworkQosStatus) -> NetworkQosStatus {
        if self.text {
            status.status = None;
        }
        if let Some(conditions) = &mut status.conditions {
            conditions.retain(|it| !self.types.contains(&it.type_));
        }
        status
    }

    /// What nobody else says any more is ours again.
    pub(crate) fn forget_gone(&mut self, status: Option<&NetworkQosStatus>) {
        self.text &= status.is_some_and(|it| it.status.is_some());
        let conditions = status.and_then(|it| it.conditions.as_ref());
        let conditions = conditions.into_iter().flatten();
        let there: BTreeSet<&str> = conditions.map(|it| it.type_.as_str()).collect();
        self.types.retain(|type_| there.contains(type_.as_str()));
    }
}

fn is_of_zone(type_: &str) -> bool {
    type_.starts_with("Ready-In-Zone-")
}

/// The type in `.status.conditions[type="TYPE"].reason`.
fn type_of(field: &str) -> Option<&str> {
    let rest = field.strip_prefix(".status.conditions[type=\"")?;
    rest.split_once("\"]").map(|(type_, _)| type_)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refusal(fields: &[&str]) -> Status {
        let causes = fields
            .iter()
            .map(|field| json!({"reason": "FieldManagerConflict", "message": "", "field": field}));
        let causes: Vec<_> = causes.collect();
        let status = json!({
            "status": "Failure", "code": 409, "reason": "Conflict", "details": {"causes": causes}
        });
        serde_json::from_value(status).unwrap()
    }

    #[test]
    fn the_text_and_zones_are_left_to_who_has_them_and_our_conditions_are_not() {
        let conditions = ["Ready", "Ready-In-Zone-a", "Ready-In-Zone-b"].map(|type_| {
            json!({
                "type": type_, "status": "True", "reason": "R", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z"
            })
        });
        let status = json!({"status": "applied", "nodes": "1/1", "conditions": conditions});
        let status: NetworkQosStatus = serde_json::from_value(status).unwrap();
        let types = |status: &NetworkQosStatus| -> Vec<String> {
            let conditions = status.conditions.iter().flatten();
            conditions.map(|it| it.type_.clone()).collect()
        };
        let mut contested = Contested::told_by(&refusal(&[
            ".status.status",
            ".status.nodes",
            r#".status.conditions[type="Ready"].reason"#,
            r#".status.conditions[type="Ready-In-Zone-a"].message"#,
        ]));
        let ours = contested.ours(status.clone());
        assert_eq!((&ours.status, ours.nodes.as_deref()), (&None, Some("1/1")));
        assert_eq!(types(&ours), ["Ready", "Ready-In-Zone-b"]);
        contested.forget_gone(Some(&status));
        assert_ne!(contested, Contested::default());
        contested.forget_gone(Some(&ours));
        assert_eq!(contested, Contested::default());
    }
}
