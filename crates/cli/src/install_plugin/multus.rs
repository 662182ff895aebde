//! The Multus that the runtime calls once the list of `netqos-multinet` is gone.

use std::path::{Path, PathBuf};

use netqos_agent::multinet::calls_plugin;
use netqos_api::npwg::MULTUS_DIRECTORY;
use netqos_cni::runtime::{ListFile, NetworkConfigList};
use serde_json::{Map, Value, json};

use super::list::directory_of;
use super::{MULTINET, Problem};

/// Multus, and the shim that calls its daemon.
const THIN: &str = "multus";
const THICK: &str = "multus-shim";
/// The directories of Multus, unless its keys `binDir` and `confDir` say others.
const BIN_DIR: &str = "/opt/cni/bin";
const CONF_DIR: &str = "/etc/cni/multus/net.d";

/// Multus on this node.
#[derive(Debug)]
pub(super) struct Multus {
    /// The list through which the runtime calls it.
    pub(super) list: NetworkConfigList,
    /// Its delegates and their results.
    pub(super) directory: PathBuf,
    /// The directories in which it looks for delegates' plugins.
    pub(super) plugin_dirs: Vec<PathBuf>,
}

impl Multus {
    /// Returns the Multus of the list that the runtime reads first once the list of `netqos-multinet` is gone; `None` if
    /// that list calls another plugin, or there is none. `plugins` is the runtime's directory of plugins, and `directory`
    /// that of Multus where its daemon has a configuration of its own. `own` is the list of `netqos-multinet`.
    ///
    /// # Errors
    /// Returns an error if that list cannot be read or leads back to `netqos-multinet`, or Multus' directory is missing.
    pub(super) fn next(
        own: &Path,
        plugins: &Path,
        directory: Option<&Path>,
    ) -> Result<Option<Self>, Problem> {
        let Some((path, list)) = others(directory_of(own), own)?.into_iter().next() else {
            return Ok(None);
        };
        let unreadable = |error| Problem::NextList(Box::new(error));
        let mut list = list.map_err(unreadable)?;
        let leads_back = |why: String| Problem::LeadsBack {
            path: path.clone(),
            why,
        };
        if calls_plugin(&list) {
            return Err(leads_back(format!("it calls {}, too", MULTINET.name)));
        }
        let is_multus = |kind: &str| [THIN, THICK].contains(&kind);
        let Some(plugin) = list.plugins.iter().find(|it| is_multus(&it.kind)) else {
            return Ok(None);
        };
        if let Some(why) = leads_to_multinet(&plugin.raw, own)? {
            return Err(leads_back(why));
        }
        let directory = directory.map(Path::to_owned);
        let directory =
            directory.unwrap_or_else(|| path_of(&plugin.raw, "cniDir", MULTUS_DIRECTORY));
        if !directory.is_dir() {
            return Err(Problem::NotSeen {
                path: directory,
                content: "the pods of Multus",
            });
        }
        let own = path_of(&plugin.raw, "binDir", BIN_DIR);
        let plugin_dirs = match plugin.kind == THICK {
            // The daemon does not know the runtime's directory. In a container it may have another path than on the node.
            true if own.is_dir() => vec![own],
            true => vec![plugins.to_owned()],
            false => vec![own, plugins.to_owned()],
        };
        list.text = with_directory(&list.text, &directory);
        Ok(Some(Self {
            directory,
            plugin_dirs,
            list,
        }))
    }

    /// Returns the first plugin type of a list, those of IPAM and of delegates included, that Multus does not find.
    pub(super) fn missing_plugin(&self, list: &NetworkConfigList) -> Option<String> {
        let nested = |plugin: &Map<String, Value>| {
            let types = ["ipam", "delegate"].map(|key| plugin.get(key)?.get("type")?.as_str());
            types.into_iter().flatten().map(str::to_owned).collect()
        };
        let mut kinds = list.plugins.iter().flat_map(|plugin| {
            let mut kinds: Vec<String> = nested(&plugin.raw);
            kinds.insert(0, plugin.kind.clone());
            kinds
        });
        let is_missing = |kind: &String| {
            let mut dirs = self.plugin_dirs.iter();
            !kind.is_empty() && !dirs.any(|directory| directory.join(kind).is_file())
        };
        kinds.find(is_missing)
    }
}

/// A list that calls Multus, or its plugin alone, with this `cniDir`. The runtime keeps it with a sandbox's results, where
/// `netqos-multinet` finds the directory: the daemon of Multus may have it in a configuration of its own.
fn with_directory(list: &[u8], directory: &Path) -> Vec<u8> {
    let Ok(mut raw) = serde_json::from_slice::<Value>(list) else {
        return list.to_vec();
    };
    let set = |plugin: &mut Value| {
        let kind = plugin.get("type").and_then(Value::as_str);
        if kind.is_some_and(|kind| [THIN, THICK].contains(&kind)) {
            plugin["cniDir"] = json!(directory);
        }
    };
    match raw.get_mut("plugins").and_then(Value::as_array_mut) {
        Some(plugins) => plugins.iter_mut().for_each(set),
        None => set(&mut raw),
    }
    raw.to_string().into_bytes()
}

/// The files of a directory without `own`, the list of `netqos-multinet`.
fn others(directory: &Path, own: &Path) -> Result<Vec<ListFile>, Problem> {
    let unreadable = |error| Problem::Lists(Box::new(error));
    let mut files = NetworkConfigList::all(directory).map_err(unreadable)?;
    files.retain(|(path, list)| {
        let is_own = list.as_ref().is_ok_and(calls_plugin);
        // A container does not see the file to which a link leads out of the directory.
        let is_unseen = path == own && !path.exists();
        !(is_unseen || is_own && path.canonicalize().ok() == own.canonicalize().ok())
    });
    Ok(files)
}

/// Returns the reason for which Multus with this configuration would call `netqos-multinet`, by its list `own` or another one,
/// if it would.
///
/// # Errors
/// Returns an error if the lists of a directory cannot be read.
pub(super) fn leads_to_multinet(
    multus: &Map<String, Value>,
    own: &Path,
) -> Result<Option<String>, Problem> {
    // A delegate, of a single plugin or a list.
    let delegates = multus.get("delegates").and_then(Value::as_array);
    let is_own = |delegate: &&Value| {
        let list = NetworkConfigList::parse_any(delegate.to_string().as_bytes());
        list.is_ok_and(|list| calls_plugin(&list))
    };
    if delegates.into_iter().flatten().any(|it| is_own(&it)) {
        return Ok(Some(format!("its delegates call {}", MULTINET.name)));
    }
    let default = multus.get("defaultNetworks").and_then(Value::as_array);
    let networks = multus.get("clusterNetwork").into_iter();
    for network in networks.chain(default.into_iter().flatten()) {
        let network = network.as_str().unwrap_or_default();
        if leads_back(network, multus, own)? {
            return Ok(Some(format!("its network {network} is {}", MULTINET.name)));
        }
    }
    Ok(None)
}

/// Returns true if a `clusterNetwork` is the list of `netqos-multinet`: a file, a directory whose first list counts, or the
/// name of a network. The name of a NetworkAttachmentDefinition is not resolved.
fn leads_back(network: &str, multus: &Map<String, Value>, own: &Path) -> Result<bool, Problem> {
    let path = Path::new(network);
    if !network.contains('/') {
        let networks = path_of(multus, "confDir", CONF_DIR);
        let on_disk = NetworkConfigList::load(&networks, network);
        return Ok(network == MULTINET.name || on_disk.is_ok_and(|list| calls_plugin(&list)));
    }
    if path.is_dir() {
        let first = others(path, own)?.into_iter().next();
        return Ok(first.is_some_and(|(_, list)| list.is_ok_and(|list| calls_plugin(&list))));
    }
    // The path may be one of a container, or one of the node that this container does not see.
    let Some(name) = path.file_name() else {
        return Ok(false);
    };
    let files = [path.to_owned(), own.with_file_name(name)];
    let mut lists = files
        .iter()
        .filter_map(|file| NetworkConfigList::from_file(file).ok());
    Ok(Some(name) == own.file_name() || lists.any(|list| calls_plugin(&list)))
}

fn path_of(config: &Map<String, Value>, key: &str, default: &str) -> PathBuf {
    let path = config.get(key).and_then(Value::as_str);
    path.filter(|it| !it.is_empty()).unwrap_or(default).into()
}
