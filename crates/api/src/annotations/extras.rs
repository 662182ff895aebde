//! Burst and latency: what the annotations say beyond the rate.

use std::collections::BTreeMap;
use std::time::Duration;

use netqos_core::{ByteCount, Direction, Limit, Limits};

use super::{
    AnnotationError, EGRESS_BURST, EGRESS_LATENCY, INGRESS_BURST, INGRESS_LATENCY,
    bandwidth_annotation,
};
use crate::duration::parse_duration;
use crate::{Quantity, QuantityError};

/// The least burst, in bits: one byte.
pub const MIN_BURST: i64 = 8;
/// The most burst, in bits: the same bound as a rate's.
pub const MAX_BURST: i64 = 1_000_000_000_000_000;

/// The least latency. Under this, a queue cannot even hold what arrives in one go at common rates.
pub const MIN_LATENCY: Duration = Duration::from_millis(1);
/// The most latency. Above this, senders take what waits for lost and send it again.
pub const MAX_LATENCY: Duration = Duration::from_secs(10);

/// What one direction's annotations say beyond the rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirectionExtras {
    /// How much may pass at line speed after a pause.
    pub burst: Option<ByteCount>,
    /// The longest that a packet may wait in the queue.
    pub latency: Option<Duration>,
}

/// The bursts and latencies that a pod's annotations ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShapingExtras {
    ingress: DirectionExtras,
    egress: DirectionExtras,
    /// Every annotation that was understood, for messages.
    read: Vec<(Direction, &'static str, String)>,
}

impl ShapingExtras {
    /// Reads what can be read; each annotation that cannot be read is one error and is left out.
    pub fn read(annotations: &BTreeMap<String, String>) -> (Self, Vec<AnnotationError>) {
        let mut extras = Self::default();
        let mut errors = Vec::new();
        for direction in [Direction::Ingress, Direction::Egress] {
            let [burst_key, latency_key] = extra_annotations(direction);
            let burst = find(annotations, burst_key, burst, &mut errors);
            let latency = find(annotations, latency_key, latency, &mut errors);
            *extras.of_mut(direction) = DirectionExtras {
                burst: burst.map(|(burst, _)| burst),
                latency: latency.map(|(latency, _)| latency),
            };
            let values = [
                (burst_key, burst.map(|(_, value)| value)),
                (latency_key, latency.map(|(_, value)| value)),
            ];
            extras.read.extend(
                values
                    .into_iter()
                    .filter_map(|(key, value)| Some((direction, key, value?.to_owned()))),
            );
        }
        (extras, errors)
    }

    /// What is asked of one direction.
    pub const fn of(&self, direction: Direction) -> DirectionExtras {
        match direction {
            Direction::Ingress => self.ingress,
            Direction::Egress => self.egress,
        }
    }

    /// True when there is nothing in either direction.
    pub const fn is_empty(&self) -> bool {
        self.read.is_empty()
    }

    /// The annotations that say something.
    pub fn annotations(&self) -> impl Iterator<Item = &'static str> {
        self.read.iter().map(|(_, annotation, _)| *annotation)
    }

    /// The limits with these bursts and latencies, where they are set, in place of their own: the
    /// pod's word is more exact than the runtime's. A direction without a limit stays without one;
    /// [`ShapingExtras::without_limit`] tells.
    #[must_use]
    pub fn apply_to(&self, limits: Limits) -> Limits {
        Limits {
            ingress: limits.ingress.map(|limit| self.ingress.apply_to(limit)),
            egress: limits.egress.map(|limit| self.egress.apply_to(limit)),
        }
    }

    /// One error for each annotation whose direction has no limit that it could apply to.
    pub fn without_limit(&self, limits: Limits) -> Vec<AnnotationError> {
        self.read
            .iter()
            .filter(|(direction, ..)| limits.of(*direction).is_none())
            .map(
                |(direction, annotation, value)| AnnotationError::WithoutBandwidth {
                    annotation,
                    value: value.clone(),
                    missing: bandwidth_annotation(*direction),
                },
            )
            .collect()
    }

    const fn of_mut(&mut self, direction: Direction) -> &mut DirectionExtras {
        match direction {
            Direction::Ingress => &mut self.ingress,
            Direction::Egress => &mut self.egress,
        }
    }
}

impl DirectionExtras {
    /// The limit with this burst and latency where they are set.
    fn apply_to(self, limit: Limit) -> Limit {
        Limit {
            rate: limit.rate,
            burst: self.burst.or(limit.burst),
            latency: self.latency.or(limit.latency),
        }
    }
}

/// A direction's burst annotation and its latency annotation.
const fn extra_annotations(direction: Direction) -> [&'static str; 2] {
    match direction {
        Direction::Ingress => [INGRESS_BURST, INGRESS_LATENCY],
        Direction::Egress => [EGRESS_BURST, EGRESS_LATENCY],
    }
}

/// The annotation's parsed value and its text; `None` when it is not there or not right.
fn find<'a, T>(
    annotations: &'a BTreeMap<String, String>,
    annotation: &'static str,
    parse: impl Fn(&'static str, &str) -> Result<T, AnnotationError>,
    errors: &mut Vec<AnnotationError>,
) -> Option<(T, &'a str)> {
    let value = annotations.get(annotation)?;
    match parse(annotation, value) {
        Ok(parsed) => Some((parsed, value)),
        Err(error) => {
            errors.push(error);
            None
        }
    }
}

fn burst(annotation: &'static str, value: &str) -> Result<ByteCount, AnnotationError> {
    let quantity: Quantity = value
        .parse()
        .map_err(|problem: QuantityError| AnnotationError::quantity(annotation, value, problem))?;
    match quantity.value() {
        bits @ MIN_BURST..=MAX_BURST => Ok(ByteCount::from_bits(bits.unsigned_abs())),
        _ => Err(AnnotationError::burst_out_of_range(annotation, value)),
    }
}

fn latency(annotation: &'static str, value: &str) -> Result<Duration, AnnotationError> {
    let latency = parse_duration(value)
        .map_err(|problem| AnnotationError::duration(annotation, value, problem))?;
    if (MIN_LATENCY..=MAX_LATENCY).contains(&latency) {
        Ok(latency)
    } else {
        Err(AnnotationError::latency_out_of_range(annotation, value))
    }
}
