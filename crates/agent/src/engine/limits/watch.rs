//! Looking after limits that are in force: what others take away or change is put back, and a queue that
//! sends nothing is emptied.
//!
//! What happens at the host's ends the kernel announces. The inside of a pod, and the maps and pins of
//! programs, are looked at every half minute.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use netqos_core::{Attachment, Direction, ObjectName, ObjectRef, Problem, Reason};
use netqos_datapath::{Error, Motion, Progress, Repairs, SideName, Waiting};
use netqos_netlink::News;

use super::{Held, PodLimits};

/// How often everything is looked at.
const EVERY: Duration = Duration::from_secs(30);
/// How long what is missing is missing before it is put back: a plugin's DEL, which takes everything away, is
/// over by then, and has forgotten the attachment.
const SETTLES: Duration = Duration::from_millis(300);
/// How long after a look what the kernel announces waits for the next one. A pod that may set its interface up
/// and down has the host's end announced each time: it is to keep the agent busy with no more than that.
const APART: Duration = Duration::from_millis(250);

/// Limits that are looked at before their time, and what was seen of all.
#[derive(Debug)]
pub(super) struct Watch {
    /// When everything is looked at the next time.
    all_at: Instant,
    /// Those that are looked at before, and when.
    due: BTreeMap<Attachment, Instant>,
    /// The links on the host that what limits an attachment stands at, by their numbers.
    links: BTreeMap<u32, BTreeSet<Attachment>>,
    /// When each was looked at last.
    looked: BTreeMap<Attachment, Instant>,
    progress: BTreeMap<(Attachment, Direction), Progress>,
    /// Those of which something was missing or changed at the last look, and since when.
    faulty: BTreeMap<Attachment, Instant>,
    repairs: Repairs<Attachment>,
    /// What is said of queues that stalled, until everything was looked at again.
    stalled: BTreeMap<(ObjectName, Attachment), Problem>,
    /// How often something was put back, and queues were emptied.
    pub(super) restored: u64,
    pub(super) emptied: u64,
}

impl Default for Watch {
    fn default() -> Self {
        Self {
            all_at: Instant::now() + EVERY,
            due: BTreeMap::new(),
            links: BTreeMap::new(),
            looked: BTreeMap::new(),
            progress: BTreeMap::new(),
            faulty: BTreeMap::new(),
            repairs: Repairs::default(),
            stalled: BTreeMap::new(),
            restored: 0,
            emptied: 0,
        }
    }
}

impl Watch {
    /// When something is looked at the next time.
    fn next(&self) -> Instant {
        self.due.values().copied().fold(self.all_at, Instant::min)
    }

    /// Has this looked at after some time, or when it is anyway.
    fn look_after(&mut self, attachment: &Attachment, now: Instant, time: Duration) {
        let at = self.due.entry(attachment.clone()).or_insert(now + time);
        *at = (*at).min(now + time);
    }

    /// True when something was missing or changed at the last look, and is not put back.
    pub(super) fn is_faulty(&self, attachment: &Attachment) -> bool {
        self.faulty.contains_key(attachment)
    }

    /// Forgets an attachment that is held to nothing any more.
    pub(super) fn forget(&mut self, attachment: &Attachment) {
        self.due.remove(attachment);
        self.looked.remove(attachment);
        self.faulty.remove(attachment);
        self.progress.retain(|(of, _), _| of != attachment);
        self.stalled.retain(|(_, of), _| of != attachment);
        self.links.retain(|_, of| {
            of.remove(attachment);
            !of.is_empty()
        });
    }
}

impl PodLimits {
    /// When limits are to be looked at the next time.
    pub(in crate::engine) fn look_at(&self) -> Instant {
        self.watch.next()
    }

    /// How often something was put back, and queues were emptied.
    pub(in crate::engine) fn repairs(&self) -> (u64, u64) {
        (self.watch.restored, self.watch.emptied)
    }

    /// What is wrong with queues.
    pub(super) fn stalls(&self) -> impl Iterator<Item = &Problem> {
        self.watch.stalled.values()
    }

    /// Takes note of where something was changed: what stands there is looked at at once.
    pub(in crate::engine) fn hear(&mut self, news: &News) {
        let now = Instant::now();
        if news.lost {
            self.watch.all_at = now;
            return;
        }
        let changed = news.traffic_control.iter().chain(news.there.keys());
        let changed = changed.chain(&news.gone);
        let of_links = changed.filter_map(|index| self.watch.links.get(index));
        let concerned: BTreeSet<Attachment> = of_links.flatten().cloned().collect();
        for attachment in concerned {
            let last = self.watch.looked.get(&attachment);
            let since = last.map(|last| now.saturating_duration_since(*last));
            let left = since.map_or(Duration::ZERO, |since| APART.saturating_sub(since));
            self.watch.look_after(&attachment, now, left);
        }
    }

    /// Watches what was just made.
    pub(super) fn watch(&mut self, attachment: &Attachment) {
        self.watch.forget(attachment);
        let record = self.record(attachment);
        let queues = record.iter().flat_map(|record| &record.queues);
        for queue in queues.filter(|queue| queue.side == SideName::Host) {
            let both = [Some(&queue.link), queue.detour_from.as_ref()];
            for link in both.into_iter().flatten() {
                let of_link = self.watch.links.entry(link.index).or_default();
                of_link.insert(attachment.clone());
            }
        }
        self.watch.look_after(attachment, Instant::now(), SETTLES);
    }

    /// Looks at what is due. True when anything was found.
    pub(in crate::engine) fn look(&mut self, now: Instant) -> bool {
        let is_all = self.watch.all_at <= now;
        if is_all {
            self.watch.all_at = now + EVERY;
            self.watch.stalled.clear();
        }
        let due = |attachment: &Attachment| {
            is_all || self.watch.due.get(attachment).is_some_and(|at| *at <= now)
        };
        let held = self.held.iter().flat_map(|(pod, held)| {
            let of_pod = held.iter().filter(|(attachment, _)| due(attachment));
            of_pod.map(|(attachment, held)| (pod.clone(), attachment.clone(), held.clone()))
        });
        let held: Vec<(ObjectName, Attachment, Held)> = held.collect();
        self.watch.due.retain(|_, at| *at > now);
        let before = (self.problems.len(), self.watch.restored, self.watch.emptied);
        for (pod, attachment, held) in &held {
            self.watch.due.remove(attachment);
            self.watch.looked.insert(attachment.clone(), now);
            self.look_at_one(pod, attachment, held, now);
        }
        is_all || before != (self.problems.len(), self.watch.restored, self.watch.emptied)
    }

    fn look_at_one(
        &mut self,
        pod: &ObjectName,
        attachment: &Attachment,
        held: &Held,
        now: Instant,
    ) {
        let record = self.record(attachment);
        let found = self
            .datapath
            .look(&held.request(attachment, record.as_ref(), self.ways));
        match found {
            Ok(waiting) => {
                if self.watch.faulty.remove(attachment).is_some() {
                    self.problems.remove(&(pod.clone(), attachment.clone()));
                }
                for waiting in &waiting {
                    self.look_at_queue(pod, attachment, held, waiting, now);
                }
            }
            // The pod is going.
            Err(why) if why.is_unreachable() => {}
            Err(why) => self.meet_fault(pod, attachment, held, &why, now),
        }
    }

    /// Puts back what is missing or changed, once it is sure that nobody is taking the attachment away.
    fn meet_fault(
        &mut self,
        pod: &ObjectName,
        attachment: &Attachment,
        held: &Held,
        why: &Error,
        now: Instant,
    ) {
        let since = *self.watch.faulty.entry(attachment.clone()).or_insert(now);
        let left = SETTLES.saturating_sub(now.saturating_duration_since(since));
        if !left.is_zero() {
            self.watch.look_after(attachment, now, left);
            return;
        }
        let is_of_plugin = self.attached.read(attachment).is_some();
        if !(is_of_plugin || self.own.contains_key(attachment) || self.record(attachment).is_some())
        {
            // It was deleted, of which its object does not know yet.
            return;
        }
        if self.watch.repairs.is_spent(attachment, now) {
            let problem = Problem {
                object: ObjectRef::Pod(pod.clone()),
                reason: Reason::RepairContested,
                message: format!(
                    "somebody changes what limits {} again and again ({why}): it is put back five \
                     times a minute",
                    attachment.interface()
                ),
            };
            self.problems
                .insert((pod.clone(), attachment.clone()), problem);
            self.watch.look_after(attachment, now, EVERY / 3);
            return;
        }
        tracing::warn!(%attachment, "somebody changed what limits it, which is put back: {why}");
        match self.hold(attachment, held) {
            Ok(()) => {
                self.watch.repairs.note(attachment.clone(), now);
                self.watch.restored += 1;
                self.watch.faulty.remove(attachment);
                self.problems.remove(&(pod.clone(), attachment.clone()));
            }
            Err(why) => {
                if let Some(of_pod) = self.held.get_mut(pod) {
                    of_pod.remove(attachment);
                }
                self.failed_to("put its limits back", pod, attachment, &why);
            }
        }
    }

    fn look_at_queue(
        &mut self,
        pod: &ObjectName,
        attachment: &Attachment,
        held: &Held,
        waiting: &Waiting,
        now: Instant,
    ) {
        let Waiting {
            direction,
            pace,
            statistics,
        } = waiting;
        let key = (attachment.clone(), *direction);
        let progress = self.watch.progress.entry(key).or_default();
        match progress.note(now, statistics, pace) {
            Motion::Moves => {}
            Motion::Unknown(time) => self.watch.look_after(attachment, now, time),
            Motion::Stalled => {
                let record = self.record(attachment);
                let request = held.request(attachment, record.as_ref(), self.ways);
                let emptied = self.datapath.empty(&request, *direction);
                let became = match emptied {
                    Ok(packets) => {
                        self.watch.emptied += 1;
                        self.dropped += u64::from(packets);
                        format!("{packets} packets that waited were dropped")
                    }
                    Err(why) => format!("it could not be emptied: {why}; it is tried again"),
                };
                let problem = Problem {
                    object: ObjectRef::Pod(pod.clone()),
                    reason: Reason::QueueStalled,
                    message: format!(
                        "the {direction} queue of {} sent nothing of what waited in it; {became}",
                        attachment.interface()
                    ),
                };
                self.watch
                    .stalled
                    .insert((pod.clone(), attachment.clone()), problem);
                self.watch.look_after(attachment, now, SETTLES);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use netqos_api::{EgressWay, HookChoice};
    use netqos_datapath::Paths;

    use super::*;

    /// A pod that sets its interface up and down a thousand times a second has it looked at four times.
    #[test]
    fn whoever_is_announced_all_the_time_is_looked_at_now_and_then() {
        let folder = tempfile::tempdir().unwrap();
        let paths = Paths::new(folder.path(), Path::new("/sys/fs/bpf"));
        let (hook, egress) = (HookChoice::Auto, EgressWay::Pod);
        let mut limits = PodLimits::open(&paths, vec![], hook, egress).unwrap();
        let attachment = Attachment::try_new("net", "c1", "eth0").unwrap();
        limits.watch.links.insert(7, [attachment.clone()].into());
        let news = News {
            there: [(7, "veth0".to_owned())].into(),
            ..News::default()
        };
        limits.hear(&news);
        assert!(limits.look_at() <= Instant::now());
        let looked = Instant::now();
        limits.look(looked);
        limits.watch.looked.insert(attachment, looked);
        for _ in 0..100 {
            limits.hear(&news);
        }
        assert_eq!(limits.watch.due.len(), 1);
        assert!(limits.look_at() >= looked + APART);
    }
}
