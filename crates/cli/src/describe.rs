//! `netqos describe`: what one pod gets.

use std::path::PathBuf;
use std::process::ExitCode;

use comfy_table::{Table, presets};
use netqos_analysis::{DescribedClass, DescribedNetwork, DescribedPod, Snapshot, describe};
use netqos_core::{BitRate, ByteCount, ObjectName};

use crate::cluster::{ASKED, ClusterArguments};
use crate::manifests;
use crate::output::{self, DataFormat, FAILED};

/// Of which kind.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Says of which class a pod is, what it is limited to and by whom, which rules are for it, and whether its
    /// node has them in force.
    Pod(OfPod),
}

/// Which pod.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Of a cluster, with -f as it would be with these manifests; with -f alone, of the manifests. In a cluster it
tells also what the agent of the pod's node has said: whether each policy is in force there, and why not.

NETWORKS are those that the pod selects, and those that its status and its annotation network-status say it is
on. Anyone with the right to change the pod can write that annotation.

POLICIES are those that select the pod, RULES theirs in the order in which they go: the first that matches
a packet decides. PEERS are the addresses that a rule's selectors mean at present.

The CLASS is that of koordinator-netqos, by which the node's lines are divided; what the pod has of them says
its node: kubectl -n netqos-system exec AGENT -- /netqos status --pod NAMESPACE/NAME.

Examples:
  netqos describe pod free -n games
  netqos describe pod games/free -f objects/
  netqos describe pod free -n games -o json | jq '.policies[] | select(.inForce != true)'

Exit codes: 0 it was described, 1 there is no such pod, 2 wrong usage or an unreadable file, 3 no cluster
answers.")]
pub struct OfPod {
    /// Its name; with a namespace before it, also where -n says another.
    #[arg(value_name = "[NAMESPACE/]NAME")]
    name: String,
    /// A file of YAML or JSON, a folder of such files, or - for standard input.
    #[arg(short, long = "filename", value_name = "FILE|DIR")]
    filename: Vec<PathBuf>,
    /// How to print it.
    #[arg(short, long, value_enum, default_value_t)]
    output: DataFormat,
    #[command(flatten)]
    cluster: ClusterArguments,
}

#[derive(Debug, thiserror::Error)]
#[error("there is no pod {0} that can be read")]
struct NoPod(ObjectName);

/// Reads, and describes.
pub fn run(command: &Command, as_plugin: bool) -> ExitCode {
    let Command::Pod(of) = command;
    let (of_name, name) = match of.name.split_once('/') {
        Some((namespace, name)) => (Some(namespace), name),
        None => (None, of.name.as_str()),
    };
    let mut namespace = of_name
        .or(of.cluster.namespace.as_deref())
        .map(str::to_owned);
    let mut snapshot = Snapshot::default();
    if of.cluster.is_asked(as_plugin || of.filename.is_empty()) {
        let cluster = match of.cluster.connect() {
            Ok(cluster) => cluster,
            Err(code) => return code,
        };
        namespace.get_or_insert_with(|| cluster.default_namespace().to_owned());
        snapshot = match cluster.snapshot(&ASKED, namespace.as_deref()) {
            Ok(snapshot) => snapshot,
            Err(code) => return code,
        };
    }
    if let Err(code) = manifests::put(&mut snapshot, &of.filename) {
        return code;
    }
    let namespace = namespace.as_deref().unwrap_or("default");
    let name = ObjectName::new(namespace, name);
    match describe(&snapshot, &name) {
        Some(pod) => output::data(of.output, &pod, print),
        None => output::failure(FAILED, &NoPod(name)),
    }
}

fn print(pod: &DescribedPod) {
    let node = pod.node.as_deref().unwrap_or("none");
    println!("pod:   {}\nnode:  {node}", pod.pod);
    if let Some(remark) = pod.remark {
        println!("       {remark}");
    }
    if let Some(class) = &pod.class {
        println!("class: {}, by {}", class.class, class.by);
        if !class.asks.is_empty() {
            println!("\n{}", asks(class));
        }
    }
    if !pod.networks.is_empty() {
        println!("\n{}", networks(pod));
    }
    if let Some(more) = pod.more_networks {
        println!("and {more} more networks");
    }
    match pod.limits.is_empty() {
        true => println!("\nnothing limits it as a whole"),
        false => println!("\n{}", limits(pod)),
    }
    match pod.policies.is_empty() {
        true => println!("\nno NetworkQoS selects it"),
        false => println!("\n{}", policies(pod)),
    }
    if !pod.rules.is_empty() {
        println!("\n{}", rules(pod));
    }
    if !pod.problems.is_empty() {
        println!("\nproblems:");
    }
    for problem in &pod.problems {
        println!("  {problem}");
    }
}

fn rate(bits: u64) -> String {
    BitRate::from_bits_per_second(bits).to_string()
}

fn burst(bytes: Option<u64>) -> String {
    bytes.map_or_else(
        || "chosen".to_owned(),
        |bytes| ByteCount::from_bytes(bytes).to_string(),
    )
}

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_header(header.to_vec());
    table
}

fn asks(class: &DescribedClass) -> Table {
    let mut table = table(&["OF EACH LINE", "PORT", "CLASS", "REQUEST", "LIMIT"]);
    let or = |text: &Option<String>, other: &str| text.clone().unwrap_or_else(|| other.to_owned());
    for ask in &class.asks {
        let port = ask.port.map(|port| port.to_string());
        table.add_row([
            ask.direction.to_string(),
            or(&port, "all"),
            or(&ask.class, &class.class),
            or(&ask.request, "-"),
            or(&ask.limit, "-"),
        ]);
    }
    table
}

fn networks(pod: &DescribedPod) -> Table {
    let mut table = table(&[
        "NETWORK",
        "INTERFACE",
        "ADDRESSES",
        "LIMIT",
        "DRIVER",
        "STATE",
        "WHY",
    ]);
    let or_none = |text: String| match text.is_empty() {
        true => "-".to_owned(),
        false => text,
    };
    for network in &pod.networks {
        let default = if network.default && network.network != "default" {
            " (default)"
        } else {
            ""
        };
        table.add_row([
            or_none(network.network.clone()) + default,
            or_none(network.interface.clone().unwrap_or_default()),
            or_none(addresses(network)),
            or_none(attachment_limits(network)),
            or_none(network.driver.unwrap_or_default().to_owned()),
            network.state.as_str().to_owned(),
            network.why.clone(),
        ]);
    }
    table
}

fn addresses(network: &DescribedNetwork) -> String {
    let addresses = network.addresses.join(", ");
    match network.more_addresses {
        0 => addresses,
        more => format!("{addresses}, and {more} more"),
    }
}

fn attachment_limits(network: &DescribedNetwork) -> String {
    let limits = network.limits.iter();
    let limits: Vec<String> = limits
        .map(|it| format!("{} {}", it.direction, rate(it.rate)))
        .collect();
    limits.join(", ")
}

fn limits(pod: &DescribedPod) -> Table {
    let mut table = table(&["LIMIT", "RATE", "BURST", "LATENCY", "BY", "NOT BY"]);
    for limit in &pod.limits {
        table.add_row([
            limit.direction.to_string(),
            rate(limit.rate),
            burst(limit.burst),
            limit
                .latency_ms
                .map_or_else(|| "chosen".to_owned(), |it| format!("{it} ms")),
            limit.by.clone(),
            limit.passed_over.join(", "),
        ]);
    }
    table
}

fn policies(pod: &DescribedPod) -> Table {
    let mut table = table(&["POLICY", "PRIORITY", "IN FORCE", "WHY"]);
    for policy in &pod.policies {
        let in_force = match policy.in_force {
            Some(true) => "yes",
            Some(false) => "no",
            None => "not known",
        };
        table.add_row([
            policy.policy.as_str(),
            &policy.priority.to_string(),
            in_force,
            &policy.why,
        ]);
    }
    table
}

fn rules(pod: &DescribedPod) -> Table {
    let mut table = table(&[
        "NETWORK", "RULE", "PRIORITY", "TO", "PEERS", "PORTS", "DSCP", "RATE", "MODE",
    ]);
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    for rule in &pod.rules {
        let ports = match rule.ports.is_empty() {
            true => "all".to_owned(),
            false => rule.ports.join(", "),
        };
        table.add_row([
            rule.network.clone(),
            rule.rule.clone(),
            rule.priority.to_string(),
            rule.to.clone(),
            or_none(rule.peers.map(|it| it.to_string())),
            ports,
            or_none(rule.dscp.map(|it| it.to_string())),
            or_none(rule.rate.map(rate)),
            if rule.shadow { "shadow" } else { "enforce" }.to_owned(),
        ]);
    }
    table
}
