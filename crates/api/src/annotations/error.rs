//! What can be wrong with an annotation.

use std::time::Duration;

use netqos_core::Direction;

use super::extras::{MAX_LATENCY, MIN_LATENCY};
use super::{EGRESS_BANDWIDTH, INGRESS_BANDWIDTH, INGRESS_BURST, INGRESS_LATENCY};
use crate::duration::format_duration;
use crate::{DurationError, QuantityError};

/// Why a pod's annotations cannot be followed.
///
/// Each message names the annotation and its value; behind that stands, whole and as it is, the
/// text of Kubernetes' own parser where it has one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnnotationError {
    /// A bandwidth or burst that is not a quantity.
    #[error("annotation {annotation}: {value:?}: {problem}")]
    Quantity {
        /// The annotation's key.
        annotation: &'static str,
        /// Its value.
        value: String,
        /// What the parser says.
        problem: QuantityError,
    },
    /// A bandwidth under 1 kbit/s.
    #[error("annotation {annotation}: {value:?}: resource is unreasonably small (< 1kbit)")]
    BandwidthTooSmall {
        /// The annotation's key.
        annotation: &'static str,
        /// Its value.
        value: String,
    },
    /// A bandwidth above 1 Pbit/s.
    #[error("annotation {annotation}: {value:?}: resource is unreasonably large (> 1Pbit)")]
    BandwidthTooLarge {
        /// The annotation's key.
        annotation: &'static str,
        /// Its value.
        value: String,
    },
    /// A burst under one byte (zero and negative ones, too), or above 1 Pbit.
    #[error(
        "annotation {annotation}: {value:?}: a burst is a number of bits from 8 (one byte) to 1P"
    )]
    BurstOutOfRange {
        /// The annotation's key.
        annotation: &'static str,
        /// Its value.
        value: String,
    },
    /// A latency that is not a duration.
    #[error("annotation {annotation}: {value:?}: {problem}; write it like \"25ms\" or \"1.5s\"")]
    Duration {
        /// The annotation's key.
        annotation: &'static str,
        /// Its value.
        value: String,
        /// What the parser says.
        problem: DurationError,
    },
    /// A latency that no queue can keep, or that no queue should hold.
    #[error(
        "annotation {annotation}: {value:?}: a latency is from {} to {}",
        format_duration(*min), format_duration(*max)
    )]
    LatencyOutOfRange {
        /// The annotation's key.
        annotation: &'static str,
        /// Its value.
        value: String,
        /// The shortest that is allowed.
        min: Duration,
        /// The longest that is allowed.
        max: Duration,
    },
    /// A burst or latency for a direction that is not limited.
    #[error(
        "annotation {annotation}: {value:?} has no effect without a bandwidth in the same direction: \
         add the annotation {missing}, or remove this one"
    )]
    WithoutBandwidth {
        /// The annotation's key.
        annotation: &'static str,
        /// Its value.
        value: String,
        /// The annotation that is missing.
        missing: &'static str,
    },
}

impl AnnotationError {
    /// The annotation's key.
    pub const fn annotation(&self) -> &'static str {
        match self {
            Self::Quantity { annotation, .. }
            | Self::BandwidthTooSmall { annotation, .. }
            | Self::BandwidthTooLarge { annotation, .. }
            | Self::BurstOutOfRange { annotation, .. }
            | Self::Duration { annotation, .. }
            | Self::LatencyOutOfRange { annotation, .. }
            | Self::WithoutBandwidth { annotation, .. } => annotation,
        }
    }

    /// The direction that the annotation is for.
    pub fn direction(&self) -> Direction {
        match self.annotation() {
            INGRESS_BANDWIDTH | INGRESS_BURST | INGRESS_LATENCY => Direction::Ingress,
            _ => Direction::Egress,
        }
    }

    /// Returns true if container runtimes parse the annotation, too, and start no pod with this mistake.
    pub fn stops_runtime(&self) -> bool {
        let is_bandwidth = matches!(self.annotation(), INGRESS_BANDWIDTH | EGRESS_BANDWIDTH);
        is_bandwidth && !matches!(self, Self::WithoutBandwidth { .. })
    }

    pub(super) fn quantity(annotation: &'static str, value: &str, problem: QuantityError) -> Self {
        Self::Quantity {
            annotation,
            value: value.to_owned(),
            problem,
        }
    }

    pub(super) fn bandwidth_too_small(annotation: &'static str, value: &str) -> Self {
        Self::BandwidthTooSmall {
            annotation,
            value: value.to_owned(),
        }
    }

    pub(super) fn bandwidth_too_large(annotation: &'static str, value: &str) -> Self {
        Self::BandwidthTooLarge {
            annotation,
            value: value.to_owned(),
        }
    }

    pub(super) fn burst_out_of_range(annotation: &'static str, value: &str) -> Self {
        Self::BurstOutOfRange {
            annotation,
            value: value.to_owned(),
        }
    }

    pub(super) fn duration(annotation: &'static str, value: &str, problem: DurationError) -> Self {
        Self::Duration {
            annotation,
            value: value.to_owned(),
            problem,
        }
    }

    pub(super) fn latency_out_of_range(annotation: &'static str, value: &str) -> Self {
        Self::LatencyOutOfRange {
            annotation,
            value: value.to_owned(),
            min: MIN_LATENCY,
            max: MAX_LATENCY,
        }
    }
}
