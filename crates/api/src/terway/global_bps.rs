//! The line and its shares: `global_bps_config`, and the proposal's `node`.

use std::fmt;

use netqos_core::classes::{LineShares, Share, Shares, TrafficClass};
use netqos_core::{BitRate, Direction};
use serde::{Deserialize, Serialize};

use crate::koordinator::{Amount, ClassQos, Mistake, NodeSlo};

/// What the line carries, and what l1 and l2 have of it, in bytes per second; `tx` is egress. What l0
/// has guaranteed is the rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GlobalBps {
    /// What the line carries from the node.
    pub hw_tx_bps_max: u64,
    /// What the line carries to the node.
    pub hw_rx_bps_max: u64,
    /// What l1 is guaranteed from the node.
    pub l1_tx_bps_min: u64,
    /// What l1 never exceeds from the node.
    pub l1_tx_bps_max: u64,
    /// What l2 is guaranteed from the node.
    pub l2_tx_bps_min: u64,
    /// What l2 never exceeds from the node.
    pub l2_tx_bps_max: u64,
    /// What l1 is guaranteed to the node.
    pub l1_rx_bps_min: u64,
    /// What l1 never exceeds to the node.
    pub l1_rx_bps_max: u64,
    /// What l2 is guaranteed to the node.
    pub l2_rx_bps_min: u64,
    /// What l2 never exceeds to the node.
    pub l2_rx_bps_max: u64,
}

/// In which unit a percentage of the line is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PercentUnit {
    /// Bytes, as everything else in the file.
    #[default]
    Bytes,
    /// Bits, as Koordinator's koordlet writes it: eight times too much.
    Bits,
}

/// A line of `global_bps_config` that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {text:?} is no \"name number\" of bytes per second")]
pub struct GlobalBpsError {
    /// Which line, from one.
    pub line: usize,
    /// What it says.
    pub text: String,
}

/// Why terway-qos would not take a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A class may have more than the line.
    #[error("{direction}: {class} may have more than the line carries")]
    MoreThanTheLine {
        /// Which way.
        direction: Direction,
        /// Which class.
        class: TrafficClass,
    },
    /// A class is guaranteed more than it may have.
    #[error("{direction}: {class} is guaranteed more than it may have")]
    MinAboveMax {
        /// Which way.
        direction: Direction,
        /// Which class.
        class: TrafficClass,
    },
    /// Both classes together may have more than the line.
    #[error("{direction}: l1 and l2 together may have more than the line carries")]
    TogetherMoreThanTheLine {
        /// Which way.
        direction: Direction,
    },
}

/// One direction of it.
#[derive(Clone, Copy)]
struct Side {
    line: u64,
    /// The least and the most of l1 and of l2.
    l1: (u64, u64),
    l2: (u64, u64),
}

impl Side {
    fn of(shares: &LineShares, direction: Direction) -> Self {
        let shares = shares.of(direction);
        let bytes = |class: TrafficClass| {
            let share = shares.of(class);
            (share.min.bytes_per_second(), share.max.bytes_per_second())
        };
        Self {
            line: shares.total.bytes_per_second(),
            l1: bytes(TrafficClass::LatencySensitive),
            l2: bytes(TrafficClass::BestEffort),
        }
    }

    fn shares(self) -> Result<Shares, String> {
        let bits = |bytes: u64| -> Result<BitRate, String> {
            let bits = bytes.checked_mul(8);
            let bits = bits.ok_or_else(|| format!("{bytes} bytes per second is no rate"));
            Ok(BitRate::from_bits_per_second(bits?))
        };
        let total = bits(self.line)?;
        let share = |(min, max)| -> Result<Share, String> {
            Ok(match (bits(min)?, bits(max)?) {
                (min, max) if min.max(max).bits_per_second() == 0 => Share::up_to(total),
                (min, max) => Share { min, max },
            })
        };
        Shares::try_new(total, share(self.l1)?, share(self.l2)?).map_err(|error| error.to_string())
    }
}

impl GlobalBps {
    /// What Koordinator's adapter writes for a `NodeSLO`: what is not said is zero, and so is all of a
    /// class that is not enabled. LSR and the system are passed over.
    pub fn of_node_slo(slo: &NodeSlo, unit: PercentUnit) -> Self {
        let total = slo.total.unwrap_or(BitRate::from_bits_per_second(0));
        let bytes = |amount: Option<Amount>| match (amount, unit) {
            (None, _) => 0,
            (Some(percent @ Amount::Percent(_)), PercentUnit::Bits) => {
                percent.of(total).bits_per_second()
            }
            (Some(amount), _) => amount.of(total).bytes_per_second(),
        };
        let side = |direction: Direction| {
            let class = |class: Option<ClassQos>| {
                let enabled = class.filter(|class| class.enable == Some(true));
                let ask = enabled
                    .map(|class| *class.qos.of(direction))
                    .unwrap_or_default();
                (bytes(ask.request), bytes(ask.limit))
            };
            Side {
                line: total.bytes_per_second(),
                l1: class(slo.ls),
                l2: class(slo.be),
            }
        };
        Self::from_sides(side(Direction::Egress), side(Direction::Ingress))
    }

    /// Exactly these shares, which terway-qos need not take: see [`check`](Self::check).
    pub fn of_shares(shares: &LineShares) -> Self {
        let side = |direction| Side::of(shares, direction);
        Self::from_sides(side(Direction::Egress), side(Direction::Ingress))
    }

    /// The shares that these numbers are. A class that may have nothing and is guaranteed nothing is
    /// one of which nothing was said, and is held back by the line alone.
    ///
    /// # Errors
    /// Everything that no line can keep.
    pub fn shares(&self) -> Result<LineShares, Vec<Mistake>> {
        let of = |direction: Direction| {
            let wrong = |what: String| Mistake::new(direction.to_string(), what);
            self.side(direction).shares().map_err(wrong)
        };
        match (of(Direction::Ingress), of(Direction::Egress)) {
            (Ok(ingress), Ok(egress)) => Ok(LineShares { ingress, egress }),
            (ingress, egress) => Err([ingress.err(), egress.err()]
                .into_iter()
                .flatten()
                .collect()),
        }
    }

    /// These shares, made such that terway-qos takes them: the most that l1 and l2 may have together
    /// is the line, so that where it is more l2 is held to what l1 leaves, but never to less than it
    /// is guaranteed.
    pub fn for_terway(shares: &LineShares) -> Self {
        let side = |direction: Direction| {
            let Side {
                line,
                mut l1,
                mut l2,
            } = Side::of(shares, direction);
            // The guarantees together are no more than the line, so that there is room for both.
            l1.1 = l1.1.min(line - l2.0);
            l2.1 = l2.1.min(line - l1.1);
            Side { line, l1, l2 }
        };
        Self::from_sides(side(Direction::Egress), side(Direction::Ingress))
    }

    const fn from_sides(tx: Side, rx: Side) -> Self {
        Self {
            hw_tx_bps_max: tx.line,
            hw_rx_bps_max: rx.line,
            l1_tx_bps_min: tx.l1.0,
            l1_tx_bps_max: tx.l1.1,
            l2_tx_bps_min: tx.l2.0,
            l2_tx_bps_max: tx.l2.1,
            l1_rx_bps_min: rx.l1.0,
            l1_rx_bps_max: rx.l1.1,
            l2_rx_bps_min: rx.l2.0,
            l2_rx_bps_max: rx.l2.1,
        }
    }

    const fn side(&self, direction: Direction) -> Side {
        match direction {
            Direction::Egress => Side {
                line: self.hw_tx_bps_max,
                l1: (self.l1_tx_bps_min, self.l1_tx_bps_max),
                l2: (self.l2_tx_bps_min, self.l2_tx_bps_max),
            },
            Direction::Ingress => Side {
                line: self.hw_rx_bps_max,
                l1: (self.l1_rx_bps_min, self.l1_rx_bps_max),
                l2: (self.l2_rx_bps_min, self.l2_rx_bps_max),
            },
        }
    }

    /// Whether terway-qos takes it, by the rules of its own check.
    ///
    /// # Errors
    /// The first rule that it breaks.
    pub fn check(&self) -> Result<(), Refusal> {
        for direction in [Direction::Egress, Direction::Ingress] {
            let Side { line, l1, l2 } = self.side(direction);
            for (class, (min, max)) in [
                (TrafficClass::LatencySensitive, l1),
                (TrafficClass::BestEffort, l2),
            ] {
                if max > line {
                    return Err(Refusal::MoreThanTheLine { direction, class });
                }
                if min > max {
                    return Err(Refusal::MinAboveMax { direction, class });
                }
            }
            if l1.1.saturating_add(l2.1) > line {
                return Err(Refusal::TogetherMoreThanTheLine { direction });
            }
        }
        Ok(())
    }

    /// Reads `global_bps_config`, as terway-qos does: `name number` or `name=number`, in any order;
    /// names that are not known are passed over, and what is not there is zero.
    ///
    /// # Errors
    /// A line that is neither.
    pub fn parse(text: &str) -> Result<Self, GlobalBpsError> {
        let mut config = Self::default();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() {
                continue;
            }
            let wrong = || GlobalBpsError {
                line: index + 1,
                text: line.to_owned(),
            };
            let at = line.find(|it: char| it == '=' || it.is_whitespace());
            let (name, number) = line.split_at(at.ok_or_else(wrong)?);
            let number = number.trim_start_matches('=').trim();
            let number: u64 = number.parse().map_err(|_| wrong())?;
            if let Some(field) = config.field(name) {
                *field = number;
            }
        }
        Ok(config)
    }

    fn field(&mut self, name: &str) -> Option<&mut u64> {
        Some(match name {
            "hw_tx_bps_max" => &mut self.hw_tx_bps_max,
            "hw_rx_bps_max" => &mut self.hw_rx_bps_max,
            "offline_l1_tx_bps_min" => &mut self.l1_tx_bps_min,
            "offline_l1_tx_bps_max" => &mut self.l1_tx_bps_max,
            "offline_l1_rx_bps_min" => &mut self.l1_rx_bps_min,
            "offline_l1_rx_bps_max" => &mut self.l1_rx_bps_max,
            "offline_l2_tx_bps_min" => &mut self.l2_tx_bps_min,
            "offline_l2_tx_bps_max" => &mut self.l2_tx_bps_max,
            "offline_l2_rx_bps_min" => &mut self.l2_rx_bps_min,
            "offline_l2_rx_bps_max" => &mut self.l2_rx_bps_max,
            _ => return None,
        })
    }
}

impl fmt::Display for GlobalBps {
    /// `global_bps_config`: ten lines, in the order in which Koordinator writes them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in [
            ("hw_tx_bps_max", self.hw_tx_bps_max),
            ("hw_rx_bps_max", self.hw_rx_bps_max),
            ("offline_l1_tx_bps_min", self.l1_tx_bps_min),
            ("offline_l1_tx_bps_max", self.l1_tx_bps_max),
            ("offline_l1_rx_bps_min", self.l1_rx_bps_min),
            ("offline_l1_rx_bps_max", self.l1_rx_bps_max),
            ("offline_l2_tx_bps_min", self.l2_tx_bps_min),
            ("offline_l2_tx_bps_max", self.l2_tx_bps_max),
            ("offline_l2_rx_bps_min", self.l2_rx_bps_min),
            ("offline_l2_rx_bps_max", self.l2_rx_bps_max),
        ] {
            writeln!(f, "{name} {value}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_config() -> impl Strategy<Value = GlobalBps> {
        proptest::array::uniform10(any::<u64>()).prop_map(|it| GlobalBps {
            hw_tx_bps_max: it[0],
            hw_rx_bps_max: it[1],
            l1_tx_bps_min: it[2],
            l1_tx_bps_max: it[3],
            l2_tx_bps_min: it[4],
            l2_tx_bps_max: it[5],
            l1_rx_bps_min: it[6],
            l1_rx_bps_max: it[7],
            l2_rx_bps_min: it[8],
            l2_rx_bps_max: it[9],
        })
    }

    fn any_shares() -> impl Strategy<Value = Shares> {
        let total = 1_u64..1 << 50;
        total
            .prop_flat_map(|total| (Just(total), 0..=total, 0..=total, 0..=total, 0..=total))
            .prop_filter_map("no shares", |(total, a, b, c, d)| {
                let rate = BitRate::from_bits_per_second;
                let share = |x: u64, y: u64| Share {
                    min: rate(x.min(y)),
                    max: rate(x.max(y)),
                };
                Shares::try_new(rate(total), share(a, b), share(c, d)).ok()
            })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(config in any_config()) {
            prop_assert_eq!(GlobalBps::parse(&config.to_string()), Ok(config));
            let json = serde_json::to_string(&config).unwrap();
            prop_assert_eq!(serde_json::from_str::<GlobalBps>(&json).unwrap(), config);
        }

        #[test]
        fn no_text_is_too_odd(text in ".*") {
            let _ = GlobalBps::parse(&text);
        }

        /// But for what is no whole byte, and for a class that may have nothing.
        #[test]
        fn shares_are_read_as_they_were_written(ingress in any_shares(), egress in any_shares()) {
            let written = GlobalBps::of_shares(&LineShares { ingress, egress });
            if let Ok(shares) = written.shares()
                && [written.l1_tx_bps_max, written.l1_rx_bps_max, written.l2_tx_bps_max,
                    written.l2_rx_bps_max].iter().all(|max| *max > 0)
            {
                prop_assert_eq!(GlobalBps::of_shares(&shares), written);
            } else {
                let least = [ingress, egress].map(|shares| {
                    let max = |class| shares.of(class).max.bytes_per_second();
                    max(TrafficClass::LatencySensitive).min(max(TrafficClass::BestEffort))
                });
                prop_assert!(least.contains(&0), "{:?}", written.shares());
            }
        }

        /// Whatever is promised, terway-qos takes it, and each class keeps its guarantee.
        #[test]
        fn terway_takes_what_is_made_for_it(ingress in any_shares(), egress in any_shares()) {
            let shares = LineShares { ingress, egress };
            let config = GlobalBps::for_terway(&shares);
            prop_assert_eq!(config.check(), Ok(()));
            for direction in [Direction::Ingress, Direction::Egress] {
                let side = config.side(direction);
                let min = |class| shares.of(direction).of(class).min.bytes_per_second();
                prop_assert_eq!(side.l1.0, min(TrafficClass::LatencySensitive));
                prop_assert_eq!(side.l2.0, min(TrafficClass::BestEffort));
            }
        }
    }

    #[test]
    fn in_any_order_and_with_equal_signs() {
        let config =
            GlobalBps::parse("offline_l2_rx_bps_max=7\n\nhw_tx_bps_max\t 5\nsomething_new 9\n");
        let expected = GlobalBps {
            hw_tx_bps_max: 5,
            l2_rx_bps_max: 7,
            ..GlobalBps::default()
        };
        assert_eq!(config, Ok(expected));
        for (text, line) in [("hw_tx_bps_max", 1), ("\nhw_tx_bps_max -1", 2), ("a b", 1)] {
            assert_eq!(GlobalBps::parse(text).unwrap_err().line, line, "{text:?}");
        }
    }
}
