//! The queue of a leaf: bfifo or fq_codel, below a token bucket that segments GSO packets on slow uplinks.

use netqos_netlink::link::Link;
use netqos_netlink::qdisc::{Bfifo, FqCodel, Installed, Tbf};
use netqos_netlink::{Handle, Socket};

use crate::Result;
use crate::error::Doing;

const MICROSECOND: u64 = 1_000;
const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;
/// GSO packets are segmented on uplinks below this, in bytes per second. One of 64 KB takes such an uplink for more than
/// a millisecond, for which all others wait, and is more than a class that begins should have beyond the capacity.
const CUTS_BELOW: u64 = 500_000_000 / 8;
/// The largest packet that stays whole: any frame, and somewhat larger GSO packets.
pub(super) const UNCUT: u32 = 9_216 + 22;
/// The rate of the token bucket that segments, which limits nothing: a frame takes less time than the kernel needs for it.
const CUTTER: u64 = 10_000_000_000;

/// The least and the most time that CoDel lets a flow wait all the time (RFC 8289).
const TARGET: (u64, u64) = (5 * MILLISECOND, 100 * MILLISECOND);
/// CoDel's interval: a multiple of its target, and the longest.
const INTERVAL: (u64, u64) = (20, SECOND);
/// Bytes of a frame. Two of them may always wait.
const FRAME: u64 = 1_514;
const GSO_PACKET: u64 = 65_536;
/// Bytes of kernel memory that the smallest packet takes.
const LEAST_TRUESIZE: u32 = 768;
const LEAST_PACKETS: u32 = 1_000;

/// A queue of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Queue {
    /// A token bucket that segments packets larger than its bucket, and does nothing else.
    cut: Option<Tbf>,
    order: Order,
}

/// The order in which packets leave a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// First in, first out.
    Fifo(Bfifo),
    /// Flows take turns.
    Fair(FqCodel),
}

/// The kinds of leaves of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leaves {
    Fifo,
    /// Bulk waits in fq_codel.
    Fair,
}

impl Queue {
    /// A bfifo of so many bytes, in which GSO packets stay whole.
    pub(super) const fn fifo(limit: u32) -> Self {
        Self {
            cut: None,
            order: Order::Fifo(Bfifo { limit }),
        }
    }

    /// The queue of the bulk of a slot that may be limited to `reference` of an uplink's bytes per second. A bfifo holds
    /// `room` bytes.
    pub(super) fn of_bulk(leaves: Leaves, uplink: u64, room: u32, reference: u64) -> Self {
        let is_cut = uplink < CUTS_BELOW;
        let order = match leaves {
            Leaves::Fifo => Order::Fifo(Bfifo { limit: room }),
            Leaves::Fair => {
                let packet = if is_cut { FRAME } else { GSO_PACKET };
                let target = (2 * packet * SECOND / reference).clamp(TARGET.0, TARGET.1);
                let interval = (target * INTERVAL.0).min(INTERVAL.1);
                // A frame takes less than twice its bytes.
                let memory = room.saturating_mul(2);
                Order::Fair(FqCodel {
                    target: (target / MICROSECOND) as u32,
                    interval: (interval / MICROSECOND) as u32,
                    packets: (memory / LEAST_TRUESIZE).max(LEAST_PACKETS),
                    memory,
                })
            }
        };
        let cut = is_cut.then_some(Tbf {
            rate: CUTTER,
            burst: UNCUT,
            largest: UNCUT,
            limit: room,
        });
        Self { cut, order }
    }

    /// Returns the bytes that it holds at most.
    pub(super) const fn limit(&self) -> u32 {
        match self.order {
            Order::Fifo(Bfifo { limit }) => limit,
            Order::Fair(FqCodel { memory, .. }) => memory,
        }
    }

    /// Returns true if a qdisc, with the one below it, is this queue.
    pub(super) fn is(&self, there: &Installed, below: Option<&Installed>) -> bool {
        let holds = match &self.cut {
            None => Some(there),
            Some(tbf) if there.tbf().is_some_and(|there| there == *tbf) => below,
            Some(_) => return false,
        };
        match (self.order, self.cut) {
            // The kernel does not list the one that a token bucket has by itself; a fq_codel serves as well.
            (Order::Fifo(_), Some(_)) => true,
            (Order::Fifo(bfifo), None) => there.bfifo() == Some(bfifo),
            (Order::Fair(flows), _) => {
                let holds = holds.and_then(Installed::fq_codel);
                holds.is_some_and(|holds| holds == flows)
            }
        }
    }

    /// Returns true if fq_codel would drop packets that wait if it took these settings now.
    pub(super) fn would_drop(&self, there: &Installed, below: Option<&Installed>) -> bool {
        let holds = if there.tbf().is_some() {
            below
        } else {
            Some(there)
        };
        let (Order::Fair(flows), Some(holds)) = (self.order, holds) else {
            return false;
        };
        let waiting = holds.statistics;
        let is_less = holds
            .fq_codel()
            .is_some_and(|it| it.settings.memory > flows.memory);
        let fits =
            waiting.queued_bytes < flows.memory / 2 && waiting.queued_packets < flows.packets;
        is_less && !fits
    }

    /// Returns true if a qdisc of ours would be replaced, and not changed, to become this queue.
    pub(super) fn is_replaced(&self, there: &Installed, below: Option<&Installed>) -> bool {
        let is_cut = there.tbf().is_some();
        let holds = if is_cut { below } else { Some(there) };
        let is_fair = holds.is_some_and(|holds| holds.fq_codel().is_some());
        let is_ours = is_cut || is_fair || there.bfifo().is_some();
        // A token bucket keeps what is below it.
        let is_other_order = match self.order {
            Order::Fair(_) => !is_fair,
            Order::Fifo(_) => is_fair && !is_cut,
        };
        is_ours && (is_cut != self.cut.is_some() || is_other_order)
    }

    /// Returns true if a packet that waits may be too large to leave once the token bucket is the one of this queue.
    pub(super) fn may_stall(&self, there: &Installed) -> bool {
        let (Some(cut), Some(there)) = (self.cut, there.tbf()) else {
            return false;
        };
        // The kernel shows the bucket in ticks, two of which are less than a frame.
        there.largest_packet() > cut.largest + FRAME as u32
    }

    /// The microseconds that packets of a flow may wait all the time, if flows take turns.
    #[cfg(test)]
    pub(super) const fn target(&self) -> Option<u32> {
        match self.order {
            Order::Fifo(_) => None,
            Order::Fair(FqCodel { target, .. }) => Some(target),
        }
    }

    /// True if GSO packets are cut.
    pub(super) const fn cuts(&self) -> bool {
        self.cut.is_some()
    }

    /// Makes a class' queue this one.
    pub(super) fn put(&self, socket: &mut Socket, link: &Link, class: Handle) -> Result<()> {
        self.try_put(socket, link, class)
            .doing("put a class' queue")
    }

    fn try_put(
        &self,
        socket: &mut Socket,
        link: &Link,
        class: Handle,
    ) -> netqos_netlink::Result<()> {
        let mut above = class;
        if let Some(tbf) = &self.cut {
            socket.put_qdisc(link, class, Handle::NONE, tbf)?;
            let there = socket.qdisc_at(link, class)?;
            // One that is gone by now is found missing by the next look.
            let Some(there) = there else { return Ok(()) };
            above = Handle::new(there.handle.major(), 1);
        }
        match (&self.order, self.cut) {
            (Order::Fair(flows), _) => socket.put_qdisc(link, above, Handle::NONE, flows),
            (Order::Fifo(bfifo), None) => socket.put_qdisc(link, above, Handle::NONE, bfifo),
            // A token bucket has one by itself.
            (Order::Fifo(_), Some(_)) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fair_leaf_lets_some_frames_wait_at_the_guaranteed_rate() {
        let fair = |uplink: u64, reference: u64| {
            let queue = Queue::of_bulk(Leaves::Fair, uplink / 8, 200_000, reference / 8);
            let Order::Fair(flows) = queue.order else {
                panic!("{queue:?}")
            };
            (queue.cut.is_some(), flows.target, flows.interval)
        };
        assert_eq!(fair(20_000_000, 10_000_000), (true, 5_000, 100_000));
        // Two frames take 24 ms at 1 Mbit/s.
        assert_eq!(fair(20_000_000, 1_000_000), (true, 24_224, 484_480));
        assert_eq!(fair(1_000_000, 50_000), (true, 100_000, 1_000_000));
        // Two GSO packets take 21 ms at 50 Mbit/s.
        assert_eq!(fair(1_000_000_000, 50_000_000), (false, 20_971, 419_430));
        assert_eq!(fair(10_000_000_000, 4_000_000_000), (false, 5_000, 100_000));
    }
}
