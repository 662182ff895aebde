//! Ingress limits that programs of others bypass, and those whose queue on the host another process removes.
//!
//! Such a limit gets a queue in the pod, where those programs hand packets to. From then on new limits on the node get one
//! at once.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use netqos_core::{Attachment, BitRate, ObjectName, ObjectRef, Problem, Reason};
use netqos_datapath::{BypassDetector, LimitDatapath, QueueName, Record};

use super::PodLimits;

/// The interval of observations.
const INTERVAL: Duration = Duration::from_secs(5);
/// The interval at which records are read, for limits that the agent does not hold.
const RECORDS: Duration = Duration::from_secs(10);
/// The most limits that get a queue in the pod at one observation: changes wait meanwhile.
const MOST_AT_ONCE: usize = 8;
/// The time for which a limit that has its queue in the pod is reported, so that the report to the API server has it.
const REPORTED: Duration = Duration::from_secs(60);
/// The time after which a queue in the pod is tried again.
const RETRY: Duration = Duration::from_secs(600);

/// The state of observations.
#[derive(Debug)]
pub(super) struct Bypasses {
    next: Instant,
    next_records: Instant,
    /// Ingress limits whose only queue is at the host's end of an interface.
    watched: BTreeMap<Attachment, Watched>,
    /// The limits that were found to be bypassed.
    found: BTreeMap<Attachment, Bypass>,
    /// True if the kernel counts packets that bypass a limit; `None` until it was tried.
    counts_redirected: Option<bool>,
    /// The CNI on the node that can send packets past limits.
    redirecting_cni: Option<&'static str>,
    /// True if Calico may remove queues on the host: its version is not known.
    may_be_removed: bool,
}

#[derive(Debug)]
struct Watched {
    /// The index of the host's end.
    host: u32,
    limit: BitRate,
    detector: BypassDetector,
}

#[derive(Debug)]
struct Bypass {
    /// The rate at which the pod received; `None` if it was not measured.
    rate: Option<BitRate>,
    /// `None` if the pod is not known.
    problem: Option<Problem>,
    /// The time until which it is reported, or at which a queue in the pod is tried again.
    until: Instant,
    is_held: bool,
}

impl Bypass {
    fn reason(&self) -> Reason {
        match self.rate {
            Some(_) => Reason::IngressBypassed,
            None => Reason::IngressNotVerified,
        }
    }
}

impl Default for Bypasses {
    fn default() -> Self {
        let now = Instant::now();
        Self {
            next: now + INTERVAL,
            next_records: now,
            watched: BTreeMap::new(),
            found: BTreeMap::new(),
            counts_redirected: None,
            redirecting_cni: None,
            may_be_removed: false,
        }
    }
}

impl Bypasses {
    /// Observes the ingress limit of this record, if its only queue is at the host's end.
    pub(super) fn watch(
        &mut self,
        attachment: &Attachment,
        record: Option<&Record>,
        datapath: &mut LimitDatapath,
    ) {
        let has_queue_in_pod =
            record.is_some_and(|record| record.queue(QueueName::IngressInPod).is_some());
        let at_host = record.filter(|_| !has_queue_in_pod);
        let at_host = at_host.and_then(|it| Some((it.ends?.host?, it.limits.ingress?.rate)));
        let known = self.watched.get(attachment).map(|it| (it.host, it.limit));
        if known == at_host && known.is_some() {
            return;
        }
        self.watched.remove(attachment);
        self.found
            .retain(|of, bypass| of != attachment || bypass.is_held);
        if let Some((host, limit)) = at_host {
            let mut detector = BypassDetector::default();
            // What comes from now on is compared at the next observation.
            if let Ok(Some(counts)) = datapath.end_counts(host, &detector) {
                detector.observe(Instant::now(), counts, limit);
            }
            let watched = Watched {
                host,
                limit,
                detector,
            };
            self.watched.insert(attachment.clone(), watched);
        }
    }

    /// Drops the state of an attachment without limits.
    pub(super) fn remove(&mut self, attachment: &Attachment) {
        self.watched.remove(attachment);
        self.found.remove(attachment);
    }

    /// The time of the next observation.
    pub(super) fn next(&self) -> Instant {
        self.next
    }
}

impl PodLimits {
    /// Notes if the kernel counts packets that bypass a limit, the CNI on the node that can send such, and if Calico may remove
    /// queues on the host.
    pub(in crate::engine) fn note_redirects(
        &mut self,
        counts_redirected: Option<bool>,
        redirecting_cni: Option<&'static str>,
        may_be_removed: bool,
    ) {
        self.bypasses.may_be_removed = may_be_removed;
        self.bypasses.counts_redirected = counts_redirected;
        self.bypasses.redirecting_cni = redirecting_cni;
    }

    /// Returns the limits that are bypassed, or were until a short time ago; and that others cannot be verified.
    pub(in crate::engine) fn bypass_problems(&self, node: &str) -> impl Iterator<Item = Problem> {
        let found = self.bypasses.found.values();
        let found = found.filter_map(|bypass| bypass.problem.clone());
        let number = self.bypasses.watched.len();
        let is_unverified = self.bypasses.counts_redirected == Some(false) && number > 0;
        let unverified = is_unverified.then(|| Problem {
            object: ObjectRef::Node(node.to_owned()),
            reason: Reason::IngressNotVerified,
            message: format!(
                "programs of others may bypass the ingress limits of {number} interfaces: this kernel does not count packets \
                 that bpf_redirect_peer delivers"
            ),
        });
        found.chain(unverified)
    }

    /// Returns the reason for which an ingress limit is not known to hold.
    pub(in crate::engine) fn doubt(&self, attachment: &Attachment) -> Option<Reason> {
        let found = self.bypasses.found.get(attachment);
        if let Some(bypass) = found.filter(|bypass| !bypass.is_held) {
            return Some(bypass.reason());
        }
        let is_watched = self.bypasses.watched.contains_key(attachment);
        let is_unverified = self.bypasses.counts_redirected != Some(true);
        (is_watched && is_unverified).then_some(Reason::IngressNotVerified)
    }

    /// Returns the rate at which the interface received when its limit was found to be bypassed.
    pub(in crate::engine) fn bypass_rate(&self, attachment: &Attachment) -> Option<BitRate> {
        self.bypasses.found.get(attachment)?.rate
    }

    /// Observes the limits, and gives those that are bypassed a queue in the pod. Returns true if problems may have changed.
    pub(super) fn observe_bypasses(&mut self, now: Instant) -> bool {
        if now < self.bypasses.next {
            return false;
        }
        self.bypasses.next = now + INTERVAL;
        if self.bypasses.next_records <= now {
            self.bypasses.next_records = now + RECORDS;
            self.watch_records(now);
        }
        let before = self.bypasses.found.len();
        let is_over = |bypass: &Bypass| bypass.is_held && bypass.until <= now;
        self.bypasses.found.retain(|_, bypass| !is_over(bypass));
        let mut has_news = before != self.bypasses.found.len();
        let Bypasses {
            watched,
            found,
            counts_redirected,
            redirecting_cni,
            may_be_removed,
            ..
        } = &mut self.bypasses;
        let is_suspected = *counts_redirected == Some(false) && redirecting_cni.is_some();
        let mut bypassed = Vec::new();
        for (
            attachment,
            Watched {
                host,
                limit,
                detector,
            },
        ) in watched
        {
            let counts = self.datapath.end_counts(*host, detector).ok().flatten();
            let rate = counts.and_then(|counts| detector.observe(now, counts, *limit));
            let is_due = found.get(attachment).is_none_or(|it| it.until <= now);
            let is_retried = found.contains_key(attachment);
            let is_removed = *may_be_removed || self.datapath.is_only_in_pod(attachment);
            if is_due && (rate.is_some() || is_suspected || is_removed || is_retried) {
                bypassed.push((attachment.clone(), *limit, rate));
            }
        }
        for (attachment, limit, rate) in bypassed.into_iter().take(MOST_AT_ONCE) {
            self.hold_in_pod(&attachment, limit, rate, now);
            has_news = true;
        }
        has_news
    }

    /// Observes the limits that the agent does not hold, and restores their queues in pods.
    fn watch_records(&mut self, now: Instant) {
        let Ok(records) = self.datapath.records().all() else {
            return;
        };
        let is_there = |it: &Attachment| records.iter().any(|of| of.attachment == *it);
        self.bypasses
            .watched
            .retain(|attachment, _| is_there(attachment));
        self.bypasses
            .found
            .retain(|attachment, _| is_there(attachment));
        for record in &records {
            let attachment = &record.attachment;
            self.bypasses
                .watch(attachment, Some(record), &mut self.datapath);
            let is_held = self.held.values().any(|held| held.contains_key(attachment));
            let is_in_pod = record.queue(QueueName::IngressInPod).is_some();
            let budget = &mut self.inspections.budget;
            if is_in_pod && !is_held && !budget.is_exhausted(attachment, now) {
                let checked = self
                    .datapath
                    .inspect_recorded(&record.request(), Some(record));
                if checked.is_err_and(|why| !why.is_unreachable()) {
                    budget.record(attachment.clone(), now);
                    let restored = self.datapath.apply_again(attachment, None);
                    tracing::warn!(%attachment, ?restored, "restored limit");
                }
            }
        }
    }

    /// Gives an ingress limit a queue in the pod.
    fn hold_in_pod(
        &mut self,
        attachment: &Attachment,
        limit: BitRate,
        rate: Option<BitRate>,
        now: Instant,
    ) {
        let pod = self.pod_of(attachment);
        let known = self.bypasses.found.get(attachment);
        let rate = rate.or_else(|| known?.rate);
        let interface = attachment.interface();
        let is_removed = self.datapath.is_only_in_pod(attachment);
        let by = "bpf_redirect_peer of another program delivers packets past its queue on the host";
        let what = match (rate, self.bypasses.redirecting_cni) {
            (Some(rate), _) => {
                format!("{interface} received {rate}, and its limit is {limit}: {by}")
            }
            _ if is_removed => format!(
                "the limit of {interface} is {limit}, and Calico removes its queue on the host"
            ),
            _ if self.bypasses.may_be_removed => format!(
                "the limit of {interface} is {limit}, and Calico may remove its queue on the host"
            ),
            (None, cni) => format!(
                "{interface} may receive more than its limit of {limit}: {} may deliver packets past its queue on the host",
                cni.unwrap_or("another program")
            ),
        };
        if !is_removed && let Err(why) = self.datapath.note_ingress_in_pod(&what) {
            tracing::warn!("new limits get no queue in the pod: {why}");
        }
        let held = pod
            .as_ref()
            .and_then(|pod| self.held.get(pod)?.get(attachment));
        let netns = held.map(|held| held.netns.clone());
        let failure = match self.datapath.apply_again(attachment, netns.as_deref()) {
            // A plugin's DEL came first.
            Ok(None) => return self.bypasses.remove(attachment),
            Ok(Some(applied)) => applied.no_queue_in_pod_because,
            Err(why) => Some(why.to_string()),
        };
        let outcome = match &failure {
            None => "a queue in the pod holds the limit now".to_owned(),
            Some(why) => {
                format!("nothing holds the limit, since it can have no queue in the pod: {why}")
            }
        };
        let message = format!("{what}; {outcome}");
        tracing::warn!(%attachment, "{message}");
        self.start_inspections(attachment);
        let is_held = failure.is_none();
        let mut bypass = Bypass {
            rate,
            problem: None,
            until: now + if is_held { REPORTED } else { RETRY },
            is_held,
        };
        // What was not measured, and is held, is nothing to report.
        bypass.problem = pod
            .filter(|_| rate.is_some() || !is_held)
            .map(|pod| Problem {
                object: ObjectRef::Pod(pod),
                reason: bypass.reason(),
                message,
            });
        self.bypasses.found.insert(attachment.clone(), bypass);
    }

    /// Returns the pod of an attachment.
    fn pod_of(&self, attachment: &Attachment) -> Option<ObjectName> {
        let mut held = self.held.iter();
        let held = held.find(|(_, held)| held.contains_key(attachment));
        held.map(|(pod, _)| pod.clone()).or_else(|| {
            let attached = self.attached.read(attachment)?;
            Some(ObjectName::new(&attached.namespace, &attached.name))
        })
    }
}
