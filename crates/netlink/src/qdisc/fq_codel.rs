//! `fq_codel`: a queue for each flow, each held short by CoDel (`net/sched/sch_fq_codel.c`, RFC 8290).

use std::collections::HashMap;

use super::{Installed, Options, Qdisc};
use crate::wire;

/// Attributes of fq_codel (`include/uapi/linux/pkt_sched.h`).
const TCA_FQ_CODEL_TARGET: u16 = 1;
const TCA_FQ_CODEL_LIMIT: u16 = 2;
const TCA_FQ_CODEL_INTERVAL: u16 = 3;
const TCA_FQ_CODEL_ECN: u16 = 4;
const TCA_FQ_CODEL_QUANTUM: u16 = 6;
const TCA_FQ_CODEL_MEMORY_LIMIT: u16 = 9;
/// The kernel counts time in ticks of 2^10 nanoseconds (`include/net/codel.h`).
const CODEL_SHIFT: u32 = 10;
const NANOS_PER_MICROSECOND: u64 = 1_000;
/// The kernel takes no larger memory limit.
const MOST_MEMORY: u32 = 1 << 31;
/// Bytes that a flow sends in its turn: a frame.
const QUANTUM: u32 = 1_514;

/// Flows take turns, of one frame each. There are 1,024, and packets that may be marked (ECN) are marked in place of
/// being dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FqCodel {
    /// Microseconds that packets of a flow may wait all the time.
    pub target: u32,
    /// Microseconds for which they may wait longer before one is dropped or marked.
    pub interval: u32,
    /// Packets that may wait. Beyond, the longest flow loses packets.
    pub packets: u32,
    /// The same of bytes of kernel memory (`skb->truesize`).
    pub memory: u32,
}

/// A fq_codel as the kernel reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstalledFqCodel {
    /// The settings, the times in the kernel's ticks.
    pub settings: FqCodel,
    has_ecn: bool,
    quantum: u32,
}

impl Qdisc for FqCodel {
    const KIND: &'static str = "fq_codel";

    fn options(&self) -> Options {
        Options::default()
            .with(TCA_FQ_CODEL_TARGET, &self.target.to_ne_bytes())
            .with(TCA_FQ_CODEL_LIMIT, &self.packets.to_ne_bytes())
            .with(TCA_FQ_CODEL_INTERVAL, &self.interval.to_ne_bytes())
            .with(TCA_FQ_CODEL_ECN, &1_u32.to_ne_bytes())
            .with(TCA_FQ_CODEL_QUANTUM, &QUANTUM.to_ne_bytes())
            .with(TCA_FQ_CODEL_MEMORY_LIMIT, &self.memory.to_ne_bytes())
    }
}

impl Installed {
    /// The settings, when this is a fq_codel.
    pub fn fq_codel(&self) -> Option<InstalledFqCodel> {
        if self.kind != FqCodel::KIND {
            return None;
        }
        let settings: HashMap<u16, u32> = wire::attributes(&self.options)
            .filter_map(|(kind, value)| Some((kind, wire::u32_at(value, 0)?)))
            .collect();
        let number = |kind: u16| settings.get(&kind).copied();
        Some(InstalledFqCodel {
            settings: FqCodel {
                target: number(TCA_FQ_CODEL_TARGET)?,
                interval: number(TCA_FQ_CODEL_INTERVAL)?,
                packets: number(TCA_FQ_CODEL_LIMIT)?,
                memory: number(TCA_FQ_CODEL_MEMORY_LIMIT)?,
            },
            has_ecn: number(TCA_FQ_CODEL_ECN)? != 0,
            quantum: number(TCA_FQ_CODEL_QUANTUM)?,
        })
    }
}

impl PartialEq<FqCodel> for InstalledFqCodel {
    /// True when the kernel holds these settings, the times to its ticks.
    fn eq(&self, wanted: &FqCodel) -> bool {
        let reported = FqCodel {
            target: in_ticks(wanted.target),
            interval: in_ticks(wanted.interval),
            packets: wanted.packets,
            memory: wanted.memory.min(MOST_MEMORY),
        };
        self.settings == reported && self.has_ecn && self.quantum == QUANTUM
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
        fn settings_are_recognised_and_others_are_not(target: u32, interval: u32, packets: u32, memory in 0..=MOST_MEMORY) {
            let set = FqCodel { target, interval, packets, memory };
            let reported = FqCodel { target: in_ticks(target), interval: in_ticks(interval), ..set };
            let found = echoed(Handle::new(1, 2), Handle::new(2, 0), &reported).fq_codel().unwrap();
            prop_assert!(found == set);
            for other in [
                FqCodel { target: target ^ 0x400, ..set },
                FqCodel { interval: interval ^ 0x400, ..set },
                FqCodel { packets: packets ^ 1, ..set },
                FqCodel { memory: memory ^ 1, ..set },
            ] {
                prop_assert!(found != other);
            }
            let without_ecn = InstalledFqCodel { has_ecn: false, ..found };
            prop_assert!(without_ecn != set);
        }
    }

    #[test]
    fn memory_beyond_the_kernels_limit_is_recognised() {
        let set = FqCodel {
            target: 5_000,
            interval: 100_000,
            packets: 1,
            memory: u32::MAX,
        };
        let reported = FqCodel {
            target: 4_999,
            interval: 99_999,
            memory: MOST_MEMORY,
            ..set
        };
        let found = echoed(Handle::new(1, 2), Handle::new(2, 0), &reported);
        assert!(found.fq_codel().unwrap() == set);
    }
}
