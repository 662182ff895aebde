//! `make test-cluster`: netqos on a Kubernetes cluster with real nodes, from its installation to its removal.
#![forbid(unsafe_code)]

mod classes;
mod context;
mod faults;
mod install;
mod leave;
mod limits;
mod pods;
mod rules;
mod table;
mod upgrade;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::ensure;
use clap::{Parser, ValueEnum};
use netqos_kubernetes::cluster::{self, Cluster};

use self::context::Context;
use self::table::Row;

/// Test netqos on a Kubernetes cluster in namespaces of this machine.
///
/// Needs root, runc and cgroup v1 hierarchies. The cluster stops with this command, even if the command is killed.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// An OCI archive to import on each node: of netqos, and of busybox. May be repeated
    #[arg(long = "image", value_name = "FILE")]
    images: Vec<PathBuf>,
    /// The directory of an older version: its `deploy`, and its image as `netqos.tar`
    #[arg(long, value_name = "DIRECTORY", value_parser = previous)]
    previous: Option<PathBuf>,
    /// The number of nodes
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=8))]
    nodes: u8,
    /// Steps to run, with those they require; `start` alone starts the cluster. By default all
    #[arg(long, value_name = "STEP", value_delimiter = ',')]
    only: Vec<String>,
    /// Print the names of the steps
    #[arg(long)]
    list: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
    /// Execute this command in the cluster before netqos leaves it, with kubectl and helm on PATH: `-- bash`
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

fn previous(directory: &str) -> Result<PathBuf, &'static str> {
    let directory = PathBuf::from(directory);
    match upgrade::is_previous(&directory) {
        true => Ok(directory),
        false => Err("has no deploy/helm/netqos, or no netqos.tar"),
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Output {
    Table,
    Json,
}

/// One step. Its function returns the measurements.
struct Step {
    name: &'static str,
    /// Runs also where `--only` names others, which need it.
    needed: bool,
    run: fn(&mut Context) -> anyhow::Result<String>,
}

const fn step(name: &'static str, run: fn(&mut Context) -> anyhow::Result<String>) -> Step {
    Step {
        name,
        needed: false,
        run,
    }
}

const fn needed(name: &'static str, run: fn(&mut Context) -> anyhow::Result<String>) -> Step {
    Step {
        name,
        needed: true,
        run,
    }
}

/// The step before which the command is executed.
const LEAVE: &str = "helm-uninstall";
/// The step that needs an older version.
const UPGRADE: &str = "upgrade-and-back";

/// In their order. Helm installs netqos first, and kustomize once it is gone.
const STEPS: [Step; 18] = [
    needed("helm-install", install::by_helm),
    step("kep-2819", limits::both_directions),
    step("live-annotation", limits::live_annotation),
    step("okep-4380-story-1", rules::marks),
    step("okep-4380-story-2", rules::free_is_limited),
    step("okep-4380-story-3", rules::priorities),
    step("koordinator-story-2", classes::offline_yields),
    step("koordinator-story-3", classes::a_pod_is_limited),
    step("koordinator-story-4", classes::backend_per_node),
    step("killed", faults::killed),
    step("leader-stopped", faults::leader_stopped),
    step("api-server-away", faults::api_server_away),
    step("reboot", faults::reboot),
    step("churn", faults::churn),
    needed(LEAVE, leave::by_helm),
    step(UPGRADE, upgrade::and_back),
    step("kustomize-install", install::by_kustomize),
    step("kustomize-uninstall", leave::by_kustomize),
];

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    if arguments.list {
        for step in &STEPS {
            println!("{}", step.name);
        }
        return Ok(ExitCode::SUCCESS);
    }
    for name in &arguments.only {
        ensure!(
            name == "start" || STEPS.iter().any(|it| it.name == name),
            "no step is named {name}; see --list"
        );
    }
    ensure!(
        arguments.previous.is_some() || !arguments.only.iter().any(|it| it == UPGRADE),
        "{UPGRADE} needs --previous"
    );
    // Outside of the sandbox, which has no way to the Go module proxy.
    let programs = Cluster::build()?;
    if let Some(code) = cluster::enter()? {
        return Ok(code.into());
    }
    let mut rows = Vec::new();
    let began = Instant::now();
    let mut images = arguments.images.clone();
    images.extend(arguments.previous.iter().map(|it| it.join("netqos.tar")));
    let started = Cluster::start(&programs, arguments.nodes.into(), &images);
    let cluster = Row::of("start", began, &started.as_ref().map(Cluster::describe))
        .keep(&mut rows)
        .then_some(started)
        .transpose()?;
    if let Some(cluster) = cluster {
        let context = Context {
            cluster,
            previous: arguments.previous.clone(),
        };
        try_steps(context, &arguments, &mut rows)?;
    }
    match arguments.output {
        Output::Table => print!("{}", table::table(&rows)),
        Output::Json => println!("{}", serde_json::to_string_pretty(&rows)?),
    }
    Ok(match rows.iter().all(Row::passed) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// Does the steps that were chosen, until one fails that others need, and executes the command.
fn try_steps(
    mut context: Context,
    arguments: &Arguments,
    rows: &mut Vec<Row>,
) -> anyhow::Result<()> {
    let steps = chosen(&arguments.only);
    if steps.iter().all(|it| it.name != LEAVE) {
        context.execute(&arguments.command)?;
    }
    for step in steps {
        if step.name == LEAVE {
            context.execute(&arguments.command)?;
        }
        if step.name == UPGRADE && context.previous.is_none() {
            eprintln!("{UPGRADE} is left out: no --previous");
            continue;
        }
        let began = Instant::now();
        let result = (step.run)(&mut context);
        if !Row::of(step.name, began, &result).keep(rows) {
            eprintln!("{}", context.diagnosis());
            if step.needed {
                break;
            }
        }
    }
    Ok(())
}

/// The steps of these names, and what they need; all without names.
fn chosen(only: &[String]) -> Vec<&'static Step> {
    let named = |step: &&Step| only.iter().any(|it| it == step.name);
    let any = STEPS.iter().any(|it| named(&it));
    STEPS
        .iter()
        .filter(|it| only.is_empty() || named(it) || any && it.needed)
        .collect()
}
