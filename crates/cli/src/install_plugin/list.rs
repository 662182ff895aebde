//! The list, by default `00-netqos.conflist`, through which a runtime calls `netqos-multinet` for each pod.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use netqos_agent::multinet::{
    DEFAULT_NETWORK, LIST, ListError, PLUGIN, bare_plugin, calls_plugin, list_with, lock,
    read_list, unfinished_list, write_list,
};
use netqos_api::npwg::is_meta_plugin;
use netqos_cni::runtime::{AttachmentRequest, NetworkConfigList, PluginConfig, Runtime};
use serde_json::{Map, Value, json};

use super::multus::leads_to_multinet;
use super::sandboxes::{Sandbox, Sandboxes};
use super::{Problem, failed, gone};

/// The list of a plugin that is being removed, in the directory of its state.
const KEPT: &str = "removed.conflist";

/// Writes the list. Keys that an administrator added to the plugin's configuration stay.
pub(super) fn write(path: &Path, default_network: Option<&Path>) -> Result<String, Problem> {
    let directory = directory_of(path);
    // The runtime may call a list of an earlier name for each pod.
    refuse_others(path)?;
    refuse_meta_default(path, default_network)?;
    // Under another name the runtime need not call it for each pod.
    let is_beside = path.file_name() != Some(LIST.as_ref());
    if is_beside || default_network.is_some() {
        refuse_before_meta(path)?;
    }
    let written = write_list(path, default_network)?;
    let first = NetworkConfigList::load_first(directory, |_| true);
    let first = first.ok().filter(|first| !calls_plugin(first));
    let called = match first.map(|first| first.name) {
        Some(first) if is_beside => format!(
            "; the runtime calls list {first}, and this one where its configuration names it or the network {PLUGIN}"
        ),
        Some(first) => {
            let path = written.path;
            return Err(Problem::NotFirst { path, first });
        }
        None => String::new(),
    };
    let done = match written.is_changed {
        false => "is there already",
        true => "written",
    };
    let default = match written.default_network {
        Ok(list) => format!("the default network is {}", list.name),
        Err(error) => format!("pods wait for a default network: {error}"),
    };
    Ok(format!("{}: {done}; {default}{called}", path.display()))
}

/// The directory of a list.
pub(super) fn directory_of(path: &Path) -> &Path {
    path.parent().unwrap_or(path)
}

/// The lists of the directory without this one.
fn others(own: &Path) -> Vec<(PathBuf, NetworkConfigList)> {
    let lists = NetworkConfigList::all(directory_of(own)).unwrap_or_default();
    let of_own = own.canonicalize().ok();
    let lists = lists.into_iter();
    let lists = lists.filter_map(|(path, list)| Some((path, list.ok()?)));
    lists
        .filter(|(path, _)| path != own && path.canonicalize().ok() != of_own)
        .collect()
}

/// The plugin of a list that attaches pods to several networks, another one than ours.
fn other_meta(list: &NetworkConfigList) -> Option<&PluginConfig> {
    let mut plugins = list.plugins.iter();
    plugins.find(|it| it.kind != PLUGIN && is_meta_plugin(&it.kind))
}

/// Fails if our list would lead to another meta plugin. Where the list of that one comes before ours, it may take ours as
/// the default network in turn.
fn refuse_meta_default(path: &Path, default_network: Option<&Path>) -> Result<(), Problem> {
    let default = match default_network {
        Some(file) => NetworkConfigList::from_file(file).ok(),
        None => {
            let plugin = read_list(path)?;
            if plugin.is_some_and(|plugin| plugin.contains_key(DEFAULT_NETWORK)) {
                return Ok(());
            }
            let lists = NetworkConfigList::all(directory_of(path)).unwrap_or_default();
            let mut lists = lists.into_iter();
            let first = lists.find(|(_, list)| !list.as_ref().is_ok_and(calls_plugin));
            first.and_then(|(_, list)| list.ok())
        }
    };
    let Some(list) = default else {
        return Ok(());
    };
    let mut kinds = list.plugins.iter().map(|plugin| &plugin.kind);
    match kinds.find(|kind| is_meta_plugin(kind)) {
        None => Ok(()),
        Some(kind) => Err(Problem::DefaultIsMeta {
            path: path.to_owned(),
            plugin: kind.clone(),
            list: list.name,
        }),
    }
}

/// Fails if a list beside another meta plugin's would take its place, or be its default network: pods would be attached to
/// their networks twice.
fn refuse_before_meta(path: &Path) -> Result<(), Problem> {
    let others = others(path);
    // Multus takes the first list that is not its own for that of the default network.
    let mut plain = others.iter().filter(|(_, list)| other_meta(list).is_none());
    let comes_before = |other: &Path| path.file_name() < other.file_name();
    let is_first = plain.next().is_some_and(|(first, _)| comes_before(first));
    for (other, list) in &others {
        let Some(plugin) = other_meta(list) else {
            continue;
        };
        if is_first || comes_before(other) {
            return Err(Problem::BeforeMeta {
                path: path.to_owned(),
                other: other.clone(),
                plugin: plugin.kind.clone(),
            });
        }
        if let Some(why) = leads_to_multinet(&plugin.raw, path)? {
            return Err(Problem::Twice {
                path: path.to_owned(),
                other: other.clone(),
                why,
            });
        }
    }
    Ok(())
}

/// Fails if another list of the directory calls the plugin.
pub(super) fn refuse_others(own: &Path) -> Result<(), Problem> {
    let mut others = others(own).into_iter();
    match others.find(|(_, list)| calls_plugin(list)) {
        Some((path, _)) => Err(Problem::OtherList(path)),
        None => Ok(()),
    }
}

/// Fails if the list is an administrator's that calls the plugin beside others: the runtime would find no executable.
pub(super) fn refuse_own_with_more(path: &Path) -> Result<(), Problem> {
    let calls = || NetworkConfigList::from_file(path).is_ok_and(|list| calls_plugin(&list));
    match read_list(path) {
        Err(foreign @ ListError::Foreign(_)) if calls() => Err(foreign.into()),
        _ => Ok(()),
    }
}

/// Returns the configuration of the plugin: of its list, or of the one that [`remove`] has kept.
pub(super) fn config(path: &Path, state: &Path) -> Result<Map<String, Value>, Problem> {
    let of_list = match read_list(path) {
        Err(ListError::Foreign(_)) => None,
        config => config?,
    };
    let config = match of_list {
        None => read_list(&state.join(KEPT))?,
        config => config,
    };
    Ok(config.unwrap_or_else(bare_plugin))
}

/// Returns the directories in which the plugin keeps its state: this one, and those that lists of the runtime's directory name,
/// or the list that [`remove`] has kept.
///
/// # Errors
/// Returns an error if the lists cannot be read.
pub(super) fn states(conf_dir: &Path, state: &Path) -> Result<BTreeSet<PathBuf>, Problem> {
    let lists = NetworkConfigList::all(conf_dir);
    let lists = lists.map_err(|error| Problem::Lists(Box::new(error)))?;
    let plugins = lists.into_iter().filter_map(|(_, list)| list.ok());
    let plugins = plugins.flat_map(|list| list.plugins);
    let ours = plugins.filter(|plugin| plugin.kind == PLUGIN);
    let ours = ours.map(|plugin| plugin.raw);
    let kept = read_list(&state.join(KEPT))?;
    let keys = ours.chain(kept);
    let named = keys.filter_map(|plugin| Some(plugin.get("stateDir")?.as_str()?.into()));
    Ok(named.chain([state.to_owned()]).collect())
}

/// Removes the list. The runtime calls the next one from now on. The configuration of the plugin is kept in the
/// directory of its state for later calls.
pub(super) fn remove(path: &Path, state: &Path) -> Result<String, Problem> {
    let (directory, kept) = (directory_of(path), state.join(KEPT));
    // The agent must not write it again meanwhile.
    let _locked = match directory.exists() {
        true => Some(lock(directory)?),
        false => None,
    };
    let done = match read_list(path) {
        Ok(None) => "is not there",
        Ok(Some(plugin)) => {
            let text = format!("{:#}\n", list_with(&plugin));
            let is_kept = fs::create_dir_all(state)
                .and_then(|()| super::write(&kept, text.as_bytes(), 0o600))
                .and_then(|()| File::open(state)?.sync_all());
            is_kept.map_err(|error| failed(&kept, error))?;
            let removed = gone(path).and_then(|()| File::open(directory)?.sync_all());
            removed.map_err(|error| failed(path, error))?;
            "removed"
        }
        Err(ListError::Foreign(_)) => "is not netqos's, and is left as it is",
        Err(error) => return Err(error.into()),
    };
    let coming = unfinished_list(path);
    gone(&coming).map_err(|error| failed(&coming, error))?;
    Ok(format!("{}: {done}", path.display()))
}

/// Removes the configuration that [`remove`] keeps.
pub(super) fn forget(state: &Path) -> Result<(), Problem> {
    let kept = state.join(KEPT);
    gone(&kept).map_err(|error| failed(&kept, error))
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
    // Before those with a record: an ADD that ends meanwhile is one of either.
    let in_flight = sandboxes.in_flight()?;
    let (alive, gone): (Vec<_>, Vec<_>) = sandboxes
        .all()?
        .into_iter()
        .partition(Sandbox::may_be_alive);
    let mut config = config.clone();
    config.insert("stateDir".to_owned(), json!(sandboxes.state()));
    let list = list_with(&config).to_string();
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
    let alive = alive.into_iter().map(|it| it.name);
    let names: BTreeSet<String> = alive.chain(in_flight).collect();
    Ok(names.into_iter().collect())
}
