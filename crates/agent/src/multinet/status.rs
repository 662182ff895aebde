//! The annotation `network-status` of pods, as the plugin's records have it.
//!
//! ADD does not wait for it, and no message tells of it: a record is on the disk before ADD ends, and the annotation is
//! compared with it whenever either changes. So an agent that was away, or a server that did not answer, delays it only; and
//! what a tenant writes in its place is written over, of each pod once in [`SETTLES`].

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use netqos_api::multinet::PodName;
use netqos_api::npwg::{NETWORK_STATUS, write_status};
use netqos_cluster::{AnnotateError, Client, annotate_pod};
use netqos_core::{Digest, PodId};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::sleep;

use super::NetworkCatalog;
use super::counts::StatusWrite;
use super::records::{is_record, paths, record};
use crate::Error;
use crate::watch::{self, Watch};

/// The time after which all is compared although no record has changed.
const RESCAN: Duration = Duration::from_secs(60);

/// The first and longest wait for a server that takes no patch. A pod whose patch alone it refuses waits the longest one.
const SOON: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(60);

/// The time for which an annotation that was written is not written again.
const SETTLES: Duration = Duration::from_secs(5);

/// The time for which changes of records are gathered: an ADD writes a record for each network.
const GATHERING: Duration = Duration::from_millis(50);

/// The pods whose networks are all made, with their annotations, by the files of their records.
type Found = BTreeMap<PathBuf, (PodName, Status)>;

/// The annotations that pods should have. Of several sandboxes of a pod, the youngest counts.
type Statuses = BTreeMap<PodName, Status>;

/// The annotation of a record.
#[derive(Clone, PartialEq)]
struct Status {
    /// The time of the record.
    time: SystemTime,
    text: String,
    digest: Digest,
}

/// Writes the annotations until the process ends. `records` is the directory of the plugin's records.
///
/// # Errors
/// Returns an error if the thread that reads the records cannot be started.
pub(crate) fn write_statuses(
    client: Client,
    records: PathBuf,
    catalog: NetworkCatalog,
) -> crate::Result<impl Future<Output = ()>> {
    let (sender, receiver) = unbounded_channel();
    let thread = thread::Builder::new().name("network-status".into());
    thread
        .spawn(move || watch_records(&records, &sender))
        .map_err(Error::Thread)?;
    Ok(write(client, receiver, catalog))
}

fn watch_records(directory: &Path, statuses: &UnboundedSender<Statuses>) {
    let watch = Watch::of_renamed(directory.to_owned());
    let mut watches = [watch.gathering(GATHERING)];
    let mut found = Found::from_iter(paths(directory).filter_map(read));
    let mut sent = None;
    loop {
        let desired = youngest(&found);
        if sent.as_ref() != Some(&desired) {
            if statuses.send(desired.clone()).is_err() {
                return;
            }
            sent = Some(desired);
        }
        let mut heard = match watch::wait(&mut watches, RESCAN) {
            Ok(heard) => heard,
            Err(error) => {
                tracing::error!("records of netqos-multinet are not watched any more: {error}");
                return;
            }
        };
        watches[0].aim();
        match heard.remove(&0).filter(|it| !it.everything) {
            Some(heard) => {
                for path in heard.files.iter().map(|name| directory.join(name)) {
                    found.remove(&path);
                    found.extend(is_record(&path).then(|| read(path)).flatten());
                }
            }
            None => found = paths(directory).filter_map(read).collect(),
        }
    }
}

/// Reads a record of a pod whose networks are all made.
fn read(path: PathBuf) -> Option<(PathBuf, (PodName, Status))> {
    let (time, sandbox) = record(&path)?;
    let (pod, status) = (sandbox.pod?, sandbox.status?);
    let text = write_status(&status);
    let digest = Digest::of(&text);
    Some((path, (pod, Status { time, text, digest })))
}

fn youngest(found: &Found) -> Statuses {
    let mut youngest = Statuses::new();
    for (pod, status) in found.values() {
        let known = youngest.get(pod);
        if known.is_none_or(|known: &Status| known.time < status.time) {
            youngest.insert(pod.clone(), status.clone());
        }
    }
    youngest
}

async fn write(client: Client, mut records: UnboundedReceiver<Statuses>, catalog: NetworkCatalog) {
    let mut writer = Writer::new(client, catalog);
    let mut wait = RESCAN;
    loop {
        tokio::select! {
            received = records.recv() => match received {
                Some(desired) => writer.desired = desired,
                None => return,
            },
            // Such as that a tenant has changed the annotation.
            () = writer.catalog.pods_changed() => {}
            () = sleep(wait) => {}
        }
        wait = writer.round().await;
    }
}

/// Writes what pods lack.
struct Writer {
    client: Client,
    catalog: NetworkCatalog,
    desired: Statuses,
    /// The digests of what was written last, and until when none of it is written again: its watch may not have told it yet,
    /// and a tenant who changes it back and forth costs one request in that time.
    written: BTreeMap<PodId, (Digest, Instant)>,
    /// The next tries of pods whose annotation was not written. They keep no other waiting.
    delayed: BTreeMap<PodId, Instant>,
    /// The time before which the server, which took no patch, is not asked.
    silent_until: Instant,
    /// The next wait for the server.
    pause: Duration,
    is_reported: bool,
}

impl Writer {
    fn new(client: Client, catalog: NetworkCatalog) -> Self {
        Self {
            client,
            catalog,
            desired: Statuses::new(),
            written: BTreeMap::new(),
            delayed: BTreeMap::new(),
            silent_until: Instant::now(),
            pause: SOON,
            is_reported: false,
        }
    }

    /// Writes the annotations that differ from the records. Returns the time after which to compare again although nothing
    /// changes.
    async fn round(&mut self) -> Duration {
        let now = Instant::now();
        if let Some(left) = self.silent_until.checked_duration_since(now) {
            return left;
        }
        let mut wait = RESCAN;
        // A runtime may have named a pod with its uid and without it.
        let mut of_pods: BTreeMap<PodId, (&Status, Option<Digest>)> = BTreeMap::new();
        for (named, status) in &self.desired {
            // Else its deletion, or its creation, is not told yet.
            let Some((pod, observed)) = self.catalog.pod(named) else {
                continue;
            };
            let is_younger =
                { of_pods.get(&pod) }.is_none_or(|(known, _)| known.time < status.time);
            if is_younger {
                of_pods.insert(pod, (status, observed));
            }
        }
        self.written
            .retain(|pod, (_, until)| *until > now && of_pods.contains_key(pod));
        self.delayed
            .retain(|pod, until| *until > now && of_pods.contains_key(pod));
        let mut is_to_be_written = Vec::new();
        for (pod, (status, observed)) in of_pods {
            if observed == Some(status.digest) {
                continue;
            }
            let is_same =
                |(digest, until): &(Digest, Instant)| (*digest == status.digest).then_some(*until);
            let written = self.written.get(&pod).and_then(is_same);
            match written.or_else(|| self.delayed.get(&pod).copied()) {
                Some(until) => wait = wait.min(until.saturating_duration_since(now)),
                None => is_to_be_written.push((pod, status.clone())),
            }
        }
        for (pod, status) in is_to_be_written {
            match self.write(pod, status).await {
                Ok(next) => wait = wait.min(next),
                Err(pause) => return pause,
            }
        }
        wait
    }

    /// Writes the annotation of a pod. Returns the time after which that is to be compared again; or, as an error, the time for
    /// which the server is left alone.
    async fn write(&mut self, pod: PodId, status: Status) -> Result<Duration, Duration> {
        let annotations = BTreeMap::from([(NETWORK_STATUS, status.text)]);
        let result = annotate_pod(&self.client, &pod, &annotations).await;
        self.catalog.counts().count_write(match &result {
            Ok(()) => StatusWrite::Written,
            Err(AnnotateError::Gone) => StatusWrite::Gone,
            Err(_) => StatusWrite::Failed,
        });
        let now = Instant::now();
        let error = match result {
            Ok(()) => {
                self.written.insert(pod, (status.digest, now + SETTLES));
                (self.pause, self.is_reported) = (SOON, false);
                return Ok(SETTLES);
            }
            // Its deletion is not told yet.
            Err(AnnotateError::Gone) => {
                self.delayed.insert(pod, now + SETTLES);
                return Ok(SETTLES);
            }
            Err(error) => error,
        };
        if !self.is_reported {
            tracing::warn!("network-status of pod {} is not written: {error}", pod.name);
            self.is_reported = true;
        }
        if error.is_of_pod() {
            self.delayed.insert(pod, now + LONGEST);
            return Ok(LONGEST);
        }
        let pause = self.pause;
        self.silent_until = now + pause;
        self.pause = (2 * pause).min(LONGEST);
        // Others come first, should it be the pod's fault.
        self.delayed.insert(pod, now + 2 * pause);
        Err(pause)
    }
}
