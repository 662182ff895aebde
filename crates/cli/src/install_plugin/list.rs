//! The list `00-netqos.conflist`, through which a runtime calls `netqos-multinet` for each pod.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::Path;

use netqos_api::npwg::is_meta_plugin;
use netqos_cni::runtime::{AttachmentRequest, NetworkConfigList, Runtime, RuntimeError};
use serde_json::{Map, Value, json};

use super::sandboxes::{Sandbox, Sandboxes};
use super::{MULTINET, Problem, failed, gone};

/// The directory of lists that runtimes and the plugin use by default.
pub(super) const DIRECTORY: &str = "/etc/cni/net.d";
/// The first list of a directory in the order of names.
pub(super) const NAME: &str = "00-netqos.conflist";
/// Runtimes read no file of this ending.
const COMING: &str = ".00-netqos.conflist.netqos-new";
/// The list of a plugin that is being removed, in the directory of its state.
const KEPT: &str = "removed.conflist";
/// The capabilities that CNI's CONVENTIONS.md and containerd know. A runtime passes only what a list declares; the plugin
/// passes to each attachment what that one's list declares.
const CAPABILITIES: [&str; 11] = [
    "aliases",
    "bandwidth",
    "cgroupPath",
    "deviceID",
    "dns",
    "infinibandGUID",
    "io.kubernetes.cri.pod-annotations",
    "ipRanges",
    "ips",
    "mac",
    "portMappings",
];

/// Writes the list. Keys that an administrator added to the plugin's configuration stay.
pub(super) fn write(directory: &Path) -> Result<String, Problem> {
    let (path, coming) = (directory.join(NAME), directory.join(COMING));
    let default = NetworkConfigList::load_first(directory, |list| !is_own(list));
    let mut plugin = match read(&path)? {
        Some(plugin) => plugin,
        None => Map::from_iter([("type".to_owned(), MULTINET.name.into())]),
    };
    refuse_meta_default(directory, &path, &plugin)?;
    if directory != Path::new(DIRECTORY) {
        // The plugin reads the default network there.
        let absolute = std::path::absolute(directory).map_err(|error| failed(directory, error))?;
        let in_list = plugin.entry("confDir");
        in_list.or_insert_with(|| json!(absolute));
    }
    let of_default = default.iter().flat_map(|list| &list.plugins);
    let of_default = of_default.flat_map(|plugin| plugin.capabilities.keys());
    let of_default = of_default.map(String::as_str);
    let capabilities: BTreeSet<&str> = CAPABILITIES.into_iter().chain(of_default).collect();
    let declared = plugin.entry("capabilities").or_insert_with(|| json!({}));
    for capability in capabilities {
        // One that an administrator has set to false stays false.
        if declared.get(capability).is_none() {
            declared[capability] = true.into();
        }
    }
    let text = format!("{:#}\n", document(&plugin));
    let is_same = fs::read(&path).is_ok_and(|found| found == text.as_bytes());
    if !is_same {
        let written = super::write(&coming, text.as_bytes(), 0o644)
            .and_then(|()| fs::rename(&coming, &path))
            .and_then(|()| File::open(directory)?.sync_all());
        if let Err(error) = written {
            // The first error matters.
            let _ = gone(&coming);
            return Err(failed(&path, error));
        }
    }
    let first = NetworkConfigList::load_first(directory, |_| true);
    if let Some(first) = first.ok().filter(|first| !is_own(first)) {
        return Err(Problem::NotFirst {
            path,
            first: first.name,
        });
    }
    let done = match is_same {
        true => "is there already",
        false => "written",
    };
    let default = match default {
        Ok(list) => format!("the default network is {}", list.name),
        Err(error) => format!("pods wait for a default network: {error}"),
    };
    Ok(format!("{}: {done}; {default}", path.display()))
}

/// Fails if our list, once the runtime reads it first, would lead to another meta plugin. One that comes before ours is
/// that of all pods already.
fn refuse_meta_default(
    directory: &Path,
    path: &Path,
    plugin: &Map<String, Value>,
) -> Result<(), Problem> {
    if plugin.contains_key("defaultNetwork") {
        return Ok(());
    }
    let lists = NetworkConfigList::all(directory).unwrap_or_default();
    let mut lists = lists.into_iter();
    let first = lists.find(|(_, list)| !list.as_ref().is_ok_and(is_own));
    let Some((_, Ok(list))) = first.filter(|(file, _)| file.as_path() > path) else {
        return Ok(());
    };
    let kinds = list.plugins.iter().map(|plugin| &plugin.kind);
    match kinds.into_iter().find(|kind| is_meta_plugin(kind)) {
        None => Ok(()),
        Some(kind) => Err(Problem::DefaultIsMeta {
            path: path.to_owned(),
            plugin: kind.clone(),
            list: list.name,
        }),
    }
}

/// The list with the plugin of this configuration. Runtimes that know 1.1.0 call GC and STATUS.
fn document(plugin: &Map<String, Value>) -> Value {
    json!({
        "cniVersion": "1.0.0",
        "cniVersions": ["1.0.0", "1.1.0"],
        "name": MULTINET.name,
        "plugins": [plugin],
    })
}

/// Returns the configuration of the plugin: of its list, or of the one that [`remove`] has kept.
pub(super) fn config(directory: &Path, state: &Path) -> Result<Map<String, Value>, Problem> {
    let of_list = match read(&directory.join(NAME)) {
        Err(Problem::ForeignList(_)) => None,
        config => config?,
    };
    let config = match of_list {
        None => read(&state.join(KEPT))?,
        config => config,
    };
    let default = || Map::from_iter([("type".to_owned(), MULTINET.name.into())]);
    Ok(config.unwrap_or_else(default))
}

/// Removes the list. The runtime calls the next one from now on. The configuration of the plugin is kept in the
/// directory of its state for later calls.
pub(super) fn remove(directory: &Path, state: &Path) -> Result<String, Problem> {
    let (path, kept) = (directory.join(NAME), state.join(KEPT));
    let done = match read(&path) {
        Ok(None) => "is not there",
        Ok(Some(plugin)) => {
            let text = format!("{:#}\n", document(&plugin));
            let is_kept = fs::create_dir_all(state)
                .and_then(|()| super::write(&kept, text.as_bytes(), 0o600))
                .and_then(|()| File::open(state)?.sync_all());
            is_kept.map_err(|error| failed(&kept, error))?;
            let removed = gone(&path).and_then(|()| File::open(directory)?.sync_all());
            removed.map_err(|error| failed(&path, error))?;
            "removed"
        }
        Err(Problem::ForeignList(_)) => "is not netqos's, and is left as it is",
        Err(problem) => return Err(problem),
    };
    let coming = directory.join(COMING);
    gone(&coming).map_err(|error| failed(&coming, error))?;
    Ok(format!("{}: {done}", path.display()))
}

/// Removes the configuration that [`remove`] keeps.
pub(super) fn forget(state: &Path) -> Result<(), Problem> {
    let kept = state.join(KEPT);
    gone(&kept).map_err(|error| failed(&kept, error))
}

/// Returns the configuration of the plugin in the list, or `None` if there is no list.
fn read(path: &Path) -> Result<Option<Map<String, Value>>, Problem> {
    if !path.try_exists().map_err(|error| failed(path, error))? {
        // A container does not see the file to which a link leads out of the directory.
        return match path.is_symlink() {
            true => Err(Problem::ForeignList(path.to_owned())),
            false => Ok(None),
        };
    }
    let list = match NetworkConfigList::from_file(path) {
        Ok(list) => list,
        Err(RuntimeError::Read { error, .. }) => return Err(failed(path, error)),
        Err(_) => return Err(Problem::ForeignList(path.to_owned())),
    };
    match <[_; 1]>::try_from(list.plugins) {
        Ok([plugin]) if plugin.kind == MULTINET.name => Ok(Some(plugin.raw)),
        _ => Err(Problem::ForeignList(path.to_owned())),
    }
}

/// Returns true if a list calls the plugin.
pub(super) fn is_own(list: &NetworkConfigList) -> bool {
    list.plugins.iter().any(|it| it.kind == MULTINET.name)
}

/// Undoes the attachments of sandboxes whose network namespace is gone, by a DEL of the plugin for each. Returns the
/// names of the others.
///
/// # Errors
/// Returns the first error; the other sandboxes' attachments are undone.
pub(super) fn release_gone(
    plugins: &Path,
    sandboxes: &Sandboxes,
    config: &Map<String, Value>,
) -> Result<Vec<String>, Problem> {
    let (alive, gone): (Vec<_>, Vec<_>) = sandboxes
        .all()?
        .into_iter()
        .partition(Sandbox::may_be_alive);
    let list = document(config).to_string();
    // Nothing is in this cache.
    let runtime = Runtime::new([plugins], sandboxes.state().join("none"));
    let mut failures = Vec::new();
    for sandbox in gone {
        let released = NetworkConfigList::parse(list.as_bytes()).and_then(|list| {
            let call = AttachmentRequest::new(sandbox.container_id, "eth0");
            runtime.del(&list, &call)
        });
        failures.extend(released.err());
    }
    if let Some(error) = failures.into_iter().next() {
        return Err(Problem::NotReleased(Box::new(error)));
    }
    let names: BTreeSet<String> = alive.into_iter().map(|it| it.name).collect();
    Ok(names.into_iter().collect())
}
