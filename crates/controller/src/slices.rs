//! Writes peer slices.
//!
//! Changes are collected for a moment, and a set that changes without end is written at a bounded
//! pace. Each write names the version of what it replaces, and none reads: what is there is known from
//! the watch. One that is refused, or not answered, ends the round: what comes after it may stand on
//! it. The next round begins from what the watch has told by then.

use std::collections::HashMap;
use std::time::Duration;

use kube::api::{Api, DeleteParams, PostParams, Preconditions};
use kube::{Client, Error, ResourceExt as _};
use netqos_core::ObjectName;
use netqos_core::objects::PeerSlice;
use netqos_index::{PeerChange, SliceWrite, Slicer};
use netqos_k8s::NetworkQoSPeerSlice;
use tokio::time::{Instant, timeout};

use crate::metrics::{Metrics, Outcome};

/// How long changes are collected when nothing was written for a while.
pub(crate) const SOON: Duration = Duration::from_millis(100);
/// The least time from one round to the next.
const APART: Duration = Duration::from_millis(600);
/// How long one write may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long to wait after a round that failed; twice as long each time, up to the most.
const AGAIN: Duration = Duration::from_secs(1);
const AGAIN_AT_MOST: Duration = Duration::from_secs(30);

/// The slices on the server, and what is to become of them.
pub(crate) struct SliceWriter {
    client: Client,
    slicer: Slicer,
    /// The versions of the slices that are there.
    versions: HashMap<ObjectName, Version>,
    /// When the next round is due, if one is.
    due: Option<Instant>,
    last: Option<Instant>,
    failures: u32,
    metrics: Metrics,
}

/// What is known of a slice on the server.
#[derive(Clone, Debug)]
struct Version {
    number: u64,
    /// What it says. `None` once it was deleted: what is told of it until then is old.
    slice: Option<PeerSlice>,
}

impl SliceWriter {
    /// `namespace` is the controller's.
    pub(crate) fn new(client: Client, namespace: &str, metrics: Metrics) -> Self {
        Self {
            client,
            slicer: Slicer::new(namespace),
            versions: HashMap::new(),
            due: None,
            last: None,
            failures: 0,
            metrics,
        }
    }

    /// Takes note of what became of sets.
    pub(crate) fn change(&mut self, changes: Vec<PeerChange>) {
        self.slicer.change(changes);
    }

    /// A slice is there, as the watch tells it.
    pub(crate) fn found(&mut self, slice: PeerSlice, version: u64) {
        let known = self.versions.get(&slice.name);
        if known.is_some_and(|known| version <= known.number) {
            // What we wrote ourselves, or what was there before.
            return;
        }
        let known = Version {
            number: version,
            slice: Some(slice.clone()),
        };
        self.versions.insert(slice.name.clone(), known);
        self.slicer.found(slice);
        self.wake();
    }

    /// A slice is gone, as the watch tells it.
    pub(crate) fn gone(&mut self, name: &ObjectName) {
        let known = self.versions.remove(name);
        // That of one that we have deleted ourselves is known.
        if known.is_some_and(|known| known.slice.is_some()) {
            self.slicer.gone(name);
            self.wake();
        }
    }

    /// Something is to be written.
    pub(crate) fn wake(&mut self) {
        if self.due.is_none() {
            let soon = Instant::now() + SOON;
            let apart = self.last.map(|last| last + APART);
            self.due = Some(apart.map_or(soon, |apart| apart.max(soon)));
        }
    }

    /// When the next round is due.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Writes what is to be written. To be called by the leader alone, once all is known.
    pub(crate) async fn round(&mut self) {
        self.due = None;
        let mut writes = self.slicer.take_writes().into_iter();
        let mut failed = false;
        for write in writes.by_ref() {
            let name = match &write {
                SliceWrite::Put(slice) => slice.name.clone(),
                SliceWrite::Delete(name) => name.clone(),
            };
            match self.write(&write).await {
                Ok(()) => self.metrics.wrote("networkqospeerslices", Outcome::Done),
                Err(why) => {
                    self.metrics.wrote("networkqospeerslices", Outcome::Failed);
                    tracing::warn!("the slice {name} could not be written: {why}");
                    self.undone(&write);
                    failed = true;
                    break;
                }
            }
        }
        for write in writes {
            self.undone(&write);
        }
        self.metrics.slices(self.slicer.slices());
        self.last = Some(Instant::now());
        self.failures = if failed { self.failures + 1 } else { 0 };
        if failed {
            let again = AGAIN * 2_u32.saturating_pow(self.failures - 1).min(1 << 8);
            self.due = Some(Instant::now() + again.min(AGAIN_AT_MOST));
        }
    }

    async fn write(&mut self, write: &SliceWrite) -> Result<(), String> {
        match timeout(PATIENCE, self.ask(write)).await {
            Ok(Ok(known)) => {
                let name = match write {
                    SliceWrite::Put(slice) => &slice.name,
                    SliceWrite::Delete(name) => name,
                };
                self.versions.insert(name.clone(), known);
                Ok(())
            }
            Ok(Err(why)) => Err(netqos_core::with_causes(&why)),
            Err(_) => Err(format!("no answer in {} s", PATIENCE.as_secs())),
        }
    }

    async fn ask(&self, write: &SliceWrite) -> Result<Version, Error> {
        let known = |name: &ObjectName| self.versions.get(name).filter(|it| it.slice.is_some());
        match write {
            SliceWrite::Put(slice) => {
                let ObjectName { namespace, name } = &slice.name;
                let api: Api<NetworkQoSPeerSlice> = Api::namespaced(self.client.clone(), namespace);
                let mut object = NetworkQoSPeerSlice::of(slice);
                let parameters = PostParams::default();
                let written = match known(&slice.name) {
                    None => api.create(&parameters, &object).await?,
                    Some(known) => {
                        object.metadata.resource_version = Some(known.number.to_string());
                        api.replace(name, &parameters, &object).await?
                    }
                };
                let number = written.resource_version();
                Ok(Version {
                    number: number.and_then(|it| it.parse().ok()).unwrap_or_default(),
                    slice: Some(slice.clone()),
                })
            }
            SliceWrite::Delete(full) => {
                let ObjectName { namespace, name } = full;
                let api: Api<NetworkQoSPeerSlice> = Api::namespaced(self.client.clone(), namespace);
                let known = known(full);
                let parameters = DeleteParams {
                    preconditions: known.map(|known| Preconditions {
                        resource_version: Some(known.number.to_string()),
                        uid: None,
                    }),
                    ..DeleteParams::default()
                };
                match api.delete(name, &parameters).await {
                    Err(Error::Api(status)) if status.code == 404 => {}
                    other => drop(other?),
                }
                Ok(Version {
                    number: known.map_or(0, |known| known.number),
                    slice: None,
                })
            }
        }
    }

    /// A write was not done, or nobody knows.
    fn undone(&mut self, write: &SliceWrite) {
        match write {
            SliceWrite::Put(slice) => self.slicer.gone(&slice.name),
            // As long as it is there, it has to go.
            SliceWrite::Delete(name) => {
                let known = self.versions.get(name);
                if let Some(slice) = known.and_then(|known| known.slice.clone()) {
                    self.slicer.found(slice);
                }
            }
        }
    }
}
