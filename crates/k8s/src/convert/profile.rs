//! Bandwidth profiles.

use std::time::Duration;

use netqos_api::Quantity;
use netqos_api::annotations::{
    MAX_BANDWIDTH, MAX_BURST, MAX_LATENCY, MIN_BANDWIDTH, MIN_BURST, MIN_LATENCY,
};
use netqos_api::duration::{format_duration, parse_duration};
use netqos_core::{BitRate, ByteCount, LabelSelector, Limit, Limits, Priority, Profile};

use super::{label_selector, namespaced};
use crate::profile::WrittenQuantity;
use crate::{BandwidthProfile, DirectionLimit, FieldError};

/// A `BandwidthProfile`. What it may say is what the annotations of a pod may; beyond the schema,
/// quantities and durations have to be in their ranges.
///
/// # Errors
/// The first field that is not right.
pub fn profile(object: &BandwidthProfile) -> Result<Profile, FieldError> {
    let spec = &object.spec;
    let pods = match &spec.pod_selector {
        Some(selector) => {
            label_selector(selector).map_err(|error| error.inside("spec.podSelector"))?
        }
        None => LabelSelector::everything(),
    };
    let priority = Priority::try_new(spec.priority.unwrap_or(0))
        .map_err(|error| FieldError::new("spec.priority", error))?;
    let direction = |written: &Option<DirectionLimit>, path: &str| {
        let limit = written.as_ref().map(limit).transpose();
        limit.map_err(|error| error.inside(path))
    };
    let limits = Limits {
        ingress: direction(&spec.ingress, "spec.ingress")?,
        egress: direction(&spec.egress, "spec.egress")?,
    };
    if limits.is_unlimited() {
        return Err(FieldError::new(
            "spec",
            "a profile needs ingress, egress, or both",
        ));
    }
    Ok(Profile {
        name: namespaced(&object.metadata)?,
        pods,
        priority,
        limits,
    })
}

fn limit(written: &DirectionLimit) -> Result<Limit, FieldError> {
    let rate = bits(&written.rate, "rate", MIN_BANDWIDTH, MAX_BANDWIDTH)?;
    let burst = written.burst.as_ref();
    let burst = burst.map(|burst| bits(burst, "burst", MIN_BURST, MAX_BURST));
    let latency = written.latency.as_deref().map(latency).transpose()?;
    Ok(Limit {
        rate: BitRate::from_bits_per_second(rate),
        burst: burst.transpose()?.map(ByteCount::from_bits),
        latency,
    })
}

fn bits(written: &WrittenQuantity, field: &str, least: i64, most: i64) -> Result<u64, FieldError> {
    let text = written.to_string();
    let wrong = |why: String| FieldError::new(field, format_args!("{text:?}: {why}"));
    let quantity: Quantity = text.parse().map_err(|why| wrong(format!("{why}")))?;
    let bits = quantity.value();
    match (least..=most).contains(&bits) {
        true => Ok(bits.unsigned_abs()),
        false => Err(wrong(format!("it is not between {least} and {most} bits"))),
    }
}

fn latency(text: &str) -> Result<Duration, FieldError> {
    let wrong = |why: String| FieldError::new("latency", format_args!("{text:?}: {why}"));
    let latency = parse_duration(text).map_err(|why| wrong(why.to_string()))?;
    match (MIN_LATENCY..=MAX_LATENCY).contains(&latency) {
        true => Ok(latency),
        false => {
            let (least, most) = (format_duration(MIN_LATENCY), format_duration(MAX_LATENCY));
            Err(wrong(format!("it is not from {least} to {most}")))
        }
    }
}
