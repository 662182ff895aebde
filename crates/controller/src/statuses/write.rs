//! A status is written, and nobody else's part of it.
//!
//! It is applied to the object that it was computed for, in the state that was known then, and to no other: a status
//! that a replica computed before it was stopped does not replace a newer one.

use kube::api::{Api, Patch, PatchParams};
use kube::{Client, Resource as _};
use netqos_cluster::{Kind, ObjectVersion, Raw, is_outdated};
use netqos_coexistence::MANAGER;
use netqos_core::ObjectName;
use netqos_k8s::NetworkQosStatus;
use serde_json::json;

use crate::contested::Contested;
use crate::events::Told;

/// A status that is to be written.
pub(super) struct Write {
    pub(super) name: ObjectName,
    /// The state of the object that this is the status of.
    pub(super) version: ObjectVersion,
    /// `None`: what is ours is taken back.
    pub(super) status: Option<NetworkQosStatus>,
    pub(super) told: Option<Told>,
}

/// What a server has answered.
pub(super) struct Written {
    pub(super) version: u64,
    pub(super) contested: Contested,
}

impl Write {
    /// Applies the status; what is somebody else's stays.
    pub(super) async fn put(&self, client: Client) -> Result<Written, kube::Error> {
        let parameters = PatchParams::apply(MANAGER);
        let refusal = match self.apply(&client, self.status.as_ref(), &parameters).await {
            Err(kube::Error::Api(status)) if status.code == 409 && !is_outdated(&status) => status,
            answer => {
                return answer.map(|version| Written {
                    version,
                    contested: Contested::default(),
                });
            }
        };
        let contested = Contested::told_by(&refusal);
        let ours = self.status.clone().map(|status| contested.ours(status));
        let version = self
            .apply(&client, ours.as_ref(), &parameters.force())
            .await?;
        Ok(Written { version, contested })
    }

    /// Gives back the object's version.
    async fn apply(
        &self,
        client: &Client,
        status: Option<&NetworkQosStatus>,
        parameters: &PatchParams,
    ) -> Result<u64, kube::Error> {
        let ObjectName { namespace, name } = &self.name;
        // As it comes: one whose spec cannot be read has a status all the same.
        let api: Api<Raw> = Api::namespaced_with(client.clone(), namespace, &Kind::NetworkQoS);
        let mut body = json!({
            "apiVersion": "k8s.ovn.org/v1alpha1",
            "kind": "NetworkQoS",
            "metadata": {"name": &**name, "namespace": &**namespace},
        });
        self.version.require_in(&mut body["metadata"]);
        if let Some(status) = status {
            body["status"] = json!(status);
        }
        let written = api
            .patch_status(name, parameters, &Patch::Apply(&body))
            .await?;
        Ok(ObjectVersion::of(written.meta()).number)
    }
}
