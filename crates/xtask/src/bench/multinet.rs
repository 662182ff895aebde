//! `netqos-multinet` beside a real Multus: CPU and time of a pod's attachments, requests to the API server, and 110 pods
//! at once.
//!
//! All of them attach the same networks of one node, call by call in turn, with the same plugins. The API server is a real
//! one, behind a proxy that records requests.

mod boot;
mod costs;
mod multus;
mod requests;
mod testbed;
#[cfg(test)]
mod thick_way_back;

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use netqos_kubernetes::Binaries;
use serde::{Deserialize, Serialize};

use super::rules::on_a_node;
use super::{cores, kernel, report};

pub use boot::Boot;
pub use costs::{Cost, Costs};
pub use requests::Requests;
use testbed::{Programs, Testbed};

/// Programs, and the size of the measurement.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// netqos-multinet.
    #[arg(long, default_value = "target/dist/netqos-multinet")]
    multinet: PathBuf,
    /// The agent.
    #[arg(long, default_value = "target/dist/netqos-agent")]
    agent: PathBuf,
    /// The program that measures one call.
    #[arg(long, default_value = "target/dist/measure")]
    measure: PathBuf,
    /// The directory of containernetworking's plugins.
    #[arg(long, default_value = "/usr/lib/cni")]
    plugins: PathBuf,
    /// A directory on a disk, where fsync takes its time.
    #[arg(long, default_value = "target/bench")]
    disk: PathBuf,
    /// ADD and DEL of each kind of pod.
    #[arg(long, default_value_t = 40)]
    calls: usize,
    /// Pods that start at once.
    #[arg(long, default_value_t = 110)]
    pods: usize,
    /// Makes 3 calls and 10 pods, and writes the page to target/bench: the figures are not valid.
    #[arg(long)]
    quick: bool,
    /// The page.
    #[arg(long, default_value = "docs/benchmarks-multinet.md")]
    table: PathBuf,
    /// The figures for machines.
    #[arg(long, default_value = "target/bench/multinet.json")]
    json: PathBuf,
    /// Measures nothing, and writes the page of the figures that are there.
    #[arg(long)]
    table_only: bool,
}

/// The programs that attach a pod's networks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Who {
    /// Nothing but the plugins of the networks.
    Direct,
    /// netqos-multinet, and the agent.
    Multinet,
    /// The same with its records on a disk.
    MultinetOnDisk,
    /// Multus, which asks the API server itself.
    Thin,
    /// Multus' shim, and its daemon.
    Thick,
}

/// The figures of one run.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Measured {
    pub kernel: String,
    pub cores: usize,
    pub kubernetes: String,
    pub multus: String,
    /// ADD and DEL of each kind of pod.
    pub calls: usize,
    pub costs: Vec<Costs>,
    /// Calls of fsync during an ADD with one network beside the default one.
    pub fsyncs: usize,
    pub requests: Vec<Requests>,
    pub boots: Vec<Boot>,
}

impl Arguments {
    /// The files of the table and of the figures.
    fn files(&self) -> [&Path; 2] {
        match self.quick {
            true => [
                "target/bench/quick-multinet.md",
                "target/bench/quick-multinet.json",
            ]
            .map(Path::new),
            false => [&self.table, &self.json],
        }
    }
}

/// Measures, and writes the page.
pub fn run(arguments: &Arguments) -> Result<()> {
    let [table, json] = arguments.files();
    if arguments.table_only {
        return report::write_multinet(table, &report::read_json(json)?);
    }
    for program in [&arguments.multinet, &arguments.agent, &arguments.measure] {
        ensure!(
            program.exists(),
            "{} is missing; `make bench` builds it",
            program.display()
        );
    }
    let (calls, pods) = match arguments.quick {
        true => (3, 10),
        false => (arguments.calls, arguments.pods),
    };
    std::fs::create_dir_all(&arguments.disk)?;
    let disk = tempfile::tempdir_in(&arguments.disk)?;
    let programs = Programs {
        multinet: arguments.multinet.canonicalize()?,
        agent: arguments.agent.canonicalize()?,
        measure: arguments.measure.canonicalize()?,
        plugins: arguments.plugins.clone(),
        multus: Binaries::tool("multus")?,
        shim: Binaries::tool("multus-shim")?,
        daemon: Binaries::tool("multus-daemon")?,
        disk: disk.path().canonicalize()?,
    };
    let measured = on_a_node(|node| {
        let testbed = Testbed::start(node, &programs, pods)?;
        Ok(Measured {
            kernel: kernel()?,
            cores: cores()?,
            kubernetes: testbed.kubernetes(),
            multus: testbed::MULTUS.to_owned(),
            calls,
            costs: costs::measure(&testbed, calls)?,
            fsyncs: costs::fsyncs(&testbed)?,
            requests: requests::measure(&testbed)?,
            boots: boot::measure(&testbed, pods)?,
        })
    })?;
    report::write_json(json, &measured)?;
    report::write_multinet(table, &measured)
}
