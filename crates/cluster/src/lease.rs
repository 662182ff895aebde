//! Who holds a Lease.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client};
use netqos_core::with_causes;
use tokio::time::timeout;

/// How long the server may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The Lease of this name; `None` where there is none. One request.
///
/// # Errors
/// Why it is not known, in words: the server does not answer within 10 s, or refuses.
pub async fn lease(client: &Client, namespace: &str, name: &str) -> Result<Option<Lease>, String> {
    let api: Api<Lease> = Api::namespaced(client.clone(), namespace);
    match timeout(PATIENCE, api.get_opt(name)).await {
        Ok(Ok(lease)) => Ok(lease),
        Ok(Err(kube::Error::Api(status))) => Err(format!("{}: {}", status.code, status.message)),
        Ok(Err(why)) => Err(with_causes(&why)),
        Err(_) => Err("it does not answer".to_owned()),
    }
}
