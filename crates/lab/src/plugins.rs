//! Where the CNI plugins are, and whose `bandwidth` it is.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use netqos_cni::runtime::NetworkConfigList;
use serde_json::Value;

use crate::LabError;

/// The variable that names further folders of plugins, separated by colons.
pub const PLUGIN_PATH: &str = "NETQOS_CNI_PATH";

/// Where Kubernetes' runtimes look, and where Debian's package has them.
const USUAL: [&str; 2] = ["/opt/cni/bin", "/usr/lib/cni"];

/// The plugin whose netqos version the lab is about.
const BANDWIDTH: &str = "bandwidth";

/// The plugin that attaches pods which select networks.
pub(crate) const MULTINET: &str = "netqos-multinet";

/// A `bandwidth` plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shaper {
    /// Its executable.
    pub(crate) path: PathBuf,
    /// What it says about itself.
    pub(crate) about: String,
}

/// Where plugins are looked for: beside this program, where `NETQOS_CNI_PATH` says, and where they
/// usually are.
pub(crate) fn folders() -> Vec<PathBuf> {
    let beside = env::current_exe()
        .ok()
        .and_then(|program| Some(program.parent()?.to_owned()));
    let named = env::var_os(PLUGIN_PATH).unwrap_or_default();
    beside
        .into_iter()
        .chain(env::split_paths(&named))
        .chain(USUAL.map(PathBuf::from))
        .filter(|folder| folder.is_absolute())
        .collect()
}

/// The folders in an order in which the first `bandwidth` is not netqos' but the one that people
/// have; `None` when there is no such one.
pub(crate) fn without_netqos(folders: &[PathBuf]) -> Option<Vec<PathBuf>> {
    let is_stock = |folder: &PathBuf| {
        Shaper::at(&folder.join(BANDWIDTH)).is_some_and(|shaper| !shaper.is_netqos())
    };
    let stock = folders.iter().position(is_stock)?;
    let mut folders = folders.to_owned();
    let first = folders.remove(stock);
    folders.insert(0, first);
    Some(folders)
}

/// Says which plugin of the network can't be found.
pub(crate) fn check(network: &NetworkConfigList, folders: &[PathBuf]) -> Result<(), LabError> {
    let ipam = |plugin: &serde_json::Map<String, Value>| {
        let kind = plugin.get("ipam")?.get("type")?.as_str()?;
        Some(kind.to_owned())
    };
    let kinds = network
        .plugins
        .iter()
        .flat_map(|plugin| [Some(plugin.kind.clone()), ipam(&plugin.raw)])
        .flatten()
        .filter(|kind| !kind.is_empty());
    for kind in kinds {
        if !folders.iter().any(|folder| folder.join(&kind).is_file()) {
            return Err(LabError::NoPlugin {
                network: network.name.clone(),
                plugin: kind,
                folders: folders.to_owned(),
            });
        }
    }
    Ok(())
}

/// Says if the plugin that attaches pods which select networks cannot be found.
pub(crate) fn check_multinet(folders: &[PathBuf]) -> Result<(), LabError> {
    match folders.iter().any(|it| it.join(MULTINET).is_file()) {
        true => Ok(()),
        false => Err(LabError::NoMultinet(folders.to_owned())),
    }
}

impl Shaper {
    /// The `bandwidth` that a network uses, if it does.
    pub(crate) fn of(network: &NetworkConfigList, folders: &[PathBuf]) -> Option<Self> {
        network
            .plugins
            .iter()
            .find(|plugin| plugin.kind == BANDWIDTH)?;
        folders
            .iter()
            .map(|folder| folder.join(BANDWIDTH))
            .find(|path| path.is_file())
            .and_then(|path| Self::at(&path))
    }

    /// Asks an executable what it is: without a command, a plugin prints that.
    fn at(path: &Path) -> Option<Self> {
        let output = Command::new(path)
            .env_remove("CNI_COMMAND")
            .stdin(Stdio::null())
            .output()
            .ok()?;
        let text = if output.stderr.is_empty() {
            output.stdout
        } else {
            output.stderr
        };
        let about = String::from_utf8_lossy(&text);
        Some(Self {
            path: path.to_owned(),
            about: about.lines().next().unwrap_or_default().to_owned(),
        })
    }

    pub(crate) fn is_netqos(&self) -> bool {
        self.about.contains("netqos")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    fn plugin(folder: &Path, says: &str) -> PathBuf {
        fs::create_dir_all(folder).unwrap();
        let path = folder.join(BANDWIDTH);
        fs::write(&path, format!("#!/bin/sh\necho '{says}' >&2\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        folder.to_owned()
    }

    #[test]
    fn the_one_that_people_have_comes_first_without_netqos() {
        let root = tempfile::tempdir().unwrap();
        let ours = plugin(&root.path().join("a"), "CNI bandwidth plugin netqos v0.1.0");
        let empty = root.path().join("b");
        let theirs = plugin(&root.path().join("c"), "CNI bandwidth plugin v1.1.1");

        let network = NetworkConfigList::parse(
            br#"{"cniVersion": "1.0.0", "name": "n", "plugins": [{"type": "bandwidth"}]}"#,
        )
        .unwrap();
        let folders = [ours.clone(), empty.clone(), theirs.clone()];
        assert!(Shaper::of(&network, &folders).unwrap().is_netqos());

        let without = without_netqos(&folders).unwrap();
        assert_eq!(without, [theirs, ours.clone(), empty]);
        assert!(!Shaper::of(&network, &without).unwrap().is_netqos());
        assert_eq!(without_netqos(&[ours]), None);
    }

    #[test]
    fn a_missing_plugin_is_named_with_what_to_do() {
        let network = NetworkConfigList::parse(
            br#"{"cniVersion": "1.0.0", "name": "n", "plugins": [{"type": "br", "ipam": {"type": "hl"}}]}"#,
        )
        .unwrap();
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("br"), "").unwrap();
        let error = check(&network, &[folder.path().to_owned()]).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("\"hl\"") && text.contains("NETQOS_CNI_PATH"),
            "{text}"
        );
        fs::write(folder.path().join("hl"), "").unwrap();
        check(&network, &[folder.path().to_owned()]).unwrap();

        let error = check_multinet(&[folder.path().to_owned()]).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("netqos-multinet") && text.contains("NETQOS_CNI_PATH"),
            "{text}"
        );
        fs::write(folder.path().join(MULTINET), "").unwrap();
        check_multinet(&[folder.path().to_owned()]).unwrap();
    }
}
