//! What agent and controller take in a large cluster, each a process of its own beside a real API server and
//! etcd: what those take does not count.

mod agent;
mod changes;
mod controller;
mod objects;
pub(super) mod process;
mod replay;
mod server;
mod stage;
mod starts;

use std::path::{Path, PathBuf};

use anyhow::Result;
use netqos_kubernetes::Binaries;
use serde::{Deserialize, Serialize};

use super::{cores, kernel, report};

pub use agent::{Node, Resident};
pub use changes::Change;
pub use controller::{Controlled, Size};
pub use starts::Starts;

/// Of each kind.
const CHANGES: u32 = 300;

/// What is measured, and how large the cluster is.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The controller, as a cluster has it.
    #[arg(long, default_value = "target/dist/netqos-controller")]
    controller: PathBuf,
    /// The agent, as a node has it.
    #[arg(long, default_value = "target/dist/netqos-agent")]
    agent: PathBuf,
    /// Only this; the figures of the other parts stay as they are. May be given more than once.
    #[arg(long, value_enum)]
    part: Vec<Part>,
    /// Pods in the cluster.
    #[arg(long, default_value_t = 100_000)]
    pods: u32,
    /// Policies in the cluster.
    #[arg(long, default_value_t = 10_000)]
    policies: u32,
    /// Nodes in the cluster.
    #[arg(long, default_value_t = 1_000)]
    nodes: u32,
    /// Pods that come or go in a second.
    #[arg(long, default_value_t = 500)]
    rate: u32,
    /// For how many seconds.
    #[arg(long, default_value_t = 60)]
    seconds: u32,
    /// Peers of an agent's rules, in the large case.
    #[arg(long, default_value_t = 100_000)]
    peers: u32,
    /// Only looks whether everything can be measured: the figures are worth nothing.
    #[arg(long)]
    quick: bool,
    /// Where the table goes.
    #[arg(long, default_value = "docs/benchmarks-cluster.md")]
    table: PathBuf,
    /// Where the figures go, for machines.
    #[arg(long, default_value = "target/bench/cluster.json")]
    json: PathBuf,
    /// Measure nothing, and write the table of the figures that are there.
    #[arg(long)]
    table_only: bool,
}

/// What can be measured by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// The controller while pods come and go.
    Controller,
    /// What an agent has in memory, and takes when idle.
    Agent,
    /// What is asked of the API server when a pod starts.
    Starts,
    /// How soon a change is in force.
    Changes,
}

/// The figures, as far as they were measured.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Measured {
    pub kernel: String,
    pub cores: usize,
    /// The version of the API server.
    pub kubernetes: String,
    pub controller: Option<Controlled>,
    pub agents: Vec<Resident>,
    pub starts: Option<Starts>,
    #[serde(default)]
    pub changes: Vec<Change>,
}

impl Arguments {
    fn size(&self) -> Size {
        let whole = Size {
            pods: self.pods,
            policies: self.policies,
            nodes: self.nodes,
            rate: self.rate,
            seconds: self.seconds,
        };
        match self.quick {
            true => Size {
                pods: 2_000,
                policies: 200,
                nodes: 20,
                rate: 50,
                seconds: 5,
            },
            false => whole,
        }
    }

    fn measures(&self, part: Part) -> bool {
        self.part.is_empty() || self.part.contains(&part)
    }

    /// Where the table goes: one that is worth nothing does not take the place of one that is.
    /// The files of the table and of the figures.
    fn files(&self) -> [&Path; 2] {
        match self.quick {
            true => [
                "target/bench/quick-cluster.md",
                "target/bench/quick-cluster.json",
            ]
            .map(Path::new),
            false => [&self.table, &self.json],
        }
    }
}

/// Measures, and writes the table.
pub fn run(arguments: &Arguments) -> Result<()> {
    let [table, json] = arguments.files();
    let is_whole = arguments.part.is_empty() && !arguments.table_only;
    let mut measured: Measured = match !is_whole && json.exists() {
        true => report::read_json(json)?,
        false => Measured::default(),
    };
    if arguments.table_only {
        return report::write_cluster(table, &measured);
    }
    (measured.kernel, measured.cores) = (kernel()?, cores()?);
    measured.kubernetes = Binaries::find()?.version()?;
    if arguments.measures(Part::Controller) {
        let figures = controller::measure(&arguments.controller, arguments.size())?;
        measured.controller = Some(figures);
        report::write_json(json, &measured)?;
    }
    if arguments.measures(Part::Agent) {
        measured.agents.clear();
        let peers = if arguments.quick {
            2_000
        } else {
            arguments.peers
        };
        for node in Node::all(peers) {
            let figures = agent::measure(&arguments.agent, node, arguments.quick)?;
            measured.agents.push(figures);
        }
        report::write_json(json, &measured)?;
    }
    if arguments.measures(Part::Starts) {
        measured.starts = Some(starts::measure(&arguments.agent, &arguments.controller)?);
        report::write_json(json, &measured)?;
    }
    if arguments.measures(Part::Changes) {
        let changes = if arguments.quick { 5 } else { CHANGES };
        measured.changes = changes::measure(&arguments.agent, &arguments.controller, changes)?;
        report::write_json(json, &measured)?;
    }
    report::write_cluster(table, &measured)
}
