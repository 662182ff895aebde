//! `netqos plan`: what an agent would enforce on a node.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use comfy_table::{Table, presets};
use netqos_agent::classes::{DEFAULT_CLASS_BACKEND, Knowledge, NetFiles, plan, stated_place, told};
use netqos_agent::{ClassStatus, RuleStatus};
use netqos_api::koordinator::BackendKind;
use netqos_core::classes::{ClassPlan, TrafficClass};
use netqos_core::{BitRate, Direction, NodePlan, Problem, Reason};
use serde::Serialize;

use crate::manifests;
use crate::output::{self, BAD_INPUT, DataFormat, FAILED};
use crate::status::{RULE_HEADER, classes, rule_cells};

/// Of which folder, and for which node.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Needs neither root nor an agent. What is wrong with the objects is said on standard error.

Examples:
  netqos plan --manifests objects/ --node node1
  netqos plan --manifests objects/ --node node1 -o json | jq '.endpoints'
  netqos plan --manifests objects/ --node node1 --koordinator-net-files /var/run/koordinator/net

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
    /// A line of the node's, as `--line` of netqos-agent; may be given more than once. What it carries
    /// the objects have to say.
    #[arg(long = "line", value_name = "NAME", default_value = "eth0")]
    lines: Vec<String>,
    /// The folder of the files node and pods by which another agent says how lines are shared (on a node:
    /// /var/run/koordinator/net).
    #[arg(long, value_name = "DIR")]
    koordinator_net_files: Option<PathBuf>,
    /// Who divides the lines where no object says another: kernel, tc, terway-qos, none.
    #[arg(long, value_name = "NAME", default_value_t = DEFAULT_CLASS_BACKEND)]
    class_backend: BackendKind,
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
    let files = arguments.koordinator_net_files.as_deref();
    if let Some(files) = files
        && let Err(why) = std::fs::read_dir(files)
    {
        eprintln!("netqos: {}: {why}", files.display());
        return ExitCode::from(BAD_INPUT);
    }
    let (divided, of_lines) = divide(&read, arguments);
    let problems = [read.problems, of_lines].concat();
    manifests::tell(&problems);
    let planned = Planned {
        node: read.index.plan(),
        divided,
    };
    let printed = output::data(arguments.output, &planned, print);
    let left_out = |reason| {
        matches!(
            reason,
            Reason::Invalid
                | Reason::InvalidBandwidth
                | Reason::InvalidPodClass
                | Reason::InvalidClasses
        )
    };
    if problems.iter().any(|it| left_out(it.reason)) {
        return ExitCode::from(FAILED);
    }
    printed
}

/// All that is planned.
#[derive(Serialize)]
struct Planned<'p> {
    #[serde(flatten)]
    node: &'p NodePlan,
    #[serde(flatten)]
    divided: Divided,
}

/// How the node's lines are to be divided.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Divided {
    class_backend: String,
    #[serde(flatten)]
    plan: ClassPlan,
    pod_classes: Vec<ClassStatus>,
}

/// How the node's lines are to be divided, and what is wrong with that.
fn divide(read: &manifests::Read, arguments: &Arguments) -> (Divided, Vec<Problem>) {
    let node = arguments.node.as_str();
    let mut knowledge = Knowledge::new(node, arguments.class_backend);
    if let Some(folder) = &arguments.koordinator_net_files {
        knowledge.hear_files(Arc::new(NetFiles::read(folder)));
    }
    knowledge.hear(&read.classes);
    let mut problems = knowledge.problems().to_vec();
    for warning in knowledge.warnings() {
        eprintln!("netqos: Node {node}: {warning}");
    }
    let mut divided = Divided {
        class_backend: knowledge.backend().to_string(),
        plan: ClassPlan::default(),
        pod_classes: Vec::new(),
    };
    let Some(division) = knowledge.division() else {
        return (divided, problems);
    };
    let here = read.classes.pods.values().filter(|pod| &*pod.node == node);
    let here: Vec<_> = here.collect();
    let pods = here
        .iter()
        .filter_map(|pod| knowledge.pod(pod, stated_place(pod)));
    let names = arguments.lines.iter();
    let speeds: BTreeMap<Arc<str>, Option<BitRate>> =
        names.map(|line| (line.as_str().into(), None)).collect();
    let (plan, found) = plan(node, division, &speeds, None, pods, &ClassPlan::default());
    problems.extend(found);
    divided.pod_classes = told(&knowledge, here, &plan, &[]);
    divided.plan = plan;
    (divided, problems)
}

fn print(planned: &Planned<'_>) {
    let divided = &planned.divided;
    if !divided.plan.lines.is_empty() {
        println!(
            "shared by {}:\n{}\n",
            divided.class_backend,
            lines(&divided.plan)
        );
    }
    if !divided.pod_classes.is_empty() {
        println!("{}\n", classes(&divided.pod_classes));
    }
    print_node(planned.node);
}

/// What each class may take of each line.
fn lines(plan: &ClassPlan) -> Table {
    let mut table = line_table();
    for (line, shares) in &plan.lines {
        for direction in [Direction::Ingress, Direction::Egress] {
            let shares = shares.of(direction);
            let cell = |class| {
                let share = shares.of(class);
                share_cell(share.min.bits_per_second(), share.max.bits_per_second())
            };
            let mut row = vec![line.to_string(), direction.to_string()];
            row.extend(TrafficClass::ALL.map(cell));
            table.add_row(row);
        }
    }
    table
}

/// A table with what classes may take of lines.
pub fn line_table() -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header([
        "LINE",
        "DIRECTION",
        "SYSTEM",
        "LATENCY-SENSITIVE",
        "BEST-EFFORT",
    ]);
    table
}

/// What is guaranteed, and the most.
pub fn share_cell(min: u64, max: u64) -> String {
    format!("{}..{}", rate(min), rate(max))
}

fn print_node(plan: &NodePlan) {
    if plan.endpoints.is_empty() {
        println!("no limits or rules are for pods of this node");
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
