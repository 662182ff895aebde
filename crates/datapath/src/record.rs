//! What is remembered about an attachment: written before the kernel is changed, removed after it
//! is restored.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::path::PathBuf;

use netqos_api::{EgressWay, HookChoice};
use netqos_core::plan::Ends;
use netqos_core::{Attachment, Direction, Limits};
use netqos_netlink::Socket;
use netqos_netlink::link::{Link, optional};
use serde::{Deserialize, Serialize};

use crate::endpoint::IngressWay;
use crate::files::{Documents, UNFINISHED, WHOLE, remove_file};
use crate::hook::HookKind;
use crate::lock::FileLock;
use crate::{Error, HostLinks, Request, Result};

#[cfg(test)]
mod round_trip;

/// What netqos did, or was about to do, for an attachment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Whose it is.
    pub attachment: Attachment,
    /// The file that names the pod's network namespace.
    pub netns: PathBuf,
    /// The links of the interface. `None` in records of earlier versions, which knew it by its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends: Option<Ends>,
    /// What it is held to.
    pub limits: Limits,
    /// What was made.
    pub queues: Vec<QueueRecord>,
}

/// Which queue of an attachment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum QueueName {
    /// The queue of what the pod receives.
    Ingress,
    /// The queue in the pod, behind the one at the host's end, of what the pod receives where programs of others send
    /// packets past that end (`bpf_redirect_peer`).
    IngressInPod,
    /// The queue of what the pod sends.
    Egress,
}

/// One queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueRecord {
    /// Which limit it holds.
    pub direction: Direction,
    /// True for [`QueueName::IngressInPod`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_pod: bool,
    /// On which side it is.
    pub side: SideName,
    /// The link that carries it.
    pub link: LinkRecord,
    /// The link whose traffic is sent through it, when that is another: it carries an ifb then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detour_from: Option<LinkRecord>,
    /// True when what others keep from the redirect is caught behind it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub backstop: bool,
    /// Why it is not, when it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_backstop_because: Option<String>,
    /// How the ranking program is attached.
    pub hook: HookKind,
    /// The number of packets that each of its bands holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub band_limit: Option<u32>,
    /// The MTU that its settings are for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// Its limiter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limiter: Option<u16>,
    /// Why it is not ranked, when it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unranked_because: Option<String>,
}

/// A link, and what netqos added to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkRecord {
    /// Its name.
    pub name: String,
    /// Its number; 0 until it is made.
    pub index: u32,
    /// True when its clsact is ours.
    #[serde(default)]
    pub made_clsact: bool,
    /// True when its alias is our tag; false when it had another.
    #[serde(default)]
    pub tagged: bool,
    /// The transmit queue length that it had, where netqos has set another one: restored when the queue goes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tx_queue_len: Option<u32>,
    /// The one that netqos has set. Where somebody has set another one since, that one stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set_tx_queue_len: Option<u32>,
}

impl LinkRecord {
    /// Finds the link, by its index: a pod can give the name to another one. By its name where that link is gone, or was
    /// not made yet.
    pub(crate) fn find(&self, socket: &mut Socket) -> netqos_netlink::Result<Link> {
        if self.index != 0
            && let Some(link) = optional(socket.link_by_index(self.index))?
        {
            return Ok(link);
        }
        socket.link_by_name(&self.name)
    }
}

impl QueueName {
    /// Every one, in the order in which packets pass them.
    pub const ALL: [Self; 3] = [Self::Ingress, Self::IngressInPod, Self::Egress];

    /// Returns the direction whose limit it holds.
    pub fn direction(self) -> Direction {
        match self {
            Self::Ingress | Self::IngressInPod => Direction::Ingress,
            Self::Egress => Direction::Egress,
        }
    }
}

impl From<Direction> for QueueName {
    /// The first queue of this direction.
    fn from(direction: Direction) -> Self {
        match direction {
            Direction::Ingress => Self::Ingress,
            Direction::Egress => Self::Egress,
        }
    }
}

impl fmt::Display for QueueName {
    /// `ingress`, `ingress-in-pod` or `egress`: its part of names of pins and of limiters' owners.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ingress => "ingress",
            Self::IngressInPod => "ingress-in-pod",
            Self::Egress => "egress",
        })
    }
}

impl QueueRecord {
    /// Which queue it is.
    pub fn name(&self) -> QueueName {
        match self.in_pod {
            true => QueueName::IngressInPod,
            false => self.direction.into(),
        }
    }
}

/// A side of the pod's network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SideName {
    /// The host's.
    Host,
    /// Inside of the pod's namespace.
    Pod,
}

/// The folder of records.
#[derive(Clone, Debug)]
pub struct Records(Documents);

impl Record {
    /// Returns the record of a queue.
    pub fn queue(&self, name: QueueName) -> Option<&QueueRecord> {
        self.queues.iter().find(|queue| queue.name() == name)
    }

    /// Returns the request for what it has, of a running pod.
    pub fn request(&self) -> Request<'_> {
        Request {
            attachment: &self.attachment,
            netns: &self.netns,
            ends: self.ends,
            host_links: HostLinks::Unknown,
            limits: self.limits,
            egress: self.egress().unwrap_or_default(),
            hook: self.hook(),
            is_running: true,
        }
    }

    /// Returns where its queues of ingress are.
    pub(crate) fn ingress_way(&self) -> IngressWay {
        let has = |name| self.queue(name).is_some();
        match (has(QueueName::Ingress), has(QueueName::IngressInPod)) {
            (_, false) => IngressWay::Host,
            (true, true) => IngressWay::Both,
            (false, true) => IngressWay::Pod,
        }
    }

    /// Returns where the egress queue is; `None` if there is none.
    pub fn egress(&self) -> Option<EgressWay> {
        let queue = self.queue(QueueName::Egress)?;
        Some(match queue.side {
            SideName::Host => EgressWay::Ifb,
            SideName::Pod => EgressWay::Pod,
        })
    }

    /// Returns the hook by which the limits were made.
    pub fn hook(&self) -> HookChoice {
        let queue = self.queues.first();
        match queue.map(|queue| (queue.hook, &queue.unranked_because)) {
            Some((HookKind::Tcx, _)) => HookChoice::Tcx,
            Some((HookKind::None, None)) => HookChoice::None,
            _ => HookChoice::Auto,
        }
    }

    /// True when the clsact of this link is ours, as far as limits know.
    #[cfg(feature = "rules")]
    pub(crate) fn made_clsact(&self, side: SideName, index: u32) -> bool {
        let on_side = self.queues.iter().filter(|queue| queue.side == side);
        let mut with_clsact = on_side.flat_map(|queue| {
            let link = (queue.hook == HookKind::Clsact).then_some(&queue.link);
            [link, queue.detour_from.as_ref()]
        });
        with_clsact.any(|link| link.is_some_and(|link| link.index == index && link.made_clsact))
    }
}

impl Records {
    /// The records in this folder, which need not exist yet.
    pub fn new(folder: PathBuf) -> Self {
        Self(Documents::new(folder))
    }

    /// Waits until no one else changes an attachment of this container to this network: two interfaces of one would take
    /// the same name for their ifbs.
    pub(crate) fn lock(&self, attachment: &Attachment) -> Result<FileLock> {
        let path = self.lock_path(container(attachment.tag().names()));
        FileLock::wait(&path).map_err(|source| Error::Record { path, source })
    }

    /// The record of this attachment. One that cannot be read is set aside under its name plus
    /// `.corrupt`, and is none.
    pub fn read(&self, attachment: &Attachment) -> Result<Option<Record>> {
        self.0.read(attachment.tag().names())
    }

    /// All records.
    pub fn all(&self) -> Result<Vec<Record>> {
        self.0.all()
    }

    /// Writes a record, whole or not at all.
    pub(crate) fn write(&self, record: &Record) -> Result<()> {
        // No two attachments share a tag.
        self.0.write(record.attachment.tag().names(), record)
    }

    /// Forgets an attachment. The lock, which the caller holds, goes too, with the last record of
    /// the container.
    pub(crate) fn remove(&self, attachment: &Attachment, _lock: &FileLock) -> Result<()> {
        let tag = attachment.tag();
        self.0.remove(tag.names())?;
        let container = container(tag.names());
        let files = self.0.files()?;
        match files.iter().any(|name| is_of(name, container, WHOLE)) {
            true => Ok(()),
            false => remove_file(self.lock_path(container)),
        }
    }

    /// Removes what processes left that were killed: locks of containers without a record, and
    /// records that were not written to their end. What somebody holds a lock for is let alone.
    pub(crate) fn tidy(&self) -> Result<()> {
        let names = self.0.files()?;
        let left = |name: &String| match name.strip_suffix(UNFINISHED) {
            Some(of) => Some(container(of).to_owned()),
            None => name.strip_suffix(".lock").map(str::to_owned),
        };
        for container in names.iter().filter_map(left).collect::<BTreeSet<_>>() {
            let has = |names: &[String], extension| {
                names.iter().any(|name| is_of(name, &container, extension))
            };
            if has(&names, WHOLE) && !has(&names, UNFINISHED) {
                continue;
            }
            let path = self.lock_path(&container);
            let _lock = match FileLock::attempt(&path) {
                Ok(lock) => lock,
                Err(source) if source.kind() == io::ErrorKind::WouldBlock => continue,
                Err(source) => return Err(Error::Record { path, source }),
            };
            // From here on nobody writes for this container.
            let names = self.0.files()?;
            let unfinished = |name: &&String| is_of(name, &container, UNFINISHED);
            for name in names.iter().filter(unfinished) {
                remove_file(self.0.folder().join(name))?;
            }
            if !has(&names, WHOLE) {
                remove_file(path)?;
            }
        }
        Ok(())
    }

    fn lock_path(&self, container: &str) -> PathBuf {
        self.0.folder().join(format!("{container}.lock"))
    }
}

/// The network and the container of `network:container:interface`.
fn container(names: &str) -> &str {
    names
        .rsplit_once(':')
        .map_or(names, |(container, _)| container)
}

/// True for a file with this ending of an attachment of this container.
fn is_of(name: &str, container: &str, ending: &str) -> bool {
    name.strip_suffix(ending)
        .and_then(|names| names.strip_prefix(container))
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn record(network: &str) -> Record {
        Record {
            attachment: Attachment::try_new(network, "c1", "eth0").unwrap(),
            netns: "/run/netns/x".into(),
            ends: None,
            limits: Limits::default(),
            queues: Vec::new(),
        }
    }

    #[test]
    fn what_is_written_is_read_and_then_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let records = Records::new(folder.path().join("attachments"));
        assert_eq!(records.all().unwrap(), []);
        let record = record("net");
        records.write(&record).unwrap();
        assert_eq!(
            records.read(&record.attachment).unwrap(),
            Some(record.clone())
        );
        let lock = records.lock(&record.attachment).unwrap();
        records.remove(&record.attachment, &lock).unwrap();
        assert_eq!(records.all().unwrap(), []);
        assert_eq!(
            fs::read_dir(folder.path().join("attachments"))
                .unwrap()
                .count(),
            0
        );
    }

    #[test]
    fn the_lock_of_a_container_goes_with_its_last_record() {
        let folder = tempfile::tempdir().unwrap();
        let records = Records::new(folder.path().to_owned());
        let (first, mut second) = (record("net"), record("net"));
        second.attachment = Attachment::try_new("net", "c1", "eth1").unwrap();
        let lock = records.lock(&first.attachment).unwrap();
        records.write(&first).unwrap();
        records.write(&second).unwrap();
        records.remove(&first.attachment, &lock).unwrap();
        assert_eq!(names(&records), ["net:c1.lock", "net:c1:eth1.json"]);
        records.remove(&second.attachment, &lock).unwrap();
        assert_eq!(names(&records), [""; 0]);
    }

    /// What stands in the folder by its names, in their order.
    fn names(records: &Records) -> Vec<String> {
        let mut names = records.0.files().unwrap();
        names.sort();
        names
    }

    #[test]
    fn what_the_killed_left_goes_and_what_somebody_holds_stays() {
        let folder = tempfile::tempdir().unwrap();
        let records = Records::new(folder.path().to_owned());
        let living = record("living");
        drop(records.lock(&living.attachment).unwrap());
        records.write(&living).unwrap();
        let held = Attachment::try_new("net", "held", "eth0").unwrap();
        let lock = records.lock(&held).unwrap();
        // Of builds that locked each interface for itself, too.
        for name in [
            "net:c.1.lock",
            "net:c:eth0.lock",
            "net:c:eth0.new",
            "living:c1:eth0.new",
        ] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        records.tidy().unwrap();
        let kept = ["living:c1.lock", "living:c1:eth0.json"];
        assert_eq!(names(&records), [kept[0], kept[1], "net:held.lock"]);
        drop(lock);
        records.tidy().unwrap();
        assert_eq!(names(&records), kept);
    }

    /// Each finds out whether it is alone; the folder is tidied all the time.
    #[test]
    fn a_lock_that_is_tidied_away_locks_nobody_in_beside_another() {
        use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
        let folder = tempfile::tempdir().unwrap();
        let records = Records::new(folder.path().to_owned());
        let attachment = record("net").attachment;
        let (inside, done) = (AtomicUsize::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let work = || {
                for _ in 0..300 {
                    let lock = records.lock(&attachment).unwrap();
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                    std::thread::yield_now();
                    inside.fetch_sub(1, Ordering::SeqCst);
                    drop(lock);
                }
            };
            let workers = [scope.spawn(work), scope.spawn(work), scope.spawn(work)];
            scope.spawn(|| {
                while !done.load(Ordering::SeqCst) {
                    records.tidy().unwrap();
                }
            });
            let ended = workers.map(std::thread::ScopedJoinHandle::join);
            done.store(true, Ordering::SeqCst);
            assert!(ended.iter().all(|end| end.is_ok()));
        });
    }
}
