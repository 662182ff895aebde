//! `netqos install-plugin`: installs and removes a CNI plugin on a node: `bandwidth`, or `netqos-multinet` with the list
//! that calls it.
//!
//! At no moment is there no plugin, or half of one: what comes is written under another name and
//! renamed. A foreign plugin is kept beside it. Each run deletes the temporary files of a killed one.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use netqos_core::{LISTED_NAMES, list_names};
use rustix::fs::{FlockOperation, flock};
use serde_json::{Map, Value};

use crate::output::{self, FAILED};

mod hand_over;
mod list;
mod multus;
mod problem;
mod sandboxes;

pub use sandboxes::{LeftAttachment, Sandbox, Sandboxes};

use hand_over::{HandedOver, hand_over_results_of_runtime};
use multus::Multus;
use problem::Problem;

/// A CNI plugin.
#[derive(Clone, Copy)]
pub(crate) struct Plugin {
    /// The name of the executable, which is also its `type`.
    pub(crate) name: &'static str,
    /// The beginning of its answer to a call without a command. No other plugin contains it.
    about: &'static [u8],
}

const BANDWIDTH: Plugin = Plugin {
    name: "bandwidth",
    about: b"CNI bandwidth plugin netqos v",
};
pub(crate) const MULTINET: Plugin = Plugin {
    name: netqos_agent::multinet::PLUGIN,
    about: b"CNI meta plugin netqos-multinet v",
};

/// The names of a plugin in its directory.
struct Names {
    /// The plugin.
    place: PathBuf,
    /// The foreign plugin of that name. Runtimes never look for this name.
    kept: PathBuf,
    /// Temporary names.
    coming: PathBuf,
    keeping: PathBuf,
}

impl Plugin {
    fn names(&self, to: &Path) -> Names {
        let name = self.name;
        Names {
            place: to.join(name),
            kept: to.join(format!("{name}.before-netqos")),
            coming: to.join(format!(".{name}.netqos-new")),
            keeping: to.join(format!(".{name}.netqos-old")),
        }
    }

    /// Returns true if this is the plugin, in any version.
    fn is(&self, bytes: &[u8]) -> bool {
        let mut parts = bytes.windows(self.about.len());
        parts.any(|part| part == self.about)
    }
}

/// Which plugin, and where.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A plugin of that name that is not netqos's is kept as <name>.before-netqos, and --remove puts it back.
Without --multinet the CNI configuration is left as it is: docs/bandwidth-plugin.md describes it.

With --multinet the plugin is netqos-multinet, and DIR/00-netqos.conflist makes the runtime call it for each pod. The
plugin takes the first other list there as the default network, at each pod, so that lists may come and change later.
Keys that you write into 00-netqos.conflist are kept. --remove deletes that list first, and releases what pods without a
network namespace were attached to. While other pods have attachments the executable stays: run it again, on the node,
when they are gone.

With --list-name the list has another name, behind one of Multus or another meta plugin: the runtime calls it where its
configuration names it or that directory, as for pods of a RuntimeClass. docs/multinet.md has the steps.

Where the next list calls Multus, --remove hands the pods over to it before that list goes: Multus releases them when
they end. Pods that Multus could not release stay, and are named. docs/coming-from-multus.md has the steps.

Examples:
  netqos install-plugin --to /opt/cni/bin
  netqos install-plugin --to /opt/cni/bin --remove
  netqos install-plugin --multinet --to /opt/cni/bin --conf-dir /etc/cni/net.d
  netqos install-plugin --multinet --to /opt/cni/bin --remove
  netqos install-plugin --multinet --to /opt/cni/bin --list-name 99-netqos.conflist \
    --default-network /etc/cni/net.d/10-pods.conflist

Exit codes: 0 done, or only waiting for pods to end, 1 failed (the message says why), 2 wrong usage.",
    group = clap::ArgGroup::new("of_lists").args(["multinet", "remove"]).multiple(true)
)]
pub struct Arguments {
    /// The directory of CNI plugins.
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    /// The plugin; without it, the executable of its name beside this one.
    #[arg(long, value_name = "FILE", conflicts_with = "remove")]
    from: Option<PathBuf>,
    /// Puts back what was there before.
    #[arg(long)]
    remove: bool,
    /// Installs the meta plugin netqos-multinet, and the list that calls it.
    #[arg(long)]
    multinet: bool,
    /// The directory of the runtime's lists.
    #[arg(
        long,
        value_name = "DIR",
        requires = "of_lists",
        default_value = netqos_agent::multinet::LIST_DIRECTORY
    )]
    conf_dir: PathBuf,
    /// The file of the list that calls netqos-multinet, in that directory.
    #[arg(
        long,
        value_name = "NAME",
        requires = "multinet",
        default_value = netqos_agent::multinet::LIST,
        value_parser = list_name
    )]
    list_name: String,
    /// The list of the default network, in place of the first other one in that directory.
    #[arg(
        long,
        value_name = "FILE",
        requires = "multinet",
        conflicts_with = "remove"
    )]
    default_network: Option<PathBuf>,
    /// Warns, and succeeds, if another program's list keeps the runtime from calling netqos-multinet.
    #[arg(long, requires = "multinet", conflicts_with = "remove")]
    tolerate_foreign_lists: bool,
    /// The records of netqos-multinet.
    #[arg(
        long,
        value_name = "DIR",
        hide = true,
        default_value = "/var/lib/netqos/multinet"
    )]
    state_dir: PathBuf,
    /// The directory in which Multus keeps its pods; without it, the key cniDir of the list that calls Multus, or
    /// /var/lib/cni/multus.
    #[arg(long, value_name = "DIR", requires_all = ["multinet", "remove"])]
    multus_dir: Option<PathBuf>,
    /// The longest wait for pods that are just being attached, before they are handed over to Multus.
    #[arg(
        long,
        value_name = "SECONDS",
        requires_all = ["multinet", "remove"],
        default_value_t = 30
    )]
    wait: u64,
}

/// Parses the name of a list's file. Runtimes read lists by this ending, and no hidden files.
fn list_name(name: &str) -> Result<String, &'static str> {
    let is_hidden = name.starts_with('.');
    match name.ends_with(".conflist") && !name.contains('/') && !is_hidden {
        true => Ok(name.to_owned()),
        false => Err("a file name that ends in .conflist, such as 99-netqos.conflist"),
    }
}

impl Arguments {
    /// The list that calls `netqos-multinet`.
    fn list(&self) -> PathBuf {
        self.conf_dir.join(&self.list_name)
    }
}

/// Returns the directories in which `netqos-multinet` keeps its state on a node, by the runtime's lists and the default one.
///
/// # Errors
/// Returns a message if the lists cannot be read.
pub fn state_directories(conf_dir: &Path, state: &Path) -> Result<BTreeSet<PathBuf>, String> {
    list::states(conf_dir, state).map_err(|problem| problem.to_string())
}

/// Returns the reason for which Multus with this configuration would call `netqos-multinet`, by its list `own` or another one.
///
/// # Errors
/// Returns a message if the lists of a directory cannot be read.
pub fn leads_to_multinet(
    multus: &Map<String, Value>,
    own: &Path,
) -> Result<Option<String>, String> {
    multus::leads_to_multinet(multus, own).map_err(|problem| problem.to_string())
}

/// The current plugin.
enum CurrentPlugin {
    Nothing,
    /// Our plugin, this version or another.
    Ours(Vec<u8>),
    /// A foreign plugin, or a link to a file outside of the container.
    Foreign,
}

/// Installs, or removes.
pub fn run(arguments: &Arguments) -> ExitCode {
    let plugin = match arguments.multinet {
        true => MULTINET,
        false => BANDWIDTH,
    };
    let mut lines = Vec::new();
    let done = match (arguments.remove, arguments.multinet) {
        (false, false) => install(plugin, arguments).map(|done| lines.push(done)),
        (true, false) => remove_bandwidth(arguments).map(|done| lines.push(done)),
        (false, true) => install_multinet(arguments, &mut lines),
        (true, true) => remove_multinet(arguments, &mut lines),
    };
    for line in lines {
        println!("{line}");
    }
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => output::failure(FAILED, &why),
    }
}

/// A list is there only while its plugin is.
fn install_multinet(arguments: &Arguments, lines: &mut Vec<String>) -> Result<(), Problem> {
    lines.push(install(MULTINET, arguments)?);
    let default_network = arguments.default_network.as_deref();
    lines.push(match list::write(&arguments.list(), default_network) {
        Err(problem) if arguments.tolerate_foreign_lists && problem.is_foreign_list() => {
            format!("warning: {problem}")
        }
        list => list?,
    });
    Ok(())
}

/// The plugin stays while DEL of a pod by `netqos-multinet` calls it, unless another one takes its place.
fn remove_bandwidth(arguments: &Arguments) -> Result<String, Problem> {
    let Names { place, kept, .. } = BANDWIDTH.names(&arguments.to);
    let mut pods = Vec::new();
    for state in list::states(&arguments.conf_dir, &arguments.state_dir)? {
        // A container may not see it.
        if state != arguments.state_dir && !state.is_dir() {
            return Err(not_seen(&state));
        }
        pods.extend(Sandboxes::new(&state).with_plugin(BANDWIDTH.name)?);
    }
    match pods.is_empty() || kept.exists() {
        true => remove(BANDWIDTH, &arguments.to),
        false => Ok(stays(&place, &pods)),
    }
}

fn stays(executable: &Path, pods: &[String]) -> String {
    format!(
        "{}: stays until these pods are gone: {}; run this again on the node then",
        executable.display(),
        list_names(pods, LISTED_NAMES)
    )
}

fn not_seen(state: &Path) -> Problem {
    Problem::NotSeen {
        path: state.to_owned(),
        content: "the pods of netqos-multinet",
    }
}

fn remove_multinet(arguments: &Arguments, lines: &mut Vec<String>) -> Result<(), Problem> {
    let (own, executable) = (&arguments.list(), arguments.to.join(MULTINET.name));
    list::refuse_own_with_more(own)?;
    list::refuse_others(own)?;
    let config = list::config(own, &arguments.state_dir)?;
    let sandboxes = Sandboxes::of(&config, &arguments.state_dir);
    let multus = Multus::next(own, &arguments.to, arguments.multus_dir.as_deref())?;
    let state = sandboxes.state();
    // The directory of a node's state, in which that of the plugin may be missing.
    let is_seen = match config.contains_key("stateDir") {
        true => state.is_dir(),
        false => multus.is_none() || state.parent().is_some_and(Path::is_dir),
    };
    if !is_seen {
        return Err(not_seen(state));
    }
    let end = Instant::now() + Duration::from_secs(arguments.wait);
    let before = multus
        .as_ref()
        .map(|it| HandedOver::all(&sandboxes, it, end));
    let mut handed_over = before.transpose()?.unwrap_or_default();
    lines.push(list::remove(own, &arguments.state_dir)?);
    // The runtime does not call the plugin any more. It may have begun to, since.
    if let Some(multus) = &multus {
        let later = HandedOver::all(&sandboxes, multus, end)?;
        handed_over.count += later.count;
        handed_over.kept = later.kept;
        // It remembers a sandbox after ADD.
        let is_handed_over = |id: &str| multus.directory.join(id).exists();
        let moved = hand_over_results_of_runtime(multus, is_handed_over);
        moved.map_err(|error| Problem::ResultNotHandedOver(Box::new(error)))?;
        lines.push(format!(
            "{}: {} pods are handed over to Multus",
            multus.directory.display(),
            handed_over.count
        ));
    }
    let pods = list::release_gone(&arguments.to, &sandboxes, &config)?;
    if !handed_over.kept.is_empty() {
        return Err(Problem::NotHandedOver {
            executable,
            kept: handed_over,
        });
    }
    lines.push(match &pods[..] {
        [] => {
            let done = remove(MULTINET, &arguments.to)?;
            list::forget(&arguments.state_dir)?;
            done
        }
        pods => stays(&executable, pods),
    });
    Ok(())
}

fn from(plugin: Plugin, arguments: &Arguments) -> Result<PathBuf, Problem> {
    match &arguments.from {
        Some(path) => Ok(path.clone()),
        None => {
            let own = std::env::current_exe().map_err(|why| failed("/proc/self/exe", why))?;
            Ok(own.with_file_name(plugin.name))
        }
    }
}

fn install(plugin: Plugin, arguments: &Arguments) -> Result<String, Problem> {
    let from = from(plugin, arguments)?;
    let executable = fs::read(&from).map_err(|why| failed(&from, why))?;
    if !plugin.is(&executable) {
        return Err(Problem::NotOurs {
            path: from,
            plugin: plugin.name,
        });
    }
    let directory = alone(&arguments.to)?;
    let names = plugin.names(&arguments.to);
    let found = read(plugin, &names.place)?;
    names.clear()?;
    let done = if matches!(&found, CurrentPlugin::Ours(is) if *is == executable) {
        "is there already"
    } else {
        let said = put(&executable, &found, &names);
        if said.is_err() {
            // The first error matters.
            let _ = names.clear();
        }
        let synced = directory.sync_all();
        synced.map_err(|why| failed(&arguments.to, why))?;
        said?
    };
    Ok(format!("{}: {done}", names.place.display()))
}

fn put(plugin: &[u8], found: &CurrentPlugin, names: &Names) -> Result<&'static str, Problem> {
    let Names { place, coming, .. } = names;
    write(coming, plugin, 0o755).map_err(|why| failed(coming, why))?;
    let said = match found {
        CurrentPlugin::Foreign => {
            names.keep().map_err(|why| failed(place, why))?;
            "installed; what was there is kept beside it, with the ending .before-netqos"
        }
        CurrentPlugin::Ours(_) => "installed in place of another version",
        CurrentPlugin::Nothing => "installed",
    };
    fs::rename(coming, place).map_err(|why| failed(place, why))?;
    Ok(said)
}

fn remove(plugin: Plugin, to: &Path) -> Result<String, Problem> {
    let directory = alone(to)?;
    let names = plugin.names(to);
    let Names { place, kept, .. } = &names;
    let said = |what: &str| Ok(format!("{}: {what}", place.display()));
    let found = read(plugin, place)?;
    names.clear()?;
    if matches!(found, CurrentPlugin::Foreign) {
        // A killed process kept the plugin and did not replace it.
        if is_same(place, kept) {
            gone(kept).map_err(|why| failed(kept, why))?;
        }
        return said("is not netqos's, and is left as it is");
    }
    let done = match fs::rename(kept, place) {
        Ok(()) => "what was there before is back",
        Err(why) if why.kind() == io::ErrorKind::NotFound => match fs::remove_file(place) {
            Ok(()) => "removed",
            Err(why) if why.kind() == io::ErrorKind::NotFound => "is not there",
            Err(why) => return Err(failed(place, why)),
        },
        Err(why) => return Err(failed(kept, why)),
    };
    directory.sync_all().map_err(|why| failed(to, why))?;
    said(done)
}

/// Opens the directory and keeps others from doing the same meanwhile.
fn alone(to: &Path) -> Result<File, Problem> {
    let directory = File::open(to).map_err(|why| failed(to, why))?;
    flock(&directory, FlockOperation::LockExclusive).map_err(|why| failed(to, why.into()))?;
    Ok(directory)
}

/// Reads a plugin, and follows links.
fn read(plugin: Plugin, path: &Path) -> Result<CurrentPlugin, Problem> {
    match fs::read(path) {
        Ok(bytes) if plugin.is(&bytes) => Ok(CurrentPlugin::Ours(bytes)),
        Ok(_) => Ok(CurrentPlugin::Foreign),
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(match fs::symlink_metadata(path) {
            Ok(_) => CurrentPlugin::Foreign,
            Err(_) => CurrentPlugin::Nothing,
        }),
        Err(why) => Err(failed(path, why)),
    }
}

/// Returns true if these are two names of one file, or of one link.
fn is_same(one: &Path, other: &Path) -> bool {
    let identity = |path| {
        fs::symlink_metadata(path)
            .map(|it| (it.dev(), it.ino()))
            .ok()
    };
    identity(one).is_some_and(|it| identity(other) == Some(it))
}

impl Names {
    /// Deletes the temporary files of a killed process.
    fn clear(&self) -> Result<(), Problem> {
        for path in [&self.coming, &self.keeping] {
            gone(path).map_err(|why| failed(path, why))?;
        }
        Ok(())
    }

    /// Gives what is there its second name, in place of what had it. A link stays a link.
    fn keep(&self) -> io::Result<()> {
        let Self {
            place,
            kept,
            keeping,
            ..
        } = self;
        gone(keeping)?;
        fs::hard_link(place, keeping)?;
        fs::rename(keeping, kept)?;
        // Two names of one file are left as they are by a rename.
        gone(keeping)
    }
}

fn write(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.set_permissions(fs::Permissions::from_mode(mode))?;
    file.sync_all()
}

fn gone(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(why) if why.kind() != io::ErrorKind::NotFound => Err(why),
        _ => Ok(()),
    }
}

fn failed(path: impl AsRef<Path>, source: io::Error) -> Problem {
    Problem::File {
        path: path.as_ref().to_owned(),
        source,
    }
}
