//! The state of an object that a write is based on.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::Preconditions;
use kube::core::response::Status;
use serde_json::{Value, json};

/// The uid and resourceVersion of an object. A write that carries both is refused (409) once the object is another
/// one or was written since.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectVersion {
    /// `metadata.uid`.
    pub uid: Arc<str>,
    /// `metadata.resourceVersion`; 0 if it is not a number.
    pub number: u64,
}

impl ObjectVersion {
    /// Returns that of an object with this metadata.
    pub fn of(metadata: &ObjectMeta) -> Self {
        let number = metadata.resource_version.as_deref();
        Self {
            uid: metadata.uid.as_deref().unwrap_or_default().into(),
            number: number.and_then(|it| it.parse().ok()).unwrap_or_default(),
        }
    }

    /// The preconditions of a delete.
    pub fn preconditions(&self) -> Preconditions {
        Preconditions {
            uid: Some(self.uid.to_string()),
            resource_version: Some(self.number.to_string()),
        }
    }

    /// Has an update replace this state only.
    pub fn require(&self, metadata: &mut ObjectMeta) {
        metadata.uid = Some(self.uid.to_string());
        metadata.resource_version = Some(self.number.to_string());
    }

    /// Has an apply change this state only; `metadata` is that of the applied object.
    pub fn require_in(&self, metadata: &mut Value) {
        metadata["uid"] = json!(self.uid);
        metadata["resourceVersion"] = self.number.to_string().into();
    }
}

/// Has an apply create its object only: it is refused (409) if the object exists. `metadata` is that of the
/// applied object.
///
/// kube-apiserver compares the resourceVersion of an apply with that of the existing object, and ignores it where
/// none exists (`Store.Update` in k8s.io/apiserver). No object has version 1, etcd's revision before the first write.
pub fn require_absent(metadata: &mut Value) {
    metadata["resourceVersion"] = "1".into();
}

/// Returns true if a write was refused since the object is no longer in the state that the write is based on: it
/// was written, deleted or recreated. The watch reports the new state.
///
/// A field that another manager has applied is also a 409, with causes that name it.
pub fn is_outdated(refusal: &Status) -> bool {
    let mut causes = refusal.details.iter().flat_map(|details| &details.causes);
    refusal.code == 409
        && refusal.reason != "AlreadyExists"
        && !causes.any(|cause| cause.reason == "FieldManagerConflict")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_outdated_tells_versions_from_field_managers_and_names() {
        let cause = json!([{"reason": "FieldManagerConflict", "message": "", "field": ".status"}]);
        for (code, reason, causes, outdated) in [
            (409, "Conflict", json!([]), true),
            (409, "Conflict", cause, false),
            (409, "AlreadyExists", json!([]), false),
            (404, "NotFound", json!([]), false),
        ] {
            let status = json!({
                "status": "Failure", "code": code, "reason": reason, "details": {"causes": causes}
            });
            let status: Status = serde_json::from_value(status).unwrap();
            assert_eq!(is_outdated(&status), outdated, "{code} {reason}");
        }
    }

    #[test]
    fn object_version_is_required_by_every_kind_of_write() {
        let version = ObjectVersion {
            uid: "u".into(),
            number: 7,
        };
        let mut metadata = ObjectMeta::default();
        version.require(&mut metadata);
        assert_eq!(ObjectVersion::of(&metadata), version);
        let mut applied = json!({"name": "a"});
        version.require_in(&mut applied);
        let right = json!({"name": "a", "uid": "u", "resourceVersion": "7"});
        assert_eq!(applied, right);
        let preconditions = serde_json::to_value(version.preconditions()).unwrap();
        assert_eq!(preconditions, json!({"uid": "u", "resourceVersion": "7"}));
    }
}
