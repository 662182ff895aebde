//! How rates, durations, marks and percentages are written in a scenario.

use std::time::Duration;

use netqos_api::Quantity;
use netqos_api::duration::parse_duration;
use netqos_core::BitRate;
use netqos_traffic::Dscp;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// A rate as in Kubernetes' annotations: `10M`, `1Gi`, `10000000`, in bits per second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rate(pub(super) BitRate);

/// A duration: `5s`, `250ms`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span(pub(super) Duration);

/// A mark, as a name or a number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark(pub(super) Dscp);

/// From 0 to 100.
#[derive(Clone, Copy, Debug)]
pub(super) struct Percentage(pub(super) f64);

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = scalar(from)?;
        let quantity: Quantity = text
            .parse()
            .map_err(|problem| D::Error::custom(format!("{text:?} is not a rate: {problem}")))?;
        match u64::try_from(quantity.value()) {
            Ok(bits) if bits > 0 => Ok(Self(BitRate::from_bits_per_second(bits))),
            _ => Err(D::Error::custom(format!(
                "{text:?}: a rate is more than nothing"
            ))),
        }
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = scalar(from)?;
        parse_duration(&text).map(Self).map_err(|problem| {
            D::Error::custom(format!(
                "{text:?} is not a duration: {problem}; write it like \"250ms\" or \"5s\""
            ))
        })
    }
}

impl<'de> Deserialize<'de> for Mark {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        scalar(from)?.parse().map(Self).map_err(D::Error::custom)
    }
}

impl<'de> Deserialize<'de> for Percentage {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let percent = f64::deserialize(from)?;
        if (0.0..=100.0).contains(&percent) {
            return Ok(Self(percent));
        }
        Err(D::Error::custom(format!(
            "{percent} is not a percentage: 0 to 100 are"
        )))
    }
}

/// A text, also when YAML takes it for a number.
fn scalar<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    match Value::deserialize(from)? {
        Value::String(text) => Ok(text),
        Value::Number(number) => Ok(number.to_string()),
        other => Err(D::Error::custom(format!(
            "{other} is neither a text nor a number"
        ))),
    }
}
