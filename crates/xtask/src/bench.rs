//! The bandwidth plugin beside the well-known one: what a call costs, and what a limit gives.
//!
//! Both run in the same minutes on the same machine, call by call in turn, so that what else the
//! machine does falls on both. Everything happens in network namespaces of the benchmark's own.

mod calls;
pub mod classes;
pub mod cluster;
pub mod index;
pub mod multinet;
pub mod peers;
mod report;
pub mod rules;
mod traffic;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use netqos_testkit::Node;
use serde::{Deserialize, Serialize};

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
    /// Measure nothing, and write the table of the figures that are there.
    #[arg(long)]
    table_only: bool,
}

/// The figures of one run, and on what and how thoroughly they were measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Measured {
    kernel: String,
    cores: usize,
    /// How often each call was made.
    calls_of_each: usize,
    /// How often each measurement of traffic was made.
    repeats: usize,
    calls: calls::Calls,
    traffic: traffic::Traffic,
}

/// The one, or the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
    if arguments.table_only {
        return report::write_table(&arguments.table, &report::read_json(&arguments.json)?);
    }
    for program in [&arguments.ours, &arguments.theirs, &arguments.measure] {
        ensure!(
            program.exists(),
            "{} is missing; `make bench` builds ours, and containernetworking-plugins has theirs",
            program.display()
        );
    }
    let node = Node::new()?.context("the benchmark makes network namespaces, which needs root")?;
    let measured = Measured {
        kernel: kernel()?,
        cores: cores()?,
        calls_of_each: arguments.calls,
        repeats: arguments.repeats,
        calls: calls::measure(&node, arguments)?,
        traffic: traffic::measure(&node, arguments)?,
    };
    report::write_json(&arguments.json, &measured)?;
    report::write_table(&arguments.table, &measured)
}

/// The kernel's version.
fn kernel() -> Result<String> {
    let version = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    Ok(version.trim().to_owned())
}

fn cores() -> Result<usize> {
    Ok(std::thread::available_parallelism()?.get())
}

/// Seconds that all cores together have been busy since the machine started.
fn busy_seconds() -> Result<f64> {
    let text = fs::read_to_string("/proc/stat")?;
    let line = text.lines().next().context("an empty /proc/stat")?;
    let numbers: Vec<f64> = line
        .split_whitespace()
        .skip(1)
        .flat_map(str::parse)
        .collect();
    // user nice system idle iowait irq softirq, in hundredths of a second
    let busy = numbers
        .iter()
        .take(3)
        .chain(numbers.iter().skip(5).take(2))
        .sum::<f64>();
    Ok(busy / 100.0)
}

/// The median.
fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or(f64::NAN)
}
