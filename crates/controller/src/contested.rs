//! What of a status is somebody else's, and not to be fought for.
//!
//! Conditions of our own types are ours. The text in `status.status` OVN-Kubernetes writes, too: who has
//! written that before us keeps it. That is found out by writing without force; what the server says then
//! names the fields.

use kube::core::response::Status;
use netqos_k8s::NetworkQosStatus;

/// What is not ours of one object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Contested {
    /// The text.
    text: bool,
}

impl Contested {
    /// What a server has refused to overwrite (409), as far as it is not ours to overwrite.
    pub(crate) fn told_by(refusal: &Status) -> Self {
        let details = refusal.details.iter();
        let mut causes = details.flat_map(|details| &details.causes);
        Self {
            text: causes.any(|cause| cause.field == ".status.status"),
        }
    }

    /// Both.
    pub(crate) fn add(&mut self, more: Self) {
        self.text |= more.text;
    }

    /// What is left of a status without what is not ours.
    pub(crate) fn ours(&self, mut status: NetworkQosStatus) -> NetworkQosStatus {
        if self.text {
            status.status = None;
        }
        status
    }

    /// What nobody else says any more is ours again.
    pub(crate) fn forget_gone(&mut self, status: Option<&NetworkQosStatus>) {
        self.text &= status.is_some_and(|it| it.status.is_some());
    }
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
    fn text_of_another_manager_is_left_to_it() {
        let status = json!({"status": "applied", "nodes": "1/1"});
        let status: NetworkQosStatus = serde_json::from_value(status).unwrap();
        let conditions = r#".status.conditions[type="Ready"].reason"#;
        let ours = Contested::told_by(&refusal(&[".status.nodes", conditions]));
        assert_eq!(ours, Contested::default());
        let mut contested = Contested::told_by(&refusal(&[".status.status", ".status.nodes"]));
        let ours = contested.ours(status.clone());
        assert_eq!((&ours.status, ours.nodes.as_deref()), (&None, Some("1/1")));
        contested.forget_gone(Some(&status));
        assert_ne!(contested, Contested::default());
        contested.forget_gone(Some(&ours));
        assert_eq!(contested, Contested::default());
    }
}
