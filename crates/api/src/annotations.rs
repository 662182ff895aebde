//! Pod annotations that ask for bandwidth.
//!
//! | annotation | value | from whom |
//! |---|---|---|
//! | `kubernetes.io/ingress-bandwidth`, `kubernetes.io/egress-bandwidth` | quantity, bits per second, 1k to 1P | Kubernetes (experimental there since 1.2) |
//! | `netqos.io/ingress-burst`, `netqos.io/egress-burst` | quantity, bits, 8 to 1P | netqos |
//! | `netqos.io/ingress-latency`, `netqos.io/egress-latency` | duration, 1ms to 10s | netqos |
//!
//! [`pod_limits`] is for who plays the kubelet: it reads all of them, and any mistake is an error.
//! [`parse_pod_limits`] is for who follows running pods: a mistake in one direction is none of the other.
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
    let (limits, errors) = parse_pod_limits(annotations);
    match errors.into_iter().next() {
        Some(error) => Err(error),
        None => Ok(limits),
    }
}

/// The limits as far as a pod's annotations can be parsed, and every mistake in them, in the order
/// of [`pod_limits`]. A direction whose bandwidth cannot be parsed has no limit; a burst or latency
/// that cannot be parsed is left out.
pub fn parse_pod_limits(annotations: &BTreeMap<String, String>) -> (Limits, Vec<AnnotationError>) {
    let mut errors = Vec::new();
    let mut rate = |direction| {
        let parsed = bandwidth(annotations, direction);
        parsed.map_err(|error| errors.push(error)).ok().flatten()
    };
    let limits = Limits {
        ingress: rate(Direction::Ingress).map(Limit::of),
        egress: rate(Direction::Egress).map(Limit::of),
    };
    let (extras, invalid) = ShapingExtras::read(annotations);
    errors.extend(invalid);
    // A bandwidth that cannot be parsed is one mistake: its burst and latency are not another.
    let without = extras.without_limit(limits).into_iter();
    errors.extend(without.filter(|error| !has_bandwidth(annotations, error.direction())));
    (extras.apply_to(limits), errors)
}

/// Returns true if the annotations name a bandwidth for a direction, valid or not.
pub fn has_bandwidth(annotations: &BTreeMap<String, String>, direction: Direction) -> bool {
    annotations.contains_key(bandwidth_annotation(direction))
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
