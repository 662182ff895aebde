//! An object is written.

use std::fmt::Debug;
use std::time::Duration;

use kube::api::{Patch, PatchParams};
use kube::{Api, Client, Resource};
use netqos_core::with_causes;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// How long the server may take to answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// Why an object was not written. It is worth to try again later.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The server does not know the kind.
    #[error("404: the API server does not know {0}: install its definition (deploy/crds)")]
    UnknownKind(String),
    /// Whoever asks may not.
    #[error(
        "403: it may not patch and create {plural}: give its ClusterRole these verbs ({message})"
    )]
    Forbidden {
        /// The kind's plural name.
        plural: String,
        /// What the server says.
        message: String,
    },
    /// Its definition does not have a field of it: it is an older one.
    #[error(
        "{0}: the definition is an older one; install this version's (kubectl apply --server-side \
         --force-conflicts -k deploy/crds)"
    )]
    Undeclared(String),
    /// The server refuses it, or cannot be reached.
    #[error("{0}")]
    Failed(String),
}

/// Puts a cluster-wide object there as it is, by server-side apply, whether it was there before or not.
/// Fields that this manager wrote before and does not write now go. Nothing is read.
///
/// # Errors
/// The server does not take it, or does not answer within 30 s.
pub async fn apply<K>(client: &Client, manager: &str, object: &K) -> Result<(), WriteError>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Serialize,
{
    let parameters = PatchParams::apply(manager).force();
    written::<K>(patch(client, &parameters, object).await)
}

/// Applies a cluster-wide object as a dry run, which changes nothing. Returns the API server's message if it
/// refuses the object itself.
///
/// # Errors
/// Returns an error if the request fails for another reason, such as missing permissions, or is not answered
/// within 30 s.
pub async fn dry_run<K>(
    client: &Client,
    manager: &str,
    object: &K,
) -> Result<Option<String>, WriteError>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Serialize,
{
    let parameters = PatchParams::apply(manager).force().dry_run();
    match patch(client, &parameters, object).await {
        Err(kube::Error::Api(status)) if [400, 422].contains(&status.code) => {
            Ok(Some(status.message.clone()))
        }
        answer => written::<K>(answer).map(|()| None),
    }
}

async fn patch<K>(client: &Client, parameters: &PatchParams, object: &K) -> kube::Result<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Serialize,
{
    let api: Api<K> = Api::all(client.clone());
    let name = object.meta().name.clone().unwrap_or_default();
    let patch = Patch::Apply(object);
    let written = api.patch(&name, parameters, &patch);
    let in_time = tokio::time::timeout(PATIENCE, written).await;
    in_time.unwrap_or_else(|_| Err(kube::Error::Service("it does not answer".into())))
}

fn written<K: Resource<DynamicType = ()>>(answer: kube::Result<K>) -> Result<(), WriteError> {
    match answer {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) => Err(match status.code {
            404 => WriteError::UnknownKind(K::plural(&()).into_owned()),
            403 => WriteError::Forbidden {
                plural: K::plural(&()).into_owned(),
                message: status.message.clone(),
            },
            _ if is_undeclared(&status.message) => WriteError::Undeclared(status.message.clone()),
            code => WriteError::Failed(format!("{code}: {}", status.message)),
        }),
        Err(why) => Err(WriteError::Failed(with_causes(&why))),
    }
}

/// True when a server says that a definition does not have a field that was applied. Other ways of
/// writing have it dropped; an apply is refused as a whole.
pub fn is_undeclared(message: &str) -> bool {
    message.contains("field not declared in schema")
}
