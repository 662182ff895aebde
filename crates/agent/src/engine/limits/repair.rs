//! Inspection and repair of programmed limits.
//!
//! The kernel announces changes at the host's links, and the agent inspects the limits there at once. It
//! inspects every limit each 30 seconds, since the kernel announces no change inside a pod or of a map.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use netqos_core::{Attachment, ObjectName, ObjectRef, Problem, Reason};
use netqos_datapath::{
    Error, QueueName, QueueStatus, RepairBudget, SideName, StallDetector, StallState,
};
use netqos_netlink::News;

use super::{Held, PodLimits};

/// The interval of full inspections.
const INTERVAL: Duration = Duration::from_secs(30);
/// The age of a fault at which the agent repairs it. By then a plugin's DEL has removed the attachment's record,
/// and the agent leaves the attachment alone.
const CONFIRMED_AFTER: Duration = Duration::from_millis(300);
/// The shortest time between two inspections of one attachment that the kernel's announcements cause. A pod
/// that may set its interface up and down causes an announcement each time.
const LEAST_INTERVAL: Duration = Duration::from_millis(250);
/// The time after which the agent tries a repair again that its budget did not allow.
const BUDGET_RETRY: Duration = Duration::from_secs(10);

/// The state of inspections.
#[derive(Debug)]
pub(super) struct Inspections {
    next_full: Instant,
    attachments: BTreeMap<Attachment, Inspection>,
    pub(super) budget: RepairBudget<Attachment>,
    /// Limits that were restored.
    restored: u64,
    /// Queues that were emptied because they had stalled.
    emptied: u64,
}

/// The state of one attachment.
#[derive(Debug, Default)]
struct Inspection {
    /// The host's links that carry its limits, by index.
    links: BTreeSet<u32>,
    /// The next inspection, if it is before the next full one.
    due: Option<Instant>,
    last: Option<Instant>,
    /// The time since which a part of its limits is missing or changed.
    faulty_since: Option<Instant>,
    stalls: BTreeMap<QueueName, StallDetector>,
    /// The stall that the last full inspection, or one since, found.
    stalled: Option<Problem>,
}

impl Default for Inspections {
    fn default() -> Self {
        Self {
            next_full: Instant::now() + INTERVAL,
            attachments: BTreeMap::new(),
            budget: RepairBudget::default(),
            restored: 0,
            emptied: 0,
        }
    }
}

impl Inspections {
    /// Returns true if a part of the attachment's limits was missing or changed at the last inspection.
    pub(super) fn is_faulty(&self, attachment: &Attachment) -> bool {
        let inspection = self.attachments.get(attachment);
        inspection.is_some_and(|it| it.faulty_since.is_some())
    }

    /// The stalls that inspections found.
    pub(super) fn stalls(&self) -> impl Iterator<Item = &Problem> {
        self.attachments
            .values()
            .filter_map(|it| it.stalled.as_ref())
    }

    /// Drops the state of an attachment without limits.
    pub(super) fn remove(&mut self, attachment: &Attachment) {
        self.attachments.remove(attachment);
    }

    fn of(&mut self, attachment: &Attachment) -> &mut Inspection {
        self.attachments.entry(attachment.clone()).or_default()
    }
}

impl Inspection {
    /// Schedules an inspection, unless an earlier one is scheduled.
    fn schedule(&mut self, at: Instant) {
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }
}

impl PodLimits {
    /// The time of the next inspection.
    pub(in crate::engine) fn next_inspection(&self) -> Instant {
        let due = self
            .inspections
            .attachments
            .values()
            .filter_map(|it| it.due);
        let next = self.inspections.next_full.min(self.bypasses.next());
        due.fold(next, Instant::min)
    }

    /// The number of restored limits and of emptied queues.
    pub(in crate::engine) fn repairs(&self) -> (u64, u64) {
        (self.inspections.restored, self.inspections.emptied)
    }

    /// Schedules inspections of the limits at changed links.
    pub(in crate::engine) fn handle_link_changes(&mut self, changes: &News) {
        let now = Instant::now();
        if changes.lost {
            self.inspections.next_full = now;
            return;
        }
        for inspection in self.inspections.attachments.values_mut() {
            let is_changed = inspection.links.iter().any(|link| {
                changes.traffic_control.contains(link)
                    || changes.there.contains_key(link)
                    || changes.gone.contains(link)
            });
            if is_changed {
                let earliest = inspection.last.map(|last| last + LEAST_INTERVAL);
                inspection.schedule(earliest.map_or(now, |earliest| earliest.max(now)));
            }
        }
    }

    /// Starts inspections of limits that were just programmed.
    pub(super) fn start_inspections(&mut self, attachment: &Attachment) {
        let record = self.record(attachment);
        self.bypasses
            .watch(attachment, record.as_ref(), &mut self.datapath);
        let queues = record.iter().flat_map(|record| &record.queues);
        let of_host = queues.filter(|queue| queue.side == SideName::Host);
        let links = of_host.flat_map(|queue| [Some(&queue.link), queue.detour_from.as_ref()]);
        let inspection = Inspection {
            links: links.flatten().map(|link| link.index).collect(),
            due: Some(Instant::now() + CONFIRMED_AFTER),
            ..Inspection::default()
        };
        self.inspections
            .attachments
            .insert(attachment.clone(), inspection);
    }

    /// Inspects the limits that are due. Returns true if problems may have changed.
    pub(in crate::engine) fn inspect(&mut self, now: Instant) -> bool {
        let has_news = self.observe_bypasses(now);
        let is_full = self.inspections.next_full <= now;
        if is_full {
            self.inspections.next_full = now + INTERVAL;
        }
        let mut due = BTreeSet::new();
        for (attachment, inspection) in &mut self.inspections.attachments {
            if is_full {
                inspection.stalled = None;
            }
            if is_full || inspection.due.is_some_and(|at| at <= now) {
                (inspection.due, inspection.last) = (None, Some(now));
                due.insert(attachment.clone());
            }
        }
        let held = self.held.iter().flat_map(|(pod, held)| {
            let of_pod = held
                .iter()
                .filter(|(attachment, _)| due.contains(attachment));
            of_pod.map(|(attachment, held)| (pod.clone(), attachment.clone(), held.clone()))
        });
        let held: Vec<(ObjectName, Attachment, Held)> = held.collect();
        let before = (self.problems.len(), self.repairs());
        for (pod, attachment, held) in &held {
            self.inspect_one(pod, attachment, held, now);
        }
        has_news || is_full || before != (self.problems.len(), self.repairs())
    }

    fn inspect_one(
        &mut self,
        pod: &ObjectName,
        attachment: &Attachment,
        held: &Held,
        now: Instant,
    ) {
        let record = self.record(attachment);
        let request = held.request(attachment, record.as_ref(), self.ways);
        match self.datapath.inspect_recorded(&request, record.as_ref()) {
            Ok(queues) => {
                if self
                    .inspections
                    .of(attachment)
                    .faulty_since
                    .take()
                    .is_some()
                {
                    self.problems.remove(&(pod.clone(), attachment.clone()));
                }
                for queue in &queues {
                    self.check_queue(pod, attachment, held, queue, now);
                }
            }
            // The pod is terminating.
            Err(why) if why.is_unreachable() => {}
            Err(why) => self.repair(pod, attachment, held, &why, now),
        }
    }

    /// Restores limits, once their fault is confirmed.
    fn repair(
        &mut self,
        pod: &ObjectName,
        attachment: &Attachment,
        held: &Held,
        why: &Error,
        now: Instant,
    ) {
        let inspection = self.inspections.of(attachment);
        let confirmed = *inspection.faulty_since.get_or_insert(now) + CONFIRMED_AFTER;
        if now < confirmed {
            inspection.schedule(confirmed);
            return;
        }
        let is_attached = self.attached.read(attachment).is_some()
            || self.own.contains_key(attachment)
            || self.record(attachment).is_some();
        if !is_attached {
            // A plugin's DEL came before the pod's update.
            return;
        }
        if self.inspections.budget.is_exhausted(attachment, now) {
            let interface = attachment.interface();
            let problem = Problem {
                object: ObjectRef::Pod(pod.clone()),
                reason: Reason::RepairContested,
                message: format!(
                    "another process keeps changing the limit of {interface} ({why}); netqos \
                     restores it five times a minute"
                ),
            };
            let key = (pod.clone(), attachment.clone());
            self.problems.insert(key, problem);
            self.inspections.of(attachment).schedule(now + BUDGET_RETRY);
            return;
        }
        match self.hold(attachment, held) {
            Ok(()) => {
                tracing::warn!(%attachment, fault = %why, "restored limit");
                self.inspections.budget.record(attachment.clone(), now);
                self.inspections.restored += 1;
                self.problems.remove(&(pod.clone(), attachment.clone()));
                // An ifb has another index now.
                self.start_inspections(attachment);
            }
            Err(why) => {
                if let Some(of_pod) = self.held.get_mut(pod) {
                    of_pod.remove(attachment);
                }
                self.failed_to("restore its limits", pod, attachment, &why);
            }
        }
    }

    /// Empties a stalled queue.
    fn check_queue(
        &mut self,
        pod: &ObjectName,
        attachment: &Attachment,
        held: &Held,
        queue: &QueueStatus,
        now: Instant,
    ) {
        let name = queue.queue;
        let inspection = self.inspections.of(attachment);
        let detector = inspection.stalls.entry(name).or_default();
        match detector.observe(now, &queue.statistics, &queue.pace) {
            StallState::Moving => return,
            StallState::Unknown(time) => return inspection.schedule(now + time),
            StallState::Stalled => {}
        }
        let record = self.record(attachment);
        let request = held.request(attachment, record.as_ref(), self.ways);
        let result = match self.datapath.empty(&request, name) {
            Ok(packets) => {
                self.inspections.emptied += 1;
                format!("netqos dropped the {packets} packets in it")
            }
            Err(why) => format!("netqos cannot empty it: {why}; it tries again"),
        };
        let interface = attachment.interface();
        let inspection = self.inspections.of(attachment);
        inspection.stalled = Some(Problem {
            object: ObjectRef::Pod(pod.clone()),
            reason: Reason::QueueStalled,
            message: format!("the {name} queue of {interface} stopped sending; {result}"),
        });
        inspection.schedule(now + CONFIRMED_AFTER);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use netqos_api::{EgressWay, HookChoice};
    use netqos_datapath::Paths;

    use super::*;

    /// A pod sets its interface up and down all the time.
    #[test]
    fn link_announced_often_is_inspected_four_times_a_second() {
        let directory = tempfile::tempdir().unwrap();
        let paths = Paths::new(directory.path(), Path::new("/sys/fs/bpf"));
        let (hook, egress) = (HookChoice::Auto, EgressWay::Pod);
        let mut limits = PodLimits::open(&paths, vec![], hook, egress).unwrap();
        let attachment = Attachment::try_new("net", "c1", "eth0").unwrap();
        limits.inspections.of(&attachment).links = [7].into();
        let changes = News {
            there: [(7, "veth0".to_owned())].into(),
            ..News::default()
        };
        limits.handle_link_changes(&changes);
        assert!(limits.next_inspection() <= Instant::now());
        let inspected = Instant::now();
        limits.inspect(inspected);
        for _ in 0..100 {
            limits.handle_link_changes(&changes);
        }
        assert_eq!(limits.next_inspection(), inspected + LEAST_INTERVAL);
    }
}
