//! What a pod's interface is held to.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{BitRate, ByteCount};

/// Which way traffic goes, seen from the pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// To the pod.
    Ingress,
    /// From the pod.
    Egress,
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ingress => "ingress",
            Self::Egress => "egress",
        })
    }
}

/// One direction's limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    /// Sustained rate.
    pub rate: BitRate,
    /// How much may pass at line speed after a pause. `None`: netqos chooses, so that no second
    /// carries more than 10 % over the rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<ByteCount>,
    /// The longest that a bulk packet may wait in the queue. `None`: netqos chooses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Duration>,
}

impl Limit {
    /// A limit of this rate, burst and latency left to netqos.
    pub const fn of(rate: BitRate) -> Self {
        Self {
            rate,
            burst: None,
            latency: None,
        }
    }
}

/// The limits of one interface of a pod. A direction without one is not limited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// To the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ingress: Option<Limit>,
    /// From the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub egress: Option<Limit>,
}

impl Limits {
    /// True when neither direction is limited.
    pub const fn is_unlimited(&self) -> bool {
        self.ingress.is_none() && self.egress.is_none()
    }

    /// These, and of the others what these say nothing of: each direction as a whole.
    #[must_use]
    pub fn or(self, others: Self) -> Self {
        Self {
            ingress: self.ingress.or(others.ingress),
            egress: self.egress.or(others.egress),
        }
    }

    /// In each direction the one with the lower rate.
    #[must_use]
    pub fn lower(self, others: Self) -> Self {
        let lower = |own: Option<Limit>, other: Option<Limit>| {
            own.into_iter().chain(other).min_by_key(|limit| limit.rate)
        };
        Self {
            ingress: lower(self.ingress, others.ingress),
            egress: lower(self.egress, others.egress),
        }
    }

    /// The limit of one direction.
    pub const fn of(&self, direction: Direction) -> Option<Limit> {
        match direction {
            Direction::Ingress => self.ingress,
            Direction::Egress => self.egress,
        }
    }
}
