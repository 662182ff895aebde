//! The queue on a link: a TBF, and in it a pfifo_fast whose bands the ranking program fills.

use netqos_core::Limit;
use netqos_netlink::link::{Link, LinkChange, gone, optional};
use netqos_netlink::qdisc::{Bfifo, Installed, InstalledTbf, PfifoFast, Qdisc, Statistics, Tbf};
use netqos_netlink::{Handle, Socket};

use crate::error::Doing;
use crate::record::LinkRecord;
use crate::shape::Shape;
use crate::{Error, Result, kernel};

/// The handles of the TBF, which the well-known plugin uses too, of its only class, of what is in
/// it, and of what takes the place of that.
const ROOT: Handle = Handle::new(1, 0);
const CLASS: Handle = Handle::new(1, 1);
const BANDS: Handle = Handle::new(2, 0);
const SPARE: Handle = Handle::new(3, 0);

/// What stands at a link's root.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    root: Option<Installed>,
    /// The qdisc inside of a limit.
    inner: Option<Installed>,
}

impl Found {
    /// Reads it from the kernel.
    pub(crate) fn read(socket: &mut Socket, link: &Link) -> Result<Self> {
        Self::at(socket, link).doing("list qdiscs")
    }

    /// The same before it is removed: nothing where the link goes meanwhile, as with its pod.
    pub(crate) fn read_left(socket: &mut Socket, link: &Link) -> Result<Self> {
        let found = optional(Self::at(socket, link)).doing("list qdiscs")?;
        Ok(found.unwrap_or_default())
    }

    fn at(socket: &mut Socket, link: &Link) -> netqos_netlink::Result<Self> {
        let root = socket.qdisc_at(link, Handle::ROOT)?;
        let root = root.filter(|root| !root.is_default());
        let mut found = Self { root, inner: None };
        if found.limit().is_some() {
            found.inner = socket.qdisc_at(link, CLASS)?;
        }
        Ok(found)
    }

    /// The root, when it is a limit: ours, or the well-known plugin's.
    fn limit(&self) -> Option<&Installed> {
        self.root
            .as_ref()
            .filter(|root| root.kind == "tbf" && root.handle == ROOT)
    }

    /// The counters and the backlog of the queue.
    pub(crate) fn statistics(&self) -> Statistics {
        let limit = self.limit();
        limit.map(|root| root.statistics).unwrap_or_default()
    }

    /// A handle for a qdisc that replaces the inner one.
    fn other_handle(&self) -> Handle {
        match &self.inner {
            Some(inner) if inner.handle == BANDS => SPARE,
            _ => BANDS,
        }
    }

    /// Returns true if the queue has bands.
    pub(crate) fn has_bands(&self) -> bool {
        let inner = self.inner.as_ref();
        inner.is_some_and(|inner| inner.kind == PfifoFast::KIND)
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
/// into them. `band_limit` is the number of packets that each band holds, from the record; new bands change
/// it. Returns the number of dropped packets.
///
/// Existing bands stay, unless they are too short. Replacing them loses packets of every flow.
pub(crate) fn apply(
    socket: &mut Socket,
    link: &Link,
    found: &Found,
    shape: &Shape,
    ranked: bool,
    band_limit: &mut Option<u32>,
) -> Result<u32> {
    let wanted = shape.tbf();
    let is_changed = !found.holds(&wanted);
    // Bands that nothing fills hold any number of bytes; TBF's own queue is bounded.
    let has_bands = found.has_bands();
    let has_unwanted_bands = has_bands && !ranked;
    let is_changed_unsafely = has_bands && is_changed && !is_change_safe();
    let starts_anew = has_unwanted_bands || is_changed_unsafely;
    let is_outgrown = band_limit.is_some_and(|limit| shape.outgrows(limit));
    let makes_bands = ranked && (starts_anew || !has_bands || is_outgrown);
    let mut dropped = 0;
    // A new queue takes no traffic before.
    if makes_bands {
        dropped += fit_length(socket, link, shape)?;
    }
    if starts_anew {
        socket
            .delete_qdisc(link, Handle::ROOT, ROOT)
            .doing("delete qdisc")?;
    }
    if starts_anew || is_changed {
        socket
            .put_qdisc(link, Handle::ROOT, ROOT, &wanted)
            .doing("create qdisc")?;
    }
    if makes_bands {
        let handle = if starts_anew {
            BANDS
        } else {
            found.other_handle()
        };
        // They are as long as the link's transmit queue.
        socket
            .put_qdisc(link, CLASS, handle, &PfifoFast)
            .doing("create qdisc")?;
        *band_limit = Some(shape.band_limit(link.tx_queue_len));
    } else if let Some(before) = found.tbf().filter(|_| is_changed && !starts_anew) {
        dropped += drop_stuck_packets(socket, link, found, &before, shape)?;
        if has_bands && dropped > 0 {
            *band_limit = Some(shape.band_limit(link.tx_queue_len));
        }
    }
    Ok(dropped)
}

/// Empties a queue after a change, if its backlog may contain a packet that TBF can no longer send, or exceeds
/// the new limit. Returns the number of dropped packets.
///
/// TBF segments a GSO packet that is larger than its bucket on enqueue only. If the bucket shrinks below a queued
/// packet, TBF never sends the packet, nor any packet behind it. A process that is killed before it empties the
/// queue leaves such a packet to the agent's stall detection.
fn drop_stuck_packets(
    socket: &mut Socket,
    link: &Link,
    found: &Found,
    before: &InstalledTbf,
    shape: &Shape,
) -> Result<u32> {
    let wanted = shape.tbf();
    let is_smaller = wanted.largest.min(wanted.burst) < before.largest_packet();
    if !is_smaller && wanted.limit >= before.limit {
        return Ok(0);
    }
    let now = socket.qdisc_at(link, Handle::ROOT).doing("list qdiscs")?;
    let backlog = now.map(|root| root.statistics).unwrap_or_default();
    let is_too_long = backlog.queued_bytes > wanted.limit;
    if backlog.queued_packets == 0 || !(is_smaller || is_too_long) {
        return Ok(0);
    }
    empty(socket, link, found, shape, backlog.queued_packets)
}

/// Replaces the qdisc inside of the TBF, and so drops the backlog of `queued` packets. Returns how many were dropped.
pub(crate) fn empty(
    socket: &mut Socket,
    link: &Link,
    found: &Found,
    shape: &Shape,
    queued: u32,
) -> Result<u32> {
    let other = found.other_handle();
    let mut dropped = queued;
    let emptied = if found.has_bands() {
        // Another length drops the backlog, too.
        dropped = dropped.max(fit_length(socket, link, shape)?);
        socket.put_qdisc(link, CLASS, other, &PfifoFast)
    } else {
        let Tbf { limit, .. } = shape.tbf();
        socket.put_qdisc(link, CLASS, other, &Bfifo { limit })
    };
    emptied.doing("create qdisc")?;
    Ok(dropped)
}

/// Before 5.15 (and the fixes of its time in older series) a TBF that has a pfifo_fast in it must
/// not be changed: the kernel calls a function that pfifo_fast does not have ("net_sched: fix NULL
/// deref in fifo_set_limit()").
fn is_change_safe() -> bool {
    kernel::is_at_least(5, 15)
}

/// Makes the link's transmit queue as long as new bands need. Returns the number of dropped packets.
fn fit_length(socket: &mut Socket, link: &Link, shape: &Shape) -> Result<u32> {
    match shape.fits(link.tx_queue_len) {
        true => Ok(0),
        false => set_length(socket, link, shape.ring()).doing("set tx queue length"),
    }
}

/// Restores the transmit queue length that the link had, if netqos has set another one and nobody one since. Returns the
/// number of dropped packets. A length that the kernel refuses is not restored: a pod may have set any, and must be able
/// to go.
pub(crate) fn restore_length(socket: &mut Socket, link: &Link, record: &LinkRecord) -> u32 {
    let current = link.tx_queue_len;
    let is_ours = record.set_tx_queue_len.is_none_or(|set| set == current);
    match record.tx_queue_len {
        Some(length) if is_ours && length != current => {
            set_length(socket, link, length).unwrap_or(0)
        }
        _ => 0,
    }
}

/// Sets a link's transmit queue length. Returns the number of dropped packets: those in its queue, and those that came
/// while the kernel had taken the link down for it, as far as the kernel counts them.
fn set_length(socket: &mut Socket, link: &Link, length: u32) -> netqos_netlink::Result<u32> {
    let root = socket.qdisc_at(link, Handle::ROOT)?;
    let queued = root.map_or(0, |root| root.statistics.queued_packets);
    let before = socket.tx_dropped(link)?;
    let change = LinkChange {
        tx_queue_len: Some(length),
        ..LinkChange::default()
    };
    socket.change_link(link, &change)?;
    let refused = socket.tx_dropped(link)?.saturating_sub(before);
    Ok(queued.saturating_add(u32::try_from(refused).unwrap_or(u32::MAX)))
}

/// CHECK: the queue is what the shape says. Returns its counters and backlog.
pub(crate) fn check(
    socket: &mut Socket,
    link: &Link,
    shape: &Shape,
    ranked: bool,
) -> Result<Statistics> {
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
    // Earlier builds set no peak rate.
    let of_before = Tbf {
        largest: wanted.burst,
        ..wanted
    };
    if tbf != wanted && tbf != of_before {
        return Err(Error::BufferDiffers);
    }
    if found.has_bands() != ranked {
        return Err(Error::QdiscMissing);
    }
    Ok(found.statistics())
}

/// Returns true if the queue is a limit with other numbers.
pub(crate) fn is_another(socket: &mut Socket, link: &Link, limit: &Limit) -> Result<bool> {
    let found = Found::read_left(socket, link)?;
    Ok(found.limit().is_some() && !found.holds(&Shape::new(limit, link).tbf()))
}

/// Removes the queue, if there is one; somebody else's root qdisc stays.
pub(crate) fn teardown(socket: &mut Socket, link: &Link) -> Result<()> {
    if Found::read_left(socket, link)?.limit().is_none() {
        return Ok(());
    }
    let deleted = socket.delete_qdisc(link, Handle::ROOT, ROOT);
    // Another process may have deleted it meanwhile, which the kernel calls "invalid".
    if deleted.is_err() && Found::read_left(socket, link)?.limit().is_none() {
        return Ok(());
    }
    gone(deleted).doing("delete qdisc")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use super::*;

    #[test]
    fn teardown_passes_where_the_link_has_gone() {
        let Some(node) = netqos_testkit::Node::new().unwrap() else {
            return;
        };
        let pod = node.pod("a").unwrap();
        let mut socket = Socket::open().unwrap();
        let link = socket.link_by_name(pod.host_link()).unwrap();
        socket.delete_link(&link).unwrap();
        Found::read(&mut socket, &link).unwrap_err();
        teardown(&mut socket, &link).unwrap();
    }
}
