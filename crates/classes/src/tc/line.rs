//! A line as it is found, and how it comes to hold the classes of a tree.

use std::thread::sleep;
use std::time::Duration;

use netqos_core::classes::TrafficClass;
use netqos_netlink::class::InstalledClass;
use netqos_netlink::link::Link;
use netqos_netlink::qdisc::{Bfifo, Htb, Installed};
use netqos_netlink::{Handle, Socket};

use super::names;
use super::tree::Wanted;
use crate::error::Doing;
use crate::lower::lower;
use crate::{Error, Result};

/// The one default class that there is for what nothing else chooses a class for.
const ROOT: Htb = Htb {
    default: names::rest(TrafficClass::System).minor(),
};
/// How long the packets of a class that goes may take.
const DRAIN: Duration = Duration::from_millis(100);
const DRAIN_STEP: Duration = Duration::from_millis(5);

/// A line as it is found.
#[derive(Debug)]
pub(super) struct Line {
    link: Link,
    /// What stands at the root, unless the kernel put it there.
    root: Option<Installed>,
    pub(super) classes: Vec<InstalledClass>,
}

impl Line {
    pub(super) fn find(socket: &mut Socket, name: &str) -> Result<Self> {
        match socket.link_by_name(name) {
            Err(error) if error.is_not_found() => Err(Error::NoLine(name.to_owned())),
            found => Self::of(socket, found.doing("find the line")?),
        }
    }

    pub(super) fn of(socket: &mut Socket, link: Link) -> Result<Self> {
        let root = socket
            .qdisc_at(&link, Handle::ROOT)
            .doing("look at the line")?;
        let root = root.filter(|root| !root.is_default());
        let classes = match root.as_ref().and_then(Installed::htb) {
            Some(_) => socket.classes(&link).doing("look at the line")?,
            None => Vec::new(),
        };
        Ok(Self {
            link,
            root,
            classes,
        })
    }

    pub(super) fn name(&self) -> &str {
        &self.link.name
    }

    /// Whether the classes here are netqos': an HTB by the proposal's name with no class that is not
    /// one of the tree. One without any, as somebody leaves it who is killed, divides nothing, and
    /// counts as ours.
    pub(super) fn is_ours(&self) -> bool {
        let Some(root) = &self.root else {
            return false;
        };
        let is_known = |class: &InstalledClass| {
            let at = (class.handle, class.parent);
            at == (names::LINE, Handle::ROOT)
                || TrafficClass::ALL.into_iter().any(|class| {
                    let (whole, rest) = (names::whole(class), names::rest(class));
                    at == (whole, names::LINE)
                        || (at.1 == whole && (at.0 == rest || names::is_part(at.0)))
                })
        };
        root.handle == names::QDISC
            && root.htb().is_some_and(|htb| htb.default == ROOT.default)
            && self.classes.iter().all(is_known)
    }

    /// Somebody else's qdisc at the root.
    pub(super) fn foreign(&self) -> Option<Error> {
        let root = self.root.as_ref().filter(|_| !self.is_ours())?;
        Some(Error::ForeignQdisc {
            line: self.link.name.clone(),
            kind: root.kind.clone(),
            handle: root.handle.to_string(),
        })
    }

    /// Puts these classes in place, over what they were; how many changes that took.
    pub(super) fn hold(&self, socket: &mut Socket, wanted: &[Wanted]) -> Result<usize> {
        self.try_to_hold(socket, wanted).doing("divide the line")
    }

    fn try_to_hold(&self, socket: &mut Socket, wanted: &[Wanted]) -> netqos_netlink::Result<usize> {
        let mut changes = 0;
        if self.root.is_none() {
            socket.add_qdisc(&self.link, Handle::ROOT, names::QDISC, &ROOT)?;
            changes += 1;
        }
        let observed = self.classes.iter().map(|it| (it.handle, it.clone()));
        let desired = wanted.iter().map(|it| (it.handle, it.class));
        changes += lower(socket, &self.link, &observed.collect(), &desired.collect())?;
        let queues = socket.qdiscs(&self.link)?;
        for Wanted {
            handle,
            parent,
            class,
            queue,
        } in wanted
        {
            let found = self.classes.iter().find(|found| found.handle == *handle);
            if found.is_none_or(|found| *found != *class) {
                socket.put_class(&self.link, *parent, *handle, class)?;
                changes += 1;
            }
            let Some(limit) = *queue else {
                continue;
            };
            let found = queues.iter().find(|queue| queue.parent == *handle);
            if found.and_then(Installed::bfifo) != Some(Bfifo { limit }) {
                let name = Handle::new(handle.minor(), 0);
                socket.put_qdisc(&self.link, *handle, name, &Bfifo { limit })?;
                changes += 1;
            }
        }
        Ok(changes)
    }

    /// Removes the classes that are not wanted, which nothing chooses any more, after what waits in them
    /// has gone; how many there were.
    pub(super) fn tidy(&self, socket: &mut Socket, wanted: &[Wanted]) -> Result<usize> {
        self.try_to_tidy(socket, wanted).doing("tidy the line")
    }

    fn try_to_tidy(&self, socket: &mut Socket, wanted: &[Wanted]) -> netqos_netlink::Result<usize> {
        let is_stale = |found: &&InstalledClass| {
            names::is_part(found.handle)
                && wanted.iter().all(|wanted| wanted.handle != found.handle)
        };
        let stale: Vec<_> = self.classes.iter().filter(is_stale).collect();
        for class in self.waiting(socket, &stale)? {
            // At the pod's own rate that might take long.
            if let Some(above) = wanted.iter().find(|above| above.handle == class.parent) {
                let open = above.without_guarantee();
                socket.put_class(&self.link, class.parent, class.handle, &open)?;
            }
        }
        let mut waited = Duration::ZERO;
        while waited < DRAIN && !self.waiting(socket, &stale)?.is_empty() {
            sleep(DRAIN_STEP);
            waited += DRAIN_STEP;
        }
        for class in &stale {
            socket.delete_class(&self.link, class.handle)?;
        }
        Ok(stale.len())
    }

    /// Those of some classes in which packets wait.
    fn waiting(
        &self,
        socket: &mut Socket,
        some: &[&InstalledClass],
    ) -> netqos_netlink::Result<Vec<InstalledClass>> {
        if some.is_empty() {
            return Ok(Vec::new());
        }
        let mut found = socket.classes(&self.link)?;
        found.retain(|class| {
            let is_one = some.iter().any(|one| one.handle == class.handle);
            is_one && class.statistics.queued_packets > 0
        });
        Ok(found)
    }

    /// Removes the classes and all; the kernel's own takes their place.
    pub(super) fn remove(&self, socket: &mut Socket) -> Result<()> {
        let removed = socket.delete_qdisc(&self.link, Handle::ROOT, names::QDISC);
        netqos_netlink::link::gone(removed).doing("clear the line")
    }
}
