//! The bandwidth plugin beside the well-known one: what a call costs, and what a limit gives.
//!
//! Both run in the same minutes on the same machine, call by call in turn, so that what else the
//! machine does falls on both. Everything happens in network namespaces of the benchmark's own.

mod calls;
mod report;
mod traffic;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use netqos_testkit::Node;

/// The two plugins, and how thoroughly they are measured.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The plugin of netqos.
    #[arg(long, default_value = "target/dist/bandwidth")]
    ours: PathBuf,
    /// The well-known plugin.
    #[arg(long, default_value = "/usr/lib/cni/bandwidth")]
    theirs: PathBuf,
    /// The program that measures one call.
    #[arg(long, default_value = "target/dist/measure")]
    measure: PathBuf,
    /// How often each call is made.
    #[arg(long, default_value_t = 60)]
    calls: usize,
    /// How often each measurement of traffic is repeated; the median counts.
    #[arg(long, default_value_t = 5)]
    repeats: usize,
    /// Where the table goes.
    #[arg(long, default_value = "docs/benchmarks.md")]
    table: PathBuf,
    /// Where the figures go, for machines.
    #[arg(long, default_value = "target/bench/report.json")]
    json: PathBuf,
}

/// The one, or the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Who {
    /// netqos.
    Ours,
    /// The well-known plugin.
    Theirs,
}

impl Arguments {
    fn plugin(&self, who: Who) -> &Path {
        match who {
            Who::Ours => &self.ours,
            Who::Theirs => &self.theirs,
        }
    }
}

/// Measures, and writes the table.
pub fn run(arguments: &Arguments) -> Result<()> {
    for program in [&arguments.ours, &arguments.theirs, &arguments.measure] {
        ensure!(
            program.exists(),
            "{} is missing; `make bench` builds ours, and containernetworking-plugins has theirs",
            program.display()
        );
    }
    let node = Node::new()?.context("the benchmark makes network namespaces, which needs root")?;
    let calls = calls::measure(&node, arguments)?;
    let traffic = traffic::measure(&node, arguments)?;
    report::write(arguments, &calls, &traffic)
}

/// The median.
fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or(f64::NAN)
}
