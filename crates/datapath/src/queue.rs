//! The queue on a link: a TBF, and in it a pfifo_fast whose bands the ranking program fills.

use netqos_netlink::link::{Link, LinkChange, gone};
use netqos_netlink::qdisc::{Installed, InstalledTbf, PfifoFast, Tbf};
use netqos_netlink::{Handle, Socket};

use crate::error::Doing;
use crate::shape::Shape;
use crate::{Error, Result, kernel};

/// The handles of the TBF, which the well-known plugin uses too, of its only class, of what is in
/// it, and of what is in it while that is made anew.
const ROOT: Handle = Handle::new(1, 0);
const CLASS: Handle = Handle::new(1, 1);
const BANDS: Handle = Handle::new(2, 0);
const SPARE: Handle = Handle::new(3, 0);

/// What stands at a link's root.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    root: Option<Installed>,
    /// Their handle.
    bands: Option<Handle>,
}

impl Found {
    /// Reads it from the kernel.
    pub(crate) fn read(socket: &mut Socket, link: &Link) -> Result<Self> {
        let root = socket
            .qdisc_at(link, Handle::ROOT)
            .doing("list qdiscs")?
            .filter(|root| !root.is_default());
        let mut found = Self { root, bands: None };
        if found.limit().is_some() {
            let child = socket.qdisc_at(link, CLASS).doing("list qdiscs")?;
            found.bands = child
                .filter(|child| child.kind == "pfifo_fast")
                .map(|child| child.handle);
        }
        Ok(found)
    }

    /// The root, when it is a limit: ours, or the well-known plugin's.
    fn limit(&self) -> Option<&Installed> {
        self.root
            .as_ref()
            .filter(|root| root.kind == "tbf" && root.handle == ROOT)
    }

    /// The limit's numbers, when there is one.
    pub(crate) fn tbf(&self) -> Option<InstalledTbf> {
        self.limit().and_then(Installed::tbf)
    }

    /// Fails when somebody else's qdisc is in the way. A limit is `known` when the link, or what it
    /// is in numbers, says that it is ours or the well-known plugin's for this pod.
    pub(crate) fn validate(&self, link: &Link, known: bool) -> Result<()> {
        match (&self.root, self.limit().filter(|_| known)) {
            (Some(root), None) => Err(Error::ForeignQdisc {
                link: link.name.clone(),
                kind: root.kind.clone(),
                handle: root.handle.to_string(),
            }),
            _ => Ok(()),
        }
    }

    fn holds(&self, wanted: &Tbf) -> bool {
        self.tbf().is_some_and(|tbf| tbf == *wanted)
    }
}

/// Makes the queue what the shape says, from what was found; with bands when something will rank
/// into them.
pub(crate) fn apply(
    socket: &mut Socket,
    link: &Link,
    found: &Found,
    shape: &Shape,
    ranked: bool,
) -> Result<()> {
    let wanted = shape.tbf();
    // Bands that nothing fills hold any number of bytes; TBF's own queue is bounded.
    let has_bands = found.bands.is_some();
    let has_unwanted_bands = has_bands && !ranked;
    let is_changed_unsafely = has_bands && !found.holds(&wanted) && !is_change_safe();
    let starts_anew = has_unwanted_bands || is_changed_unsafely;
    if starts_anew {
        socket
            .delete_qdisc(link, Handle::ROOT, ROOT)
            .doing("delete qdisc")?;
    }
    // Before the numbers, which say for how long a queue the bands were made.
    if let Some(handle) = found.bands.filter(|_| ranked && !starts_anew) {
        let outgrown = found.tbf().is_some_and(|made| shape.outgrows(&made));
        match (handle, outgrown) {
            (BANDS, false) => {}
            // One in the place of the other: a TBF with nothing in it drops every packet.
            (BANDS, true) => put_bands(socket, link, shape, &[SPARE, BANDS])?,
            _ => put_bands(socket, link, shape, &[BANDS])?,
        }
    }
    if starts_anew || !found.holds(&wanted) {
        socket
            .put_qdisc(link, Handle::ROOT, ROOT, &wanted)
            .doing("create qdisc")?;
    }
    if ranked && (starts_anew || !has_bands) {
        put_bands(socket, link, shape, &[BANDS])?;
    }
    Ok(())
}

/// Before 5.15 (and the fixes of its time in older series) a TBF that has a pfifo_fast in it must
/// not be changed: the kernel calls a function that pfifo_fast does not have ("net_sched: fix NULL
/// deref in fifo_set_limit()").
fn is_change_safe() -> bool {
    kernel::is_at_least(5, 15)
}

/// The bands are as long as the link's transmit queue length is when they are made. Of several, each
/// takes the place of the one before.
fn put_bands(socket: &mut Socket, link: &Link, shape: &Shape, handles: &[Handle]) -> Result<()> {
    let is_too_short = link.tx_queue_len < shape.ring();
    if is_too_short {
        set_length(socket, link, shape.ring())?;
    }
    let made = handles.iter().try_for_each(|handle| {
        let made = socket.put_qdisc(link, CLASS, *handle, &PfifoFast);
        made.doing("create qdisc")
    });
    if is_too_short {
        set_length(socket, link, link.tx_queue_len)?;
    }
    made
}

/// The link with the transmit queue length that is its own, when a process was killed while
/// another was set.
pub(crate) fn with_its_length(
    socket: &mut Socket,
    mut link: Link,
    length: Option<u32>,
) -> Result<Link> {
    if let Some(length) = length.filter(|length| *length != link.tx_queue_len) {
        set_length(socket, &link, length)?;
        link.tx_queue_len = length;
    }
    Ok(link)
}

fn set_length(socket: &mut Socket, link: &Link, length: u32) -> Result<()> {
    let change = LinkChange {
        tx_queue_len: Some(length),
        ..LinkChange::default()
    };
    socket
        .change_link(link, &change)
        .doing("set tx queue length")
}

/// CHECK: the queue is what the shape says.
pub(crate) fn check(socket: &mut Socket, link: &Link, shape: &Shape, ranked: bool) -> Result<()> {
    let found = Found::read(socket, link)?;
    let tbf = found
        .limit()
        .and_then(Installed::tbf)
        .ok_or(Error::QdiscMissing)?;
    let wanted = shape.tbf();
    if tbf.rate != wanted.rate {
        return Err(Error::RateDiffers);
    }
    if tbf.limit != wanted.limit {
        return Err(Error::LimitDiffers);
    }
    if tbf != wanted {
        return Err(Error::BufferDiffers);
    }
    if found.bands.is_some() != ranked {
        return Err(Error::QdiscMissing);
    }
    Ok(())
}

/// Removes the queue, if there is one; somebody else's root qdisc stays.
pub(crate) fn teardown(socket: &mut Socket, link: &Link) -> Result<()> {
    if Found::read(socket, link)?.limit().is_none() {
        return Ok(());
    }
    gone(socket.delete_qdisc(link, Handle::ROOT, ROOT)).doing("delete qdisc")
}
