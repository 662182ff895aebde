//! The annotation `network-status` of pods, as the plugin's records have it.
//!
//! ADD does not wait for it, and no message tells of it: a record is on the disk before ADD ends, and the annotation is
//! compared with it. So an agent that was away, or a server that did not answer, delays it only.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use netqos_api::multinet::PodName;
use netqos_api::npwg::{NETWORK_STATUS, write_status};
use netqos_cluster::{AnnotateError, Client, annotate_pod};
use netqos_core::{Digest, PodId};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::timeout;

use super::NetworkCatalog;
use super::counts::StatusWrite;
use super::records::records;
use crate::watch::{self, Watch};
use crate::{Error, Result};

/// The time after which all is compared although no record has changed.
const RESCAN: Duration = Duration::from_secs(60);

/// The wait for a pod that the server has not told of yet, and the first and longest one after a failure.
const SOON: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(60);

/// The time for which an annotation that was written counts as observed before the watch reports it. A tenant may
/// change it meanwhile.
const SETTLES: Duration = Duration::from_secs(5);

/// The annotations that pods should have, with the times of their records. Of several sandboxes of a pod, the youngest
/// counts.
type Statuses = BTreeMap<PodName, (SystemTime, String)>;

/// Writes the annotations until the process ends. `records` is the directory of the plugin's records.
///
/// # Errors
/// Returns an error if the thread that reads the records cannot be started.
pub(crate) fn write_statuses(
    client: Client,
    records: PathBuf,
    catalog: NetworkCatalog,
) -> Result<impl Future<Output = ()>> {
    let (sender, receiver) = unbounded_channel();
    let thread = thread::Builder::new().name("network-status".into());
    thread
        .spawn(move || watch_records(&records, &sender))
        .map_err(Error::Thread)?;
    Ok(write(client, receiver, catalog))
}

fn watch_records(directory: &Path, statuses: &UnboundedSender<Statuses>) {
    let mut watches = [Watch::new(directory.to_owned())];
    let mut sent = None;
    loop {
        let found = read(directory);
        if sent.as_ref() != Some(&found) {
            if statuses.send(found.clone()).is_err() {
                return;
            }
            sent = Some(found);
        }
        if let Err(error) = watch::wait(&mut watches, RESCAN) {
            tracing::error!("records of netqos-multinet are not watched any more: {error}");
            return;
        }
        watches[0].aim();
    }
}

fn read(directory: &Path) -> Statuses {
    let mut youngest = Statuses::new();
    for (time, sandbox) in records(directory) {
        if let (Some(pod), Some(status)) = (sandbox.pod, sandbox.status) {
            let is_younger = youngest.get(&pod).is_none_or(|(known, _)| *known < time);
            if is_younger {
                youngest.insert(pod, (time, write_status(&status)));
            }
        }
    }
    youngest
}

async fn write(client: Client, mut records: UnboundedReceiver<Statuses>, catalog: NetworkCatalog) {
    let mut desired = Statuses::new();
    // The digests that the server has and its watch may not have told yet, with the time until which that may be so.
    let mut written: BTreeMap<PodId, (Digest, Instant)> = BTreeMap::new();
    let mut pause = SOON;
    let mut is_reported = false;
    // Pods whose annotation the server refuses, as it does one that makes all of them too large, and their next tries. They
    // keep no other waiting.
    let mut refused: BTreeMap<PodId, Instant> = BTreeMap::new();
    let mut wait = RESCAN;
    loop {
        match timeout(wait, records.recv()).await {
            Ok(None) => return,
            Ok(Some(statuses)) => desired = statuses,
            Err(_) => {}
        }
        wait = RESCAN;
        // A runtime may have named a pod with its uid and without it.
        let mut of_pods: BTreeMap<PodId, (SystemTime, &str, Option<Digest>)> = BTreeMap::new();
        for (named, (time, text)) in &desired {
            let Some((pod, observed)) = catalog.pod(named) else {
                // Its deletion, or its creation, is not told yet.
                wait = wait.min(SOON);
                continue;
            };
            if of_pods.get(&pod).is_none_or(|(known, ..)| known < time) {
                of_pods.insert(pod, (*time, text, observed));
            }
        }
        written.retain(|pod, _| of_pods.contains_key(pod));
        refused.retain(|pod, _| of_pods.contains_key(pod));
        for (pod, (_, text, observed)) in of_pods {
            let digest = Digest::of(&text);
            if observed == Some(digest) {
                // A tenant that changes it from now on finds it changed back.
                written.remove(&pod);
                continue;
            }
            let is_refused = refused
                .get(&pod)
                .is_some_and(|until| Instant::now() < *until);
            let is_written = written
                .get(&pod)
                .is_some_and(|(written, until)| *written == digest && Instant::now() < *until);
            if is_written {
                wait = wait.min(SETTLES);
            }
            if is_refused || is_written {
                continue;
            }
            let annotations = BTreeMap::from([(NETWORK_STATUS, text.to_owned())]);
            let result = annotate_pod(&client, &pod, &annotations).await;
            catalog.counts().count_write(match &result {
                Ok(()) => StatusWrite::Written,
                Err(AnnotateError::Gone) => StatusWrite::Gone,
                Err(_) => StatusWrite::Failed,
            });
            match result {
                Ok(()) => {
                    refused.remove(&pod);
                    written.insert(pod, (digest, Instant::now() + SETTLES));
                    wait = wait.min(SETTLES);
                    (pause, is_reported) = (SOON, false);
                }
                // Its deletion is not told yet.
                Err(AnnotateError::Gone) => {
                    refused.insert(pod, Instant::now() + SETTLES);
                }
                Err(error) => {
                    if !is_reported {
                        tracing::warn!(
                            "network-status of pod {} is not written: {error}",
                            pod.name
                        );
                        is_reported = true;
                    }
                    refused.insert(pod, Instant::now() + LONGEST);
                    wait = wait.min(pause);
                    pause = (2 * pause).min(LONGEST);
                    break;
                }
            }
        }
    }
}
