//! Objects, read once.

use std::fmt;
use std::time::Duration;

use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::{Api, Client, Resource};
use netqos_core::{ObjectName, with_causes};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{Kind, Raw};

/// How long the server may take for one answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// How many objects are asked for at a time: of a large cluster never all are held as they came.
const PAGE: u32 = 500;

/// Why something was not read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The server does not know the kind.
    #[error("the API server does not know {0}")]
    UnknownKind(String),
    /// Whoever asks may not.
    #[error(
        "you may not list {plural}: have a role with the verbs get and list for them ({message})"
    )]
    Forbidden {
        /// The kind's plural name.
        plural: String,
        /// What the server says.
        message: String,
    },
    /// The server refuses it, or cannot be reached.
    #[error("the API server does not tell of {plural}: {why}")]
    Failed {
        /// The kind's plural name.
        plural: String,
        /// What it says, or why it says nothing.
        why: String,
    },
}

impl ReadError {
    /// True when somebody else, or the same one in one namespace only, may be told.
    pub fn is_forbidden(&self) -> bool {
        matches!(self, Self::Forbidden { .. })
    }

    /// True when there is no such kind.
    pub fn is_unknown_kind(&self) -> bool {
        matches!(self, Self::UnknownKind(_))
    }

    pub(crate) fn of(plural: &str, why: &kube::Error) -> Self {
        let plural = plural.to_owned();
        match why {
            kube::Error::Api(status) => match status.code {
                404 => Self::UnknownKind(plural),
                403 => Self::Forbidden {
                    plural,
                    message: status.message.clone(),
                },
                code => Self::Failed {
                    plural,
                    why: format!("{code}: {}", status.message),
                },
            },
            why => Self::Failed {
                plural,
                why: with_causes(why),
            },
        }
    }
}

/// Shows every object of a kind that matters to netqos, in one namespace or in all, as it came.
///
/// # Errors
/// The server does not tell, or not within 30 s for each 500 of them.
pub async fn list(
    client: &Client,
    kind: Kind,
    namespace: Option<&str>,
    mut each: impl FnMut(Value),
) -> Result<(), ReadError> {
    let api: Api<Raw> = match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &kind),
        None => Api::all_with(client.clone(), &kind),
    };
    let all = ListParams::default();
    pages(&api, kind.plural(), all, |raw| each(raw.into_value(kind))).await
}

/// Returns an object of a kind that matters to netqos as it came, or `None` if it does not exist. The server answers from
/// its database, and not from a cache that may be behind.
///
/// # Errors
/// Returns an error if the server refuses, or does not answer within `patience`.
pub async fn get(
    client: &Client,
    kind: Kind,
    name: &ObjectName,
    patience: Duration,
) -> Result<Option<Value>, ReadError> {
    let api: Api<Raw> = Api::namespaced_with(client.clone(), &name.namespace, &kind);
    match tokio::time::timeout(patience, api.get_opt(&name.name)).await {
        Ok(Ok(found)) => Ok(found.map(|raw| raw.into_value(kind))),
        Ok(Err(why)) => Err(ReadError::of(kind.plural(), &why)),
        Err(_) => Err(ReadError::Failed {
            plural: kind.plural().to_owned(),
            why: format!("no answer in {} s", patience.as_secs()),
        }),
    }
}

/// Which objects of a resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Which<'a> {
    /// Every one.
    #[default]
    All,
    /// Those of this name, which each namespace may have.
    Named(&'a str),
    /// Those with these labels: `a=b,c=d`.
    Labelled(&'a str),
}

/// The objects of any other resource, `("apps/v1", "DaemonSet", "daemonsets")`, in one namespace or in all.
///
/// # Errors
/// As [`list`].
pub async fn list_any(
    client: &Client,
    (api_version, kind, plural): (&str, &str, &str),
    namespace: Option<&str>,
    which: Which<'_>,
) -> Result<Vec<Value>, ReadError> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let resource = ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    };
    let api: Api<DynamicObject> = match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let parameters = match which {
        Which::All => ListParams::default(),
        Which::Named(name) => ListParams::default().fields(&format!("metadata.name={name}")),
        Which::Labelled(labels) => ListParams::default().labels(labels),
    };
    let mut all = Vec::new();
    pages(&api, plural, parameters, |object: DynamicObject| {
        all.extend(serde_json::to_value(object));
    })
    .await?;
    Ok(all)
}

async fn pages<K>(
    api: &Api<K>,
    plural: &str,
    parameters: ListParams,
    mut each: impl FnMut(K),
) -> Result<(), ReadError>
where
    K: Resource + Clone + DeserializeOwned + fmt::Debug,
{
    let mut parameters = parameters.limit(PAGE);
    loop {
        let answer = tokio::time::timeout(PATIENCE, api.list(&parameters)).await;
        let page = match answer {
            Ok(Ok(page)) => page,
            Ok(Err(why)) => return Err(ReadError::of(plural, &why)),
            Err(_) => {
                return Err(ReadError::Failed {
                    plural: plural.to_owned(),
                    why: format!("no answer in {} s", PATIENCE.as_secs()),
                });
            }
        };
        let next = page.metadata.continue_.filter(|it| !it.is_empty());
        page.items.into_iter().for_each(&mut each);
        match next {
            Some(next) => parameters = parameters.continue_token(&next),
            None => return Ok(()),
        }
    }
}
