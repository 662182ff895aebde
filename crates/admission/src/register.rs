//! Telling the API server by which authority the webhook is known.

use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, Resource, ResourceExt as _};
use netqos_cluster::ObjectVersion;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Who writes, in `managedFields`.
pub(crate) const MANAGER: &str = "netqos-webhook";

/// Which of the configurations there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Both.
    All,
    /// Not both.
    NotAll,
}

/// Why an API server may not know the authorities.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RegisterError {
    /// What it knows could not be read.
    #[error("read the webhook configurations: {0}")]
    Look(#[source] kube::Error),
    /// It does not know them, and could not be told.
    #[error("write its authority into the webhook configurations: {0}")]
    Tell(#[source] kube::Error),
}

/// The webhook configurations, in the state in which they were read. A missing one is skipped: it is optional.
pub(crate) struct Configurations {
    validating: Option<ValidatingWebhookConfiguration>,
    mutating: Option<MutatingWebhookConfiguration>,
}

impl Configurations {
    /// Reads both of this name.
    ///
    /// # Errors
    /// Returns an error if one cannot be read.
    pub(crate) async fn read(client: &Client, name: &str) -> Result<Self, RegisterError> {
        let validating = Api::all(client.clone());
        let mutating = Api::all(client.clone());
        Ok(Self {
            validating: validating
                .get_opt(name)
                .await
                .map_err(RegisterError::Look)?,
            mutating: mutating.get_opt(name).await.map_err(RegisterError::Look)?,
        })
    }

    /// Writes authorities into both configurations unless they hold them. Read the authorities after the configurations.
    /// The API server refuses a write (409) if the configuration has changed since it was read.
    ///
    /// # Errors
    /// Returns an error if one cannot be written.
    pub(crate) async fn register(
        &self,
        client: &Client,
        authorities: &str,
    ) -> Result<Found, RegisterError> {
        if let Some(read) = &self.validating {
            let webhooks = read.webhooks.iter().flatten();
            let webhooks = webhooks.map(|it| (&*it.name, &it.client_config));
            write(client, read, webhooks, authorities).await?;
        }
        if let Some(read) = &self.mutating {
            let webhooks = read.webhooks.iter().flatten();
            let webhooks = webhooks.map(|it| (&*it.name, &it.client_config));
            write(client, read, webhooks, authorities).await?;
        }
        match self.validating.is_some() && self.mutating.is_some() {
            true => Ok(Found::All),
            false => Ok(Found::NotAll),
        }
    }
}

/// Patches nothing but the authorities of a configuration, in the state in which it was read.
async fn write<'w, K>(
    client: &Client,
    read: &K,
    webhooks: impl Iterator<Item = (&'w str, &'w WebhookClientConfig)>,
    authorities: &str,
) -> Result<(), RegisterError>
where
    K: Clone + DeserializeOwned + Resource<DynamicType = ()> + std::fmt::Debug,
{
    let wanted = ByteString(authorities.as_bytes().to_vec());
    // A strategic merge patch knows webhooks by their names.
    let webhooks: Vec<Value> = webhooks
        .filter(|(_, client)| client.ca_bundle.as_ref() != Some(&wanted))
        .map(|(name, _)| json!({"name": name, "clientConfig": {"caBundle": wanted}}))
        .collect();
    if webhooks.is_empty() {
        return Ok(());
    }
    let mut patch = json!({"metadata": {}, "webhooks": webhooks});
    ObjectVersion::of(read.meta()).require_in(&mut patch["metadata"]);
    let parameters = PatchParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PatchParams::default()
    };
    Api::<K>::all(client.clone())
        .patch(&read.name_any(), &parameters, &Patch::Strategic(patch))
        .await
        .map_err(RegisterError::Tell)?;
    Ok(())
}
