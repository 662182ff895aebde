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
use netqos_traffic::Flow;
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
    /// Only this; the figures of the other parts stay as they are. May be given more than once.
    #[arg(long, value_enum)]
    part: Vec<Part>,
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

/// What can be measured by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// Processor time of a forwarded packet.
    Cost,
    /// Packets that pass in a second.
    Throughput,
    /// What each class has of the line.
    Shares,
    /// A class that begins.
    Joining,
    /// Questions and answers beside transfers.
    Latency,
}

/// The figures, as far as they were measured.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
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

/// Each of these lines, both ways.
fn ways(lines: &[u64]) -> impl Iterator<Item = (u64, Flow)> {
    let both = |line: &u64| [Flow::Upload, Flow::Download].map(|flow| (*line, flow));
    lines.iter().flat_map(both)
}

/// Measures, and writes the table.
pub fn run(arguments: &Arguments) -> Result<()> {
    if arguments.table_only {
        return report::write_classes(&arguments.table, &report::read_json(&arguments.json)?);
    }
    let (repeats, seconds) = (arguments.repeats, arguments.seconds);
    let is_meant = |part| arguments.part.is_empty() || arguments.part.contains(&part);
    let mut measured = match arguments.part.is_empty() || !arguments.json.exists() {
        true => Measured::default(),
        false => report::read_json(&arguments.json)?,
    };
    (measured.kernel, measured.cores) = (super::kernel()?, super::cores()?);
    measured.repeats = repeats;
    if is_meant(Part::Cost) {
        measured.cost = cost::measure(arguments.bursts)?;
    }
    if is_meant(Part::Throughput) {
        measured.throughput = cost::throughput(repeats)?;
    }
    if is_meant(Part::Shares) {
        measured.shared = shares::measure(&LINES, repeats, seconds)?;
    }
    if is_meant(Part::Joining) {
        measured.joining = joining::measure(&LINES, repeats)?;
    }
    if is_meant(Part::Latency) {
        measured.latency = shares::latency(&LINES, repeats, seconds)?;
    }
    report::write_json(&arguments.json, &measured)?;
    report::write_classes(&arguments.table, &measured)
}
