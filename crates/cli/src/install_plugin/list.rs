//! The list `00-netqos.conflist`, through which a runtime calls `netqos-multinet` for each pod.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::Path;

use netqos_agent::multinet::{
    LIST, ListError, UNFINISHED_LIST, bare_plugin, calls_plugin, list_with, lock, read_list,
    write_list,
};
use netqos_api::npwg::is_meta_plugin;
use netqos_cni::runtime::{AttachmentRequest, NetworkConfigList, Runtime};
use serde_json::{Map, Value, json};

use super::sandboxes::{Sandbox, Sandboxes};
use super::{Problem, failed, gone};

/// The list of a plugin that is being removed, in the directory of its state.
const KEPT: &str = "removed.conflist";

/// Writes the list. Keys that an administrator added to the plugin's configuration stay.
pub(super) fn write(directory: &Path) -> Result<String, Problem> {
    refuse_meta_default(directory)?;
    let written = write_list(directory)?;
    let first = NetworkConfigList::load_first(directory, |_| true);
    if let Some(first) = first.ok().filter(|first| !calls_plugin(first)) {
        return Err(Problem::NotFirst {
            path: written.path,
            first: first.name,
        });
    }
    let done = match written.is_changed {
        false => "is there already",
        true => "written",
    };
    let default = match written.default_network {
        Ok(list) => format!("the default network is {}", list.name),
        Err(error) => format!("pods wait for a default network: {error}"),
    };
    Ok(format!("{}: {done}; {default}", written.path.display()))
}

/// Fails if our list would lead to another meta plugin. Where the list of that one comes before ours, it may take ours as
/// the default network in turn.
fn refuse_meta_default(directory: &Path) -> Result<(), Problem> {
    let path = directory.join(LIST);
    let plugin = read_list(&path)?;
    if plugin.is_some_and(|plugin| plugin.contains_key("defaultNetwork")) {
        return Ok(());
    }
    let lists = NetworkConfigList::all(directory).unwrap_or_default();
    let mut lists = lists.into_iter();
    let first = lists.find(|(_, list)| !list.as_ref().is_ok_and(calls_plugin));
    let Some((_, Ok(list))) = first else {
        return Ok(());
    };
    let kinds = list.plugins.iter().map(|plugin| &plugin.kind);
    match kinds.into_iter().find(|kind| is_meta_plugin(kind)) {
        None => Ok(()),
        Some(kind) => Err(Problem::DefaultIsMeta {
            path,
            plugin: kind.clone(),
            list: list.name,
        }),
    }
}

/// Fails if the list is an administrator's that calls the plugin beside others: the runtime would find no executable.
pub(super) fn refuse_own_with_more(directory: &Path) -> Result<(), Problem> {
    let path = directory.join(LIST);
    let calls = || NetworkConfigList::from_file(&path).is_ok_and(|list| calls_plugin(&list));
    match read_list(&path) {
        Err(foreign @ ListError::Foreign(_)) if calls() => Err(foreign.into()),
        _ => Ok(()),
    }
}

/// Returns the configuration of the plugin: of its list, or of the one that [`remove`] has kept.
pub(super) fn config(directory: &Path, state: &Path) -> Result<Map<String, Value>, Problem> {
    let of_list = match read_list(&directory.join(LIST)) {
        Err(ListError::Foreign(_)) => None,
        config => config?,
    };
    let config = match of_list {
        None => read_list(&state.join(KEPT))?,
        config => config,
    };
    Ok(config.unwrap_or_else(bare_plugin))
}

/// Removes the list. The runtime calls the next one from now on. The configuration of the plugin is kept in the
/// directory of its state for later calls.
pub(super) fn remove(directory: &Path, state: &Path) -> Result<String, Problem> {
    let (path, kept) = (directory.join(LIST), state.join(KEPT));
    // The agent must not write it again meanwhile.
    let _locked = match directory.exists() {
        true => Some(lock(directory)?),
        false => None,
    };
    let done = match read_list(&path) {
        Ok(None) => "is not there",
        Ok(Some(plugin)) => {
            let text = format!("{:#}\n", list_with(&plugin));
            let is_kept = fs::create_dir_all(state)
                .and_then(|()| super::write(&kept, text.as_bytes(), 0o600))
                .and_then(|()| File::open(state)?.sync_all());
            is_kept.map_err(|error| failed(&kept, error))?;
            let removed = gone(&path).and_then(|()| File::open(directory)?.sync_all());
            removed.map_err(|error| failed(&path, error))?;
            "removed"
        }
        Err(ListError::Foreign(_)) => "is not netqos's, and is left as it is",
        Err(error) => return Err(error.into()),
    };
    let coming = directory.join(UNFINISHED_LIST);
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
