//! Packets that the machine itself dropped.

use std::fs;

use anyhow::{Context, Result};

/// `dropped` of the line of a CPU in `/proc/net/softnet_stat` (net/core/net-procfs.c), from 0.
const DROPPED: usize = 1;

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
