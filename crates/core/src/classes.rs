//! Who has which part of a node's line when it is full.
//!
//! ```text
//!   the line ── total ─┬─ system (l0)             min = total − l1.min − l2.min
//!                      ├─ latency-sensitive (l1)  min, max ─┬─ pod  request, limit
//!                      │                                    └─ …
//!                      └─ best-effort (l2)        min, max ─┴─ …
//! ```
//!
//! A class always gets its minimum when it asks for it. What nobody asks for goes to whoever does,
//! the higher class first, up to its maximum. The words are those of Koordinator's `NodeSLO` and of
//! terway-qos.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{BitRate, Direction};

mod plan;

pub use plan::{Ask, Asked, ClassPlan, ClassedPod, FlowMatch, FlowPart, Part, PartId, Place, Tree};

/// A class of traffic on a node's line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrafficClass {
    /// l0: the system's own, and what belongs to no pod. It comes first.
    System,
    /// l1: pods of the classes LSE, LSR and LS.
    LatencySensitive,
    /// l2: pods of the class BE. It comes last, and is never starved.
    BestEffort,
}

/// What a class may take of a line in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// What it is guaranteed; zero is no guarantee.
    pub min: BitRate,
    /// What it never exceeds; at least `min`.
    pub max: BitRate,
}

/// What each class may take of a line in one direction. The minima together are never more than the
/// line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Shares {
    /// What the line carries.
    pub total: BitRate,
    system: Share,
    latency_sensitive: Share,
    best_effort: Share,
}

/// More than any line carries, and few enough that two milliseconds of it are a burst that HTB can count.
const OPEN: BitRate = BitRate::from_bits_per_second(10_000_000_000_000);

/// The shares of a node's line in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineShares {
    /// To the node.
    pub ingress: Shares,
    /// From the node.
    pub egress: Shares,
}

/// Why shares cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SharesError {
    /// A line that carries nothing.
    #[error("a line of 0 bit/s has no shares")]
    NoLine,
    /// A class is guaranteed more than it may have.
    #[error("{class}: a request of {min} is above the limit of {max}")]
    RequestAboveLimit {
        /// Whose.
        class: TrafficClass,
        /// The request.
        min: BitRate,
        /// The limit.
        max: BitRate,
    },
    /// A class may have more than there is.
    #[error("{class}: {asked} is above the total of {total}")]
    AboveTotal {
        /// Whose.
        class: TrafficClass,
        /// Its request or limit.
        asked: BitRate,
        /// What the line carries.
        total: BitRate,
    },
    /// The guarantees together are more than there is.
    #[error("requests of {sum} together are above the total of {total}")]
    SumAboveTotal {
        /// All requests.
        sum: BitRate,
        /// What the line carries.
        total: BitRate,
    },
}

impl TrafficClass {
    /// All classes, the first one first.
    pub const ALL: [Self; 3] = [Self::System, Self::LatencySensitive, Self::BestEffort];

    /// 0, 1 or 2: the lower comes first. HTB's `prio`, terway-qos' `prio`, and the number in l0 to
    /// l2.
    pub const fn priority(self) -> u8 {
        match self {
            Self::System => 0,
            Self::LatencySensitive => 1,
            Self::BestEffort => 2,
        }
    }
}

impl fmt::Display for TrafficClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::System => "system",
            Self::LatencySensitive => "latency-sensitive",
            Self::BestEffort => "best-effort",
        })
    }
}

impl Share {
    /// Guaranteed nothing, and held back by nothing but the line.
    pub const fn up_to(total: BitRate) -> Self {
        Self {
            min: BitRate::from_bits_per_second(0),
            max: total,
        }
    }
}

impl Shares {
    /// What these two classes ask of a line of this rate. The system has the rest guaranteed, and is
    /// held back by nothing.
    ///
    /// # Errors
    /// The line cannot keep such promises.
    pub fn try_new(
        total: BitRate,
        latency_sensitive: Share,
        best_effort: Share,
    ) -> Result<Self, SharesError> {
        if total.bits_per_second() == 0 {
            return Err(SharesError::NoLine);
        }
        let asking = [
            (TrafficClass::LatencySensitive, latency_sensitive),
            (TrafficClass::BestEffort, best_effort),
        ];
        let mut sum = 0_u64;
        for (class, Share { min, max }) in asking {
            if let Some(asked) = [min, max].into_iter().find(|asked| *asked > total) {
                return Err(SharesError::AboveTotal {
                    class,
                    asked,
                    total,
                });
            }
            if min > max {
                return Err(SharesError::RequestAboveLimit { class, min, max });
            }
            sum = sum.saturating_add(min.bits_per_second());
        }
        let Some(rest) = total.bits_per_second().checked_sub(sum) else {
            return Err(SharesError::SumAboveTotal {
                sum: BitRate::from_bits_per_second(sum),
                total,
            });
        };
        Ok(Self {
            total,
            system: Share {
                min: BitRate::from_bits_per_second(rest),
                max: total,
            },
            latency_sensitive,
            best_effort,
        })
    }

    /// Those of a line of which nobody knows what it carries: nobody is guaranteed anything, and only
    /// these limits hold the two lower classes back. [`Self::total`] is more than any line carries.
    pub fn open(latency_sensitive: Option<BitRate>, best_effort: Option<BitRate>) -> Self {
        let share = |limit: Option<BitRate>| Share::up_to(limit.unwrap_or(OPEN).min(OPEN));
        Self {
            total: OPEN,
            system: share(None),
            latency_sensitive: share(latency_sensitive),
            best_effort: share(best_effort),
        }
    }

    /// True of those of a line of which nobody knows what it carries.
    pub fn is_open(&self) -> bool {
        // Whoever has a line has all of it guaranteed to somebody.
        self.total == OPEN
            && TrafficClass::ALL
                .iter()
                .all(|it| self.of(*it).min == BitRate::default())
    }

    /// Those of one of the lines that these are of together, which has so much of the whole. What is
    /// left of a bit is nobody's.
    #[must_use]
    pub fn part(&self, of: u64, whole: u64) -> Self {
        let rate = |rate: BitRate| {
            let bits = u128::from(rate.bits_per_second()) * u128::from(of.min(whole));
            // No more than it was.
            BitRate::from_bits_per_second((bits / u128::from(whole.max(1))) as u64)
        };
        let share = |of: Share| Share {
            min: rate(of.min),
            max: rate(of.max),
        };
        let (latency_sensitive, best_effort) =
            (share(self.latency_sensitive), share(self.best_effort));
        let total = rate(self.total).max(BitRate::from_bits_per_second(1));
        let given = latency_sensitive.min.bits_per_second() + best_effort.min.bits_per_second();
        Self {
            total,
            system: Share {
                min: BitRate::from_bits_per_second(total.bits_per_second().saturating_sub(given)),
                max: total,
            },
            latency_sensitive,
            best_effort,
        }
    }

    /// What one class may take.
    pub const fn of(&self, class: TrafficClass) -> Share {
        match class {
            TrafficClass::System => self.system,
            TrafficClass::LatencySensitive => self.latency_sensitive,
            TrafficClass::BestEffort => self.best_effort,
        }
    }
}

impl LineShares {
    /// True of those of a line of which nobody knows what it carries.
    pub fn is_open(&self) -> bool {
        self.ingress.is_open() || self.egress.is_open()
    }

    /// Those of one of the lines that these are of together ([`Shares::part`]).
    #[must_use]
    pub fn part(&self, of: u64, whole: u64) -> Self {
        Self {
            ingress: self.ingress.part(of, whole),
            egress: self.egress.part(of, whole),
        }
    }

    /// The shares in one direction.
    pub const fn of(&self, direction: Direction) -> &Shares {
        match direction {
            Direction::Ingress => &self.ingress,
            Direction::Egress => &self.egress,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn mbit(megabits: u64) -> BitRate {
        BitRate::from_bits_per_second(megabits * 1_000_000)
    }

    const fn share(min: u64, max: u64) -> Share {
        Share {
            min: mbit(min),
            max: mbit(max),
        }
    }

    #[test]
    fn the_system_has_the_rest() {
        let shares = Shares::try_new(mbit(1000), share(300, 1000), share(300, 500)).unwrap();
        assert_eq!(shares.of(TrafficClass::System), share(400, 1000));
        assert_eq!(shares.of(TrafficClass::BestEffort), share(300, 500));
        let all = Shares::try_new(mbit(10), share(5, 5), share(5, 10)).unwrap();
        assert_eq!(all.of(TrafficClass::System), share(0, 10));
    }

    #[test]
    fn a_line_has_its_part_of_what_lines_have_together() {
        let shares = Shares::try_new(mbit(110), share(30, 110), share(20, 55)).unwrap();
        assert_eq!(shares.part(1, 1), shares);
        let tenth = shares.part(10, 110);
        assert_eq!(tenth.total, mbit(10));
        let bits = |class: TrafficClass| {
            let Share { min, max } = tenth.of(class);
            (min.bits_per_second(), max.bits_per_second())
        };
        assert_eq!(
            bits(TrafficClass::LatencySensitive),
            (2_727_272, 10_000_000)
        );
        assert_eq!(bits(TrafficClass::BestEffort), (1_818_181, 5_000_000));
        assert_eq!(bits(TrafficClass::System), (5_454_547, 10_000_000));
        let least = shares.part(1, u64::MAX);
        assert_eq!(least.total.bits_per_second(), 1);
        let fast = mbit(u64::MAX / 1_000_000);
        let fast = Shares::try_new(fast, Share::up_to(fast), Share::up_to(fast)).unwrap();
        assert_eq!(fast.part(u64::MAX, u64::MAX), fast);
    }

    #[test]
    fn of_a_line_of_unknown_speed_nothing_is_guaranteed() {
        let open = Shares::open(None, Some(mbit(50)));
        assert!(open.is_open());
        let shares = TrafficClass::ALL.map(|class| open.of(class));
        assert_eq!(shares.map(|it| it.min), [mbit(0); 3]);
        assert_eq!(shares.map(|it| it.max), [OPEN, OPEN, mbit(50)]);
        assert!(
            !Shares::try_new(OPEN, Share::up_to(OPEN), Share::up_to(OPEN))
                .unwrap()
                .is_open()
        );
    }

    #[test]
    fn what_the_line_cannot_keep_is_refused() {
        for (total, l1, l2, text) in [
            (0, (0, 0), (0, 0), "a line of 0 bit/s has no shares"),
            (
                100,
                (30, 20),
                (0, 100),
                "latency-sensitive: a request of 30 Mbit/s is above the limit of 20 Mbit/s",
            ),
            (
                100,
                (30, 100),
                (0, 101),
                "best-effort: 101 Mbit/s is above the total of 100 Mbit/s",
            ),
            (
                100,
                (60, 100),
                (50, 100),
                "requests of 110 Mbit/s together are above the total of 100 Mbit/s",
            ),
        ] {
            let tried = Shares::try_new(mbit(total), share(l1.0, l1.1), share(l2.0, l2.1));
            assert_eq!(tried.unwrap_err().to_string(), text);
        }
    }
}
