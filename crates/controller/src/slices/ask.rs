//! One write of a slice, as the server is asked for it, and what it answers.

use std::time::Duration;

use kube::api::{Api, DeleteParams, PostParams};
use kube::{Client, Error};
use netqos_cluster::{NotLeading, ObjectVersion};
use netqos_core::ObjectName;
use netqos_core::objects::PeerSlice;
use netqos_index::SliceWrite;
use netqos_k8s::NetworkQoSPeerSlice;
use tokio::time::timeout;

use super::named;

/// How long it may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is known of a slice on the server.
#[derive(Clone, Debug)]
pub(super) struct Version {
    pub(super) version: ObjectVersion,
    /// What it says. `None` once it was deleted: what is told of it until then is old.
    pub(super) slice: Option<PeerSlice>,
}

/// Why a slice was not written.
pub(super) enum Failure {
    /// The server said so.
    Refused(String),
    /// It said nothing.
    Silent(String),
    /// It was not asked: this replica no longer leads.
    NotLeading,
}

/// Has the server write a slice; `known` is the version of the one that is there.
pub(super) async fn ask(
    client: Client,
    write: SliceWrite,
    known: Option<ObjectVersion>,
) -> (SliceWrite, Result<Version, Failure>) {
    let answer = match timeout(PATIENCE, put(client, &write, known)).await {
        Ok(Ok(known)) => Ok(known),
        Ok(Err(why)) if NotLeading::caused(&why) => Err(Failure::NotLeading),
        Ok(Err(Error::Api(status))) => Err(Failure::Refused(format!(
            "{}: {}",
            status.code, status.message
        ))),
        Ok(Err(why)) => Err(Failure::Silent(netqos_core::with_causes(&why))),
        Err(_) => Err(Failure::Silent(format!(
            "no answer in {} s",
            PATIENCE.as_secs()
        ))),
    };
    (write, answer)
}

async fn put(
    client: Client,
    write: &SliceWrite,
    known: Option<ObjectVersion>,
) -> Result<Version, Error> {
    let ObjectName { namespace, name } = named(write);
    let api: Api<NetworkQoSPeerSlice> = Api::namespaced(client, namespace);
    match write {
        SliceWrite::Put(slice) => {
            let mut object = NetworkQoSPeerSlice::of(slice);
            let parameters = PostParams::default();
            let written = match known {
                None => api.create(&parameters, &object).await?,
                Some(known) => {
                    known.require(&mut object.metadata);
                    api.replace(name, &parameters, &object).await?
                }
            };
            Ok(Version {
                version: ObjectVersion::of(&written.metadata),
                slice: Some(slice.clone()),
            })
        }
        SliceWrite::Delete(_) => {
            // What is not known is not deleted.
            if let Some(known) = &known {
                let parameters = DeleteParams::default().preconditions(known.preconditions());
                match api.delete(name, &parameters).await {
                    Err(Error::Api(status)) if status.code == 404 => {}
                    other => drop(other?),
                }
            }
            Ok(Version {
                version: known.unwrap_or_default(),
                slice: None,
            })
        }
    }
}
