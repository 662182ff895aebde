//! From text to [`Quantity`].

use std::str::FromStr;

use super::{BINARY_SUFFIXES, DECIMAL_SUFFIXES, Decimal, Format, NANO, Quantity, QuantityError};

/// Where apimachinery caps a quantity with a binary suffix: 2^63 − 1.
const BINARY_CAP: u64 = i64::MAX as u64;

/// What the suffix multiplies the number with.
#[derive(Clone, Copy)]
enum Scale {
    /// Ten to this power, written as `n` to `E`.
    Decimal(i64),
    /// Ten to this power, written as `e3`.
    Exponent(i64),
    /// Two to this power.
    Binary(u32),
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        if text.is_empty() {
            return Err(QuantityError::FormatWrong);
        }
        let (negative, rest) = match text.as_bytes()[0] {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let (whole, rest) = split_digits(rest);
        let (fraction, suffix) = rest.strip_prefix('.').map_or(("", rest), split_digits);
        if !has_suffix_form(suffix) {
            return Err(QuantityError::FormatWrong);
        }
        let scale = Scale::from_suffix(suffix).ok_or(QuantityError::Suffix)?;
        if whole.is_empty() && fraction.is_empty() && !scale.allows_no_digits() {
            return Err(QuantityError::Numeric);
        }

        let digits = format!("{whole}{fraction}");
        let places = fraction.len() as i64;
        let quantity = match scale {
            Scale::Decimal(exponent) => Self {
                amount: Decimal::new(negative, &digits, exponent - places).rounded_up_to(NANO),
                format: Format::DecimalSi,
            },
            Scale::Exponent(exponent) => Self {
                amount: Decimal::new(negative, &digits, exponent - places).rounded_up_to(NANO),
                format: Format::DecimalExponent,
            },
            Scale::Binary(power) => binary(&Decimal::new(negative, &digits, -places), power),
        };
        // Trailing zeros move into the exponent; it must still be one that can be read back.
        if quantity.amount.exponent() > i64::from(i32::MAX) {
            return Err(QuantityError::Suffix);
        }
        Ok(quantity)
    }
}

impl Scale {
    fn from_suffix(suffix: &str) -> Option<Self> {
        if let Some(step) = DECIMAL_SUFFIXES.iter().position(|known| *known == suffix) {
            return Some(Self::Decimal(NANO + 3 * step as i64));
        }
        if let Some(step) = BINARY_SUFFIXES.iter().position(|known| *known == suffix) {
            return Some(Self::Binary(10 * step as u32));
        }
        let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
        Some(Self::Exponent(i64::from(exponent)))
    }

    /// A number without any digit (`k`, `.`, `-`) is zero to apimachinery as long as it takes its
    /// fast path, which a large binary or a very small decimal suffix makes it leave.
    const fn allows_no_digits(self) -> bool {
        match self {
            Self::Decimal(_) => true,
            Self::Exponent(exponent) => exponent >= NANO,
            Self::Binary(power) => power <= 40,
        }
    }
}

fn binary(number: &Decimal, power: u32) -> Quantity {
    let amount = number
        .times_power_of_two(power)
        .rounded_up_to(NANO)
        .capped_at(BINARY_CAP);
    let format = if amount.sign().is_ne() && amount.is_below_one() {
        Format::DecimalSi
    } else {
        Format::BinarySi
    };
    Quantity { amount, format }
}

fn split_digits(text: &str) -> (&str, &str) {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    text.split_at(end)
}

/// `[eEinumkKMGTP]*[-+]?[0-9]*`, to the end.
fn has_suffix_form(suffix: &str) -> bool {
    let rest = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
    let rest = rest.strip_prefix(['-', '+']).unwrap_or(rest);
    split_digits(rest).1.is_empty()
}
