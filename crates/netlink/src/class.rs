//! The classes of an HTB (`net/sched/sch_htb.c`).
//!
//! A class sends at its own rate, and at its ceiling as long as classes above it have rate to lend.
//! A class with others below it has no queue; a leaf has one, a `pfifo` until another takes its place.

use std::time::Duration;

use crate::link::Link;
use crate::psched::{NANOS_PER_TICK, RateConfig};
use crate::qdisc::{self, Statistics, TCA_KIND, TCA_OPTIONS, TCA_STATS2, TCMSG};
use crate::wire::{self, Request};
use crate::{Error, Handle, Result, Socket};

/// Attributes of HTB (`include/uapi/linux/pkt_sched.h`).
const TCA_HTB_PARMS: u16 = 1;
const TCA_HTB_RATE64: u16 = 6;
const TCA_HTB_CEIL64: u16 = 7;
/// `sizeof(struct tc_htb_opt)`: two `tc_ratespec` of 12 bytes, buffer, cbuffer, quantum, level, prio.
const TC_HTB_OPT: usize = 44;
/// Where the parts of `struct tc_htb_opt` stand.
const RATE: usize = 0;
const CEIL: usize = 12;
const BUFFER: usize = 24;
const CEIL_BUFFER: usize = 28;
const QUANTUM: usize = 32;
const PRIORITY: usize = 40;
/// Where the parts of a `struct tc_ratespec` stand.
const LINK_LAYER: usize = 1;
const BYTES_PER_SECOND: usize = 8;
const TC_LINKLAYER_ETHERNET: u8 = 1;
/// Inside of `TCA_STATS2` (`include/uapi/linux/gen_stats.h`).
const TCA_STATS_APP: u16 = 4;
/// Where the tokens stand in `struct tc_htb_xstats`, in ticks.
const TOKENS: usize = 12;
const HTB: &str = "htb";

/// A class of an HTB. Bytes are counted as the link sees them, the Ethernet header included, the
/// frames of a GSO packet each with its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HtbClass {
    /// Bytes per second that it always gets; at least one.
    pub rate: u64,
    /// Bytes per second that it never exceeds, except for its bucket; at least one.
    pub ceil: u64,
    /// Bytes that may be sent at once at the rate.
    pub burst: u32,
    /// Bytes that may be sent at once at the ceiling.
    pub ceil_burst: u32,
    /// Bytes that it sends before another class of the same priority does.
    pub quantum: u32,
    /// Among leaves that borrow the lower goes first: 0 to 7.
    pub priority: u8,
}

/// A class as the kernel reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstalledClass {
    /// Its name.
    pub handle: Handle,
    /// The class above it; the qdisc's [`Handle::ROOT`] for one that has none.
    pub parent: Handle,
    /// What it has sent, and what waits in it.
    pub statistics: Statistics,
    rate: u64,
    ceil: u64,
    buffer: u32,
    ceil_buffer: u32,
    quantum: u32,
    priority: u8,
    tokens: i32,
}

impl HtbClass {
    /// The buckets in the scheduler's ticks, as the kernel reports them.
    fn buffers(&self) -> (u32, u32) {
        let ticks = |rate, bytes| RateConfig::new(rate).ticks(bytes).max(1);
        (
            ticks(self.rate, self.burst),
            ticks(self.ceil, self.ceil_burst),
        )
    }

    fn verify(&self) -> std::result::Result<(), &'static str> {
        match self {
            Self { rate: 0, .. } | Self { ceil: 0, .. } => {
                Err("rate and ceiling must be at least one byte per second")
            }
            Self { rate, ceil, .. } if rate > ceil => Err("the rate is above the ceiling"),
            Self { priority: 8.., .. } => Err("priorities are 0 to 7"),
            _ => Ok(()),
        }
    }

    fn request(&self, link: &Link, parent: Handle, handle: Handle, flags: i32) -> Request {
        let mut options = [0; TC_HTB_OPT];
        let (buffer, ceil_buffer) = self.buffers();
        let word = |rate| u32::try_from(rate).unwrap_or(u32::MAX);
        for (at, word) in [
            (RATE + BYTES_PER_SECOND, word(self.rate)),
            (CEIL + BYTES_PER_SECOND, word(self.ceil)),
            (BUFFER, buffer),
            (CEIL_BUFFER, ceil_buffer),
            (QUANTUM, self.quantum),
            (PRIORITY, self.priority.into()),
        ] {
            wire::put_u32(&mut options, at, word);
        }
        // With a link layer the kernel does not ask for tables of times.
        options[RATE + LINK_LAYER] = TC_LINKLAYER_ETHERNET;
        options[CEIL + LINK_LAYER] = TC_LINKLAYER_ETHERNET;
        let wide = |request: Request, kind, rate: u64| match rate > u64::from(u32::MAX) {
            true => request.attribute(kind, &rate.to_ne_bytes()),
            false => request,
        };
        let flags = libc::NLM_F_ACK | flags;
        let request = qdisc::request(libc::RTM_NEWTCLASS, flags, link, parent, handle);
        request.string(TCA_KIND, HTB).nest(TCA_OPTIONS, |request| {
            let request = request.attribute(TCA_HTB_PARMS, &options);
            let request = wide(request, TCA_HTB_RATE64, self.rate);
            wide(request, TCA_HTB_CEIL64, self.ceil)
        })
    }
}

impl InstalledClass {
    /// Reads what stands behind the header of an `RTM_NEWTCLASS` message; `None` when it is of another
    /// link than the one of this number, or no class of an HTB.
    pub fn read(payload: &[u8], index: u32) -> Option<Self> {
        if wire::u32_at(payload, 4)? != index {
            return None;
        }
        let mut kind_name = String::new();
        let mut statistics = Statistics::default();
        let mut tokens = None;
        let mut options: &[u8] = &[];
        for (kind, value) in wire::attributes(payload.get(TCMSG..)?) {
            match kind {
                TCA_KIND => kind_name = wire::text(value),
                TCA_OPTIONS => options = value,
                TCA_STATS2 => {
                    statistics.read(value);
                    let of_htb = wire::attribute(value, TCA_STATS_APP);
                    tokens = of_htb.and_then(|value| wire::u32_at(value, TOKENS));
                }
                _ => {}
            }
        }
        if kind_name != HTB {
            return None;
        }
        let parameters = wire::attribute(options, TCA_HTB_PARMS)?;
        let word = |at| wire::u32_at(parameters, at);
        let rate = |at, wide| {
            let wide = wire::attribute(options, wide).and_then(|value| wire::u64_at(value, 0));
            wide.or_else(|| word(at + BYTES_PER_SECOND).map(u64::from))
        };
        Some(Self {
            handle: Handle::from_raw(wire::u32_at(payload, 8)?),
            parent: Handle::from_raw(wire::u32_at(payload, 12)?),
            statistics,
            rate: rate(RATE, TCA_HTB_RATE64)?,
            ceil: rate(CEIL, TCA_HTB_CEIL64)?,
            buffer: word(BUFFER)?,
            ceil_buffer: word(CEIL_BUFFER)?,
            quantum: word(QUANTUM)?,
            priority: word(PRIORITY)? as u8,
            tokens: tokens.unwrap_or_default().cast_signed(),
        })
    }

    /// Bytes per second that it always gets.
    pub const fn rate(&self) -> u64 {
        self.rate
    }

    /// Bytes per second that it never exceeds.
    pub const fn ceil(&self) -> u64 {
        self.ceil
    }

    /// Bytes that it sends before another class of the same priority does.
    pub const fn quantum(&self) -> u32 {
        self.quantum
    }

    /// The time for which it may not send at its rate, as of its last packet. HTB keeps this time when the rate changes.
    pub const fn debt(&self) -> Duration {
        let ticks = match self.tokens {
            ..0 => self.tokens.unsigned_abs(),
            _ => 0,
        };
        Duration::from_nanos(ticks as u64 * NANOS_PER_TICK)
    }

    /// Among leaves that borrow the lower goes first.
    pub const fn priority(&self) -> u8 {
        self.priority
    }
}

impl PartialEq<HtbClass> for InstalledClass {
    /// True when the kernel holds what these settings ask for; the buckets to one tick.
    fn eq(&self, wanted: &HtbClass) -> bool {
        let (buffer, ceil_buffer) = wanted.buffers();
        let near = |a: u32, b: u32| a.abs_diff(b) <= 1;
        self.rate == wanted.rate
            && self.ceil == wanted.ceil
            && near(self.buffer, buffer)
            && near(self.ceil_buffer, ceil_buffer)
            && self.quantum == wanted.quantum
            && self.priority == wanted.priority
    }
}

impl Socket {
    /// All classes of a link's HTB. A link without one has none.
    pub fn classes(&mut self, link: &Link) -> Result<Vec<InstalledClass>> {
        let kind = libc::RTM_GETTCLASS;
        self.listed("classes", kind, link, Handle::NONE, InstalledClass::read)
    }

    /// Puts this class in place. One that is there already is changed, and keeps its packets and what
    /// is below it; it is not moved to another parent.
    pub fn put_class(
        &mut self,
        link: &Link,
        parent: Handle,
        handle: Handle,
        class: &HtbClass,
    ) -> Result<()> {
        let doing = || format!("add class {handle} to {}", link.name);
        class
            .verify()
            .map_err(|why| Error::Invalid(format!("{}: {why}", doing())))?;
        let request = class.request(link, parent, handle, libc::NLM_F_CREATE);
        self.acknowledged(&doing, request)
    }

    /// Removes a class that has none below it, and what waits in it.
    pub fn delete_class(&mut self, link: &Link, handle: Handle) -> Result<()> {
        let (kind, flags) = (libc::RTM_DELTCLASS, libc::NLM_F_ACK);
        let request = qdisc::request(kind, flags, link, Handle::NONE, handle);
        let doing = || format!("delete class {handle} of {}", link.name);
        self.acknowledged(&doing, request)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::arbitrary;

    fn echoed(class: &HtbClass) -> InstalledClass {
        let link = arbitrary::link(7);
        let (parent, handle) = (Handle::new(1, 1), Handle::new(1, 2));
        let payload = arbitrary::payload(class.request(&link, parent, handle, 0));
        assert_eq!(InstalledClass::read(&payload, 8), None, "of another link");
        let found = InstalledClass::read(&payload, 7).unwrap();
        assert_eq!((found.parent, found.handle), (parent, handle));
        found
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let good = HtbClass {
            rate: 1,
            ceil: 2,
            burst: 1600,
            ceil_burst: 1600,
            quantum: 1600,
            priority: 7,
        };
        assert_eq!(good.verify(), Ok(()));
        for bad in [
            HtbClass { rate: 0, ..good },
            HtbClass { rate: 3, ..good },
            HtbClass {
                priority: 8,
                ..good
            },
        ] {
            assert!(bad.verify().is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_asked_for_is_recognised(
            rate in 1_u64..125_000_000_000,
            more in 0_u64..125_000_000_000,
            burst in 1_u32..10_000_000,
            quantum: u32,
            priority in 0_u8..8,
        ) {
            let class = HtbClass {
                rate, ceil: rate + more, burst, ceil_burst: burst, quantum, priority,
            };
            let found = echoed(&class);
            prop_assert_eq!((found.rate(), found.ceil()), (rate, rate + more));
            prop_assert!(found == class);
            for other in [
                HtbClass { rate: rate + 1, ceil: rate + more + 1, ..class },
                HtbClass { ceil: rate + more + 1, ..class },
                HtbClass { quantum: quantum ^ 1, ..class },
                HtbClass { priority: priority ^ 1, ..class },
            ] {
                prop_assert!(found != other);
            }
        }

        #[test]
        fn reading_never_panics(payload in arbitrary::message()) {
            let index = wire::u32_at(&payload, 4).unwrap_or_default();
            let _ = InstalledClass::read(&payload, index);
        }
    }
}
