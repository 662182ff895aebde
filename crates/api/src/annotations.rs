//! Pod annotations that ask for bandwidth.
//!
//! | annotation | value | from whom |
//! |---|---|---|
//! | `kubernetes.io/ingress-bandwidth`, `kubernetes.io/egress-bandwidth` | quantity, bits per second, 1k to 1P | Kubernetes (experimental there since 1.2) |
//! | `netqos.io/ingress-burst`, `netqos.io/egress-burst` | quantity, bits, 8 to 1P | netqos |
//! | `netqos.io/ingress-latency`, `netqos.io/egress-latency` | duration, 1ms to 10s | netqos |
//!
//! [`pod_limits`] is for who plays the kubelet: it reads all of them, and any mistake is an error.
//! [`ShapingExtras`] is for the CNI plugin, which gets the rates from the runtime and only what the
//! runtime does not know from the annotations, and must not stop a pod because of those.

mod error;
mod extras;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use netqos_core::{BitRate, Direction, Limit, Limits};

pub use error::AnnotationError;
pub use extras::{DirectionExtras, MAX_BURST, MAX_LATENCY, MIN_BURST, MIN_LATENCY, ShapingExtras};

use crate::Quantity;

/// Rate of the traffic to the pod.
pub const INGRESS_BANDWIDTH: &str = "kubernetes.io/ingress-bandwidth";
/// Rate of the traffic from the pod.
pub const EGRESS_BANDWIDTH: &str = "kubernetes.io/egress-bandwidth";
/// How much may pass to the pod at line speed after a pause.
pub const INGRESS_BURST: &str = "netqos.io/ingress-burst";
/// How much may pass from the pod at line speed after a pause.
pub const EGRESS_BURST: &str = "netqos.io/egress-burst";
/// The longest that a packet to the pod may wait in the queue.
pub const INGRESS_LATENCY: &str = "netqos.io/ingress-latency";
/// The longest that a packet from the pod may wait in the queue.
pub const EGRESS_LATENCY: &str = "netqos.io/egress-latency";

/// The least that a bandwidth annotation may say, in bits per second.
pub const MIN_BANDWIDTH: i64 = 1_000;
/// The most that a bandwidth annotation may say, in bits per second.
pub const MAX_BANDWIDTH: i64 = 1_000_000_000_000_000;

/// The limits that a pod's annotations ask for.
///
/// # Errors
///
/// The first mistake in any of the six annotations, the bandwidths first, ingress before egress, as
/// in Kubernetes' own parser; and a burst or latency without the bandwidth of its direction.
pub fn pod_limits(annotations: &BTreeMap<String, String>) -> Result<Limits, AnnotationError> {
    let limits = Limits {
        ingress: bandwidth(annotations, Direction::Ingress)?.map(Limit::of),
        egress: bandwidth(annotations, Direction::Egress)?.map(Limit::of),
    };
    let (extras, errors) = ShapingExtras::read(annotations);
    match errors
        .into_iter()
        .chain(extras.without_limit(limits))
        .next()
    {
        Some(error) => Err(error),
        None => Ok(extras.apply_to(limits)),
    }
}

/// Every mistake in the annotations that [`pod_limits`] reads, in its order; none where it reads
/// them.
pub fn pod_limit_errors(annotations: &BTreeMap<String, String>) -> Vec<AnnotationError> {
    let mut errors = Vec::new();
    let mut limits = Limits::default();
    // A bandwidth that cannot be read is one mistake: what goes with it is not another.
    let said = Limit::of(BitRate::from_bits_per_second(0));
    for (direction, limit) in [
        (Direction::Ingress, &mut limits.ingress),
        (Direction::Egress, &mut limits.egress),
    ] {
        match bandwidth(annotations, direction) {
            Ok(rate) => *limit = rate.map(Limit::of),
            Err(error) => {
                errors.push(error);
                *limit = Some(said);
            }
        }
    }
    let (extras, unread) = ShapingExtras::read(annotations);
    errors.extend(unread);
    errors.extend(extras.without_limit(limits));
    errors
}

/// The annotation that holds a direction's rate.
const fn bandwidth_annotation(direction: Direction) -> &'static str {
    match direction {
        Direction::Ingress => INGRESS_BANDWIDTH,
        Direction::Egress => EGRESS_BANDWIDTH,
    }
}

fn bandwidth(
    annotations: &BTreeMap<String, String>,
    direction: Direction,
) -> Result<Option<BitRate>, AnnotationError> {
    let annotation = bandwidth_annotation(direction);
    let Some(value) = annotations.get(annotation) else {
        return Ok(None);
    };
    let quantity: Quantity = value
        .parse()
        .map_err(|problem| AnnotationError::quantity(annotation, value, problem))?;
    match quantity.value() {
        ..MIN_BANDWIDTH => Err(AnnotationError::bandwidth_too_small(annotation, value)),
        bits @ MIN_BANDWIDTH..=MAX_BANDWIDTH => {
            Ok(Some(BitRate::from_bits_per_second(bits.unsigned_abs())))
        }
        _ => Err(AnnotationError::bandwidth_too_large(annotation, value)),
    }
}
