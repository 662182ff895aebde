//! `fq_codel`: a queue for each flow, each held short by CoDel (`net/sched/sch_fq_codel.c`, RFC 8290).

use super::{Installed, Options, Qdisc};
use crate::wire;

/// Attributes of fq_codel (`include/uapi/linux/pkt_sched.h`).
const TCA_FQ_CODEL_TARGET: u16 = 1;
const TCA_FQ_CODEL_INTERVAL: u16 = 3;
const TCA_FQ_CODEL_MEMORY_LIMIT: u16 = 9;
/// The kernel counts time in ticks of 2^10 nanoseconds (`include/net/codel.h`).
const CODEL_SHIFT: u32 = 10;
const NANOS_PER_MICROSECOND: u64 = 1_000;

/// Flows take turns. What is not set here has the kernel's defaults: 1,024 flows, 10,240 packets, ECN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FqCodel {
    /// Microseconds that packets of a flow may wait all the time.
    pub target: u32,
    /// Microseconds for which they may wait longer before one is dropped or marked.
    pub interval: u32,
    /// Bytes of kernel memory that waiting packets may take (`skb->truesize`). Beyond, the longest flow loses packets.
    pub memory: u32,
}

/// A fq_codel as the kernel reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstalledFqCodel(FqCodel);

impl Qdisc for FqCodel {
    const KIND: &'static str = "fq_codel";

    fn options(&self) -> Options {
        Options::default()
            .with(TCA_FQ_CODEL_TARGET, &self.target.to_ne_bytes())
            .with(TCA_FQ_CODEL_INTERVAL, &self.interval.to_ne_bytes())
            .with(TCA_FQ_CODEL_MEMORY_LIMIT, &self.memory.to_ne_bytes())
    }
}

impl Installed {
    /// The settings, when this is a fq_codel.
    pub fn fq_codel(&self) -> Option<InstalledFqCodel> {
        if self.kind != FqCodel::KIND {
            return None;
        }
        let (mut target, mut interval, mut memory) = (None, None, None);
        for (kind, value) in wire::attributes(&self.options) {
            match kind {
                TCA_FQ_CODEL_TARGET => target = wire::u32_at(value, 0),
                TCA_FQ_CODEL_INTERVAL => interval = wire::u32_at(value, 0),
                TCA_FQ_CODEL_MEMORY_LIMIT => memory = wire::u32_at(value, 0),
                _ => {}
            }
        }
        Some(InstalledFqCodel(FqCodel {
            target: target?,
            interval: interval?,
            memory: memory?,
        }))
    }
}

impl PartialEq<FqCodel> for InstalledFqCodel {
    /// True when the kernel holds these settings, the times to its ticks.
    fn eq(&self, wanted: &FqCodel) -> bool {
        let Self(found) = *self;
        (found.target, found.interval, found.memory)
            == (
                in_ticks(wanted.target),
                in_ticks(wanted.interval),
                wanted.memory,
            )
    }
}

/// Microseconds as the kernel reports them.
fn in_ticks(microseconds: u32) -> u32 {
    let ticks = (u64::from(microseconds) * NANOS_PER_MICROSECOND) >> CODEL_SHIFT;
    // Not more than before.
    ((ticks << CODEL_SHIFT) / NANOS_PER_MICROSECOND) as u32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Handle;
    use crate::qdisc::tests::echoed;

    /// Linux 6.12 reports 4.99 and 100 ms for the defaults.
    #[test]
    fn times_are_recognised_as_the_kernel_rounds_them() {
        assert_eq!((in_ticks(5_000), in_ticks(100_000)), (4_999, 99_999));
    }

    proptest! {
        #[test]
        fn settings_are_recognised_and_others_are_not(target: u32, interval: u32, memory: u32) {
            let set = FqCodel { target, interval, memory };
            let reported = FqCodel { target: in_ticks(target), interval: in_ticks(interval), memory };
            let found = echoed(Handle::new(1, 2), Handle::new(2, 0), &reported).fq_codel().unwrap();
            prop_assert!(found == set);
            for other in [
                FqCodel { target: target ^ 0x400, ..set },
                FqCodel { interval: interval ^ 0x400, ..set },
                FqCodel { memory: memory ^ 1, ..set },
            ] {
                prop_assert!(found != other);
            }
        }
    }
}
