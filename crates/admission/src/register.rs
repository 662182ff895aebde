//! Telling the API server by which authority the webhook is known.

use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, Resource, ResourceExt as _};
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
        let mut found = Found::All;
        match &self.validating {
            Some(read) => {
                let webhooks = read.webhooks.iter().flatten();
                let clients = webhooks.map(|it| &it.client_config);
                write(client, read, clients, authorities).await?;
            }
            None => found = Found::NotAll,
        }
        match &self.mutating {
            Some(read) => {
                let webhooks = read.webhooks.iter().flatten();
                let clients = webhooks.map(|it| &it.client_config);
                write(client, read, clients, authorities).await?;
            }
            None => found = Found::NotAll,
        }
        Ok(found)
    }
}

/// Patches nothing but the authorities of a configuration, in the state in which it was read.
async fn write<K>(
    client: &Client,
    read: &K,
    clients: impl Iterator<Item = &WebhookClientConfig>,
    authorities: &str,
) -> Result<(), RegisterError>
where
    K: Clone + DeserializeOwned + Resource<DynamicType = ()> + std::fmt::Debug,
{
    let wanted = ByteString(authorities.as_bytes().to_vec());
    let differs = |client: &WebhookClientConfig| client.ca_bundle.as_ref() != Some(&wanted);
    let differ = clients.enumerate().filter(|(_, client)| differs(client));
    let mut operations: Vec<Value> = differ
        .map(|(index, _)| {
            let path = format!("/webhooks/{index}/clientConfig/caBundle");
            json!({"op": "add", "path": path, "value": wanted})
        })
        .collect();
    if operations.is_empty() {
        return Ok(());
    }
    let metadata = read.meta();
    let state = [
        ("uid", &metadata.uid),
        ("resourceVersion", &metadata.resource_version),
    ];
    for (field, value) in state {
        operations
            .push(json!({"op": "replace", "path": format!("/metadata/{field}"), "value": value}));
    }
    let patch: json_patch::Patch = serde_json::from_value(operations.into())
        .map_err(|why| RegisterError::Tell(kube::Error::SerdeError(why)))?;
    let parameters = PatchParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PatchParams::default()
    };
    Api::<K>::all(client.clone())
        .patch(&read.name_any(), &parameters, &Patch::Json::<()>(patch))
        .await
        .map_err(RegisterError::Tell)?;
    Ok(())
}
