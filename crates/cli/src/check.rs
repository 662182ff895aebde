//! `netqos check`: what this node can do, and what is in force on it; or whether a cluster is such that
//! netqos works there.

mod annotations;
mod certificate;
mod cluster;
mod cni;
mod dry_run;
mod installed;
mod line;
mod nodes;
mod permissions;
mod webhook;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use comfy_table::{Table, presets};
use netqos_agent::classes::kept_total_problem;
use netqos_agent::places::{STATE, multinet_pods_directory};
use netqos_classes::Tc;
use netqos_core::{Attachment, Direction, Limits};
use netqos_datapath::{Feature, Features, HookKind, Mode, Paths, Record, Records, Support};
use serde::Serialize;

use self::annotations::AnnotationSource;
use self::cni::CniReport;
use self::line::{Line, State};
use crate::cluster::ClusterArguments;
use crate::install_plugin::{Sandbox, Sandboxes, state_directories};
use crate::output::{self, DataFormat, ENVIRONMENT, FAILED};

/// What to look at, and how to say it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Of a cluster (--cluster, --pre or any other of its options, and always as kubectl netqos) it looks at what
is installed: definitions, agents on all nodes, controller, webhook, and whether their versions go together.
With --pre, before an installation: the API server's version, what you may do, whether the server accepts
the CRDs (a dry run), and the nodes' kernels.
Of a node it also reads the runtime's network configuration (--cni-conf-dir): whether the runtime passes the limits of
pods to a plugin, and whether it calls netqos-multinet; and its CNI results (--cni-cache): whether it passes the
annotations of pods.
✓ is well, ! works though not all of it, ✗ does not work; → is what to do. -n is the namespace that it is
installed in, netqos-system without it.

Examples:
  netqos check
  netqos check -o json | jq '.features[] | select(.works == false)'
  netqos check --pre
  netqos check --cluster -o json | jq '.checks[] | select(.state != \"ok\")'

Exit codes: 0 it works, 1 something does not, 2 wrong usage, 3 not root, or no cluster answers.")]
pub struct Arguments {
    /// How to print it.
    #[arg(short, long, value_enum, default_value_t)]
    output: DataFormat,
    /// Of a cluster: what an installation needs, before there is one.
    #[arg(long)]
    pre: bool,
    /// Of a node: the directory from which the runtime reads its network configuration.
    #[arg(long, value_name = "DIR", default_value = "/etc/cni/net.d")]
    cni_conf_dir: PathBuf,
    /// Of a node: the directory in which the runtime keeps its CNI results.
    #[arg(long, value_name = "DIR", default_value = "/var/lib/cni")]
    cni_cache: PathBuf,
    #[command(flatten)]
    cluster: ClusterArguments,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    kernel: String,
    /// How a limit would be held that is asked for now.
    mode: Mode,
    /// Whether rules can be enforced.
    rules: bool,
    /// The backends that can divide a line among classes.
    class_backends: Vec<&'static str>,
    /// The executables of the backend `tc` that are not in `PATH`. The agent's image for it has them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    missing_executables: Vec<&'static str>,
    features: Vec<Found>,
    /// The node's CNI configuration, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    cni: Option<CniReport>,
    /// What is wrong with what the agent is told of the node's uplinks.
    #[serde(skip_serializing_if = "Option::is_none")]
    uplinks: Option<Line>,
    /// The sandboxes whose DEL fails.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    failed_deletes: Vec<Line>,
    attachments: Vec<InForce>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Found {
    feature: String,
    works: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<&'static str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InForce {
    attachment: Attachment,
    limits: Limits,
    queues: Vec<Queue>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Queue {
    direction: Direction,
    link: String,
    hook: HookKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    unranked_because: Option<String>,
}

/// Looks, and prints.
pub fn run(arguments: &Arguments, as_plugin: bool) -> ExitCode {
    if arguments.cluster.is_asked(as_plugin || arguments.pre) {
        return cluster::run(&arguments.cluster, arguments.pre, arguments.output);
    }
    let paths = Paths::from_variables(|name| std::env::var(name).ok());
    let features = Features::probe_anew(&paths).and_then(|features| {
        features
            .with_rules(None)
            .with_redirect_counter()
            .with_classes()
    });
    let features = match features {
        Ok(features) => features,
        Err(why) if why.is_permission() => {
            eprintln!("netqos: {why}: run it as root (it tries things in a namespace of its own)");
            return ExitCode::from(ENVIRONMENT);
        }
        Err(why) => return output::failure(ENVIRONMENT, &why),
    };
    let records = match Records::new(paths.attachments()).all() {
        Ok(records) => records,
        Err(why) => return output::failure(FAILED, &why),
    };
    let missing_executables = missing_executables();
    let of_tc = sets_and_rules(&missing_executables);
    let report = Report {
        kernel: std::fs::read_to_string("/proc/sys/kernel/osrelease")
            .map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned()),
        mode: features.mode(),
        rules: features.can_enforce_rules(),
        class_backends: class_backends(&features, of_tc.as_ref()),
        missing_executables,
        features: features.iter().map(found).chain(of_tc).collect(),
        cni: CniReport::read(
            &arguments.cni_conf_dir,
            &AnnotationSource {
                cni_cache: arguments.cni_cache.clone(),
                pod_files: multinet_pods_directory(paths.run()),
            },
        ),
        uplinks: kept_total_problem(paths.run()).map(|why| {
            let (message, remedy) = why.split_once("; ").unwrap_or((&why, ""));
            Line::failed("uplinks", message, remedy)
        }),
        failed_deletes: failed_deletes(&arguments.cni_conf_dir),
        attachments: records.into_iter().map(in_force).collect(),
    };
    let printed = output::data(arguments.output, &report, print);
    let cni_fails = { report.cni.iter() }
        .flat_map(|it| &it.checks)
        .chain(&report.failed_deletes)
        .chain(&report.uplinks)
        .any(|line| line.state == State::Failed);
    if report.mode == Mode::None || !report.rules || report.class_backends.is_empty() || cni_fails {
        ExitCode::from(FAILED)
    } else {
        printed
    }
}

/// A finding for each sandbox of `netqos-multinet` whose DEL fails.
fn failed_deletes(conf_dir: &Path) -> Vec<Line> {
    let what = "failed DEL";
    let state = Path::new(STATE).join("multinet");
    // Another finding says that the lists cannot be read.
    let directories = state_directories(conf_dir, &state).unwrap_or_else(|_| [state].into());
    let findings = directories.iter().flat_map(|directory| {
        let sandboxes = Sandboxes::new(directory);
        let finding = |(sandbox, failure): (Sandbox, String)| {
            let (id, name) = (&sandbox.container_id, &sandbox.name);
            let message = format!("{name}: {failure} ({})", sandboxes.file(id).display());
            let remedy = format!("repair it, or give it up: netqos cleanup --forget {id}");
            Line::failed(what, message, remedy)
        };
        match sandboxes.failed() {
            Ok(failed) => failed.into_iter().map(finding).collect(),
            Err(error) => vec![Line::failed(what, error.to_string(), "make it readable")],
        }
    });
    findings.collect()
}

fn class_backends(features: &Features, of_tc: Option<&Found>) -> Vec<&'static str> {
    let works = |feature| features.works(feature);
    let backends = [
        (
            "kernel",
            // The redirect needs clsact, ifb and the programs.
            works(Feature::Htb) && works(Feature::ClassRedirect),
        ),
        ("tc", works(Feature::Htb) && of_tc.is_none_or(|it| it.works)),
    ];
    let working = backends.into_iter().filter(|(_, works)| *works);
    working.map(|(name, _)| name).collect()
}

fn missing_executables() -> Vec<&'static str> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |name: &str| std::env::split_paths(&path).any(|it| it.join(name).is_file());
    let executables = Tc::EXECUTABLES.into_iter();
    executables.filter(|name| !is_there(name)).collect()
}

/// The kernel's ipsets and iptables, by which the class backend `tc` knows pods; `None` where the executables are missing
/// that would try them.
fn sets_and_rules(missing_executables: &[&str]) -> Option<Found> {
    if !missing_executables.is_empty() {
        return None;
    }
    let why = Tc::probe().err().map(|why| why.to_string());
    let remedy = "load the modules ip_set_hash_net, xt_set, xt_cgroup and xt_CLASSIFY, or use the backend kernel";
    Some(Found {
        feature: "ipsets and iptables".to_owned(),
        works: why.is_none(),
        remedy: why.is_some().then_some(remedy),
        why,
    })
}

fn found((feature, support): (Feature, &Support)) -> Found {
    let (why, remedy) = match support {
        Support::Works => (None, None),
        Support::Lacking(why) => (Some(why.clone()), Some(feature.remedy())),
        Support::Needs(needed) => (Some(format!("it needs {needed}")), None),
    };
    Found {
        feature: feature.to_string(),
        works: why.is_none(),
        why,
        remedy,
    }
}

fn in_force(record: Record) -> InForce {
    let queues = record.queues.into_iter().map(|queue| Queue {
        direction: queue.direction,
        link: queue.link.name,
        hook: queue.hook,
        unranked_because: queue.unranked_because,
    });
    InForce {
        attachment: record.attachment,
        limits: record.limits,
        queues: queues.collect(),
    }
}

fn print(report: &Report) {
    println!("kernel {}", report.kernel);
    println!("{}", report.mode);
    println!(
        "{}",
        match report.rules {
            true => "rules are enforced by eBPF",
            false =>
                "rules cannot be enforced on this kernel: traffic passes as if there were none",
        }
    );
    println!(
        "{}",
        match report.class_backends[..] {
            [] => "lines cannot be divided among classes on this kernel".to_owned(),
            [_, ..] => format!(
                "lines are divided among classes by the backend {}",
                report.class_backends.join(" or ")
            ),
        }
    );
    if report.class_backends.contains(&"tc") && !report.missing_executables.is_empty() {
        println!(
            "the backend tc also needs {}, which are not here; the image of the agent for it has them",
            report.missing_executables.join(", ")
        );
    }
    println!();
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_header(["FEATURE", "", ""]);
    for found in &report.features {
        let state = if found.works { "works" } else { "MISSING" };
        let why = found.why.as_deref().into_iter().chain(found.remedy);
        let why = why.collect::<Vec<_>>().join("; ");
        table.add_row([found.feature.as_str(), state, &why]);
    }
    println!("{table}\n");
    if let Some(cni) = &report.cni {
        cni.checks.iter().for_each(|line| line.print());
        println!();
    }
    let others = report.uplinks.iter().chain(&report.failed_deletes);
    others.for_each(|line| line.print());
    if report.attachments.is_empty() {
        println!("no pod is held to a limit");
        return;
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header([
        "NETWORK",
        "CONTAINER",
        "INTERFACE",
        "INGRESS",
        "EGRESS",
        "HELD BY",
    ]);
    for pod in &report.attachments {
        let rate = |direction| {
            pod.limits
                .of(direction)
                .map_or_else(|| "-".to_owned(), |limit| limit.rate.to_string())
        };
        table.add_row([
            pod.attachment.network().to_owned(),
            pod.attachment.container().to_owned(),
            pod.attachment.interface().to_owned(),
            rate(Direction::Ingress),
            rate(Direction::Egress),
            pod.queues
                .iter()
                .map(held_by)
                .collect::<Vec<_>>()
                .join(", "),
        ]);
    }
    println!("{table}");
}

fn held_by(queue: &Queue) -> String {
    match (queue.hook, &queue.unranked_because) {
        (HookKind::Clsact, _) => format!("{} (clsact)", queue.link),
        (HookKind::Tcx, _) => format!("{} (tcx)", queue.link),
        (HookKind::None, Some(why)) => format!("{} (plain: {why})", queue.link),
        (HookKind::None, None) => format!("{} (plain)", queue.link),
    }
}
