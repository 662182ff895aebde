//! The argument of the capability `trafficShaping`, as KEP-2819 writes it.
//!
//! `{"ingressRate": "X", "egressRate": "Y"}`, where X and Y are quantities or plain numbers, in
//! the unit of the list entry; `ingressBurst` and `egressBurst` likewise, and optional.

use netqos_core::{Direction, Limits};
use serde_json::Value;

use super::BandwidthConfigError;
use super::limits::{Asked, Burst, burst_key, rate_key, to_limits};
use super::object::Object;
use crate::{Quantity, RateUnit};

/// The limits of the argument, in this unit.
pub(super) fn read(argument: &Object<'_>, unit: RateUnit) -> Result<Limits, BandwidthConfigError> {
    let ingress = asked(argument, Direction::Ingress, unit)?;
    let egress = asked(argument, Direction::Egress, unit)?;
    to_limits(ingress.check_burst()?, egress.check_burst()?, argument)
}

fn asked(
    argument: &Object<'_>,
    direction: Direction,
    unit: RateUnit,
) -> Result<Asked, BandwidthConfigError> {
    let (rate_key, burst_key) = (rate_key(direction), burst_key(direction));
    let rate = quantity(argument, rate_key)?
        .map(|quantity| bits(argument, rate_key, &quantity, unit))
        .transpose()?;
    let burst = match quantity(argument, burst_key)? {
        Some(quantity) => burst(argument, burst_key, &quantity, unit)?,
        None => Burst::Unset,
    };
    Ok(Asked {
        rate: rate.unwrap_or_default(),
        burst,
    })
}

/// The numbers that mean "choose" are the runtimes', and do so in any unit.
fn burst(
    argument: &Object<'_>,
    key: &str,
    quantity: &Quantity,
    unit: RateUnit,
) -> Result<Burst, BandwidthConfigError> {
    let number = u64::try_from(quantity.value()).unwrap_or_default();
    match Burst::from_bits(number) {
        Burst::Choose => Ok(Burst::Choose),
        _ => bits(argument, key, quantity, unit).map(Burst::from_bits),
    }
}

/// The quantity of this key, which may be written as a string or as a number.
fn quantity(argument: &Object<'_>, key: &str) -> Result<Option<Quantity>, BandwidthConfigError> {
    let Some(value) = argument.get(key) else {
        return Ok(None);
    };
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        other => return Err(argument.type_error(key, other, "quantity")),
    };
    match text.parse() {
        Ok(quantity) => Ok(Some(quantity)),
        Err(problem) => Err(BandwidthConfigError::Quantity {
            field: argument.path_of(key),
            value: text,
            problem,
        }),
    }
}

/// The quantity in bits (per second), rounded up.
fn bits(
    argument: &Object<'_>,
    key: &str,
    quantity: &Quantity,
    unit: RateUnit,
) -> Result<u64, BandwidthConfigError> {
    let bits = match unit {
        RateUnit::BitsPerSecond => quantity.value(),
        RateUnit::KilobitsPerSecond => quantity.milli_value(),
    };
    match u64::try_from(bits) {
        // The ends of the range stand for everything beyond.
        Ok(bits) if bits < i64::MAX.unsigned_abs() => Ok(bits),
        _ => Err(BandwidthConfigError::OutOfRange {
            field: argument.path_of(key),
            value: quantity.to_string(),
        }),
    }
}
