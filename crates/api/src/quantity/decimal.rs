//! Exact decimal numbers of any size, with the few operations that a quantity needs.

use std::cmp::Ordering;

/// `digits × 10^exponent`.
///
/// Always in one form, so that equal numbers are equal structures: the digits neither begin nor
/// end with a zero, and zero is no digits, exponent 0, not negative. Size in memory is that of the
/// text it came from, whatever its exponent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Decimal {
    negative: bool,
    digits: String,
    exponent: i64,
}

impl Decimal {
    /// The number of these decimal digits, times ten to the `exponent`.
    pub(super) fn new(negative: bool, digits: &str, exponent: i64) -> Self {
        let digits = digits.trim_start_matches('0');
        let significant = digits.trim_end_matches('0');
        let zeros = digits.len() - significant.len();
        if significant.is_empty() {
            return Self {
                negative: false,
                digits: String::new(),
                exponent: 0,
            };
        }
        Self {
            negative,
            digits: significant.to_owned(),
            exponent: exponent + zeros as i64,
        }
    }

    pub(super) const fn exponent(&self) -> i64 {
        self.exponent
    }

    pub(super) const fn is_whole(&self) -> bool {
        self.exponent >= 0
    }

    pub(super) fn sign(&self) -> Ordering {
        match (self.digits.is_empty(), self.negative) {
            (true, _) => Ordering::Equal,
            (false, true) => Ordering::Less,
            (false, false) => Ordering::Greater,
        }
    }

    /// The number times ten to the `places`.
    pub(super) fn shifted(&self, places: i64) -> Self {
        Self::new(self.negative, &self.digits, self.exponent + places)
    }

    /// The number times two to the `power`, which is at most 60.
    pub(super) fn times_power_of_two(&self, power: u32) -> Self {
        let mut carry = 0_u128;
        let mut product = Vec::with_capacity(self.digits.len() + 19);
        for digit in self.digits.bytes().rev() {
            carry += u128::from(digit - b'0') << power;
            product.push(char::from(b'0' + (carry % 10) as u8));
            carry /= 10;
        }
        while carry > 0 {
            product.push(char::from(b'0' + (carry % 10) as u8));
            carry /= 10;
        }
        let digits: String = product.into_iter().rev().collect();
        Self::new(self.negative, &digits, self.exponent)
    }

    /// The nearest multiple of ten to the `exponent` that is not nearer to zero.
    pub(super) fn rounded_up_to(&self, exponent: i64) -> Self {
        if self.digits.is_empty() || self.exponent >= exponent {
            return self.clone();
        }
        let dropped = usize::try_from(exponent - self.exponent).unwrap_or(usize::MAX);
        let kept = self.digits.len().saturating_sub(dropped);
        // The last digit is never zero, so what is dropped is never nothing.
        Self::new(self.negative, &increment(&self.digits[..kept]), exponent)
    }

    /// This or `limit`, whichever is nearer to zero, with the sign of this.
    pub(super) fn capped_at(&self, limit: u64) -> Self {
        let cap = Self::new(false, &limit.to_string(), 0);
        if self.compare_magnitude(&cap) == Ordering::Greater {
            return Self::new(self.negative, &cap.digits, cap.exponent);
        }
        self.clone()
    }

    /// True when it is between −1 and 1, both excluded.
    pub(super) fn is_below_one(&self) -> bool {
        self.magnitude() <= 0
    }

    /// The number rounded away from zero to a whole one, at the ends of the range when it does
    /// not fit.
    pub(super) fn to_i64(&self) -> i64 {
        let end = if self.negative { i64::MIN } else { i64::MAX };
        let whole = self.rounded_up_to(0);
        if whole.magnitude() > 19 {
            return end;
        }
        let zeros = (0..whole.exponent).map(|_| b'0');
        let number = whole
            .digits
            .bytes()
            .chain(zeros)
            .fold(0_i128, |number, digit| {
                number * 10 + i128::from(digit - b'0')
            });
        i64::try_from(if self.negative { -number } else { number }).unwrap_or(end)
    }

    /// The number as a whole one, and the power of ten to multiply it with: the largest multiple
    /// of three that leaves it whole.
    pub(super) fn in_thousands(&self) -> (String, i64) {
        let exponent = self.exponent.div_euclid(3) * 3;
        let zeros = "0".repeat(self.exponent.rem_euclid(3) as usize);
        let sign = if self.negative { "-" } else { "" };
        (format!("{sign}{}{zeros}", self.digits), exponent)
    }

    /// How many digits stand before the decimal point (below zero: minus the zeros behind it).
    fn magnitude(&self) -> i64 {
        self.digits.len() as i64 + self.exponent
    }

    fn compare_magnitude(&self, other: &Self) -> Ordering {
        // Zero has no first digit to compare by.
        match (self.digits.is_empty(), other.digits.is_empty()) {
            (false, false) => self
                .magnitude()
                .cmp(&other.magnitude())
                .then_with(|| self.digits.cmp(&other.digits)),
            (mine, theirs) => theirs.cmp(&mine),
        }
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        self.sign().cmp(&other.sign()).then_with(|| {
            let order = self.compare_magnitude(other);
            if self.negative {
                order.reverse()
            } else {
                order
            }
        })
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The digits of the next whole number.
fn increment(digits: &str) -> String {
    let head = digits.trim_end_matches('9');
    let zeros = "0".repeat(digits.len() - head.len());
    match head.as_bytes().split_last() {
        Some((last, before)) => {
            let before = &head[..before.len()];
            format!("{before}{}{zeros}", char::from(last + 1))
        }
        None => format!("1{zeros}"),
    }
}
