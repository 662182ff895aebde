//! A part of a line, as Koordinator's documents say it.

use netqos_core::BitRate;
use serde_json::Value;

use crate::quantity::Format;
use crate::{Quantity, QuantityError};

/// A part of a line: an `IntOrString`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// A whole number: so many hundredths of the line, 0 to 100.
    Percent(u8),
    /// A text: a quantity, in bits per second. (The types of Koordinator say bytes, its code reads
    /// bits.)
    Rate(BitRate),
}

/// Why something is no part of a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AmountError {
    /// A number that is no percentage. (It begins as Koordinator's own webhook says it.)
    #[error(
        "must be percentage value just in 0-100: {0} is no percentage; a rate is written as a text, \
         like \"50M\""
    )]
    NotAPercentage(String),
    /// A text that is no quantity.
    #[error(
        "{text:?}: {problem}; write a rate in bits per second, like \"500M\", and a percentage as a number, without quotes"
    )]
    NotAQuantity {
        /// The text.
        text: String,
        /// What the parser says.
        problem: QuantityError,
    },
    /// A text that says of no line what it carries.
    #[error("{text:?}: {problem}; write bits per second, like \"10G\"")]
    NotATotal {
        /// The text.
        text: String,
        /// What the parser says.
        problem: QuantityError,
    },
    /// A quantity under zero.
    #[error("{0:?} is less than nothing")]
    Negative(String),
    /// A rate that nobody can mean.
    #[error("{text:?} is {rate}, less than the {least} that it is at least; {remedy}")]
    TooSmall {
        /// The text.
        text: String,
        /// What it says.
        rate: BitRate,
        /// The least that it may say, but for nothing.
        least: BitRate,
        /// What to write.
        remedy: String,
    },
    /// Neither a number nor a text.
    #[error("{0} is neither a percentage, like 40, nor a rate in bits per second, like \"50M\"")]
    OtherKind(String),
}

impl Amount {
    /// The amount that this value is.
    ///
    /// # Errors
    /// It is none.
    pub fn from_value(value: &Value) -> Result<Self, AmountError> {
        match value {
            Value::Number(number) => number
                .as_u64()
                .and_then(|percent| u8::try_from(percent).ok())
                .filter(|percent| *percent <= 100)
                .map(Self::Percent)
                .ok_or_else(|| AmountError::NotAPercentage(number.to_string())),
            Value::String(text) => rate(text).map(Self::Rate),
            other => Err(AmountError::OtherKind(other.to_string())),
        }
    }

    /// The same, unless it is a rate below this one, which nobody can mean. Zero says nothing.
    ///
    /// # Errors
    /// It is none, or below that.
    pub fn from_value_of_at_least(value: &Value, least: BitRate) -> Result<Self, AmountError> {
        let amount = Self::from_value(value)?;
        let (Self::Rate(rate), Value::String(text)) = (amount, value) else {
            return Ok(amount);
        };
        if rate >= least || rate == BitRate::default() {
            return Ok(amount);
        }
        let remedy = match text.parse::<u64>() {
            Ok(percent @ 1..=100) => format!("for {percent} %: write {percent}, not \"{percent}\""),
            Ok(number) => format!("for {number} Mbit/s write \"{number}M\""),
            Err(_) => "write a percentage, like 30, or a rate, like \"50M\"".to_owned(),
        };
        Err(AmountError::TooSmall {
            text: text.clone(),
            rate,
            least,
            remedy,
        })
    }

    /// As documents have it; the other way round than [`from_value`](Self::from_value).
    pub fn to_value(self) -> Value {
        match self {
            Self::Percent(percent) => percent.into(),
            Self::Rate(rate) => {
                // What quantities have no room for is no rate of any line.
                let bits = i64::try_from(rate.bits_per_second()).unwrap_or(i64::MAX);
                let quantity = Quantity::from_integer(bits, Format::DecimalSi);
                quantity.to_string().into()
            }
        }
    }

    /// How much that is of a line of this rate; of a percentage, rounded down to whole bits.
    pub fn of(self, total: BitRate) -> BitRate {
        match self {
            Self::Rate(rate) => rate,
            Self::Percent(percent) => {
                let bits = u128::from(total.bits_per_second()) * u128::from(percent) / 100;
                // No more than the total, which fits.
                BitRate::from_bits_per_second(bits as u64)
            }
        }
    }
}

/// The least that a node's lines carry together.
const LEAST_TOTAL: BitRate = BitRate::from_bits_per_second(1_000_000);

/// What a node's lines carry together; `None`: zero, which says nothing.
///
/// # Errors
/// It is no quantity, or none that a line carries.
pub fn total(text: &str) -> Result<Option<BitRate>, AmountError> {
    let total = match rate(text) {
        Err(AmountError::NotAQuantity { text, problem }) => {
            return Err(AmountError::NotATotal { text, problem });
        }
        read => read?,
    };
    let bits = total.bits_per_second();
    if (1..LEAST_TOTAL.bits_per_second()).contains(&bits) {
        let text = text.to_owned();
        let remedy = match text.parse::<u64>() {
            Ok(number) => format!("for {number} Mbit/s write {number}M"),
            Err(_) => "write what all uplinks of the node carry, like 1000M".to_owned(),
        };
        return Err(AmountError::TooSmall {
            text,
            rate: total,
            least: LEAST_TOTAL,
            remedy,
        });
    }
    Ok(Some(total).filter(|_| bits > 0))
}

/// The rate that a quantity in bits per second is.
///
/// # Errors
/// It is no quantity, or less than zero.
pub fn rate(text: &str) -> Result<BitRate, AmountError> {
    let quantity: Quantity = text.parse().map_err(|problem| AmountError::NotAQuantity {
        text: text.to_owned(),
        problem,
    })?;
    u64::try_from(quantity.value())
        .map(BitRate::from_bits_per_second)
        .map_err(|_| AmountError::Negative(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn of_a_line() {
        let line = BitRate::from_bits_per_second(1_000_000_000);
        for (value, bits) in [
            (json!(40), 400_000_000),
            (json!(0), 0),
            (json!(100), 1_000_000_000),
            (json!("50M"), 50_000_000),
            (json!("1Mi"), 1_048_576),
            // Rounded away from zero, as Kubernetes does.
            (json!("50m"), 1),
        ] {
            let amount = Amount::from_value(&value).unwrap();
            assert_eq!(amount.of(line).bits_per_second(), bits, "{value}");
        }
    }

    #[test]
    fn what_is_no_part_of_a_line() {
        for (value, text) in [
            (
                json!(101),
                "must be percentage value just in 0-100: 101 is no percentage;",
            ),
            (json!(-1), "-1 is no percentage"),
            (json!(12.5), "12.5 is no percentage"),
            (
                json!("40%"),
                "write a rate in bits per second, like \"500M\", and a percentage as a number",
            ),
            (json!(""), "\"\": quantities must match"),
            (json!("-5M"), "\"-5M\" is less than nothing"),
            (json!(true), "true is neither a percentage"),
        ] {
            let error = Amount::from_value(&value).unwrap_err().to_string();
            assert!(error.contains(text), "{value}: {error}");
        }
    }

    proptest! {
        #[test]
        fn a_percentage_is_never_more_than_the_line(total: u64, percent in 0_u8..=100) {
            let total = BitRate::from_bits_per_second(total);
            prop_assert!(Amount::Percent(percent).of(total) <= total);
        }
    }
}
