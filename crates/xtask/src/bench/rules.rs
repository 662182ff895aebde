//! What rules per destination cost, and what rates they give.
//!
//! Each part has nodes of its own, with real pods. What it was to reach stands beside each figure,
//! and beside what a packet costs the same by others' means.

mod changes;
mod end_to_end;
mod flow;
mod hooks;
pub mod live;
mod peers;
mod program;
pub mod rates;
mod stage;
mod statistics;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::index::Figures;
use super::report;
use live::{Live, Thoroughness};
use rates::Rates;

pub use changes::{Changes, RuleChange};
pub use end_to_end::EndToEnd;
pub use flow::Flow;
pub use hooks::Hooks;
pub use peers::ManyPeers;
pub use program::ProgramRun;
pub use stage::on_a_node;
pub use statistics::{Quantiles, Spread};

/// How many rules a pod's chain has.
const COUNTS: [usize; 4] = [1, 20, 100, 1000];

/// How thoroughly rules are measured.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Rates, too: ten runs of each take 25 minutes.
    #[arg(long)]
    rates: bool,
    /// How often each rate is measured.
    #[arg(long, default_value_t = 10)]
    repeats: usize,
    /// How often the nodes are made anew on which packets are measured live.
    #[arg(long, default_value_t = 8)]
    setups: usize,
    /// How often each of them is measured.
    #[arg(long, default_value_t = 25)]
    rounds: usize,
    /// How long, in milliseconds.
    #[arg(long, default_value_t = 50)]
    milliseconds: u64,
    /// Peers in the large case.
    #[arg(long, default_value_t = 100_000)]
    peers: u32,
    /// Changes of a manifest, from end to end.
    #[arg(long, default_value_t = 400)]
    changes: u32,
    /// The agent, as a node has it.
    #[arg(long, default_value = "target/dist/netqos-agent")]
    agent: PathBuf,
    /// Only looks whether everything can be measured: the figures are worth nothing.
    #[arg(long)]
    quick: bool,
    /// Where the table goes.
    #[arg(long, default_value = "docs/benchmarks-rules.md")]
    table: PathBuf,
    /// Where the figures go, for machines.
    #[arg(long, default_value = "target/bench/rules.json")]
    json: PathBuf,
    /// Measure nothing, and write the table of the figures that are there.
    #[arg(long)]
    table_only: bool,
}

/// How often what is done.
struct Plan {
    live: Thoroughness,
    runs: u32,
    peers: u32,
    events: u32,
    changes: u32,
    pods: u32,
    policies: u32,
    repeats: usize,
}

/// The figures of one run.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Measured {
    pub kernel: String,
    pub cores: usize,
    pub live: Live,
    pub how_live: Thoroughness,
    pub program: Vec<ProgramRun>,
    pub hooks: Hooks,
    pub many_peers: ManyPeers,
    pub first_index: Figures,
    pub changes: Changes,
    pub end_to_end: EndToEnd,
    pub rates: Option<Rates>,
}

impl Arguments {
    fn plan(&self) -> Plan {
        if self.quick {
            return Plan {
                live: Thoroughness {
                    setups: 1,
                    rounds: 3,
                    milliseconds: 5,
                },
                runs: 4_000,
                peers: 2_000,
                events: 20,
                changes: 10,
                pods: 2_000,
                policies: 200,
                repeats: 1,
            };
        }
        Plan {
            live: Thoroughness {
                setups: self.setups,
                rounds: self.rounds,
                milliseconds: self.milliseconds,
            },
            runs: 400_000,
            peers: self.peers,
            events: 2_000,
            changes: self.changes,
            pods: 100_000,
            policies: 10_000,
            repeats: self.repeats,
        }
    }

    /// Where the table goes: one that is worth nothing does not take the place of one that is.
    /// The files of the table and of the figures.
    fn files(&self) -> [&Path; 2] {
        match self.quick {
            true => ["target/bench/quick.md", "target/bench/quick.json"].map(Path::new),
            false => [&self.table, &self.json],
        }
    }
}

/// Measures, and writes the table.
pub fn run(arguments: &Arguments) -> Result<()> {
    let [table, json] = arguments.files();
    if arguments.table_only {
        return report::write_rules(table, &report::read_json(json)?);
    }
    let plan = arguments.plan();
    let measured = Measured {
        kernel: super::kernel()?,
        cores: super::cores()?,
        end_to_end: part("end to end", || {
            end_to_end::measure(&arguments.agent, plan.changes)
        })?,
        live: part("live", || live::measure(&COUNTS, plan.live))?,
        how_live: plan.live,
        program: part("program", || program::measure(&COUNTS, plan.runs))?,
        hooks: part("hooks", hooks::measure)?,
        many_peers: part("peers", || peers::measure(plan.peers, plan.runs))?,
        first_index: part("index", || first_index(plan.pods, plan.policies))?,
        changes: part("changes", || changes::measure(plan.events))?,
        rates: match arguments.rates {
            true => Some(part("rates", || rates::measure(plan.repeats))?),
            false => None,
        },
    };
    report::write_json(json, &measured)?;
    report::write_rules(table, &measured)
}

fn part<T>(name: &'static str, measure: impl FnOnce() -> Result<T>) -> Result<T> {
    eprintln!("measuring: {name}");
    measure().context(name)
}

/// In a process of its own, whose memory is that of the index.
fn first_index(pods: u32, policies: u32) -> Result<Figures> {
    let output = Command::new(std::env::current_exe()?)
        .args(["bench-index", "--json"])
        .args(["--pods", &pods.to_string()])
        .args(["--policies", &policies.to_string()])
        .output()?;
    ensure!(
        output.status.success(),
        "bench-index: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).context("what bench-index printed")
}
