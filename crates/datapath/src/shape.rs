//! What a limit becomes in numbers: the queue's settings and the ranking program's.
//!
//! The formulas, and what was measured with them and with others, are in `docs/limits.md`.

use std::time::Duration;

use netqos_bpf::Settings;
use netqos_core::{BitRate, ByteCount, Limit};
use netqos_netlink::link::Link;
use netqos_netlink::qdisc::Tbf;

use crate::owner::Owner;
use crate::stall::Pace;

const MILLISECOND: u64 = 1_000_000;
/// The Ethernet header, which the kernel's qdiscs count.
const ETHERNET_HEADER: u64 = 14;
/// The rate from which TBF takes a whole GSO packet. Segmenting costs a core at 1 Gbit/s. Below this rate TBF
/// segments, and packets leave in frames, whatever the burst.
const WHOLE_GSO_FROM: BitRate = BitRate::from_bits_per_second(100_000_000);
/// With its headers, a GSO packet is up to so many 1024ths of its size.
const GSO_WITH_HEADERS: u64 = 1094;
/// The longest time between two packets of a queue: a queue that has a backlog sends within 200 ms.
#[cfg(feature = "rules")]
const LONGEST_TURN: u64 = 150 * MILLISECOND;
/// The longest wait of bulk, unless somebody says otherwise.
const DEFAULT_WAIT: u64 = 25 * MILLISECOND;
/// At low rates TCP needs a queue of some frames, however long that takes.
const LEAST_QUEUE_FRAMES: u64 = 16;
/// Flows that are sparse share the limit by at least so many.
const LEAST_FLOWS: u64 = 16;
/// The least room of a band in packets: the kernel's default transmit queue length.
const LEAST_RING: u32 = 1000;
/// The most room of a band in packets. The kernel reserves memory for all of them.
const LARGEST_RING: u32 = 8000;
/// The size of a packet by which the ring is dimensioned.
const SMALL_PACKET: u64 = 256;
/// A product of the cost of a byte and the longest packet (2^21 bytes) must fit 64 bits.
const LARGEST_COST: u128 = 1 << 42;
const LARGEST_SHIFT: u32 = 40;

/// The settings of one queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    rate: BitRate,
    /// The bucket.
    pub burst: ByteCount,
    /// The longest that bulk waits, not counting the burst.
    pub wait: Duration,
    frame: u64,
    gso: u64,
    /// The largest GSO packet that TBF does not segment.
    whole: u64,
    /// The user set a latency.
    is_wait_chosen: bool,
    /// The transmit queue length of a link that keeps it.
    fixed_queue_len: Option<u32>,
}

impl Shape {
    /// The settings for a limit on this link.
    pub fn new(limit: &Limit, link: &Link) -> Self {
        Self::for_packets(limit, link.mtu, link.gso_max_size)
    }

    /// The settings for a limit of packets up to this MTU, and GSO packets up to this size.
    pub fn for_packets(limit: &Limit, mtu: u32, gso_max_size: u32) -> Self {
        let rate = limit.rate;
        let frame = u64::from(mtu) + ETHERNET_HEADER;
        let gso = largest_packet(gso_max_size).bytes();
        let whole = if rate >= WHOLE_GSO_FROM {
            gso
        } else {
            // Some frames, but no more than a tenth of a second's worth, nor less than one.
            (3 * frame).min(rate.bytes_per_second() / 10).max(frame)
        };
        // A smaller burst than netqos' own choice would only keep the rate from being reached.
        let burst = rate
            .bytes_in_nanos(2 * MILLISECOND)
            .max(ByteCount::from_bytes(whole))
            .max(limit.burst.unwrap_or_default())
            .min(ByteCount::from_bytes(u32::MAX.into()));
        let frames = |count: u64| rate.nanos_for(ByteCount::from_bytes(count * frame));
        let wait = match limit.latency {
            Some(wait) => (wait.as_nanos().min(u64::MAX.into()) as u64).max(frames(2)),
            None => DEFAULT_WAIT.max(frames(LEAST_QUEUE_FRAMES)),
        };
        Self {
            rate,
            burst,
            wait: Duration::from_nanos(wait),
            frame,
            gso,
            whole,
            is_wait_chosen: limit.latency.is_some(),
            fixed_queue_len: None,
        }
    }

    /// The same settings, with GSO packets in one piece up to the size of the burst, unless their turn would take too
    /// long.
    #[cfg(feature = "rules")]
    pub(crate) fn uncut(self) -> Self {
        let longest = self.rate.bytes_in_nanos(LONGEST_TURN).min(self.burst);
        Self {
            whole: self.whole.max(longest.bytes()),
            ..self
        }
    }

    fn wait_nanos(&self) -> u64 {
        self.wait.as_nanos().min(u64::MAX.into()) as u64
    }

    /// The token bucket. Its own queue is in force only where nothing ranks and admits in front of
    /// it; it then holds what passes during the wait, and one packet of the largest kind.
    pub fn tbf(&self) -> Tbf {
        let queue = self.rate.bytes_in_nanos(self.wait_nanos());
        let limit = queue
            .saturating_add(self.burst)
            .saturating_add(ByteCount::from_bytes(self.gso));
        Tbf {
            rate: self.rate.bytes_per_second(),
            burst: self.burst.bytes().min(u32::MAX.into()) as u32,
            largest: self.whole.min(u32::MAX.into()) as u32,
            limit: limit.bytes().min(u32::MAX.into()) as u32,
        }
    }

    /// The rate at which the queue must send.
    pub fn pace(&self) -> Pace {
        let longest = self.whole.min(self.gso).max(self.frame);
        Pace {
            rate: self.rate,
            longest: ByteCount::from_bytes(longest).min(self.burst),
        }
    }

    /// How many packets a band behind the program must have room for, were they small: a backstop,
    /// since the program bounds the queue in time.
    pub fn ring(&self) -> u32 {
        let ring = ring(self.rate.bytes_in_nanos(self.wait_nanos()).bytes());
        let most = self.fixed_queue_len.filter(|_| !self.is_wait_chosen);
        most.map_or(ring, |most| ring.min(most))
    }

    /// The settings for a limit on this link. A running pod's link keeps the kernel's default transmit queue length, and
    /// a longer one, since a change of it takes the link down for a moment; its bands are as long. A latency that the
    /// user sets precedes that. CNI plugins before 1.6 make links with a length of 0, and a pod may set any.
    pub(crate) fn at(limit: &Limit, link: &Link, is_running: bool) -> Self {
        let is_kept = is_running && (LEAST_RING..=LARGEST_RING).contains(&link.tx_queue_len);
        Self {
            fixed_queue_len: is_kept.then_some(link.tx_queue_len),
            ..Self::new(limit, link)
        }
    }

    /// The packets that bands hold that are made on a link of this transmit queue length, once that [fits](Self::fits).
    pub(crate) fn band_limit(&self, tx_queue_len: u32) -> u32 {
        match self.fits(tx_queue_len) {
            true => tx_queue_len,
            false => self.ring(),
        }
    }

    /// Returns true if bands that are made on a link of this transmit queue length are as long as these settings need.
    pub(crate) fn fits(&self, tx_queue_len: u32) -> bool {
        (self.ring()..=LARGEST_RING).contains(&tx_queue_len)
    }

    /// Returns true if bands of this many packets are shorter than any limit needs, or too short for the latency that
    /// the user sets.
    pub(crate) fn outgrows(&self, band_limit: u32) -> bool {
        let is_needed = self.is_wait_chosen || band_limit < LEAST_RING;
        is_needed && band_limit < self.ring()
    }

    /// The settings of the ranking program, for this owner.
    pub fn settings(&self, owner: Owner) -> Settings {
        let (cost_per_byte, cost_shift) = cost(self.tbf().rate);
        let nanos = |bytes| self.rate.nanos_for(ByteCount::from_bytes(bytes));
        // The saved-up burst leaves at once, and is not backlog.
        let bound = self
            .wait_nanos()
            .saturating_add(self.rate.nanos_for(self.burst));
        Settings {
            cost_per_byte,
            cost_shift,
            bulk_bound: bound,
            // Bulk is let in up to its bound by packets that may be as long as GSO allows: what is
            // sparse must not pay for the last of them.
            sparse_bound: bound.saturating_mul(2).saturating_add(nanos(self.gso)),
            flow_allowance: MILLISECOND
                .max(nanos(2 * self.frame))
                .saturating_mul(LEAST_FLOWS),
            band_allowance: (20 * MILLISECOND).max(nanos(2400)),
            least_flow: nanos(1024),
            network: owner.network,
            owner: owner.id,
        }
    }
}

/// A GSO packet of this size with the headers of all of its frames.
pub(crate) fn largest_packet(gso_max_size: u32) -> ByteCount {
    ByteCount::from_bytes((u64::from(gso_max_size) * GSO_WITH_HEADERS).div_ceil(1024))
}

/// The packets of a band in which so many bytes may wait.
fn ring(bytes: u64) -> u32 {
    (bytes / SMALL_PACKET).clamp(LEAST_RING.into(), LARGEST_RING.into()) as u32
}

/// Nanoseconds per byte at a rate in bytes per second, as `cost / 2^shift`: rounded up, as precise
/// as 64 bits allow.
fn cost(rate: u64) -> (u64, u32) {
    let rate = u128::from(rate.max(1));
    let at = |shift: u32| (1_000_000_000_u128 << shift).div_ceil(rate);
    let shift = (0..=LARGEST_SHIFT)
        .rev()
        .find(|shift| at(*shift) < LARGEST_COST)
        .unwrap_or(0);
    (at(shift).min(u64::MAX.into()) as u64, shift)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn veth() -> Link {
        Link {
            index: 1,
            name: "veth0".to_owned(),
            kind: "veth".to_owned(),
            mtu: 1500,
            tx_queue_len: 1000,
            gso_max_size: 65_536,
            is_up: true,
            ..Link::default()
        }
    }

    fn shape(bits: u64) -> Shape {
        Shape::new(&Limit::of(BitRate::from_bits_per_second(bits)), &veth())
    }

    #[test]
    fn worked_examples() {
        for (bits, burst, wait_ms) in [
            (1_000_000, 4_542, 193),
            (10_000_000, 4_542, 25),
            (50_000_000, 12_500, 25),
            (100_000_000, 70_016, 25),
            (1_000_000_000, 250_000, 25),
        ] {
            let shape = shape(bits);
            assert_eq!(shape.burst.bytes(), burst, "{bits}");
            assert_eq!(shape.wait.as_millis(), wait_ms, "{bits}");
        }
    }

    #[test]
    fn a_users_burst_and_wait_are_honoured() {
        let mut limit = Limit::of(BitRate::from_bits_per_second(10_000_000));
        limit.burst = Some(ByteCount::from_bytes(1_000_000));
        limit.latency = Some(Duration::from_millis(5));
        let shape = Shape::new(&limit, &veth());
        assert_eq!(shape.burst.bytes(), 1_000_000);
        assert_eq!(shape.wait, Duration::from_millis(5));
    }

    proptest! {
        /// From 1 Mbit/s up, no second carries more than 10 % over the limit, jumbo frames included.
        #[test]
        fn no_second_is_ten_percent_over(
            bits in 1_000_000_u64..=1_000_000_000_000,
            mtu in 576_u32..=9000,
        ) {
            let link = Link { mtu, ..veth() };
            let shape = Shape::new(&Limit::of(BitRate::from_bits_per_second(bits)), &link);
            let allowed = shape.tbf().rate / 10;
            prop_assert!(u64::from(shape.tbf().burst) <= allowed, "{}", shape.burst);
        }

        /// The model never drains faster than the queue, which is told whole bytes per second, and
        /// is exact to a millionth.
        #[test]
        fn cost_is_exact_and_rounded_up(rate in 1_u64..=125_000_000_000_000) {
            let (cost, shift) = cost(rate);
            let real = 1_000_000_000.0 / rate as f64;
            let model = cost as f64 / (1_u64 << shift) as f64;
            prop_assert!(model >= real * (1.0 - 1e-12));
            prop_assert!(model <= real * (1.0 + 1e-6));
            prop_assert!((cost as u128) << 21 <= 1 << 63);
        }

        /// Without a program, the queue still holds the largest packet.
        #[test]
        fn the_plain_queue_holds_a_whole_packet(bits in 8_u64..=1_000_000_000_000_000) {
            prop_assert!(shape(bits).tbf().limit >= 70_000);
        }
    }
}
