//! Kubernetes' `resource.Quantity`: the number format of bandwidths, memory and CPU.
//!
//! A quantity is a decimal number and a suffix: `10M`, `1.5Gi`, `100m`, `1e3`. This type accepts
//! and refuses what apimachinery's `ParseQuantity` accepts and refuses
//! (k8s.io/apimachinery/pkg/api/resource/quantity.go), with the same messages, and shares its
//! rules of precision:
//!
//! - numbers are exact, of any size, never floating point;
//! - what is finer than nano is rounded away from zero to the next nano;
//! - a quantity with a binary suffix is capped at ±(2^63 − 1).
//!
//! Two things differ, where the original's behaviour is undefined or an accident:
//! [`Quantity::value`] saturates where the original overflows, and an exponent that does not fit
//! 32 bits is refused where the original drops its upper bits.

mod decimal;
mod parse;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::fmt;

use decimal::Decimal;

/// The decimal suffixes, from the smallest; each is 1000 of the one before it.
const DECIMAL_SUFFIXES: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];

/// The power of ten of the first of [`DECIMAL_SUFFIXES`], and the finest that a quantity holds.
const NANO: i64 = -9;

/// The binary suffixes, from the smallest; each is 1024 of the one before it.
const BINARY_SUFFIXES: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// Which family of suffixes a quantity was written with, and is printed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// `n u m "" k M G T P E`: powers of 1000.
    DecimalSi,
    /// `Ki Mi Gi Ti Pi Ei`: powers of 1024.
    BinarySi,
    /// `e3`, `E-6`: powers of ten.
    DecimalExponent,
}

/// A number as Kubernetes writes it.
///
/// Two quantities are equal when their values are, however they were written:
///
/// ```
/// # use netqos_api::Quantity;
/// let gigabit: Quantity = "1000M".parse()?;
/// assert_eq!(gigabit, "1e9".parse()?);
/// assert_eq!(gigabit.to_string(), "1G");
/// assert_eq!(gigabit.value(), 1_000_000_000);
/// # Ok::<(), netqos_api::QuantityError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Quantity {
    amount: Decimal,
    format: Format,
}

/// Why a text is not a quantity. The messages are apimachinery's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// The text has not the form of a number and a suffix at all.
    #[error(
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    )]
    FormatWrong,
    /// The part before the suffix is not a number.
    #[error("unable to parse numeric part of quantity")]
    Numeric,
    /// There is no such suffix, or its exponent does not fit 32 bits.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

impl Quantity {
    /// The quantity of this whole number, printed in this format.
    pub fn from_integer(number: i64, format: Format) -> Self {
        let digits = number.unsigned_abs().to_string();
        Self {
            amount: Decimal::new(number < 0, &digits, 0),
            format,
        }
    }

    /// The family of suffixes that it is printed with.
    pub const fn format(&self) -> Format {
        self.format
    }

    /// The value, rounded away from zero to a whole number (`1m` is 1, `-1m` is −1); at the ends
    /// of the range when it does not fit.
    pub fn value(&self) -> i64 {
        self.amount.to_i64()
    }

    /// The value in thousandths, rounded away from zero to a whole number; at the ends of the
    /// range when it does not fit.
    pub fn milli_value(&self) -> i64 {
        self.amount.shifted(3).to_i64()
    }

    /// Less than, equal to, or greater than zero.
    pub fn sign(&self) -> Ordering {
        self.amount.sign()
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.amount == other.amount
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.amount.cmp(&other.amount)
    }
}

impl fmt::Display for Quantity {
    /// The canonical form: no precision lost, no fraction, the largest suffix that allows both.
    ///
    /// A binary quantity that is not whole, or is under 1024, is printed with a decimal suffix;
    /// a decimal one beyond `E` with an exponent.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.sign() == Ordering::Equal {
            return f.write_str("0");
        }
        if self.format == Format::BinarySi
            && self.amount.is_whole()
            && self.value().unsigned_abs() >= 1024
        {
            return self.fmt_binary(f);
        }
        let (number, exponent) = self.amount.in_thousands();
        f.write_str(&number)?;
        if exponent == 0 {
            return Ok(());
        }
        let suffix = usize::try_from((exponent - NANO) / 3)
            .ok()
            .and_then(|step| DECIMAL_SUFFIXES.get(step));
        match suffix {
            Some(suffix) if self.format != Format::DecimalExponent => f.write_str(suffix),
            _ => write!(f, "e{exponent}"),
        }
    }
}

impl Quantity {
    fn fmt_binary(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.value();
        let mut magnitude = value.unsigned_abs();
        let mut step = 0;
        while magnitude.is_multiple_of(1024) && step + 1 < BINARY_SUFFIXES.len() {
            magnitude /= 1024;
            step += 1;
        }
        let sign = if value < 0 { "-" } else { "" };
        write!(f, "{sign}{magnitude}{}", BINARY_SUFFIXES[step])
    }
}
