//! `tbf`: the token bucket filter (`net/sched/sch_tbf.c`).

use super::{Installed, Options, Qdisc};
use crate::psched::RateConfig;
use crate::wire;

/// Attributes of TBF (`include/uapi/linux/pkt_sched.h`).
const TCA_TBF_PARMS: u16 = 1;
const TCA_TBF_RATE64: u16 = 4;
const TCA_TBF_BURST: u16 = 6;
/// `sizeof(struct tc_tbf_qopt)`: two `tc_ratespec` of 12 bytes, limit, buffer, mtu.
const TC_TBF_QOPT: usize = 36;
/// Where the parts of `struct tc_tbf_qopt` stand.
const LINK_LAYER: usize = 1;
const RATE: usize = 8;
const LIMIT: usize = 24;
const BUFFER: usize = 28;
const TC_LINKLAYER_ETHERNET: u8 = 1;

/// A rate with a bucket, and a queue in front of it. Bytes are counted as the link sees them, the
/// Ethernet header included, the frames of a GSO packet each with its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tbf {
    /// Bytes per second.
    pub rate: u64,
    /// Bytes that may pass at once. Larger packets are dropped, larger GSO packets segmented.
    pub burst: u32,
    /// Bytes that its own queue holds (a `bfifo`). It does not bind a child of another kind.
    pub limit: u32,
}

impl Tbf {
    /// The bucket in the scheduler's ticks, as the kernel reports it.
    pub fn buffer(&self) -> u32 {
        RateConfig::new(self.rate).ticks(self.burst)
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
        parameters[RATE..RATE + 4].copy_from_slice(&rate.to_ne_bytes());
        parameters[LIMIT..LIMIT + 4].copy_from_slice(&self.limit.to_ne_bytes());
        parameters[BUFFER..BUFFER + 4].copy_from_slice(&self.buffer().to_ne_bytes());
        let mut options = Options::default().with(TCA_TBF_PARMS, &parameters);
        if self.rate > u64::from(u32::MAX) {
            options = options.with(TCA_TBF_RATE64, &self.rate.to_ne_bytes());
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
}

impl Installed {
    /// The settings, when this is a TBF.
    pub fn tbf(&self) -> Option<InstalledTbf> {
        if self.kind != Tbf::KIND {
            return None;
        }
        let mut found = None;
        let mut rate64 = None;
        for (kind, value) in wire::attributes(&self.options) {
            match kind {
                TCA_TBF_PARMS => {
                    found = Some(InstalledTbf {
                        rate: u64::from(wire::u32_at(value, RATE)?),
                        limit: wire::u32_at(value, LIMIT)?,
                        buffer: wire::u32_at(value, BUFFER)?,
                    });
                }
                TCA_TBF_RATE64 => rate64 = wire::u64_at(value, 0),
                _ => {}
            }
        }
        let mut found = found?;
        found.rate = rate64.unwrap_or(found.rate);
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
        self.rate == wanted.rate && self.limit == wanted.limit && more.min(less) <= 1
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
        #[test]
        fn what_is_asked_for_is_recognised(rate in rates(), burst in 1_u32.., limit: u32) {
            let tbf = Tbf { rate, burst, limit };
            let found = reported(&tbf);
            prop_assert_eq!((found.rate, found.limit, found.buffer), (rate, limit, tbf.buffer()));
            prop_assert!(found == tbf);
            for other in [Tbf { rate: rate + 1, ..tbf }, Tbf { limit: limit ^ 1, ..tbf }] {
                prop_assert!(found != other);
            }
        }
    }
}
