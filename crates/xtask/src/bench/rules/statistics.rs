//! What many measurements are told as.

use serde::{Deserialize, Serialize};

/// The median, and between what the measurements are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    pub low: f64,
    pub median: f64,
    pub high: f64,
}

/// What half of all are at most, and all but one in a hundred.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Quantiles {
    pub p50: f64,
    pub p99: f64,
}

impl Spread {
    /// Between the quartiles.
    pub fn of(mut numbers: Vec<f64>) -> Self {
        numbers.sort_by(f64::total_cmp);
        Self {
            low: at(&numbers, 25),
            median: at(&numbers, 50),
            high: at(&numbers, 75),
        }
    }

    /// Between the least and the greatest.
    pub fn whole(mut numbers: Vec<f64>) -> Self {
        numbers.sort_by(f64::total_cmp);
        Self {
            low: at(&numbers, 0),
            median: at(&numbers, 50),
            high: at(&numbers, 100),
        }
    }
}

impl Quantiles {
    pub fn of(mut numbers: Vec<f64>) -> Self {
        numbers.sort_by(f64::total_cmp);
        Self {
            p50: at(&numbers, 50),
            p99: at(&numbers, 99),
        }
    }
}

/// The least that so many percent of these are at most, which are in order.
fn at(sorted: &[f64], percent: usize) -> f64 {
    let place = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(place).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hundred_numbers_have_their_own_quantiles() {
        let numbers: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        let quantiles = Quantiles::of(numbers.clone());
        assert_eq!((quantiles.p50, quantiles.p99), (50.0, 99.0));
        let spread = Spread::of(numbers.clone());
        assert_eq!((spread.low, spread.median, spread.high), (25.0, 50.0, 75.0));
        let spread = Spread::whole(numbers);
        assert_eq!((spread.low, spread.high), (1.0, 100.0));
    }

    #[test]
    fn few_numbers_have_some() {
        assert_eq!(Spread::whole(vec![3.0]).median, 3.0);
        assert_eq!(Spread::of(vec![1.0, 2.0, 4.0]).median, 2.0);
        assert_eq!(Quantiles::of(vec![1.0, 2.0]).p99, 2.0);
        assert!(Spread::of(Vec::new()).median.is_nan());
    }
}
