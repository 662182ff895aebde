//! `netqos status`: what the agent of this node has in force, or a whole cluster.

mod cluster;
mod lines;
pub mod overview;
pub mod workload;

use std::process::ExitCode;
use std::time::Duration;

use comfy_table::{Table, presets};
use netqos_agent::{AttachmentStatus, LinkStatus, RuleStatus, Status, client};
use netqos_core::{ByteCount, ObjectName};
use netqos_datapath::Paths;

use crate::cluster::ClusterArguments;
use crate::output::{self, BAD_INPUT, DataFormat, ENVIRONMENT, FAILED};
use crate::plan::rate;

pub use lines::classes;

/// What is above the [cells of a rule](rule_cells).
pub const RULE_HEADER: [&str; 7] = ["RULE", "PRIORITY", "TO", "PORTS", "DSCP", "RATE", "MODE"];

/// How to say it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Asks the agent that runs on this node through its socket, which only root may open. NETQOS_RUN_DIR moves
/run/netqos, where it is. Counters are the kernel's, and go on when the agent is started anew.

Where the node's lines are shared by classes of pods, it begins with what each class is guaranteed of each
line, the most that it may take, and what it takes; CARRIES is what the line carries, of what it can. Then
each pod's class, who says it, and what the pod has of its own: guaranteed and at most; without that it has
what others of its class leave of theirs. The next table has an interface in each line: what annotations
limit it to, packets that were dropped for that, and how many rules are for it. The last has a rule in each
line, the first that matches wins: RATE is shared by all pods of the rule on the node; QUEUE is the interface
on the node in which what is over it waits, or policer where it is dropped at once; MODE shadow only counts.

Of a cluster (--cluster, or any other of its options, and always as kubectl netqos) it tells of the
controller, of each node what its agent has said, and of each NetworkQoS whether it is in force: all of
them, or with -n those of a namespace, and then these alone decide how it ends.

With --pod it says of one pod which class it is in and why, what it gets of each line and what holds it
back, beside its limits and rules; and, where netqos-multinet attaches it, each of its networks with
interface, addresses, limits, driver and state.

Examples:
  netqos status
  netqos status --pod games/a
  netqos status -o json | jq '.pods[] | select(.failing != \"\")'
  netqos status --cluster --wait=5m
  netqos status -n games

Exit codes: 0 all is in force, 1 something is not, or there is no such pod here, 2 wrong usage, 3 no agent
or no cluster answers (the message says what to do).")]
pub struct Arguments {
    /// How to print it.
    #[arg(short, long, value_enum, default_value_t)]
    output: DataFormat,
    /// Of a cluster: wait until all is in force, at most so long; without a time for 1m.
    #[arg(
        long,
        value_name = "TIMEOUT",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "1m",
        value_parser = netqos_api::duration::parse_duration
    )]
    wait: Option<Duration>,
    /// Of this node: only this pod.
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = crate::explain::object_name)]
    pod: Option<ObjectName>,
    #[command(flatten)]
    cluster: ClusterArguments,
}

/// Asks, and prints.
pub fn run(arguments: &Arguments, as_plugin: bool) -> ExitCode {
    if arguments
        .cluster
        .is_asked(as_plugin || arguments.wait.is_some())
    {
        if arguments.pod.is_some() {
            eprintln!(
                "netqos: what a pod gets of the lines of its node only the agent there can say: ask it with \
                 kubectl -n netqos-system exec AGENT -- /netqos status --pod NAMESPACE/NAME"
            );
            return ExitCode::from(BAD_INPUT);
        }
        return cluster::run(&arguments.cluster, arguments.wait, arguments.output);
    }
    let paths = Paths::from_variables(|name| std::env::var(name).ok());
    let status = match client::status(paths.run()) {
        Ok(status) => status,
        Err(why) if why.is_no_agent() => return output::failure(ENVIRONMENT, &why),
        Err(why) => return output::failure(FAILED, &why),
    };
    let (status, print): (_, fn(&Status)) = match &arguments.pod {
        None => (status, print),
        Some(pod) => match lines::only(status, pod) {
            Some(status) => (status, print_pod),
            None => {
                eprintln!("netqos: nothing is in force or known of a pod {pod} on this node");
                return ExitCode::from(FAILED);
            }
        },
    };
    let printed = output::data(arguments.output, &status, print);
    if !status.is_ready() || !status.problems.is_empty() {
        return ExitCode::from(FAILED);
    }
    printed
}

/// All that is so of one pod.
fn print_pod(status: &Status) {
    for class in &status.pod_classes {
        for sentence in lines::of_pod(status, class) {
            println!("{sentence}");
        }
    }
    if !status.attachments.is_empty() {
        println!("\n{}", attachments(&status.attachments));
    }
    if !status.pods.is_empty() {
        println!("\n{}", pods(status));
    }
    print_end(status);
}

fn print(status: &Status) {
    let ready = if status.is_ready() {
        "ready"
    } else {
        "NOT READY"
    };
    println!("node {}, agent {}: {ready}", status.node, status.version);
    for check in status.checks.iter().filter(|check| !check.ok) {
        println!("  {}: {}", check.name, check.message);
    }
    if !status.lines.is_empty() {
        println!("\n{}", lines::lines(status));
    }
    if !status.pod_classes.is_empty() {
        println!("\n{}", classes(&status.pod_classes));
    }
    if status.pods.is_empty() {
        println!("no pod has a limit or a rule");
    } else {
        println!("\n{}", pods(status));
    }
    println!("\n{}", links(&status.links));
    print_end(status);
}

/// `links: 12 of 1024 for rules, 3 for limits, 1 for uplinks`.
fn links(links: &LinkStatus) -> String {
    format!(
        "links: {} of {} for rules, {} for limits, {} for uplinks",
        links.rules, links.most_of_rules, links.limits, links.uplinks
    )
}

/// Rules and problems.
fn print_end(status: &Status) {
    let rules = rules(status);
    if rules.row_count() > 0 {
        println!("\n{rules}");
    }
    if !status.problems.is_empty() {
        println!("\nproblems:");
    }
    for problem in &status.problems {
        let (kind, name) = (&problem.kind, &problem.name);
        println!("  {kind} {name}: {}: {}", problem.reason, problem.message);
    }
}

/// The networks of a pod.
fn attachments(attachments: &[AttachmentStatus]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header([
        "NETWORK",
        "INTERFACE",
        "ADDRESSES",
        "INGRESS",
        "EGRESS",
        "DRIVER",
        "STATE",
    ]);
    let limit = |bits: Option<u64>| bits.map_or_else(|| "-".to_owned(), rate);
    for attachment in attachments {
        let addresses = match attachment.addresses.is_empty() {
            true => "-".to_owned(),
            false => attachment.addresses.join(", "),
        };
        table.add_row([
            attachment.network.clone(),
            attachment.interface.clone(),
            addresses,
            limit(attachment.ingress),
            limit(attachment.egress),
            attachment.driver.clone(),
            attachment.state.clone(),
        ]);
    }
    table
}

fn pods(status: &Status) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header([
        "POD",
        "NETWORK",
        "INTERFACE",
        "INGRESS",
        "EGRESS",
        "DROPPED",
        "RULES",
        "STATE",
    ]);
    for pod in &status.pods {
        let limit = |direction: &str| {
            let limit = pod.limits.iter().find(|it| it.direction == direction);
            limit.map_or_else(|| "-".to_owned(), |it| rate(it.rate))
        };
        let counts = pod.limits.iter().filter_map(|limit| limit.counts);
        let dropped: u64 = counts.map(|counts| counts.dropped_packets).sum();
        let has_doubt = pod.limits.iter().any(|limit| !limit.reason.is_empty());
        let state = match pod.failing.as_str() {
            "" if has_doubt => "ingress is not verified",
            "" => "in force",
            why => why,
        };
        table.add_row([
            format!("{}/{}", pod.namespace, pod.name),
            pod.network.clone(),
            pod.interface.clone(),
            limit("ingress"),
            limit("egress"),
            dropped.to_string(),
            pod.rules.len().to_string(),
            state.to_owned(),
        ]);
    }
    table
}

fn rules(status: &Status) -> Table {
    let mut table = Table::new();
    let mut header = vec!["POD"];
    header.extend(RULE_HEADER);
    header.extend(["QUEUE", "PACKETS", "BYTES", "MARKED", "DROPPED"]);
    table.load_style(presets::NOTHING).set_header(header);
    for pod in &status.pods {
        for rule in &pod.rules {
            let mut cells = vec![format!("{}/{}", pod.namespace, pod.name)];
            cells.extend(rule_cells(rule));
            let counts = rule.counts;
            cells.extend([
                queue(rule),
                counts.packets.to_string(),
                ByteCount::from_bytes(counts.bytes).to_string(),
                counts.marked_packets.to_string(),
                counts.dropped_packets.to_string(),
            ]);
            table.add_row(cells);
        }
    }
    table
}

/// Where what is over the rate goes.
fn queue(rule: &RuleStatus) -> String {
    match (&rule.queue, rule.polices) {
        (Some(interface), _) => interface.clone(),
        (None, true) => "policer".to_owned(),
        (None, false) => "-".to_owned(),
    }
}

/// A rule in cells: its name, priority, destinations, ports, mark, rate, and mode.
pub fn rule_cells(rule: &RuleStatus) -> Vec<String> {
    let or_all = |text: &str| match text {
        "" => "all".to_owned(),
        text => text.to_owned(),
    };
    vec![
        rule.rule.clone(),
        rule.priority.to_string(),
        rule.to.clone(),
        or_all(&rule.ports),
        rule.dscp
            .map_or_else(|| "-".to_owned(), |it| it.to_string()),
        rule.rate.map_or_else(|| "-".to_owned(), rate),
        if rule.shadow { "shadow" } else { "enforce" }.to_owned(),
    ]
}
