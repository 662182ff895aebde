//! What was sent over time, by several on one axis, and what was changed meanwhile.

use std::ops::Range;
use std::time::Duration;

use netqos_core::BitRate;
use netqos_traffic::Sample;
use serde::{Serialize, Serializer};

use crate::manifest::Place;

/// What one place sent over the time of a measurement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FlowReport {
    /// From where.
    pub from: Place,
    /// Where to.
    pub to: Place,
    /// It filled the path, and was not what was measured.
    pub is_load: bool,
    /// When its first byte arrived, from the beginning of the measurement, its load's included.
    #[serde(rename = "beganNanos", serialize_with = "nanos")]
    pub began: Duration,
    /// How long its end was counted.
    #[serde(rename = "countedNanos", serialize_with = "nanos")]
    pub counted: Duration,
    /// What arrived in each interval from its first byte on.
    pub samples: Vec<Sample>,
}

/// Something that was changed during a measurement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChangeReport {
    /// When, from the beginning of the measurement, its load's included.
    #[serde(rename = "atNanos", serialize_with = "nanos")]
    pub at: Duration,
    /// What.
    pub title: String,
}

impl FlowReport {
    /// From when to when it was counted, from the beginning of the measurement; `None` where nothing
    /// arrived.
    pub(crate) fn counted(&self) -> Option<Range<Duration>> {
        let end = self.end()?;
        Some(end.saturating_sub(self.counted)..end)
    }

    /// When its last interval ended.
    pub(crate) fn end(&self) -> Option<Duration> {
        Some(self.began + self.samples.last()?.at)
    }

    /// What arrived per second in the intervals that end within this time; `None`: there are none.
    pub(crate) fn rate_within(&self, time: Range<Duration>) -> Option<BitRate> {
        let is_within = |sample: &&Sample| {
            let end = self.began + sample.at;
            time.start < end && end <= time.end
        };
        let (mut bytes, mut nanos) = (0_u128, 0_u128);
        for sample in self.samples.iter().filter(is_within) {
            bytes += u128::from(sample.received.bytes());
            nanos += sample.elapsed.as_nanos();
        }
        let bits = (bytes * 8 * 1_000_000_000).checked_div(nanos)?;
        u64::try_from(bits).ok().map(BitRate::from_bits_per_second)
    }
}

fn nanos<S: Serializer>(duration: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use netqos_core::ByteCount;

    fn flow(began: u64, samples: &[u64]) -> FlowReport {
        let step = Duration::from_millis(100);
        let sample = |(number, bytes): (u32, &u64)| Sample {
            at: step * number,
            elapsed: step,
            received: ByteCount::from_bytes(*bytes),
        };
        FlowReport {
            from: Place::Node,
            to: Place::Pod("one".to_owned()),
            is_load: false,
            began: Duration::from_millis(began),
            counted: step * 2,
            samples: (1..).zip(samples).map(sample).collect(),
        }
    }

    #[test]
    fn a_load_is_counted_while_something_is_measured() {
        let measured = flow(1000, &[1, 1, 1]);
        let counted = measured.counted().unwrap();
        let millis = |range: &Range<Duration>| (range.start.as_millis(), range.end.as_millis());
        assert_eq!(millis(&counted), (1100, 1300));
        // Its intervals end at 1050, 1150, 1250 and 1350 ms.
        let load = flow(950, &[9_000_000, 10_000, 20_000, 9_000_000]);
        let rate = load.rate_within(counted.clone()).unwrap();
        assert_eq!(rate.bits_per_second(), 1_200_000);
        assert_eq!(flow(5000, &[1]).rate_within(counted), None);
        assert_eq!(flow(0, &[]).counted(), None);
    }
}
