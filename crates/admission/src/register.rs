//! Telling the API server by which authority the webhook is known.

use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, Resource};
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

/// Writes the authorities into both configurations of this name, where they are not there yet. A
/// configuration that does not exist is passed over: whoever installs netqos may leave it out.
///
/// # Errors
/// One cannot be read or written.
pub(crate) async fn register(
    client: &Client,
    name: &str,
    authorities: &str,
) -> Result<Found, RegisterError> {
    let mut found_all = Found::All;
    let all: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    if let Some(found) = all.get_opt(name).await.map_err(RegisterError::Look)? {
        let webhooks = found.webhooks.iter().flatten();
        let webhooks = webhooks.map(|it| (it.name.as_str(), &it.client_config));
        let written = write(&all, name, operations(webhooks, authorities)).await;
        written.map_err(RegisterError::Tell)?;
    } else {
        found_all = Found::NotAll;
    }
    let all: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    if let Some(found) = all.get_opt(name).await.map_err(RegisterError::Look)? {
        let webhooks = found.webhooks.iter().flatten();
        let webhooks = webhooks.map(|it| (it.name.as_str(), &it.client_config));
        let written = write(&all, name, operations(webhooks, authorities)).await;
        written.map_err(RegisterError::Tell)?;
    } else {
        found_all = Found::NotAll;
    }
    Ok(found_all)
}

/// A JSON patch that touches nothing but the authorities, and fails when the webhooks are others
/// than those that were read.
fn operations<'w>(
    webhooks: impl Iterator<Item = (&'w str, &'w WebhookClientConfig)>,
    authorities: &str,
) -> Vec<Value> {
    let wanted = ByteString(authorities.as_bytes().to_vec());
    let mut operations = Vec::new();
    for (index, (name, client)) in webhooks.enumerate() {
        if client.ca_bundle.as_ref() != Some(&wanted) {
            let of = format!("/webhooks/{index}");
            operations.push(json!({"op": "test", "path": format!("{of}/name"), "value": name}));
            let path = format!("{of}/clientConfig/caBundle");
            operations.push(json!({"op": "add", "path": path, "value": wanted}));
        }
    }
    operations
}

async fn write<K>(all: &Api<K>, name: &str, operations: Vec<Value>) -> kube::Result<()>
where
    K: Clone + DeserializeOwned + Resource + std::fmt::Debug,
{
    if operations.is_empty() {
        return Ok(());
    }
    let patch = json_patch::Patch(
        operations
            .into_iter()
            .filter_map(|one| serde_json::from_value(one).ok())
            .collect(),
    );
    let parameters = PatchParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PatchParams::default()
    };
    all.patch(name, &parameters, &Patch::Json::<()>(patch))
        .await?;
    Ok(())
}
