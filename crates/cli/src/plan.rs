//! `netqos plan`: what an agent would enforce on a node.

use std::path::PathBuf;
use std::process::ExitCode;

use comfy_table::{Table, presets};
use netqos_agent::RuleStatus;
use netqos_core::{BitRate, Direction, NodePlan, Reason};

use crate::manifests;
use crate::output::{self, DataFormat, FAILED};
use crate::status::{RULE_HEADER, rule_cells};

/// Of which folder, and for which node.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Needs neither root nor an agent. What is wrong with the objects is said on standard error.

Examples:
  netqos plan --manifests objects/ --node node1
  netqos plan --manifests objects/ --node node1 -o json | jq '.endpoints'

Exit codes: 0 all objects are in the plan, 1 one is left out, 2 wrong usage or an unreadable folder.")]
pub struct Arguments {
    /// The folder of objects.
    #[arg(long, value_name = "DIR")]
    manifests: PathBuf,
    /// The node's name.
    #[arg(long, value_name = "NAME")]
    node: String,
    /// Where runtimes remember their CNI results (on a node: /var/lib/cni); without it pods are planned without interfaces.
    #[arg(long, value_name = "DIR")]
    cni_cache: Vec<PathBuf>,
    /// How to print it.
    #[arg(short, long, value_enum, default_value_t)]
    output: DataFormat,
}

/// Reads, plans, and prints.
pub fn run(arguments: &Arguments) -> ExitCode {
    let (folder, node) = (&arguments.manifests, &arguments.node);
    let read = match manifests::read(folder, node, &arguments.cni_cache) {
        Ok(read) => read,
        Err(code) => return code,
    };
    manifests::tell(&read.problems);
    let printed = output::data(arguments.output, read.index.plan(), print);
    let left_out = |reason| matches!(reason, Reason::Invalid | Reason::InvalidBandwidth);
    if read.problems.iter().any(|it| left_out(it.reason)) {
        return ExitCode::from(FAILED);
    }
    printed
}

fn print(plan: &NodePlan) {
    if plan.endpoints.is_empty() {
        println!("nothing is in force on this node");
        return;
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header([
        "POD",
        "NETWORK",
        "ADDRESSES",
        "INGRESS",
        "EGRESS",
        "RULES",
    ]);
    for (id, endpoint) in &plan.endpoints {
        let rate = |way| {
            let limit = endpoint.limits.of(way);
            limit.map_or_else(|| "-".to_owned(), |limit| limit.rate.to_string())
        };
        let addresses: Vec<String> = endpoint.addresses.iter().map(|it| it.to_string()).collect();
        let chain = endpoint.chain.and_then(|chain| plan.chains.get(&chain));
        table.add_row([
            endpoint.pod.name.to_string(),
            id.network.to_string(),
            addresses.join(", "),
            rate(Direction::Ingress),
            rate(Direction::Egress),
            chain.map_or(0, |chain| chain.rules.len()).to_string(),
        ]);
    }
    println!("{table}");
    for (id, chain) in &plan.chains {
        let of = plan.endpoints.values();
        let of = of.filter(|endpoint| endpoint.chain == Some(*id));
        let pods: Vec<String> = of.map(|endpoint| endpoint.pod.name.to_string()).collect();
        println!(
            "\nrules of {}, the first that matches wins:",
            pods.join(", ")
        );
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_header(RULE_HEADER);
        for rule in &chain.rules {
            table.add_row(rule_cells(&RuleStatus::of(rule)));
        }
        println!("{table}");
    }
    let peers = plan.peers.len();
    println!(
        "\n{peers} addresses of peers, {} ports of services",
        plan.services.len()
    );
}

/// A rate for people.
pub fn rate(bits: u64) -> String {
    BitRate::from_bits_per_second(bits).to_string()
}
