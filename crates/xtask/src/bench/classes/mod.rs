//! What a line's classes give, and what they cost: the kernel backend beside the proposal's tc.
//!
//! Each measurement has a node of its own, with three pods behind a line to a machine outside. Where
//! several ways are compared they take turns on the same minutes.

mod cost;
mod joining;
mod shares;
mod stage;

use std::path::PathBuf;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::report;

pub use cost::{Cost, Throughput};
pub use joining::Joining;
pub use shares::{Latency, Shared};
pub use stage::Way;

/// How thoroughly classes are measured.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// How often each measurement is repeated; the median counts.
    #[arg(long, default_value_t = 5)]
    repeats: usize,
    /// How long each takes, in seconds.
    #[arg(long, default_value_t = 4.0)]
    seconds: f64,
    /// Bursts of 100 packets by which their cost is measured, for each way.
    #[arg(long, default_value_t = 1500)]
    bursts: usize,
    /// Where the table goes.
    #[arg(long, default_value = "docs/benchmarks-classes.md")]
    table: PathBuf,
    /// Where the figures go, for machines.
    #[arg(long, default_value = "target/bench/classes.json")]
    json: PathBuf,
    /// Measure nothing, and write the table of the figures that are there.
    #[arg(long)]
    table_only: bool,
}

/// The figures of one run.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Measured {
    pub kernel: String,
    pub cores: usize,
    pub repeats: usize,
    pub shared: Vec<Shared>,
    pub joining: Vec<Joining>,
    pub latency: Vec<Latency>,
    pub throughput: Vec<Throughput>,
    pub cost: Vec<Cost>,
}

/// Lines that are measured, in Mbit/s.
const LINES: [u64; 2] = [100, 1000];

/// Measures, and writes the table.
pub fn run(arguments: &Arguments) -> Result<()> {
    if arguments.table_only {
        return report::write_classes(&arguments.table, &report::read_json(&arguments.json)?);
    }
    let (repeats, seconds) = (arguments.repeats, arguments.seconds);
    let measured = Measured {
        kernel: super::kernel()?,
        cores: super::cores()?,
        repeats,
        cost: cost::measure(arguments.bursts)?,
        throughput: cost::throughput(repeats)?,
        shared: shares::measure(&LINES, repeats, seconds)?,
        joining: joining::measure(&LINES, repeats)?,
        latency: shares::latency(&LINES, repeats, seconds)?,
    };
    report::write_json(&arguments.json, &measured)?;
    report::write_classes(&arguments.table, &measured)
}
