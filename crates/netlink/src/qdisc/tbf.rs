//! `tbf`: the token bucket filter (`net/sched/sch_tbf.c`).

use super::{Installed, Options, Qdisc};
use crate::psched::{NANOS_PER_TICK, RateConfig};
use crate::wire;

/// Attributes of TBF (`include/uapi/linux/pkt_sched.h`).
const TCA_TBF_PARMS: u16 = 1;
const TCA_TBF_RATE64: u16 = 4;
const TCA_TBF_PRATE64: u16 = 5;
const TCA_TBF_BURST: u16 = 6;
const TCA_TBF_PBURST: u16 = 7;
/// `sizeof(struct tc_tbf_qopt)`: two `tc_ratespec` of 12 bytes, limit, buffer, mtu.
const TC_TBF_QOPT: usize = 36;
/// Where the parts of `struct tc_tbf_qopt` stand.
const LINK_LAYER: usize = 1;
const RATE: usize = 8;
const PEAK_LINK_LAYER: usize = 13;
const PEAK_RATE: usize = 20;
const LIMIT: usize = 24;
const BUFFER: usize = 28;
const TC_LINKLAYER_ETHERNET: u8 = 1;
/// A peak rate without effect: at 10^18 bytes per second the longest packet takes less than a nanosecond. TBF
/// with a peak rate segments GSO packets that are larger than the bucket of the peak rate. The kernel does not
/// report that size, so the last digits of the rate contain it.
const NO_PEAK: u64 = 1_000_000_000_000_000_000;
const NANOS_PER_SECOND: u128 = 1_000_000_000;

/// A rate with a bucket, and a queue in front of it. Bytes are counted as the link sees them, the
/// Ethernet header included, the frames of a GSO packet each with its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tbf {
    /// Bytes per second.
    pub rate: u64,
    /// Bytes that may pass at once. Larger packets are dropped.
    pub burst: u32,
    /// The size of the largest GSO packet that TBF takes in one piece, in bytes. TBF segments larger ones on
    /// enqueue, and drops larger packets of other kinds.
    pub largest: u32,
    /// Bytes that its own queue holds (a `bfifo`). It does not bind a child of another kind.
    pub limit: u32,
}

impl Tbf {
    /// The bucket in the scheduler's ticks, as the kernel reports it.
    pub fn buffer(&self) -> u32 {
        RateConfig::new(self.rate).ticks(self.burst)
    }

    /// The peak rate that encodes `largest`; `None` if the burst is not larger.
    fn peak(&self) -> Option<u64> {
        (self.largest < self.burst).then(|| NO_PEAK + u64::from(self.largest))
    }
}

impl Qdisc for Tbf {
    const KIND: &'static str = "tbf";

    fn verify(&self) -> Result<(), String> {
        if self.rate == 0 {
            return Err("the rate must be at least one byte per second".to_owned());
        }
        if self.burst == 0 {
            return Err("a burst of no bytes lets nothing pass".to_owned());
        }
        Ok(())
    }

    fn options(&self) -> Options {
        let mut parameters = [0; TC_TBF_QOPT];
        parameters[LINK_LAYER] = TC_LINKLAYER_ETHERNET;
        let rate = u32::try_from(self.rate).unwrap_or(u32::MAX);
        wire::put_u32(&mut parameters, RATE, rate);
        wire::put_u32(&mut parameters, LIMIT, self.limit);
        wire::put_u32(&mut parameters, BUFFER, self.buffer());
        if self.peak().is_some() {
            parameters[PEAK_LINK_LAYER] = TC_LINKLAYER_ETHERNET;
            wire::put_u32(&mut parameters, PEAK_RATE, u32::MAX);
        }
        let mut options = Options::default().with(TCA_TBF_PARMS, &parameters);
        if self.rate > u64::from(u32::MAX) {
            options = options.with(TCA_TBF_RATE64, &self.rate.to_ne_bytes());
        }
        if let Some(peak) = self.peak() {
            options = options
                .with(TCA_TBF_PRATE64, &peak.to_ne_bytes())
                .with(TCA_TBF_PBURST, &self.largest.to_ne_bytes());
        }
        // In bytes, because 32 bits of ticks end at 274 seconds.
        options.with(TCA_TBF_BURST, &self.burst.to_ne_bytes())
    }
}

/// A TBF as the kernel reports it: the bucket is shown in ticks, modulo 2^32, not in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstalledTbf {
    /// Bytes per second.
    pub rate: u64,
    /// Bytes that its own queue may hold.
    pub limit: u32,
    /// The bucket in ticks of 64 ns.
    pub buffer: u32,
    /// The size of the largest GSO packet in one piece, if it is below the size of the bucket.
    pub largest: Option<u32>,
}

impl InstalledTbf {
    /// An upper bound of the packets in the queue, in bytes: the size of the bucket, or `limit` if the ticks of
    /// the bucket may have wrapped.
    pub fn largest_packet(&self) -> u32 {
        if let Some(largest) = self.largest {
            return largest;
        }
        let in_ticks = |ticks: u64| {
            u128::from(self.rate) * u128::from(ticks) * u128::from(NANOS_PER_TICK)
                / NANOS_PER_SECOND
        };
        let burst = match in_ticks(1 << 32) > self.limit.into() {
            true => in_ticks(self.buffer.into()),
            false => self.limit.into(),
        };
        burst.min(u32::MAX.into()) as u32
    }
}

impl Installed {
    /// The settings, when this is a TBF.
    pub fn tbf(&self) -> Option<InstalledTbf> {
        if self.kind != Tbf::KIND {
            return None;
        }
        let mut found = None;
        let (mut rate64, mut peak64) = (None, None);
        for (kind, value) in wire::attributes(&self.options) {
            match kind {
                TCA_TBF_PARMS => {
                    found = Some(InstalledTbf {
                        rate: u64::from(wire::u32_at(value, RATE)?),
                        limit: wire::u32_at(value, LIMIT)?,
                        buffer: wire::u32_at(value, BUFFER)?,
                        largest: None,
                    });
                }
                TCA_TBF_RATE64 => rate64 = wire::u64_at(value, 0),
                TCA_TBF_PRATE64 => peak64 = wire::u64_at(value, 0),
                _ => {}
            }
        }
        let mut found = found?;
        found.rate = rate64.unwrap_or(found.rate);
        let largest = peak64.and_then(|peak| peak.checked_sub(NO_PEAK));
        found.largest = largest.and_then(|largest| u32::try_from(largest).ok());
        Some(found)
    }
}

impl PartialEq<Tbf> for InstalledTbf {
    /// True when the kernel holds what these settings ask for; the bucket to one tick, since
    /// kernels have rounded it both ways.
    fn eq(&self, wanted: &Tbf) -> bool {
        // Where the ticks begin anew, one tick is from the largest number to zero.
        let more = self.buffer.wrapping_sub(wanted.buffer());
        let less = more.wrapping_neg();
        let largest = wanted.peak().map(|_| wanted.largest);
        (self.rate, self.limit, self.largest) == (wanted.rate, wanted.limit, largest)
            && more.min(less) <= 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Handle;
    use crate::qdisc::tests::echoed;
    use proptest::prelude::*;

    fn reported(tbf: &Tbf) -> InstalledTbf {
        echoed(Handle::ROOT, Handle::new(1, 0), tbf).tbf().unwrap()
    }

    #[test]
    fn the_bucket_is_told_apart_by_more_than_one_tick() {
        // 2^29 s are a whole number of times 2^32 ticks.
        let wraps = Tbf {
            rate: 1,
            burst: 1 << 29,
            largest: 1 << 29,
            limit: 0,
        };
        assert_eq!(wraps.buffer(), 0);
        for (ticks, same) in [
            (0, true),
            (1, true),
            (u32::MAX, true),
            (2, false),
            (u32::MAX - 1, false),
        ] {
            let found = InstalledTbf {
                buffer: ticks,
                ..reported(&wraps)
            };
            assert_eq!(found == wraps, same, "{ticks}");
        }
    }

    #[test]
    fn what_lets_nothing_pass_is_refused() {
        let good = Tbf {
            rate: 1,
            burst: 1,
            largest: 1,
            limit: 0,
        };
        assert_eq!(good.verify(), Ok(()));
        assert!(Tbf { rate: 0, ..good }.verify().is_err());
        assert!(Tbf { burst: 0, ..good }.verify().is_err());
    }

    /// Rates up to a Pbit/s, often beside the place where 32 bits end.
    fn rates() -> impl Strategy<Value = u64> {
        let end = u64::from(u32::MAX);
        prop_oneof![
            1_u64..125_000_000_000_000,
            end - 2..end + 3,
            Just(u64::MAX - 1)
        ]
    }

    proptest! {
        /// To some bytes, in which ticks tell it, and never less, but for these.
        #[test]
        fn the_bucket_is_told_in_bytes(rate in rates(), burst in 1_u32.., more in 0_u32..100_000) {
            let limit = burst.saturating_add(more);
            let tbf = Tbf { rate, burst, largest: burst, limit };
            let told = reported(&tbf).largest_packet();
            // The kernel rounds down to a nanosecond, and then to a tick of 64.
            let tick = (u128::from(rate) * 65).div_ceil(NANOS_PER_SECOND);
            prop_assert!(u128::from(told) + tick >= burst.into(), "{told}");
            prop_assert!(told <= limit || u128::from(told.abs_diff(burst)) <= tick, "{told}");
        }

        #[test]
        fn what_is_asked_for_is_recognised(
            rate in rates(), burst in 1_u32.., largest in 1_u32.., limit: u32,
        ) {
            let tbf = Tbf { rate, burst, largest, limit };
            let found = reported(&tbf);
            prop_assert_eq!((found.rate, found.limit, found.buffer), (rate, limit, tbf.buffer()));
            prop_assert!(found == tbf);
            let others = [
                Tbf { rate: rate + 1, ..tbf }, Tbf { limit: limit ^ 1, ..tbf },
                Tbf { largest: largest.min(burst) - 1, ..tbf },
            ];
            for other in others {
                prop_assert!(found != other);
            }
            if largest < burst {
                prop_assert_eq!(found.largest_packet(), largest);
            }
        }
    }
}
