//! How things stand in a cluster, asked once or until all is well.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use comfy_table::{Table, presets};
use k8s_openapi::jiff::Timestamp;
use netqos_cluster::{Kind, ReadError, Which, list, list_any, now};

use super::overview::{Objects, Overview};
use super::workload;
use crate::cluster::{Cluster, ClusterArguments};
use crate::output::{self, DataFormat, ENVIRONMENT, FAILED};

const LEASES: (&str, &str, &str) = ("coordination.k8s.io/v1", "Lease", "leases");
const CONTROLLER: &str = "netqos-controller";
/// How often it is asked while it is waited for.
const EVERY: Duration = Duration::from_secs(1);

/// Asks, waits if that is wanted, and prints.
pub fn run(arguments: &ClusterArguments, wait: Option<Duration>, format: DataFormat) -> ExitCode {
    let cluster = match arguments.connect() {
        Ok(cluster) => cluster,
        Err(code) => return code,
    };
    let namespace = arguments.namespace.as_deref();
    let end = wait.map(|wait| Instant::now() + wait);
    let (mut said, mut hidden) = (Vec::new(), BTreeSet::new());
    let overview = loop {
        let over = end.is_none_or(|end| Instant::now() >= end);
        match objects(&cluster, namespace, &mut hidden) {
            Ok((objects, now)) => {
                let overview = Overview::of(&objects, now, namespace.is_some());
                if overview.ready || over {
                    break overview;
                }
                if overview.missing != said {
                    progress(&overview.missing);
                    said = overview.missing;
                }
            }
            Err(why) if over => return output::failure(ENVIRONMENT, &why),
            Err(why) => eprintln!("netqos: {why}"),
        }
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        std::thread::sleep(left.unwrap_or_default().min(EVERY));
    };
    let printed = output::data(format, &overview, print);
    if overview.ready {
        return printed;
    }
    if let Some(wait) = wait {
        let wait = netqos_api::duration::format_duration(wait);
        eprintln!("netqos: after {wait} this is missing:");
        for missing in &overview.missing {
            eprintln!("  {missing}");
        }
    }
    ExitCode::from(FAILED)
}

fn progress(missing: &[String]) {
    if let [first, others @ ..] = missing {
        let more = match others.len() {
            0 => String::new(),
            more => format!(" (and {more} more)"),
        };
        eprintln!("netqos: waiting for {first}{more}");
    }
}

/// The objects, and the time by the server's clock: whoever asks may have a clock that is off.
fn objects(
    cluster: &Cluster,
    namespace: Option<&str>,
    hidden: &mut BTreeSet<String>,
) -> Result<(Objects, Timestamp), ReadError> {
    let client = cluster.client();
    let kind = |kind: Kind| {
        let api_version = kind.api_version();
        let of = (api_version.as_str(), kind.name(), kind.plural());
        cluster.wait(list_any(client, of, None, Which::All))
    };
    let mut policies = Vec::new();
    let told = list(client, Kind::NetworkQoS, namespace, |it| policies.push(it));
    cluster.wait(told)?;
    let leases = list_any(client, LEASES, None, Which::Named(CONTROLLER));
    let objects = Objects {
        leases: seen(cluster.wait(leases), hidden)?,
        nodes: seen(kind(Kind::Node), hidden)?,
        reports: seen(kind(Kind::NetworkQoSNodeReport), hidden)?,
        agents: seen(workload::agents(cluster), hidden)?,
        controllers: seen(workload::controllers(cluster), hidden)?,
        policies,
    };
    let now = cluster.wait(now(client))?;
    Ok((objects, now.unwrap_or_else(Timestamp::now)))
}

/// `None`: whoever asks may not see them, which is said once.
fn seen<T>(
    told: Result<Vec<T>, ReadError>,
    hidden: &mut BTreeSet<String>,
) -> Result<Option<Vec<T>>, ReadError> {
    match told {
        Ok(all) => Ok(Some(all)),
        Err(why) if why.is_forbidden() => {
            let why = why.to_string();
            if !hidden.contains(&why) {
                eprintln!("netqos: left out: {why}");
                hidden.insert(why);
            }
            Ok(None)
        }
        Err(why) if why.is_unknown_kind() => Ok(Some(Vec::new())),
        Err(why) => Err(why),
    }
}

fn print(overview: &Overview) {
    if let Some(controller) = &overview.controller {
        println!("controller: {}", controller.words());
    }
    let with_agent = overview.nodes.iter().filter(|it| it.agent.is_some());
    let (agents, all) = (with_agent.count(), overview.nodes.len());
    println!("agents: {agents} of {all} nodes have said something");
    for workload in &overview.workloads {
        let (kind, name) = (workload.kind, &workload.name);
        let (ready, desired) = (workload.ready, workload.desired);
        match workload.leaving {
            true => {
                let through = workload.through();
                println!("{kind} {name}: leaving, through with {through} of {desired} nodes");
            }
            false => println!("{kind} {name}: {ready} of {desired} are ready"),
        }
    }
    if all > 0 {
        println!("\n{}", nodes(overview));
    }
    if !overview.policies.is_empty() {
        println!("\n{}", policies(overview));
    }
    let problems = overview.nodes.iter().flat_map(|node| {
        let problems = node.problems.iter();
        problems.map(|problem| format!("  {}: {problem}", node.name))
    });
    let problems: Vec<String> = problems.collect();
    if !problems.is_empty() {
        println!("\nproblems:\n{}", problems.join("\n"));
    }
    let left = overview.nodes.iter().flat_map(|node| {
        let left = node.left.iter();
        left.map(|left| format!("  {}: {left}", node.name))
    });
    let left: Vec<String> = left.collect();
    if !left.is_empty() {
        println!("\nleft to others:\n{}", left.join("\n"));
    }
}

fn nodes(overview: &Overview) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_header(["NODE", "AGENT", "REPORTED", "POLICIES", "PROBLEMS"]);
    for node in &overview.nodes {
        table.add_row([
            node.name.as_str(),
            match (&node.agent, node.meant) {
                (Some(version), _) => version,
                (None, true) => "MISSING",
                (None, false) => "-",
            },
            node.reported.as_deref().unwrap_or("-"),
            &node.policies.to_string(),
            &node.problems.len().to_string(),
        ]);
    }
    table
}

fn policies(overview: &Overview) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header([
        "NETWORKQOS",
        "ACCEPTED",
        "PROGRAMMED",
        "READY",
        "NODES",
        "PODS",
        "WHY",
    ]);
    for policy in &overview.policies {
        table.add_row([
            policy.name.clone(),
            policy.accepted.clone(),
            policy.programmed.clone(),
            policy.ready.clone(),
            policy.nodes.clone(),
            policy.pods.map_or_else(String::new, |it| it.to_string()),
            policy.why.clone(),
        ]);
    }
    table
}
