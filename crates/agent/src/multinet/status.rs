//! The annotation `network-status` of pods, as the plugin's records have it.
//!
//! ADD does not wait for it, and no message tells of it: a record is on the disk before ADD ends, and the annotation is
//! compared with it whenever either changes. So an agent that was away, or a server that did not answer, delays it only; and
//! what a tenant writes in its place is written over, of each pod once in [`SETTLES`].

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use netqos_api::npwg::NETWORK_STATUS;
use netqos_cluster::{AnnotateError, Client, annotate_pod};
use netqos_core::{Digest, PodId};
use tokio::sync::watch;
use tokio::time::sleep;

use super::counts::StatusWrite;
use super::{NetworkCatalog, StatusAnnotation, StatusAnnotations};

/// The time after which all is compared although no record has changed.
const RESCAN: Duration = Duration::from_secs(60);

/// The first and longest wait for a server that takes no patch. A pod whose patch alone it refuses waits the longest one.
const SOON: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(60);

/// The time for which an annotation that was written is not written again.
const SETTLES: Duration = Duration::from_secs(5);

/// Writes the annotations until the locator ends.
pub(crate) async fn write_statuses(
    client: Client,
    mut statuses: watch::Receiver<StatusAnnotations>,
    catalog: NetworkCatalog,
) {
    let mut writer = Writer::new(client, catalog);
    let mut wait = RESCAN;
    loop {
        tokio::select! {
            told = statuses.changed() => match told {
                Ok(()) => writer.desired = statuses.borrow_and_update().clone(),
                Err(_) => return,
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
    desired: StatusAnnotations,
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
            desired: StatusAnnotations::new(),
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
        let mut of_pods: BTreeMap<PodId, (&StatusAnnotation, Option<Digest>)> = BTreeMap::new();
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
    async fn write(&mut self, pod: PodId, status: StatusAnnotation) -> Result<Duration, Duration> {
        let annotations = BTreeMap::from([(NETWORK_STATUS, status.text.to_string())]);
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
