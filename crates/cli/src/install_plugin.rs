//! `netqos install-plugin`: the CNI plugin `bandwidth` in its place on a node, and out of it again.
//!
//! At no moment is there no plugin, or half of one: what comes is written under another name and
//! renamed. A foreign plugin is kept beside it. Each run deletes the temporary files of a killed one.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use rustix::fs::{FlockOperation, flock};

use crate::output::{self, FAILED};

/// What runtimes look for.
const PLUGIN: &str = "bandwidth";
/// What was there before; runtimes never ask for this name.
const KEPT: &str = "bandwidth.before-netqos";
/// Names that are there for a moment.
const COMING: &str = ".bandwidth.netqos-new";
const KEEPING: &str = ".bandwidth.netqos-old";
/// What our plugin says it is, and no other says.
const OURS: &[u8] = b"CNI bandwidth plugin netqos v";

/// Which plugin, and where.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A plugin of that name that is not netqos's is kept as bandwidth.before-netqos, and --remove puts it back.
The CNI configuration is left as it is: what it has to say is in docs/bandwidth-plugin.md.

Examples:
  netqos install-plugin --to /opt/cni/bin
  netqos install-plugin --to /opt/cni/bin --remove

Exit codes: 0 it is as asked for, 1 it is not (the message says why), 2 wrong usage.")]
pub struct Arguments {
    /// The folder of CNI plugins.
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    /// The plugin; without it, `bandwidth` beside this executable.
    #[arg(long, value_name = "FILE", conflicts_with = "remove")]
    from: Option<PathBuf>,
    /// Puts back what was there before.
    #[arg(long)]
    remove: bool,
}

/// Why it is not as asked for.
#[derive(Debug, thiserror::Error)]
enum Problem {
    /// A file or a folder cannot be read or changed.
    #[error("{}: {source}{}", path.display(), remedy(source))]
    File { path: PathBuf, source: io::Error },
    /// The file is something else.
    #[error("{} is not the plugin bandwidth of netqos: name it with --from", .0.display())]
    NotOurs(PathBuf),
}

/// The remedy of an error.
fn remedy(why: &io::Error) -> &'static str {
    match why.kind() {
        io::ErrorKind::PermissionDenied => {
            "; run netqos as root with the capabilities DAC_OVERRIDE and FOWNER, and use a file system that \
             root may write to (not NFS with root_squash)"
        }
        io::ErrorKind::ReadOnlyFilesystem => {
            "; set --to (chart value cniPlugin.directory) to a writable directory, and add the directory to \
             the plugin path of the container runtime"
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; nothing changed; free disk space and try again"
        }
        _ => "",
    }
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
    let done = match arguments.remove {
        true => remove(&arguments.to),
        false => from(arguments).and_then(|from| install(&from, &arguments.to)),
    };
    match done {
        Ok(what) => {
            println!("{}: {what}", arguments.to.join(PLUGIN).display());
            ExitCode::SUCCESS
        }
        Err(why) => output::failure(FAILED, &why),
    }
}

fn from(arguments: &Arguments) -> Result<PathBuf, Problem> {
    match &arguments.from {
        Some(path) => Ok(path.clone()),
        None => {
            let own = std::env::current_exe().map_err(|why| failed("/proc/self/exe", why))?;
            Ok(own.with_file_name(PLUGIN))
        }
    }
}

fn install(from: &Path, to: &Path) -> Result<&'static str, Problem> {
    let plugin = fs::read(from).map_err(|why| failed(from, why))?;
    if !is_ours(&plugin) {
        return Err(Problem::NotOurs(from.to_owned()));
    }
    let folder = alone(to)?;
    let place = to.join(PLUGIN);
    let there = read(&place)?;
    clear(to)?;
    if matches!(&there, CurrentPlugin::Ours(is) if *is == plugin) {
        return Ok("is there already");
    }
    let said = put(&plugin, &there, to);
    if said.is_err() {
        // The first error matters.
        let _ = clear(to);
    }
    folder.sync_all().map_err(|why| failed(to, why))?;
    said
}

fn put(plugin: &[u8], there: &CurrentPlugin, to: &Path) -> Result<&'static str, Problem> {
    let (place, coming) = (to.join(PLUGIN), to.join(COMING));
    write(&coming, plugin).map_err(|why| failed(&coming, why))?;
    let said = match there {
        CurrentPlugin::Foreign => {
            keep(to).map_err(|why| failed(&place, why))?;
            "installed; what was there is kept as bandwidth.before-netqos"
        }
        CurrentPlugin::Ours(_) => "installed in place of another version",
        CurrentPlugin::Nothing => "installed",
    };
    fs::rename(&coming, &place).map_err(|why| failed(&place, why))?;
    Ok(said)
}

/// Deletes the temporary files of a killed process.
fn clear(to: &Path) -> Result<(), Problem> {
    for name in [COMING, KEEPING] {
        let path = to.join(name);
        gone(&path).map_err(|why| failed(&path, why))?;
    }
    Ok(())
}

fn remove(to: &Path) -> Result<&'static str, Problem> {
    let folder = alone(to)?;
    let (place, kept) = (to.join(PLUGIN), to.join(KEPT));
    let there = read(&place)?;
    clear(to)?;
    if matches!(there, CurrentPlugin::Foreign) {
        // A killed process kept the plugin and did not replace it.
        if is_same(&place, &kept) {
            gone(&kept).map_err(|why| failed(&kept, why))?;
        }
        return Ok("is not netqos's, and is left as it is");
    }
    let said = match fs::rename(&kept, &place) {
        Ok(()) => "what was there before is back",
        Err(why) if why.kind() == io::ErrorKind::NotFound => match fs::remove_file(&place) {
            Ok(()) => "removed",
            Err(why) if why.kind() == io::ErrorKind::NotFound => "is not there",
            Err(why) => return Err(failed(&place, why)),
        },
        Err(why) => return Err(failed(&kept, why)),
    };
    folder.sync_all().map_err(|why| failed(to, why))?;
    Ok(said)
}

/// The folder, in which no other does the same meanwhile.
fn alone(to: &Path) -> Result<File, Problem> {
    let folder = File::open(to).map_err(|why| failed(to, why))?;
    flock(&folder, FlockOperation::LockExclusive).map_err(|why| failed(to, why.into()))?;
    Ok(folder)
}

/// Reads a plugin, and follows links.
fn read(path: &Path) -> Result<CurrentPlugin, Problem> {
    match fs::read(path) {
        Ok(bytes) if is_ours(&bytes) => Ok(CurrentPlugin::Ours(bytes)),
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

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.set_permissions(fs::Permissions::from_mode(0o755))?;
    file.sync_all()
}

/// Gives what is there its second name, in place of what had it. A link stays a link.
fn keep(to: &Path) -> io::Result<()> {
    let keeping = to.join(KEEPING);
    gone(&keeping)?;
    fs::hard_link(to.join(PLUGIN), &keeping)?;
    fs::rename(&keeping, to.join(KEPT))?;
    // Two names of one file are left as they are by a rename.
    gone(&keeping)
}

fn gone(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(why) if why.kind() != io::ErrorKind::NotFound => Err(why),
        _ => Ok(()),
    }
}

fn is_ours(plugin: &[u8]) -> bool {
    plugin.windows(OURS.len()).any(|part| part == OURS)
}

fn failed(path: impl AsRef<Path>, source: io::Error) -> Problem {
    Problem::File {
        path: path.as_ref().to_owned(),
        source,
    }
}
