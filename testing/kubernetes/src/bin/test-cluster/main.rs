//! `make test-cluster`: netqos on a Kubernetes cluster with real nodes, from its installation to its removal.
#![forbid(unsafe_code)]

mod classes;
mod context;
mod existing;
mod external_hosts;
mod faults;
mod first_packet;
mod install;
mod installations;
mod leave;
mod limits;
mod metrics;
mod multinet;
mod networks;
mod pods;
mod rules;
mod table;
mod upgrade;

use std::env;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::ensure;
use clap::{Parser, ValueEnum};
use netqos_kubernetes::cluster::{self, CNI_PLUGINS, Cluster, Programs};

use self::Kind::{Anywhere, Classes, Machine, Matrix, Needed};
use self::context::Context;
use self::table::Row;

/// Test netqos on a Kubernetes cluster in namespaces of this machine.
///
/// Needs root, runc and cgroup v1 hierarchies. The cluster stops with this command, even if the command is killed.
///
/// With USE_EXISTING_CLUSTER=true it uses the cluster of $KUBECONFIG, and leaves out the steps that need the machine of
/// its nodes.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// An OCI archive to import on each node: of netqos, and of busybox. May be repeated
    #[arg(long = "image", value_name = "FILE")]
    images: Vec<PathBuf>,
    /// The directory of an older version: its `deploy`, and its image as `netqos.tar`
    #[arg(long, value_name = "DIRECTORY", value_parser = previous)]
    previous: Option<PathBuf>,
    /// The image of netqos on an existing cluster, whose nodes can pull it: NAME:TAG
    #[arg(long, value_name = "IMAGE")]
    netqos_image: Option<String>,
    /// The same image with ipset and iptables, for koordinator-story-4 on an existing cluster: NAME:TAG
    #[arg(long, value_name = "IMAGE")]
    image_with_tc: Option<String>,
    /// The image of pods on an existing cluster: busybox
    #[arg(long, value_name = "IMAGE", default_value = "busybox:1.36")]
    pod_image: String,
    /// The number of nodes
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=8))]
    nodes: u8,
    /// The number of pods on three networks that `multinet` creates and deletes
    #[arg(long, default_value_t = 500)]
    pods: u32,
    /// The CNI plugins of the nodes: of Debian, or of the newest Go module that is pinned
    #[arg(long, value_enum, default_value_t = CniPlugins::Debian)]
    cni_plugins: CniPlugins,
    /// Where `installations` keeps what it has measured: what is there is not measured again
    #[arg(long, value_name = "FILE", default_value = "target/installations.json")]
    results: PathBuf,
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum CniPlugins {
    Debian,
    Newest,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Output {
    Table,
    Json,
}

/// One step. Its function returns the measurements.
struct Step {
    name: &'static str,
    kind: Kind,
    run: fn(&mut Context) -> anyhow::Result<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Runs also where `--only` names others, which need it.
    Needed,
    /// Runs on an existing cluster, too.
    Anywhere,
    /// Divides uplinks by Koordinator's ConfigMap: on an existing cluster only where Koordinator is not.
    Classes,
    /// Needs the machine of the nodes: their processes, or their kernels.
    Machine,
    /// The same; runs only where `--only` names it.
    Matrix,
}

const fn step(
    name: &'static str,
    kind: Kind,
    run: fn(&mut Context) -> anyhow::Result<String>,
) -> Step {
    Step { name, kind, run }
}

/// The step before which the command is executed.
const LEAVE: &str = "helm-uninstall";
/// The step that needs Prometheus.
const SCRAPE: &str = "scrape";
/// The step that needs an image with ipset and iptables.
const WITH_TC: &str = "koordinator-story-4";
/// The step that needs an older version.
const UPGRADE: &str = "upgrade-and-back";

/// In their order. Helm installs netqos first, and kustomize once it is gone.
const STEPS: [Step; 28] = [
    step("helm-install", Needed, install::by_helm),
    step("kep-2819", Anywhere, limits::both_directions),
    step("live-annotation", Anywhere, limits::live_annotation),
    step("okep-4380-story-1", Anywhere, rules::marks),
    step("okep-4380-story-2", Anywhere, rules::free_is_limited),
    step("okep-4380-story-3", Anywhere, rules::priorities),
    step("first-packet", Machine, first_packet::first_packet),
    step("dual-stack", Machine, networks::dual_stack),
    step("services", Machine, networks::services),
    step("koordinator-story-2", Classes, classes::offline_yields),
    step("koordinator-story-3", Classes, classes::a_pod_is_limited),
    step(WITH_TC, Classes, classes::backend_per_node),
    step("vxlan", Machine, networks::vxlan),
    step(SCRAPE, Machine, metrics::scrape),
    step("killed", Machine, faults::killed),
    step("leader-stopped", Machine, faults::leader_stopped),
    step("api-server-away", Machine, faults::api_server_away),
    step("reboot", Machine, faults::reboot),
    step("churn", Machine, faults::churn),
    step("multinet", Machine, multinet::three_networks),
    step("multinet-beside", Machine, multinet::by_handler),
    step(LEAVE, Needed, leave::by_helm),
    step(
        "default-installation",
        Machine,
        limits::default_installation,
    ),
    step("installations", Matrix, installations::measure_all),
    step(UPGRADE, Machine, upgrade::and_back),
    step("kustomize-install", Machine, install::by_kustomize),
    step("kustomize-uninstall", Machine, leave::by_kustomize),
    step("existing-cluster", Machine, existing::in_sandbox),
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
    let mut rows = Vec::new();
    let mut done = Ok(());
    if env::var_os("USE_EXISTING_CLUSTER").is_some_and(|it| it == "true") {
        let context = existing::open(
            arguments.netqos_image.as_deref(),
            arguments.image_with_tc.as_deref(),
            &arguments.pod_image,
        )?;
        done = try_steps(context, &arguments, &mut rows);
    } else {
        // Outside of the sandbox, which has no way to the Go module proxy.
        let scrapes = chosen(&arguments.only).iter().any(|it| it.name == SCRAPE);
        let mut others: Vec<&str> = scrapes.then_some("prometheus").into_iter().collect();
        if arguments.cni_plugins == CniPlugins::Newest {
            others.extend(CNI_PLUGINS);
        }
        let programs = Cluster::build(&others)?;
        if let Some(code) = cluster::enter()? {
            return Ok(code.into());
        }
        if let Some(context) = start(&programs, &arguments, &mut rows)? {
            done = try_steps(context, &arguments, &mut rows);
        }
    }
    match arguments.output {
        Output::Table => print!("{}", table::table(&rows)),
        Output::Json => println!("{}", serde_json::to_string_pretty(&rows)?),
    }
    done?;
    Ok(match rows.iter().all(Row::passed) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// Starts a cluster in the sandbox; returns `None` where that is the step that failed.
fn start(
    programs: &Programs,
    arguments: &Arguments,
    rows: &mut Vec<Row>,
) -> anyhow::Result<Option<Context>> {
    let began = Instant::now();
    let mut images = arguments.images.clone();
    images.extend(arguments.previous.iter().map(|it| it.join("netqos.tar")));
    let started = Cluster::start(programs, arguments.nodes.into(), &images);
    if !Row::of("start", began, &started.as_ref().map(Cluster::describe)).keep(rows) {
        return Ok(None);
    }
    let cluster = started?;
    let names = cluster.nodes.iter().map(|it| it.name().to_owned());
    Ok(Some(Context {
        kubectl: cluster.kubectl.clone(),
        nodes: names.collect(),
        pod_image: "localhost/busybox:test".to_owned(),
        measuring_image: None,
        values: String::new(),
        values_with_tc: Some(format!("image.tag={}-tc", env!("CARGO_PKG_VERSION"))),
        crds: Vec::new(),
        has_koordinator: false,
        machine: Some(cluster),
        previous: arguments.previous.clone(),
        pods: arguments.pods,
        results: std::path::absolute(&arguments.results)?,
    }))
}

/// Does the steps that were chosen, until one fails that others need, and executes the command.
fn try_steps(
    mut context: Context,
    arguments: &Arguments,
    rows: &mut Vec<Row>,
) -> anyhow::Result<()> {
    let steps = chosen(&arguments.only);
    if steps.iter().all(|it| it.name != LEAVE) {
        context.execute(&arguments.command);
    }
    for step in steps {
        if step.name == LEAVE {
            context.execute(&arguments.command);
        }
        let lacks = match () {
            () if context.machine.is_none()
                && matches!(step.kind, Kind::Machine | Kind::Matrix) =>
            {
                "it needs the machine of the nodes"
            }
            () if context.has_koordinator && step.kind == Kind::Classes => {
                "the cluster has Koordinator"
            }
            () if step.name == WITH_TC && context.values_with_tc.is_none() => "no --image-with-tc",
            () if step.name == UPGRADE && context.previous.is_none() => "no --previous",
            () => "",
        };
        if !lacks.is_empty() {
            eprintln!("{} is left out: {lacks}", step.name);
            continue;
        }
        let began = Instant::now();
        let result = (step.run)(&mut context);
        if !Row::of(step.name, began, &result).keep(rows) {
            eprintln!("{}", context.diagnosis());
            if step.kind == Kind::Needed {
                if context.machine.is_none() {
                    eprintln!("netqos may be left in the cluster: see docs/operate.md#leaving");
                }
                break;
            }
        }
    }
    match context.machine {
        Some(_) => Ok(()),
        None => existing::close(&context),
    }
}

/// The steps of these names, and what they need; all without names.
fn chosen(only: &[String]) -> Vec<&'static Step> {
    let named = |step: &&Step| only.iter().any(|it| it == step.name);
    let any = STEPS.iter().any(|it| named(&it));
    STEPS
        .iter()
        .filter(|it| match it.kind {
            Kind::Matrix => named(it),
            Kind::Needed => only.is_empty() || any,
            _ => only.is_empty() || named(it),
        })
        .collect()
}
