//! The limits of pods as a whole, where their annotations ask for them.
//!
//! Whoever made a limit first, the plugin or the agent, what the annotations say now is in force.
//! Without the pod's object nothing is known of what is wanted: then only what the agent made by
//! itself goes, and what a plugin made is left to its DEL.
//!
//! What the agent made by itself is noted in a file of its own before it is made, so that it is
//! found again by an agent that was killed in between.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use netqos_api::{EgressWay, HookChoice};
use netqos_cni::runtime::CachedAttachment;
use netqos_core::objects::LocalInterface;
use netqos_core::plan::{Endpoint, Ends, Interface};
use netqos_core::{Attachment, EndpointId, Limit, Limits, ObjectName, ObjectRef, Problem, Reason};
use netqos_datapath::{
    AttachedPods, Documents, HostLinks, LimitDatapath, Paths, Record, Request, Result,
};
use serde::{Deserialize, Serialize};

use crate::places::limits_folder;

mod bypass;
mod repair;

use bypass::Bypasses;
use repair::Inspections;

/// Holds pods to their limits.
#[derive(Debug)]
pub(super) struct PodLimits {
    datapath: LimitDatapath,
    caches: Vec<PathBuf>,
    attached: AttachedPods,
    notes: Documents,
    ways: Ways,
    /// What is in force and was wanted by annotations, by pod.
    held: BTreeMap<ObjectName, BTreeMap<Attachment, Held>>,
    /// What the agent made by itself.
    own: BTreeMap<Attachment, Note>,
    problems: BTreeMap<(ObjectName, Attachment), Problem>,
    inspections: Inspections,
    bypasses: Bypasses,
    /// How often a limit was set or lifted.
    pub(super) changes: u64,
}

/// A limit in force.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Held {
    limits: Limits,
    netns: PathBuf,
    ends: Option<Ends>,
}

impl Held {
    fn request<'r>(
        &'r self,
        attachment: &'r Attachment,
        record: Option<&Record>,
        ways: Ways,
    ) -> Request<'r> {
        Request {
            attachment,
            netns: &self.netns,
            ends: self.ends,
            host_links: HostLinks::Unknown,
            limits: self.limits,
            egress: record.and_then(Record::egress).unwrap_or(ways.egress),
            hook: hook(record, ways.hook),
            is_running: true,
        }
    }
}

/// The hook and the egress queue of new limits.
#[derive(Clone, Copy, Debug)]
struct Ways {
    hook: HookChoice,
    egress: EgressWay,
}

/// A note of a limit that the agent made by itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Note {
    attachment: Attachment,
    netns: PathBuf,
}

/// What is known of a pod.
#[derive(Debug)]
pub(super) struct Known<'a> {
    /// Its name.
    pub(super) pod: &'a ObjectName,
    /// True when there is an object that says what is wanted.
    pub(super) has_object: bool,
    /// Its endpoints in the plan.
    pub(super) endpoints: Vec<(&'a EndpointId, &'a Endpoint)>,
    /// Its interfaces on this node.
    pub(super) interfaces: &'a [LocalInterface],
    /// The one of them that its annotations are for.
    pub(super) first: Option<&'a LocalInterface>,
    /// Those of sandboxes of other pods of this name.
    pub(super) others: BTreeSet<Attachment>,
}

impl PodLimits {
    pub(super) fn open(
        paths: &Paths,
        caches: Vec<PathBuf>,
        hook: HookChoice,
        egress: EgressWay,
    ) -> Result<Self> {
        let mut limits = Self {
            datapath: LimitDatapath::open(paths.clone())?,
            caches,
            attached: AttachedPods::new(paths.pods()),
            notes: Documents::new(limits_folder(paths.run())),
            ways: Ways { hook, egress },
            held: BTreeMap::new(),
            own: BTreeMap::new(),
            problems: BTreeMap::new(),
            inspections: Inspections::default(),
            bypasses: Bypasses::default(),
            changes: 0,
        };
        limits.read_notes();
        Ok(limits)
    }

    /// What is wrong.
    pub(super) fn problems(&self) -> impl Iterator<Item = &Problem> {
        self.problems.values().chain(self.inspections.stalls())
    }

    /// The pods that something failed for.
    pub(super) fn failed(&self) -> BTreeSet<ObjectName> {
        self.problems.keys().map(|(pod, _)| pod.clone()).collect()
    }

    /// The record of an attachment that is held to something.
    pub(super) fn record(&self, attachment: &Attachment) -> Option<Record> {
        self.datapath.records().read(attachment).ok().flatten()
    }

    /// The limits of an attachment, as they were made last, by the plugin or an agent; `None` where
    /// the record cannot be read.
    pub(super) fn recorded(&self, attachment: &Attachment) -> Option<Limits> {
        let record = self.datapath.records().read(attachment).ok()?;
        Some(record.map_or_else(Limits::default, |record| record.limits))
    }

    /// Returns the number of packets that changes dropped since the last call.
    pub(super) fn take_dropped(&mut self) -> u64 {
        self.datapath.take_dropped()
    }

    /// Returns true if these limits, and no others, were programmed at the last inspection.
    pub(super) fn is_held(
        &self,
        pod: &ObjectName,
        attachment: &Attachment,
        limits: &Limits,
    ) -> bool {
        let held = self.held.get(pod).and_then(|held| held.get(attachment));
        held.is_some_and(|held| held.limits == *limits) && !self.inspections.is_faulty(attachment)
    }

    /// Makes what is wanted of a pod now.
    pub(super) fn reconcile(&mut self, known: &Known<'_>) {
        let pod = known.pod;
        self.problems
            .retain(|(of, attachment), _| of != pod || self.inspections.is_faulty(attachment));
        let mut wanted: BTreeMap<Attachment, Held> = BTreeMap::new();
        for (_, endpoint) in &known.endpoints {
            let interface = endpoint.attach.interface();
            let limits = endpoint.limits;
            if let Some(interface) = interface.filter(|_| !limits.is_unlimited())
                && let Some(attachment) = attachment(interface)
            {
                let held = Held {
                    limits,
                    netns: interface.netns.clone(),
                    ends: interface.ends,
                };
                wanted.insert(attachment, held);
            }
        }
        let located = known.interfaces.iter();
        let located: BTreeMap<Attachment, PathBuf> = located
            .filter_map(|one| one.attach.interface())
            .filter_map(|one| Some((attachment(one)?, one.netns.clone())))
            .collect();
        let first = known.first.and_then(|one| one.attach.interface());
        let first = first.and_then(attachment);
        let recorded = known.interfaces.iter();
        let recorded = recorded.filter(|one| one.recorded.is_some());
        let recorded = recorded.filter_map(|one| one.attach.interface());
        let recorded: BTreeSet<Attachment> = recorded.filter_map(attachment).collect();
        let mut held = self.held.remove(pod).unwrap_or_default();
        // What is not wanted: of interfaces that are there, and of those that have gone.
        let mut unwanted: BTreeMap<Attachment, Option<PathBuf>> = BTreeMap::new();
        unwanted.extend(held.keys().map(|attachment| (attachment.clone(), None)));
        for (attachment, netns) in located {
            unwanted.insert(attachment, Some(netns));
        }
        unwanted.retain(|attachment, _| {
            !wanted.contains_key(attachment) && !known.others.contains(attachment)
        });
        for (attachment, netns) in unwanted {
            let lifts = match (&netns, known.has_object) {
                (Some(_), true) => {
                    // Another interface has the limit that the pod's selection of the network requests. It stays where
                    // the record is gone, as after a hand-over to Multus.
                    let is_first = first.as_ref() == Some(&attachment);
                    self.own.contains_key(&attachment)
                        || ((is_first || recorded.contains(&attachment))
                            && held.contains_key(&attachment))
                        || (is_first && self.is_of_annotation(&attachment))
                }
                _ => self.own.contains_key(&attachment),
            };
            if !lifts {
                held.remove(&attachment);
                self.inspections.remove(&attachment);
                continue;
            }
            match self.lift(&attachment, netns.as_deref()) {
                Ok(()) => drop(held.remove(&attachment)),
                Err(why) => self.failed_to("lift its limits", pod, &attachment, &why),
            }
        }
        // After that: an interface may be known by another name now.
        for (attachment, wanted) in &wanted {
            // An inspection restores changed parts of it.
            if held.get(attachment) == Some(wanted) {
                continue;
            }
            held.remove(attachment);
            match self.hold(attachment, wanted) {
                Ok(()) => {
                    self.start_inspections(attachment);
                    self.problems.remove(&(pod.clone(), attachment.clone()));
                    held.insert(attachment.clone(), wanted.clone());
                }
                Err(why) => self.failed_to("hold it to its limits", pod, attachment, &why),
            }
        }
        if !held.is_empty() {
            self.held.insert(pod.clone(), held);
        }
    }

    /// Takes back what the agent made for attachments that are not there any more.
    pub(super) fn collect(&mut self, located: &BTreeSet<Attachment>) {
        let own: Vec<Attachment> = self.own.keys().cloned().collect();
        for attachment in own {
            if !located.contains(&attachment)
                && let Err(why) = self.lift(&attachment, None)
            {
                tracing::warn!("take back the limits of {attachment}: {why}");
            }
        }
    }

    fn hold(&mut self, attachment: &Attachment, wanted: &Held) -> Result<()> {
        let record = self.datapath.records().read(attachment)?;
        let is_as_wanted = record
            .as_ref()
            .is_some_and(|record| record.limits == wanted.limits);
        if record.is_none() {
            self.note(attachment, &wanted.netns)?;
        }
        let request = wanted.request(attachment, record.as_ref(), self.ways);
        let applied = self.datapath.apply(&request);
        // What has its place on the host may be in force.
        if applied.is_err() && self.record(attachment).is_none() {
            self.forget(attachment);
        }
        applied?;
        if !is_as_wanted {
            self.changes += 1;
            let rate = |limit: Option<Limit>| limit.map(|limit| limit.rate.bits_per_second());
            tracing::info!(
                %attachment,
                ingress_bits_per_second = rate(wanted.limits.ingress),
                egress_bits_per_second = rate(wanted.limits.egress),
                "limits set"
            );
        }
        Ok(())
    }

    fn lift(&mut self, attachment: &Attachment, netns: Option<&Path>) -> Result<()> {
        let record = self.datapath.records().read(attachment)?;
        // Also without a record: who was killed just after removing it has left its lock.
        let limits = record.as_ref().map_or_else(Limits::default, |it| it.limits);
        self.datapath
            .teardown(attachment, netns, HostLinks::Unknown, &limits)?;
        self.inspections.remove(attachment);
        self.bypasses.remove(attachment);
        if record.is_some() {
            self.changes += 1;
            tracing::info!(%attachment, "limits lifted");
        }
        self.forget(attachment);
        Ok(())
    }

    /// True when the runtime gave a limit to the plugin, which it takes from the annotations: the
    /// limit was not one of the network's configuration.
    fn is_of_annotation(&self, attachment: &Attachment) -> bool {
        if let Some(attached) = self.attached.read(attachment) {
            return attached.has_annotations;
        }
        let (network, container) = (attachment.network(), attachment.container());
        let name = format!("{network}-{container}-{}", attachment.interface());
        self.caches.iter().any(|cache| {
            let text = fs::read(cache.join("results").join(&name)).ok();
            let cached = text.and_then(|text| serde_json::from_slice(&text).ok());
            cached.is_some_and(|cached: CachedAttachment| {
                cached.capability_args.contains_key("bandwidth")
            })
        })
    }

    fn failed_to(
        &mut self,
        what: &str,
        pod: &ObjectName,
        attachment: &Attachment,
        why: &netqos_datapath::Error,
    ) {
        let interface = attachment.interface();
        let problem = Problem {
            object: ObjectRef::Pod(pod.clone()),
            reason: if why.is_unreachable() {
                Reason::EndpointUnreachable
            } else if why.is_unsupported() {
                Reason::KernelFeatureMissing
            } else {
                Reason::UpdateFailed
            },
            message: format!("could not {what} on {interface}: {why}; it is tried again"),
        };
        self.problems
            .insert((pod.clone(), attachment.clone()), problem);
    }

    fn note(&mut self, attachment: &Attachment, netns: &Path) -> Result<()> {
        let note = Note {
            attachment: attachment.clone(),
            netns: netns.to_owned(),
        };
        self.notes.write(attachment.tag().names(), &note)?;
        self.own.insert(attachment.clone(), note);
        Ok(())
    }

    fn forget(&mut self, attachment: &Attachment) {
        if self.own.remove(attachment).is_some()
            && let Err(why) = self.notes.remove(attachment.tag().names())
        {
            tracing::warn!("forget that the limits of {attachment} were the agent's: {why}");
        }
    }

    /// Reads what an agent before this one noted.
    fn read_notes(&mut self) {
        let notes = self
            .notes
            .remove_unfinished()
            .and_then(|()| self.notes.all());
        match notes {
            Ok(notes) => {
                let notes = notes.into_iter();
                self.own = notes
                    .map(|note: Note| (note.attachment.clone(), note))
                    .collect();
            }
            Err(why) => tracing::warn!("read which limits are the agent's own: {why}"),
        }
    }
}

pub(super) fn attachment(interface: &Interface) -> Option<Attachment> {
    Attachment::try_new(&interface.network, &interface.container, &interface.name).ok()
}

/// What is in force is changed in the way in which it was made.
fn hook(record: Option<&Record>, choice: HookChoice) -> HookChoice {
    match choice {
        HookChoice::Auto => record.map_or(HookChoice::Auto, Record::hook),
        choice => choice,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(run: &Path) -> PodLimits {
        let paths = Paths::new(run, "/sys/fs/bpf");
        PodLimits::open(&paths, vec![], HookChoice::Auto, EgressWay::Pod).unwrap()
    }

    #[test]
    fn what_an_agent_noted_the_next_one_knows_and_half_a_note_goes() {
        let folder = tempfile::tempdir().unwrap();
        let (run, notes) = (folder.path(), limits_folder(folder.path()));
        let attachment = Attachment::try_new("net", "c1", "eth0").unwrap();
        open(run)
            .note(&attachment, Path::new("/run/netns/x"))
            .unwrap();
        std::fs::write(notes.join("net:c1:eth1.new"), "{").unwrap();
        let mut next = open(run);
        assert!(next.own.keys().eq([&attachment]));
        let names = |notes| {
            fs::read_dir(notes)
                .unwrap()
                .map(|it| it.unwrap().file_name())
        };
        assert!(names(&notes).eq(["net:c1:eth0.json"]));
        next.forget(&attachment);
        assert_eq!(names(&notes).count(), 0);
        assert!(open(run).own.is_empty());
    }
}
