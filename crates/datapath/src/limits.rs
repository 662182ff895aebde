//! The limits of one attachment, put in force.

use std::path::Path;

use netqos_api::{EgressWay, HookChoice};
use netqos_bpf::Pins;
use netqos_core::plan::Ends;
use netqos_core::{Attachment, Direction, Limits};

use crate::endpoint::{Endpoint, HostLinks, Side};
use crate::hook::HookKind;
use crate::install::Installer;
use crate::plan::{Planned, inherit, is_same};
use crate::record::{QueueRecord, Record, Records, SideName};
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
    /// written down. After [`Error::Moved`] what has its place on the host is in force. After any other, nothing of this
    /// attachment is in force, and nothing is left behind.
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
        let found = match self.find(request, before.as_ref()) {
            Ok(found) => found,
            Err(error) => {
                if before.is_none() {
                    self.records.remove(request.attachment, &lock)?;
                }
                return Err(error);
            }
        };
        let moved = found.endpoint.lacks_place(&request.limits, request.egress);
        // Until something is changed.
        let mut stands = before.is_some();
        let applied = self.apply_locked(request, before, found, &mut stands);
        // What cannot be remembered now may be in a moment; any other failure is one of what is there.
        stands &= matches!(applied, Err(Error::Record { .. }));
        if applied.is_err() && !stands {
            // The error that matters is the first; what cannot be undone GC will find by the record.
            if self.undo(request).is_ok() {
                let _ = self.records.remove(request.attachment, &lock);
            }
        }
        match moved {
            Some(moved) => applied.and(Err(moved)),
            None => applied,
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
        site: Site,
        stands: &mut bool,
    ) -> Result<Applied> {
        let Site {
            mut pod,
            endpoint,
            pins,
        } = site;
        let ends = endpoint.ends();
        if let Some(host) = &endpoint.host {
            legacy::retire(&mut self.host.socket, host, request.attachment)?;
        }
        let mut plan = self.plan(request, &endpoint, &mut pod, &pins, before.as_ref())?;
        if let Some(before) = &before {
            if self.retire(before, &plan, &mut pod, stands)? {
                // What is retired takes its tag off the links.
                let endpoint = self.locate(request, &mut pod, Some(ends))?;
                plan = self.plan(request, &endpoint, &mut pod, &pins, Some(before))?;
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
            pins: pins.as_ref().ok(),
            choice: request.hook,
        };
        let mut applied = Applied {
            ends: Some(ends),
            ..Applied::default()
        };
        for (planned, record) in plan.into_iter().zip(&mut record.queues) {
            let side = match record.side {
                SideName::Host => &mut self.host,
                SideName::Pod => &mut pod,
            };
            let (queue, dropped) = installer.install(side, planned, record)?;
            self.dropped += u64::from(dropped);
            applied.queues.push(queue);
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
    ) -> Result<bool> {
        let is_unwanted =
            |old: &&QueueRecord| !plan.iter().any(|planned| is_same(old, &planned.record));
        let mut any = false;
        for old in before.queues.iter().filter(is_unwanted) {
            *stands = false;
            let side = match old.side {
                SideName::Host => &mut self.host,
                SideName::Pod => &mut *pod,
            };
            let bpffs = self.paths.bpffs();
            let dropped = crate::teardown::queue(side, old, &before.attachment, bpffs)?;
            self.dropped += u64::from(dropped);
            any = true;
        }
        Ok(any)
    }
}

/// Where limits go, and what they are made with.
struct Site {
    pod: Side,
    endpoint: Endpoint,
    pins: std::result::Result<Pins, netqos_bpf::Error>,
}
