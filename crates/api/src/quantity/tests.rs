//! Cases in the manner of apimachinery's own, and a model in plain integers.

use std::cmp::Ordering;

use proptest::prelude::*;

use super::Format::{BinarySi, DecimalExponent, DecimalSi};
use super::*;

fn parse(text: &str) -> Quantity {
    text.parse()
        .unwrap_or_else(|error| panic!("{text:?}: {error}"))
}

#[test]
fn values_and_formats() {
    for (text, value, milli, format) in [
        ("0", 0, 0, DecimalSi),
        ("0n", 0, 0, DecimalSi),
        ("0Ki", 0, 0, BinarySi),
        ("0Ei", 0, 0, BinarySi),
        ("00", 0, 0, DecimalSi),
        ("-0", 0, 0, DecimalSi),
        ("1", 1, 1_000, DecimalSi),
        ("+1", 1, 1_000, DecimalSi),
        ("007", 7, 7_000, DecimalSi),
        // Decimal suffixes.
        ("5n", 1, 1, DecimalSi),
        ("4u", 1, 1, DecimalSi),
        ("3m", 1, 3, DecimalSi),
        ("8k", 8_000, 8_000_000, DecimalSi),
        ("7M", 7_000_000, 7_000_000_000, DecimalSi),
        ("6G", 6_000_000_000, 6_000_000_000_000, DecimalSi),
        ("5T", 5_000_000_000_000, 5_000_000_000_000_000, DecimalSi),
        (
            "2P",
            2_000_000_000_000_000,
            2_000_000_000_000_000_000,
            DecimalSi,
        ),
        ("1E", 1_000_000_000_000_000_000, i64::MAX, DecimalSi),
        // Binary suffixes.
        ("1Ki", 1 << 10, 1_024_000, BinarySi),
        ("7Mi", 7 << 20, (7 << 20) * 1_000, BinarySi),
        ("6Gi", 6 << 30, (6 << 30) * 1_000, BinarySi),
        ("5Ti", 5 << 40, (5 << 40) * 1_000, BinarySi),
        ("4Pi", 4 << 50, (4 << 50) * 1_000, BinarySi),
        ("3Ei", 3 << 60, i64::MAX, BinarySi),
        // Exponents: a bare E is exa, one with digits is not.
        ("1e3", 1_000, 1_000_000, DecimalExponent),
        ("1E3", 1_000, 1_000_000, DecimalExponent),
        ("1E+3", 1_000, 1_000_000, DecimalExponent),
        ("1E-3", 1, 1, DecimalExponent),
        ("1.3E+6", 1_300_000, 1_300_000_000, DecimalExponent),
        ("0.5e0", 1, 500, DecimalExponent),
        // Fractions, rounded away from zero.
        ("100.035k", 100_035, 100_035_000, DecimalSi),
        ("1.5", 2, 1_500, DecimalSi),
        ("-1.5", -2, -1_500, DecimalSi),
        ("0.0001", 1, 1, DecimalSi),
        ("-0.0001", -1, -1, DecimalSi),
        ("9.01", 10, 9_010, DecimalSi),
        ("999.9", 1_000, 999_900, DecimalSi),
        ("0.5Mi", 1 << 19, (1 << 19) * 1_000, BinarySi),
        ("0.05Gi", 53_687_092, 53_687_091_200, BinarySi),
        ("0.0001Ki", 1, 103, DecimalSi),
        ("-0.0001Ki", -1, -103, DecimalSi),
        // Odd, but read by the original.
        (".001", 1, 1, DecimalSi),
        (".0001k", 1, 100, DecimalSi),
        ("1.", 1, 1_000, DecimalSi),
        ("1.G", 1_000_000_000, 1_000_000_000_000, DecimalSi),
        (".", 0, 0, DecimalSi),
        ("-", 0, 0, DecimalSi),
        ("k", 0, 0, DecimalSi),
        ("Ti", 0, 0, BinarySi),
        // Caps and ends.
        ("9223372036854775807", i64::MAX, i64::MAX, DecimalSi),
        ("-9223372036854775808", i64::MIN, i64::MIN, DecimalSi),
        ("9223372036854775808", i64::MAX, i64::MAX, DecimalSi),
        ("8Ei", i64::MAX, i64::MAX, BinarySi),
        ("9223372036854775807Ki", i64::MAX, i64::MAX, BinarySi),
        ("-9Ei", -i64::MAX, i64::MIN, BinarySi),
        ("12E", i64::MAX, i64::MAX, DecimalSi),
        ("1e2147483647", i64::MAX, i64::MAX, DecimalExponent),
        ("-1e2147483647", i64::MIN, i64::MIN, DecimalExponent),
        ("1e-2147483648", 1, 1, DecimalExponent),
    ] {
        let quantity = parse(text);
        assert_eq!(quantity.value(), value, "{text}");
        assert_eq!(quantity.milli_value(), milli, "{text}");
        assert_eq!(quantity.format(), format, "{text}");
    }
}

#[test]
fn canonical_forms() {
    for (text, canonical) in [
        ("0", "0"),
        ("0Gi", "0"),
        ("-0e5", "0"),
        ("1000", "1k"),
        ("-1000", "-1k"),
        ("1000000k", "1G"),
        ("0.001T", "1G"),
        ("50k", "50k"),
        ("1.5G", "1500M"),
        ("1.08", "1080m"),
        ("1.2345", "1234500u"),
        ("1080000000n", "1080m"),
        ("1234567M", "1234567M"),
        ("0.1", "100m"),
        ("1024Mi", "1Gi"),
        ("1025024Mi", "1001Gi"),
        ("307200Ki", "300Mi"),
        ("1.5Gi", "1536Mi"),
        ("-1.5Gi", "-1536Mi"),
        ("8Ei", "9223372036854775807"),
        // A binary quantity that is not whole, or is small, is decimal in print.
        ("0.5Ki", "512"),
        (".001Ki", "1024m"),
        (".000001Ki", "1024u"),
        (".000000001Ki", "1024n"),
        (".000000000001Ki", "2n"),
        ("1.0001Ki", "1024102400u"),
        // Exponents stay exponents, in steps of three.
        ("1E6", "1e6"),
        ("1e14", "100e12"),
        (".001e12", "1e9"),
        ("80e-3", "80e-3"),
        ("1000e-12", "1e-9"),
        ("5e0", "5"),
        // There is nothing beyond exa.
        ("1000E", "1e21"),
        ("18446744073709551616", "18446744073709551616"),
        // Finer than nano is rounded away from zero.
        ("3.001n", "4n"),
        ("-3.001n", "-4n"),
        ("0.9n", "1n"),
        ("1.1E-9", "2e-9"),
        ("0.0000000001", "1n"),
        ("0.00000012345", "124n"),
        ("0.9999999991", "1"),
        ("99.9999999999", "100"),
    ] {
        assert_eq!(parse(text).to_string(), canonical, "{text}");
    }
    assert_eq!(
        Quantity::from_integer(-1_234_000, DecimalSi).to_string(),
        "-1234k"
    );
    assert_eq!(
        Quantity::from_integer(1_048_576, BinarySi).to_string(),
        "1Mi"
    );
    assert_eq!(
        Quantity::from_integer(1_000_000, DecimalExponent).to_string(),
        "1e6"
    );
}

#[test]
fn what_is_refused_and_why() {
    use QuantityError::{FormatWrong, Numeric, Suffix};
    for (text, error) in [
        ("", FormatWrong),
        (" 1", FormatWrong),
        ("1 ", FormatWrong),
        ("1.1.M", FormatWrong),
        ("1+1.0M", FormatWrong),
        ("0.1am", FormatWrong),
        ("aoeu", FormatWrong),
        ("10Mbit", FormatWrong),
        ("10Q", FormatWrong),
        ("1_000", FormatWrong),
        ("١", FormatWrong),
        ("0.1mi", Suffix),
        (".5i", Suffix),
        ("1i", Suffix),
        ("10K", Suffix),
        ("10MM", Suffix),
        ("10M5", Suffix),
        ("1-5", Suffix),
        ("+-1", Suffix),
        ("e", Suffix),
        ("-3.01e-", Suffix),
        ("1e2147483648", Suffix),
        ("10e2147483647", Suffix),
        ("1e99999999999999999999", Suffix),
        ("Pi", Numeric),
        ("-.Ei", Numeric),
        ("e-10", Numeric),
    ] {
        assert_eq!(text.parse::<Quantity>(), Err(error), "{text:?}");
    }
    assert_eq!(
        FormatWrong.to_string(),
        "quantities must match the regular expression \
         '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    );
}

#[test]
fn order_is_that_of_the_values() {
    let ascending = [
        "-1e30", "-2", "-1500m", "-1n", "0", "1n", "0.9", "1", "1023", "1Ki", "9.9G", "10G", "1e30",
    ];
    for pair in ascending.windows(2) {
        assert_eq!(
            parse(pair[0]).cmp(&parse(pair[1])),
            Ordering::Less,
            "{pair:?}"
        );
        assert_eq!(
            parse(pair[1]).cmp(&parse(pair[0])),
            Ordering::Greater,
            "{pair:?}"
        );
    }
    assert_eq!(parse("1Gi"), parse("1073741824"));
    assert_eq!(parse("0"), parse("-0Ki"));
}

/// A suffix, and the number that it stands for as a fraction.
fn suffix() -> impl Strategy<Value = (&'static str, i128, i128)> {
    prop::sample::select(vec![
        ("n", 1, 1_000_000_000),
        ("u", 1, 1_000_000),
        ("m", 1, 1_000),
        ("", 1, 1),
        ("k", 1_000, 1),
        ("M", 1_000_000, 1),
        ("G", 1_000_000_000, 1),
        ("P", 1_000_000_000_000_000, 1),
        ("E", 1_000_000_000_000_000_000, 1),
        ("Ki", 1 << 10, 1),
        ("Gi", 1 << 30, 1),
        ("Ei", 1 << 60, 1),
        ("e-3", 1, 1_000),
        ("E7", 10_000_000, 1),
    ])
}

proptest! {
    /// The value is that of the same arithmetic in plain integers, rounded away from zero.
    #[test]
    fn value_is_exact(negative: bool, whole in 0..1_000_000_000_000_i128, fraction in "[0-9]{0,6}",
                      (suffix, multiplier, divisor) in suffix()) {
        let sign = if negative { "-" } else { "" };
        let quantity = parse(&format!("{sign}{whole}.{fraction}{suffix}"));

        let scale = 10_i128.pow(fraction.len() as u32);
        let digits = whole * scale + fraction.parse::<i128>().unwrap_or(0);
        let magnitude = (digits * multiplier).unsigned_abs().div_ceil((scale * divisor).unsigned_abs());
        let end = if negative && !suffix.ends_with('i') { 1_u128 << 63 } else { (1 << 63) - 1 };
        let magnitude = magnitude.min(end) as i128;
        let expected = if negative { -magnitude } else { magnitude };
        prop_assert_eq!(i128::from(quantity.value()), expected);
    }

    /// Printing loses nothing, and what is printed is in canonical form already.
    #[test]
    fn print_and_parse_are_inverse(text in "[+-]?[0-9]{1,30}(\\.[0-9]{0,15})?",
                                   suffix in "n|u|m||k|M|G|T|P|E|[KMGTPE]i|[eE][+-]?[0-9]{1,4}") {
        let quantity = parse(&format!("{text}{suffix}"));
        let printed = quantity.to_string();
        prop_assert_eq!(&parse(&printed), &quantity);
        prop_assert!(!printed.contains('.'));
        if quantity.format() != BinarySi {
            prop_assert_eq!(parse(&printed).to_string(), printed);
        }
    }
}
