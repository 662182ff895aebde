//! The limits of one attachment, put in force.

use std::fs;
use std::path::{Path, PathBuf};

use netqos_api::{EgressWay, HookChoice};
use netqos_bpf::Pins;
use netqos_core::plan::Ends;
use netqos_core::{Attachment, Direction, FIRST_INTERFACE, Limits};

use crate::endpoint::{Endpoint, HostLinks, IngressWay, Side};
use crate::files::remove_file;
use crate::hook::HookKind;
use crate::install::Installer;
use crate::lock::FileLock;
use crate::plan::{Planned, inherit, is_same};
use crate::record::{QueueName, QueueRecord, Record, Records, SideName};
use crate::{Error, Paths, Result, Shape, legacy, programs};

/// What an attachment shall be held to.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Whose interface.
    pub attachment: &'a Attachment,
    /// The file that names the pod's network namespace.
    pub netns: &'a Path,
    /// The interface's links, where no record says which they are. `None`: the one of its name.
    pub ends: Option<Ends>,
    /// What the plugins before made on the host.
    pub host_links: HostLinks<'a>,
    /// What it is held to.
    pub limits: Limits,
    /// Where traffic from the pod is queued.
    pub egress: EgressWay,
    /// How the ranking program is attached.
    pub hook: HookChoice,
    /// True for a running pod: changes that take its interface down for a moment would lose packets. False at ADD, when
    /// the interface is the link of its name.
    pub is_running: bool,
}

impl Request<'_> {
    /// The links of a running pod's interface.
    pub(crate) fn ends(&self, record: Option<&Record>) -> Option<Ends> {
        record.and_then(|record| record.ends).or(self.ends)
    }
}

/// What is in force.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// One for each limited direction.
    pub queues: Vec<Shaped>,
    /// The interface's links; `None` if they were not looked for.
    pub ends: Option<Ends>,
    /// Why what the pod receives has no queue in the pod, where [it needs one](LimitDatapath::note_ingress_in_pod) and has
    /// none.
    pub no_queue_in_pod_because: Option<String>,
}

/// One limited direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shaped {
    /// Which.
    pub direction: Direction,
    /// The name of the link that carries the queue.
    pub link: String,
    /// The hardware address of that link.
    pub mac: String,
    /// On which side that link is.
    pub side: SideName,
    /// True when that link is an ifb of ours.
    pub is_ifb: bool,
    /// Why what others keep from the redirect to that ifb is not caught, when it is not.
    pub no_backstop_because: Option<String>,
    /// How the ranking program is attached.
    pub hook: HookKind,
    /// Why it is not, when it is not.
    pub unranked_because: Option<String>,
    /// The numbers.
    pub shape: Shape,
}

/// Puts limits in force, and takes them away, on the node (network namespace) in which it was
/// opened.
#[derive(Debug)]
pub struct LimitDatapath {
    pub(crate) paths: Paths,
    pub(crate) records: Records,
    pub(crate) host: Side,
    /// Packets that changes dropped, until they are taken.
    pub(crate) dropped: u64,
}

impl LimitDatapath {
    /// Opens the kernel's door.
    pub fn open(paths: Paths) -> Result<Self> {
        let records = Records::new(paths.attachments());
        Ok(Self {
            records,
            paths,
            host: Side::host()?,
            dropped: 0,
        })
    }

    /// The records of what is in force.
    pub fn records(&self) -> &Records {
        &self.records
    }

    /// Returns the number of packets that changes dropped since the last call: those that a queue could never send,
    /// and those that links lost while their transmit queue length changed.
    pub fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }

    /// Puts the limits in force. What is right already is not touched; what an earlier call, or
    /// the well-known plugin, made for this attachment and is no longer wanted goes.
    ///
    /// # Errors
    /// Where the pod's interface cannot be found, or the programs that were asked for by name
    /// cannot be had, nothing has changed; nor where others were in force before, and these cannot be
    /// written down. Of a running pod, what has its place on the host is in force although a queue in the pod cannot be made.
    /// After any other error, nothing of this attachment is in force, and nothing is left behind.
    pub fn apply(&mut self, request: &Request<'_>) -> Result<Applied> {
        if request.limits.is_unlimited() && self.records.read(request.attachment)?.is_none() {
            // Nothing to do, and so nothing that can fail.
            return Ok(Applied::default());
        }
        let lock = self.records.lock(request.attachment)?;
        let before = self.records.read(request.attachment)?;
        if request.limits.is_unlimited() {
            self.undo(request)?;
            self.records.remove(request.attachment, &lock)?;
            return Ok(Applied::default());
        }
        self.apply_under(request, before, &lock)
    }

    fn apply_under(
        &mut self,
        request: &Request<'_>,
        before: Option<Record>,
        lock: &FileLock,
    ) -> Result<Applied> {
        let ingress = self.ingress_way(request.attachment, before.as_ref());
        let applied = self.apply_in(ingress, request, before, lock)?;
        // The queue on the host goes now that the pod has its own.
        if ingress == IngressWay::Both
            && applied.no_queue_in_pod_because.is_none()
            && self.is_only_in_pod(request.attachment)
            && let Some(made) = self.records.read(request.attachment)?
        {
            return self.apply_in(IngressWay::Pod, request, Some(made), lock);
        }
        Ok(applied)
    }

    fn apply_in(
        &mut self,
        ingress: IngressWay,
        request: &Request<'_>,
        before: Option<Record>,
        lock: &FileLock,
    ) -> Result<Applied> {
        let found = match self.find(request, before.as_ref()) {
            Ok(found) => found,
            Err(error) => {
                if before.is_none() {
                    self.records.remove(request.attachment, lock)?;
                }
                return Err(error);
            }
        };
        // Until something is changed.
        let mut stands = before.is_some();
        let mut left_out = LeftOut {
            is_running: request.is_running,
            ingress,
            first: None,
        };
        let applied = self.apply_locked(request, before, found, &mut stands, &mut left_out);
        // What cannot be remembered now may be in a moment; any other failure is one of what is there.
        stands &= matches!(applied, Err(Error::Record { .. }));
        if applied.is_err() && !stands {
            // The error that matters is the first; what cannot be undone GC will find by the record.
            if self.undo(request).is_ok() {
                let _ = self.records.remove(request.attachment, lock);
            }
        }
        let mut applied = applied?;
        match left_out.first {
            Some((QueueName::IngressInPod, why)) if ingress == IngressWay::Both => {
                applied.no_queue_in_pod_because = Some(why.to_string());
            }
            Some((_, why)) => return Err(why),
            None => {}
        }
        Ok(applied)
    }

    /// Applies the limits of an attachment again, as its record has them: with what the node was [found to
    /// need](Self::note_ingress_in_pod) meanwhile. `netns` names the pod's namespace, where the path in the record is another
    /// process's. Returns `None` if there is no such attachment any more.
    ///
    /// # Errors
    /// Returns the same errors as [`apply`](Self::apply).
    pub fn apply_again(
        &mut self,
        attachment: &Attachment,
        netns: Option<&Path>,
    ) -> Result<Option<Applied>> {
        let lock = self.records.lock(attachment)?;
        let Some(record) = self.records.read(attachment)? else {
            self.records.remove(attachment, &lock)?;
            return Ok(None);
        };
        let request = Request {
            netns: netns.unwrap_or(&record.netns),
            ..record.request()
        };
        self.apply_under(&request, Some(record.clone()), &lock)
            .map(Some)
    }

    /// Returns where the queues of what the pod receives belong.
    pub(crate) fn ingress_way(
        &self,
        attachment: &Attachment,
        before: Option<&Record>,
    ) -> IngressWay {
        let has = |queue| before.is_some_and(|record| record.queue(queue).is_some());
        if self.is_only_in_pod(attachment) {
            // Until it is known that the pod has its own, the queue on the host stays.
            return match has(QueueName::Ingress) {
                true => IngressWay::Both,
                false => IngressWay::Pod,
            };
        }
        match has(QueueName::IngressInPod) || self.paths.ingress_in_pod().exists() {
            true => IngressWay::Both,
            false => IngressWay::Host,
        }
    }

    /// Returns true if another process [removes](Self::note_ingress_only_in_pod) queues at the host's end of this interface.
    pub fn is_only_in_pod(&self, attachment: &Attachment) -> bool {
        attachment.interface() == FIRST_INTERFACE && self.paths.ingress_only_in_pod().exists()
    }

    /// Notes that ingress limits on this node need a queue in the pod: new and changed ones get it.
    ///
    /// # Errors
    /// Returns [`Error::Record`] if it cannot be written.
    pub fn note_ingress_in_pod(&self, why: &str) -> Result<()> {
        note(self.paths.ingress_in_pod(), why)
    }

    /// Notes why queues at the host's ends of first interfaces do not last, so that ingress limits there go into the pod;
    /// `None`: they do.
    ///
    /// # Errors
    /// Returns [`Error::Record`] if it cannot be written.
    pub fn note_ingress_only_in_pod(paths: &Paths, why: Option<&str>) -> Result<()> {
        let path = paths.ingress_only_in_pod();
        match why {
            Some(why) => note(path, why),
            None => remove_file(path),
        }
    }

    fn undo(&mut self, request: &Request<'_>) -> Result<()> {
        let netns = Some(request.netns);
        self.teardown_locked(
            request.attachment,
            netns,
            request.host_links,
            &request.limits,
        )
    }

    /// Finds what the limits are for and made with; changes nothing of the attachment.
    fn find(&mut self, request: &Request<'_>, before: Option<&Record>) -> Result<Site> {
        let mut pod = Side::pod(request.netns)?;
        let ends = request.is_running.then(|| request.ends(before)).flatten();
        let endpoint = self.locate(request, &mut pod, ends)?;
        let pins = match request.hook {
            HookChoice::None => Err(netqos_bpf::Error::Load("not asked for".to_owned())),
            _ => programs::ensure(&self.paths),
        };
        if let (Err(_), HookChoice::Tcx | HookChoice::Clsact) = (&pins, request.hook) {
            return Err(pins.err().map_or(Error::QdiscMissing, Error::Bpf));
        }
        Ok(Site {
            pod,
            endpoint,
            pins,
        })
    }

    pub(crate) fn locate(
        &mut self,
        request: &Request<'_>,
        pod: &mut Side,
        ends: Option<Ends>,
    ) -> Result<Endpoint> {
        let interface = request.attachment.interface();
        Endpoint::locate(&mut self.host, pod, interface, ends, request.host_links)
    }

    fn apply_locked(
        &mut self,
        request: &Request<'_>,
        before: Option<Record>,
        mut site: Site,
        stands: &mut bool,
        left_out: &mut LeftOut,
    ) -> Result<Applied> {
        let ends = site.endpoint.ends();
        if let Some(host) = &site.endpoint.host {
            legacy::retire(&mut self.host.socket, host, request.attachment)?;
        }
        let mut plan = self.plan(request, &mut site, before.as_ref(), left_out)?;
        if let Some(before) = &before {
            if self.retire(before, &plan, &mut site.pod, stands, left_out)? {
                // What is retired takes its tag off the links.
                site.endpoint = self.locate(request, &mut site.pod, Some(ends))?;
                plan = self.plan(request, &mut site, Some(before), left_out)?;
            }
            inherit(before, &mut plan);
        }
        let mut record = Record {
            attachment: request.attachment.clone(),
            netns: request.netns.to_owned(),
            ends: Some(ends),
            limits: request.limits,
            queues: plan.iter().map(|planned| planned.record.clone()).collect(),
        };
        self.records.write(&record)?;
        *stands = false;
        let installer = Installer {
            attachment: request.attachment,
            pins: site.pins.as_ref().ok(),
            choice: request.hook,
        };
        let mut applied = Applied {
            ends: Some(ends),
            ..Applied::default()
        };
        let mut made = Vec::new();
        for (planned, mut queue) in plan.into_iter().zip(std::mem::take(&mut record.queues)) {
            let side = match queue.side {
                SideName::Host => &mut self.host,
                SideName::Pod => &mut site.pod,
            };
            match installer.install(side, planned, &mut queue) {
                Ok((shaped, dropped)) => {
                    self.dropped += u64::from(dropped);
                    applied.queues.push(shaped);
                    made.push(queue);
                }
                Err(why) => {
                    left_out.note(queue.name(), queue.side, why)?;
                    // What of it cannot be removed either is in the pod alone.
                    let bpffs = self.paths.bpffs();
                    let _ = crate::teardown::queue(side, &queue, request.attachment, bpffs, None);
                }
            }
        }
        record.queues = made;
        if record.queues.is_empty() {
            left_out.fail()?;
        }
        self.records.write(&record)?;
        Ok(applied)
    }

    /// Removes what an earlier call made and is not wanted any more; says whether there was any.
    fn retire(
        &mut self,
        before: &Record,
        plan: &[Planned],
        pod: &mut Side,
        stands: &mut bool,
        left_out: &mut LeftOut,
    ) -> Result<bool> {
        let is_unwanted =
            |old: &&QueueRecord| !plan.iter().any(|planned| is_same(old, &planned.record));
        let mut any = false;
        let replaced = self.replaced(before);
        for old in before.queues.iter().filter(is_unwanted) {
            *stands = false;
            let side = match old.side {
                SideName::Host => &mut self.host,
                SideName::Pod => &mut *pod,
            };
            let bpffs = self.paths.bpffs();
            match crate::teardown::queue(side, old, &before.attachment, bpffs, replaced) {
                Ok(dropped) => self.dropped += u64::from(dropped),
                Err(why) => left_out.note(old.name(), old.side, why)?,
            }
            any = true;
        }
        Ok(any)
    }
}

/// Writes a file, unless it exists.
fn note(path: PathBuf, why: &str) -> Result<()> {
    if path.exists() {
        return Ok(());
    }
    fs::write(&path, why).map_err(|source| Error::Record { path, source })
}

/// The queue that could not be made, where others can. A pod with `CAP_NET_ADMIN` can keep any queue in its namespace from
/// being made: that must not lift what is held on the host.
#[derive(Debug)]
pub(crate) struct LeftOut {
    is_running: bool,
    /// Where the queues of an ingress limit belong.
    pub(crate) ingress: IngressWay,
    first: Option<(QueueName, Error)>,
}

impl LeftOut {
    /// Notes why a queue cannot be made.
    ///
    /// # Errors
    /// Returns the reason if nothing is to be in force without it.
    pub(crate) fn note(&mut self, queue: QueueName, side: SideName, why: Error) -> Result<()> {
        let is_optional = queue == QueueName::IngressInPod && self.ingress == IngressWay::Both;
        if side == SideName::Host || !(is_optional || self.is_running) {
            return Err(why);
        }
        // What was there before is still held by the host's queue.
        if self.first.is_none() || !is_optional {
            self.first = Some((queue, why));
        }
        Ok(())
    }

    /// Nothing else can be made.
    pub(crate) fn fail(&mut self) -> Result<()> {
        self.first.take().map_or(Ok(()), |(_, why)| Err(why))
    }
}

/// Where limits go, and what they are made with.
pub(crate) struct Site {
    pub(crate) pod: Side,
    pub(crate) endpoint: Endpoint,
    pub(crate) pins: std::result::Result<Pins, netqos_bpf::Error>,
}
