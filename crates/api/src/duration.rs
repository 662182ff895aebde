//! Durations as Go and Kubernetes users write them: `25ms`, `1.5s`, `1m30s`.
//!
//! The syntax is that of Go's `time.ParseDuration`: an optional sign, then decimal numbers each
//! with a unit (`ns`, `us`, `µs`, `ms`, `s`, `m`, `h`), or a bare `0`. The messages are Go's, too.

use std::time::Duration;

/// The longest duration that Go can hold: 2^63 − 1 nanoseconds.
const MAX_NANOS: u128 = i64::MAX as u128;

/// How many digits behind the point count; the rest is finer than a nanosecond in every unit.
const FRACTION_DIGITS: usize = 18;

/// Why a text is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// No numbers with units at all, or too long for 64 bits of nanoseconds.
    #[error("time: invalid duration {0:?}")]
    Invalid(String),
    /// A number without a unit.
    #[error("time: missing unit in duration {0:?}")]
    MissingUnit(String),
    /// A unit that does not exist.
    #[error("time: unknown unit {unit:?} in duration {duration:?}")]
    UnknownUnit {
        /// The unit.
        unit: String,
        /// The whole text.
        duration: String,
    },
    /// Less than zero, which Go allows and no setting here has a use for.
    #[error("negative duration {0:?}")]
    Negative(String),
}

/// Reads a duration; what is finer than a nanosecond is cut off.
pub fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    let invalid = || DurationError::Invalid(text.to_owned());
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    if rest.is_empty() {
        return Err(invalid());
    }

    let mut total = 0_u128;
    while !rest.is_empty() {
        let (whole, after) = split_digits(rest);
        let (fraction, after) = after.strip_prefix('.').map_or(("", after), split_digits);
        if whole.is_empty() && fraction.is_empty() {
            return Err(invalid());
        }
        let end = after
            .find(|c: char| c == '.' || c.is_ascii_digit())
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        if unit.is_empty() {
            return Err(DurationError::MissingUnit(text.to_owned()));
        }
        let nanos_per_unit = nanos_per(unit).ok_or_else(|| DurationError::UnknownUnit {
            unit: unit.to_owned(),
            duration: text.to_owned(),
        })?;
        let whole = number(whole).ok_or_else(invalid)?;
        let fraction = &fraction[..fraction.len().min(FRACTION_DIGITS)];
        let scale = 10_u128.pow(fraction.len() as u32);
        let fraction = number(fraction).ok_or_else(invalid)?;
        total += whole * nanos_per_unit + fraction * nanos_per_unit / scale;
        if total > MAX_NANOS {
            return Err(invalid());
        }
        rest = after;
    }

    if text.starts_with('-') && total > 0 {
        return Err(DurationError::Negative(text.to_owned()));
    }
    let nanos = u64::try_from(total).map_err(|_| invalid())?;
    Ok(Duration::from_nanos(nanos))
}

/// The duration as Go prints it: `25ms`, `1.5s`, `1m0s`.
pub fn format_duration(duration: Duration) -> String {
    const SECOND: u128 = 1_000_000_000;
    let nanos = duration.as_nanos();
    match nanos {
        0 => "0s".to_owned(),
        1..1_000 => format!("{nanos}ns"),
        1_000..1_000_000 => format!("{}µs", with_point(nanos, 3)),
        1_000_000..SECOND => format!("{}ms", with_point(nanos, 6)),
        _ => {
            let seconds = with_point(nanos % (60 * SECOND), 9);
            let minutes = nanos / (60 * SECOND);
            match (minutes / 60, minutes % 60) {
                (0, 0) => format!("{seconds}s"),
                (0, minutes) => format!("{minutes}m{seconds}s"),
                (hours, minutes) => format!("{hours}h{minutes}m{seconds}s"),
            }
        }
    }
}

/// `number` with a decimal point before its last `places` digits, and no zeros at its end.
fn with_point(number: u128, places: usize) -> String {
    let divisor = 10_u128.pow(places as u32);
    let fraction = format!("{:0places$}", number % divisor);
    let fraction = fraction.trim_end_matches('0');
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{}{point}{fraction}", number / divisor)
}

fn nanos_per(unit: &str) -> Option<u128> {
    Some(match unit {
        "ns" => 1,
        // The micro sign and the Greek letter: both are in use.
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

/// The number of these digits (none: zero), if it fits a Go duration.
fn number(digits: &str) -> Option<u128> {
    let significant = digits.trim_start_matches('0');
    if significant.len() > 19 {
        return None;
    }
    Some(
        significant
            .bytes()
            .fold(0, |number, digit| number * 10 + u128::from(digit - b'0')),
    )
}

fn split_digits(text: &str) -> (&str, &str) {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    text.split_at(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_go_reads_is_read() {
        for (text, nanos) in [
            ("0", 0),
            ("+0", 0),
            ("-0s", 0),
            ("5s", 5_000_000_000),
            ("25ms", 25_000_000),
            ("1.5s", 1_500_000_000),
            ("300us", 300_000),
            ("12µs", 12_000),
            ("12μs", 12_000),
            ("1m", 60_000_000_000),
            ("1h15m30.918s", 4_530_918_000_000),
            (".5s", 500_000_000),
            ("5.s", 5_000_000_000),
            ("+5.25ms", 5_250_000),
            ("1ns1ns", 2),
            ("0.9ns", 0),
            ("0.1000000000000000000000000000001s", 100_000_000),
            ("9223372036854775807ns", i64::MAX as u64),
        ] {
            assert_eq!(
                parse_duration(text),
                Ok(Duration::from_nanos(nanos)),
                "{text}"
            );
        }
    }

    #[test]
    fn what_go_refuses_is_refused_in_its_words() {
        for (text, message) in [
            ("", r#"time: invalid duration """#),
            ("-", r#"time: invalid duration "-""#),
            (".s", r#"time: invalid duration ".s""#),
            ("s", r#"time: invalid duration "s""#),
            ("25", r#"time: missing unit in duration "25""#),
            ("1s2", r#"time: missing unit in duration "1s2""#),
            ("25 ms", r#"time: unknown unit " ms" in duration "25 ms""#),
            ("1d", r#"time: unknown unit "d" in duration "1d""#),
            (
                "9223372036854775808ns",
                r#"time: invalid duration "9223372036854775808ns""#,
            ),
            ("3000000h", r#"time: invalid duration "3000000h""#),
            (
                "99999999999999999999999h",
                r#"time: invalid duration "99999999999999999999999h""#,
            ),
            ("-25ms", r#"negative duration "-25ms""#),
        ] {
            let error = parse_duration(text).map_err(|error| error.to_string());
            assert_eq!(error, Err(message.to_owned()), "{text}");
        }
    }

    #[test]
    fn prints_as_go_does() {
        for (nanos, text) in [
            (0, "0s"),
            (1, "1ns"),
            (1_100, "1.1µs"),
            (2_200_000, "2.2ms"),
            (3_300_000_000, "3.3s"),
            (245_000_000_000, "4m5s"),
            (245_001_000_000, "4m5.001s"),
            (18_367_001_000_000, "5h6m7.001s"),
            (3_600_000_000_000, "1h0m0s"),
            (i64::MAX as u64, "2562047h47m16.854775807s"),
        ] {
            assert_eq!(format_duration(Duration::from_nanos(nanos)), text);
        }
    }
}
