//! `netqos cleanup`: everything of netqos leaves this node.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use netqos_agent::classes::{CGROUPS, class_backend, recorded_backend};
use netqos_agent::{agent_lock, places, socket_path};
use netqos_api::koordinator::BackendKind;
use netqos_datapath::{HostLinks, LimitDatapath, Paths, rules};

use crate::install_plugin::{Sandboxes, state_directories};
use crate::output::{self, BAD_INPUT, DataFormat, ENVIRONMENT, FAILED};

mod forget;

/// Whether to ask.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Removes rules, limits of pods (those of the plugin, too), what divides the node's lines among classes (of
every class backend), programs, links, pins and records: all that an agent leaves in force when it stops.
Pods live on, unlimited and unmarked. The configuration of the CNI network is left as it is: while it names
the plugin, the next pod is limited again.

Pods that netqos-multinet attached to networks keep their attachments, and are named: netqos install-plugin --multinet
--remove releases them, or hands them over to Multus.

The cluster's objects that agents keep on disk (DIR/objects) go too: an agent that is installed later
would go by them while no API server answers.

With --forget it removes nothing of these. It gives up one sandbox whose DEL by netqos-multinet fails, as netqos check
lists them: it prints what may be left of it, and the next DEL succeeds without a call of any plugin. An agent may run.
A pod that may run, of which no DEL has failed, is not given up.

Needs root, and no agent may run. NETQOS_RUN_DIR and NETQOS_BPFFS move /run/netqos and /sys/fs/bpf.

Examples:
  netqos cleanup
  netqos cleanup --yes
  netqos cleanup --yes --stay      in a DaemonSet, whose containers must not end
  netqos cleanup --forget 4f1c3d2e5b6a
  netqos cleanup --yes --forget 4f1c3d2e5b6a -o json | jq '.attachments[].addresses'

Exit codes: 0 nothing of netqos is left but such attachments, or the sandbox is given up, 1 something is left, an agent
runs, or the sandbox is not known or its pod may run (the message says what), 2 not confirmed, 3 not root.")]
pub struct Arguments {
    /// Do not ask first.
    #[arg(short, long)]
    yes: bool,
    /// When nothing is left, wait to be ended.
    #[arg(long)]
    stay: bool,
    /// Gives up this sandbox of netqos-multinet alone, by its container ID.
    #[arg(long, value_name = "SANDBOX", conflicts_with = "stay")]
    forget: Option<String>,
    /// How to print what may be left of it.
    #[arg(short, long, value_enum, default_value_t, requires = "forget")]
    output: DataFormat,
    /// The agent's --state-dir.
    #[arg(long, value_name = "DIR", default_value = places::STATE)]
    state_dir: PathBuf,
    /// The directory of the runtime's lists, which may name another directory of records of netqos-multinet.
    #[arg(long, value_name = "DIR", default_value = netqos_agent::multinet::LIST_DIRECTORY)]
    conf_dir: PathBuf,
}

/// Somebody else than root asks for it.
#[derive(Debug, thiserror::Error)]
#[error("only root can remove what is in the kernel: run it as root, or with sudo")]
struct NotRoot;

/// Asks, and removes.
pub fn run(arguments: &Arguments) -> ExitCode {
    let paths = Paths::from_variables(|name| std::env::var(name).ok());
    if !rustix::process::geteuid().is_root() {
        return output::failure(ENVIRONMENT, &NotRoot);
    }
    if let Some(sandbox) = &arguments.forget {
        return forget::run(sandbox, arguments);
    }
    if !confirmed(
        arguments,
        "Remove all limits and rules of netqos from this node?",
    ) {
        return ExitCode::from(BAD_INPUT);
    }
    // No agent starts while this lasts.
    let _lock = match agent_lock(paths.run()) {
        Ok(lock) => lock,
        Err(why) => return output::failure(FAILED, &why),
    };
    let failures = remove(&paths, &arguments.state_dir);
    for failure in &failures {
        eprintln!("netqos: {failure}");
    }
    // They outlive the agent: their plugin releases them.
    let attachments = attachments_left(&arguments.conf_dir, &arguments.state_dir);
    if let Some(attachments) = &attachments {
        eprintln!("netqos: {attachments}");
    }
    if failures.is_empty() {
        match attachments {
            None => println!("nothing of netqos is left on this node"),
            Some(_) => println!("nothing else of netqos is left on this node"),
        }
        if arguments.stay {
            loop {
                std::thread::park();
            }
        }
        return ExitCode::SUCCESS;
    }
    ExitCode::from(FAILED)
}

/// Returns a message about pods with attachments by `netqos-multinet`.
fn attachments_left(conf_dir: &Path, state: &Path) -> Option<String> {
    let directories = match state_directories(conf_dir, &multinet_state(state)) {
        Ok(directories) => directories,
        Err(why) => return Some(why),
    };
    let mut pods = BTreeSet::new();
    for directory in directories {
        match Sandboxes::new(&directory).all() {
            Ok(sandboxes) => pods.extend(sandboxes.into_iter().map(|it| it.name)),
            Err(error) => return Some(error.to_string()),
        }
    }
    let pods: Vec<String> = pods.into_iter().collect();
    (!pods.is_empty()).then(|| {
        format!(
            "these pods have attachments by netqos-multinet: {}; run netqos install-plugin --multinet --remove on the node, \
             which says when they are gone",
            pods.join(", ")
        )
    })
}

/// The directory of the state of `netqos-multinet`.
fn multinet_state(state: &Path) -> PathBuf {
    let records = state.join(places::MULTINET_RECORDS);
    records.parent().map(Path::to_owned).unwrap_or(records)
}

/// Removes the directories of `netqos-multinet` as far as nothing is in them. It makes them again where it is still called.
fn remove_empty(multinet: &Path) {
    for directory in [
        multinet.join("pods"),
        multinet.join("results"),
        multinet.to_owned(),
    ] {
        // Whatever is in it releases a pod.
        let _ = fs::remove_dir(directory);
    }
}

/// Asks, unless it is not to ask, and says it if the answer is no.
fn confirmed(arguments: &Arguments, question: &str) -> bool {
    let ask = || {
        eprint!("{question} Type yes: ");
        let _ = io::stderr().flush();
        let mut answer = String::new();
        io::stdin().lock().read_line(&mut answer).is_ok() && answer.trim() == "yes"
    };
    let is_confirmed = arguments.yes || (io::stdin().is_terminal() && ask());
    if !is_confirmed {
        eprintln!("netqos: nothing was removed; say --yes to remove it without being asked");
    }
    is_confirmed
}

/// Removes all that can be; says what could not.
fn remove(paths: &Paths, state: &Path) -> Vec<String> {
    let mut failures = Vec::new();
    let mut note = |what: &str, result: Result<(), String>| {
        if let Err(why) = result {
            failures.push(format!("{what}: {why}"));
        }
    };
    let in_words = |why: netqos_datapath::Error| why.to_string();
    note("rules", rules::remove_all(paths).map_err(in_words));
    // Whoever divides lines is written down before anything is; the kernel's leftovers are looked for
    // anyway, which needs no program of the node's.
    let kinds = recorded_backend(paths.run()).into_iter();
    for kind in kinds
        .filter(|kind| *kind != BackendKind::Kernel)
        .chain([BackendKind::Kernel])
    {
        let torn = class_backend(kind, paths, Path::new(CGROUPS))
            .and_then(|mut backend| backend.teardown());
        note(
            &format!("class backend {kind}"),
            torn.map_err(|why| why.to_string()),
        );
    }
    match LimitDatapath::open(paths.clone()) {
        Err(why) => note("limits", Err(why.to_string())),
        Ok(mut limits) => {
            let records = limits.records().all();
            let records = records.unwrap_or_else(|why| {
                note("records", Err(why.to_string()));
                Vec::new()
            });
            let mut networks = BTreeSet::new();
            for record in records {
                let (attachment, limits_of) = (&record.attachment, &record.limits);
                networks.insert(attachment.network().to_owned());
                let gone = limits.teardown(
                    attachment,
                    Some(&record.netns),
                    HostLinks::Unknown,
                    limits_of,
                );
                note(&format!("limits of {attachment}"), gone.map_err(in_words));
            }
            for network in networks {
                note(&network, limits.collect(&network, &[]).map_err(in_words));
            }
        }
    }
    // What is pinned goes last: what could not be detached would lose its maps.
    if failures.is_empty() {
        let unpinned = netqos_bpf::Pins::remove_all(paths.bpffs());
        let mut note = |path: &Path, removed: io::Result<()>| match removed {
            Err(why) if why.kind() != io::ErrorKind::NotFound => {
                failures.push(format!("{}: {why}", path.display()));
            }
            _ => {}
        };
        note(paths.bpffs(), unpinned.map_err(io::Error::other));
        let run = paths.run();
        let limits = places::limits_folder(run);
        let objects = places::objects_directory(state);
        for folder in [
            paths.attachments(),
            paths.pods(),
            limits,
            paths.rules(),
            objects,
            places::multinet_pods_directory(run),
        ] {
            note(&folder, fs::remove_dir_all(&folder));
        }
        let record = netqos_agent::classes::backend_record(run);
        let shares = netqos_agent::classes::Recorded::path(run);
        let in_pod = [paths.ingress_in_pod(), paths.ingress_only_in_pod()];
        let sockets = [socket_path(run), places::multinet_socket_path(run)];
        for file in sockets
            .into_iter()
            .chain([places::lock_path(run), record, shares])
            .chain(in_pod)
        {
            note(&file, fs::remove_file(&file));
        }
        // Whatever else is in there is somebody else's; in a pod they are mounts, which stay.
        let _ = fs::remove_dir(run);
        remove_empty(&multinet_state(state));
        let _ = fs::remove_dir(state);
    }
    failures
}
