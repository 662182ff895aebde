//! Events (events.k8s.io/v1), for who asks `kubectl describe` and `kubectl events`.
//!
//! Each is told when something becomes so, and not as long as it is. Whoever tells the same again is
//! told as a series. Too much at once waits, and what the server does not take is told later.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kube::Client;
use netqos_cluster::{Kind, NotLeading};
use netqos_core::ObjectName;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

use crate::engine::LEADERLESS;
use crate::leadership::Leadership;
use crate::metrics::{Metrics, Outcome};

mod record;

use record::Recorder;

/// How many may wait.
const WAITING: usize = 10_000;
/// The least time from one to the next.
const APART: Duration = Duration::from_millis(50);
/// How long one may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long to wait where the server does not take any.
const AGAIN: Duration = Duration::from_secs(5);

/// Something that has become so.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    pub(crate) kind: Kind,
    pub(crate) object: ObjectName,
    pub(crate) uid: String,
    pub(crate) good: bool,
    pub(crate) reason: String,
    pub(crate) note: String,
}

/// Where events are told to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Events(Arc<Queue>);

#[derive(Debug, Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    more: Notify,
}

/// What is to be told, the oldest first. Of one object each reason waits once, in its newest words.
#[derive(Debug, Default)]
struct Waiting {
    order: VecDeque<Key>,
    told: HashMap<Key, Told>,
}

/// Which object, and the reason.
type Key = (Kind, ObjectName, String, String);

impl Events {
    /// Begins to write events, in a task of its own. `client` is that of `leadership`.
    pub(crate) fn begin(
        client: Client,
        mut leadership: Leadership,
        identity: &str,
        metrics: Metrics,
    ) -> Self {
        let events = Self::default();
        let recorder = Recorder::new(client, identity);
        let queue = events.clone();
        tokio::spawn(async move {
            loop {
                let told = queue.next().await;
                let written = timeout(PATIENCE, recorder.record(&told)).await;
                let (outcome, pause) = match written {
                    Ok(Ok(())) => (Outcome::Done, APART),
                    Ok(Err(why)) if NotLeading::caused(&why) => {
                        queue.again(told);
                        sleep(APART).await;
                        let lost = Instant::now();
                        if !leadership.began().await {
                            return;
                        }
                        // Another replica has led meanwhile, and has reported its own.
                        if lost.elapsed() > LEADERLESS {
                            queue.clear();
                        }
                        continue;
                    }
                    // Its namespace goes, or nobody may write there: it never will.
                    Ok(Err(kube::Error::Api(why))) if why.code < 500 && why.code != 429 => {
                        (Outcome::Failed, APART)
                    }
                    _ => {
                        queue.again(told);
                        (Outcome::Failed, AGAIN)
                    }
                };
                metrics.wrote("events", outcome);
                sleep(pause).await;
            }
        });
        events
    }

    /// Tells of something as soon as what was told before is written.
    pub(crate) fn tell(&self, told: Told) {
        if !self.waiting().put(told) {
            tracing::warn!("an event is left out: {WAITING} wait already");
        }
        self.0.more.notify_one();
    }

    /// What could not be written: unless there is something newer to say in its place.
    fn again(&self, told: Told) {
        let mut waiting = self.waiting();
        if !waiting.told.contains_key(&told.key()) {
            waiting.put(told);
        }
    }

    /// Forgets what waits.
    fn clear(&self) {
        *self.waiting() = Waiting::default();
    }

    async fn next(&self) -> Told {
        loop {
            let next = self.waiting().take();
            match next {
                Some(told) => return told,
                None => self.0.more.notified().await,
            }
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        let waiting = self.0.waiting.lock();
        waiting.unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    /// False: there is no room.
    fn put(&mut self, told: Told) -> bool {
        let key = told.key();
        let is_new = !self.told.contains_key(&key);
        if is_new && self.order.len() >= WAITING {
            return false;
        }
        if is_new {
            self.order.push_back(key.clone());
        }
        self.told.insert(key, told);
        true
    }

    fn take(&mut self) -> Option<Told> {
        let key = self.order.pop_front()?;
        self.told.remove(&key)
    }
}

impl Told {
    fn key(&self) -> Key {
        let Self {
            kind,
            object,
            uid,
            reason,
            ..
        } = self;
        (*kind, object.clone(), uid.clone(), reason.clone())
    }
}

/// The reason by which an event of a pod or a policy tells of a problem. They are few, and stay: what
/// has none of its own has failed.
pub(crate) fn reason_of(problem: &str) -> &str {
    const OWN: [&str; 13] = [
        "InvalidBandwidth",
        "KernelFeatureMissing",
        "Conflict",
        "BurstRaised",
        "IngressBypassed",
        "Invalid",
        "InvalidPodClass",
        "GuaranteeReduced",
        "NetworkNotFound",
        "QueueStalled",
        "QuotaExceeded",
        "HookReplaced",
        "RepairContested",
    ];
    match OWN.contains(&problem) {
        true => problem,
        false => "QoSUpdateFailed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(name: &str, reason: &str, note: &str) -> Told {
        Told {
            kind: Kind::Pod,
            object: ObjectName::new("games", name),
            uid: name.to_owned(),
            good: false,
            reason: reason.to_owned(),
            note: note.to_owned(),
        }
    }

    #[test]
    fn what_waits_is_told_in_its_order_and_in_its_newest_words() {
        let mut waiting = Waiting::default();
        for (name, reason, note) in [
            ("a", "Invalid", "old"),
            ("b", "Invalid", "b"),
            ("a", "QoSUpdateFailed", "other"),
            ("a", "Invalid", "new"),
        ] {
            assert!(waiting.put(told(name, reason, note)));
        }
        let notes = std::iter::from_fn(|| waiting.take()).map(|it| it.note);
        assert_eq!(notes.collect::<Vec<_>>(), ["new", "b", "other"]);
        // Far more at once than are written in a minute.
        for number in 0..WAITING {
            assert!(waiting.put(told(&number.to_string(), "Invalid", "")));
        }
        assert!(!waiting.put(told("more", "Invalid", "")));
        assert!(waiting.put(told("0", "Invalid", "again")));
    }

    #[test]
    fn every_reason_of_an_agent_has_one_of_an_event() {
        for (problem, reason) in [
            ("InvalidBandwidth", "InvalidBandwidth"),
            ("KernelFeatureMissing", "KernelFeatureMissing"),
            ("QueueStalled", "QueueStalled"),
            ("IngressBypassed", "IngressBypassed"),
            ("UpdateFailed", "QoSUpdateFailed"),
            ("EndpointUnreachable", "QoSUpdateFailed"),
            ("OfAnotherVersion", "QoSUpdateFailed"),
        ] {
            assert_eq!(reason_of(problem), reason);
        }
    }
}
