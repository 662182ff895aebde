//! Queues of leaves that stopped sending.
//!
//! A packet larger than the bucket of the token bucket that segments never leaves it, and blocks what waits behind
//! it. netqos makes no such state itself; `tc qdisc change` by another process can.

use std::collections::BTreeMap;
use std::time::Instant;

use netqos_core::{BitRate, ByteCount};
use netqos_datapath::{Pace, StallDetector, StallState};
use netqos_netlink::Handle;
use netqos_netlink::qdisc::Statistics;

use super::form::Form;
use super::queue::UNCUT;
use super::tree::Root;
use crate::StalledQueue;

/// A leaf that sends less than this part of its guarantee is stalled. An uplink may carry less than its stated
/// capacity, and its leaves are not stalled then.
const LEAST_PART: u64 = 16;

/// The observations of queues with a backlog.
#[derive(Debug, Default)]
pub(super) struct Stalls {
    /// By the index of the link and the handle of the leaf, with the number of times that the token bucket has refused
    /// to send.
    detectors: BTreeMap<(u32, Handle), (StallDetector, u32)>,
    /// The queues that were emptied since they were taken last.
    emptied: Vec<StalledQueue>,
}

impl Stalls {
    /// Adds an observation of the queue of a form's bulk. Returns true if it is stalled.
    pub(super) fn observe(&mut self, at: Root<'_>, form: &Form, statistics: &Statistics) -> bool {
        let leaf = (at.link.index, at.handle(form.slot.bulk()));
        if statistics.queued_packets == 0 {
            self.detectors.remove(&leaf);
            return false;
        }
        // An interval is the time of four packets at the guarantee.
        let pace = Pace {
            rate: BitRate::from_bits_per_second(form.bulk.rate * 8 / LEAST_PART),
            longest: ByteCount::from_bytes(u64::from(UNCUT) / LEAST_PART),
        };
        let (detector, refused) = self.detectors.entry(leaf).or_default();
        // HTB does not ask a class that owes for what it has sent, and after a part went that may take seconds.
        if std::mem::replace(refused, statistics.overlimits) == statistics.overlimits {
            *detector = StallDetector::default();
        }
        let state = detector.observe(Instant::now(), statistics, &pace);
        state == StallState::Stalled
    }

    /// Records that the queue of a form's bulk was emptied of so many packets.
    pub(super) fn record(&mut self, at: Root<'_>, form: &Form, dropped: u32) {
        let leaf = at.handle(form.slot.bulk());
        self.detectors.remove(&(at.link.index, leaf));
        self.emptied.push(StalledQueue {
            link: at.link.name.as_str().into(),
            direction: at.name.direction(),
            htb_class: leaf.to_string(),
            dropped,
        });
    }

    /// Takes the queues that were emptied.
    pub(super) fn take(&mut self) -> Vec<StalledQueue> {
        std::mem::take(&mut self.emptied)
    }
}
