//! Packets that the machine itself dropped.

use std::fmt::Display;
use std::fs;

use anyhow::{Context, Result};

/// `dropped` of the line of a CPU in `/proc/net/softnet_stat` (net/core/net-procfs.c), from 0.
const DROPPED: usize = 1;

/// The number of times that losses are counted.
const TURNS: std::ops::RangeInclusive<usize> = 3..=8;

/// Counts the packets that the kernel drops from now on because the input queue of a CPU is full
/// (`net.core.netdev_max_backlog`).
///
/// All veths of the machine share these queues, those of other tests and programs too. A test that
/// requires that no packet is lost allows as many as these, on a machine that is too busy to tell.
#[derive(Debug)]
pub struct BacklogDrops {
    before: u64,
}

impl BacklogDrops {
    /// Starts to count.
    ///
    /// # Errors
    /// Returns an error if `/proc` cannot be read.
    pub fn count() -> Result<Self> {
        let before = dropped()?;
        Ok(Self { before })
    }

    /// The number of packets since then. Prints it if it is not 0.
    ///
    /// # Errors
    /// Returns an error if `/proc` cannot be read.
    pub fn so_far(&self) -> Result<u64> {
        let drops = dropped()?.saturating_sub(self.before);
        if drops > 0 {
            eprintln!("the machine's input queues dropped {drops} packets");
        }
        Ok(drops)
    }
}

/// Asserts that changes lose no more packets than those of `tc` alone. Runs both by turns, until median and sum of the one
/// are within their bounds.
///
/// Where both lose alike, chance alone may keep the medians apart for all turns. So after the last turn each count is
/// compared with each count of `tc` (Mann and Whitney): if both lose alike, the larger one is netqos' in half of the
/// pairs, and in 19 of 20 once in a thousand runs. The sum is at most three times that of `tc`, and 20.
///
/// # Panics
/// Panics if changes lose more.
pub fn assert_loses_no_more_than_tc(
    case: impl Display,
    mut by_netqos: impl FnMut() -> u64,
    mut by_tc: impl FnMut() -> u64,
) {
    let (mut netqos, mut tc) = (Vec::new(), Vec::new());
    let sum = |counts: &[u64]| counts.iter().sum::<u64>();
    let is_in_doubt =
        |netqos: &[u64], tc: &[u64]| median(netqos) > median(tc) || sum(netqos) > 3 * sum(tc) + 20;
    while tc.len() < *TURNS.start() || is_in_doubt(&netqos, &tc) && tc.len() < *TURNS.end() {
        tc.push(by_tc());
        netqos.push(by_netqos());
    }
    let lost = format!("{case}: lost {netqos:?} packets, by the changes of tc alone {tc:?}");
    eprintln!("{lost}");
    let pairs = netqos
        .iter()
        .flat_map(|one| tc.iter().map(move |other| one > other));
    let larger = pairs.filter(|is_larger| *is_larger).count();
    let is_larger = median(&netqos) > median(&tc) && 20 * larger > 19 * netqos.len() * tc.len();
    assert!(!is_larger && sum(&netqos) <= 3 * sum(&tc) + 20, "{lost}");
}

fn median(counts: &[u64]) -> u64 {
    let mut sorted = counts.to_vec();
    sorted.sort_unstable();
    sorted[(sorted.len() - 1) / 2]
}

fn dropped() -> Result<u64> {
    let table = fs::read_to_string("/proc/net/softnet_stat")?;
    let drops = table.lines().map(|cpu| {
        let field = cpu.split_whitespace().nth(DROPPED);
        u64::from_str_radix(field.unwrap_or_default(), 16).context("softnet_stat")
    });
    drops.sum()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use super::*;

    #[test]
    fn softnet_stat_of_this_kernel_is_read() {
        dropped().unwrap();
    }
}
