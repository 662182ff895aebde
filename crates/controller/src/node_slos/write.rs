//! A NodeSLO is written: what of it is ours, and nothing else.
//!
//! It is applied to the object in the state that is known, or creates the object where none is known, and is refused
//! otherwise.

use std::sync::Arc;

use kube::api::{Api, Patch, PatchParams};
use kube::core::response::Status;
use kube::{Client, Resource as _};
use netqos_cluster::{Kind, NotLeading, ObjectVersion, Raw, is_outdated, require_absent};
use netqos_coexistence::MANAGER;
use serde_json::{Map, Value, json};

/// What is to be written.
pub(super) struct Write {
    pub(super) node: Arc<str>,
    /// The Node's uid: it goes with that.
    pub(super) uid: String,
    pub(super) spec: Map<String, Value>,
    /// The state of the object that this is based on; `None`: no object is known.
    pub(super) version: Option<ObjectVersion>,
    /// Whoever else has a field loses it.
    pub(super) force: bool,
}

/// Why it is not.
pub(super) enum Failure {
    /// These have written fields of ours otherwise.
    Theirs(Vec<String>),
    /// The object is in another state than the known one, which the watch reports soon.
    Outdated(kube::Error),
    /// This replica no longer leads.
    NotLeading,
    /// The server does not take it.
    Refused(kube::Error),
}

impl Write {
    /// Applies it. Gives back the object's version.
    pub(super) async fn put(&self, client: Client) -> Result<ObjectVersion, Failure> {
        let kind = Kind::NodeSlo;
        let api: Api<Raw> = Api::all_with(client, &kind);
        let node = &*self.node;
        let mut body = json!({
            "apiVersion": kind.api_version(),
            "kind": kind.name(),
            "metadata": {
                "name": node,
                "ownerReferences": [
                    {"apiVersion": "v1", "kind": "Node", "name": node, "uid": self.uid},
                ],
            },
            "spec": self.spec,
        });
        match &self.version {
            Some(version) => version.require_in(&mut body["metadata"]),
            None => require_absent(&mut body["metadata"]),
        }
        let parameters = PatchParams {
            force: self.force,
            ..PatchParams::apply(MANAGER)
        };
        match api.patch(node, &parameters, &Patch::Apply(&body)).await {
            Ok(written) => Ok(ObjectVersion::of(written.meta())),
            Err(why) if NotLeading::caused(&why) => Err(Failure::NotLeading),
            Err(kube::Error::Api(status)) if is_outdated(&status) => {
                Err(Failure::Outdated(kube::Error::Api(status)))
            }
            Err(kube::Error::Api(status))
                if status.code == 409 && !managers(&status).is_empty() =>
            {
                Err(Failure::Theirs(managers(&status)))
            }
            Err(why) => Err(Failure::Refused(why)),
        }
    }
}

/// Who has the fields that a server did not overwrite, each once: of `conflict with "NAME" using
/// VERSION`, as its causes say.
fn managers(refusal: &Status) -> Vec<String> {
    let causes = refusal.details.iter().flat_map(|details| &details.causes);
    let causes = causes.filter(|cause| cause.reason == "FieldManagerConflict");
    let named = causes.filter_map(|cause| {
        let (_, rest) = cause.message.split_once("conflict with \"")?;
        Some(rest.split_once('"')?.0.to_owned())
    });
    let mut managers: Vec<String> = named.collect();
    managers.sort();
    managers.dedup();
    managers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_a_field_is_in_the_refusal() {
        let causes: Vec<Value> = [
            ("koordinator-manager", ".spec.a"),
            ("kubectl-edit", ".spec.b"),
            ("koordinator-manager", ".spec.c"),
        ]
        .into_iter()
        .map(|(manager, field)| {
            json!({
                "reason": "FieldManagerConflict", "field": field,
                "message": format!("conflict with \"{manager}\" using slo.koordinator.sh/v1alpha1"),
            })
        })
        .collect();
        let status = json!({
            "status": "Failure", "code": 409, "reason": "Conflict", "details": {"causes": causes}
        });
        let managers = managers(&serde_json::from_value(status).unwrap());
        assert_eq!(managers, ["koordinator-manager", "kubectl-edit"]);
    }
}
