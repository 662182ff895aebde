//! Questions to plugins that change nothing: STATUS and VERSION.

use serde::Deserialize;

use super::{NetworkConfigList, Runtime, RuntimeError};
use crate::CniVersion;
use crate::json::null_is_default;
use crate::plugin::Command;

/// What a plugin answers to VERSION.
#[derive(Deserialize)]
struct VersionInfo {
    #[serde(rename = "cniVersion", default, deserialize_with = "null_is_default")]
    current: String,
    #[serde(
        rename = "supportedVersions",
        default,
        deserialize_with = "null_is_default"
    )]
    supported: Vec<String>,
}

impl Runtime {
    /// STATUS: asks the plugins in their order whether they could serve ADD. Before 1.1.0 nobody
    /// can be asked, and the answer is yes.
    ///
    /// # Errors
    ///
    /// The first plugin that says no; its code is in [`RuntimeError::plugin_error`].
    pub fn status(&self, list: &NetworkConfigList) -> Result<(), RuntimeError> {
        if list.version < CniVersion::V1_1_0 {
            return Ok(());
        }
        for plugin in &list.plugins {
            self.execute(Command::Status, plugin, &list.config_for(plugin), None)?;
        }
        Ok(())
    }

    /// VERSION: the versions that a plugin speaks, by its `type`. One that is too old to be asked
    /// speaks 0.1.0.
    pub fn version(&self, kind: &str) -> Result<Vec<CniVersion>, RuntimeError> {
        let path = self.find(kind)?;
        let stdin = format!("{{\"cniVersion\":\"{}\"}}", CniVersion::CURRENT);
        // Skeletons of old plugins want these, whatever their value.
        let invocation = self
            .invocation(Command::Version, None)
            .with("CNI_NETNS", "dummy")
            .with("CNI_IFNAME", "dummy")
            .with("CNI_PATH", "dummy");
        let stdout = match invocation.run(&path, stdin.as_bytes()) {
            Ok(stdout) => stdout,
            Err(error) => {
                let error = error.of_kind(kind, Command::Version, false);
                let too_old = error
                    .plugin_error()
                    .is_some_and(|said| said.msg == "unknown CNI_COMMAND: VERSION");
                return if too_old {
                    Ok(vec![CniVersion::V0_1_0])
                } else {
                    Err(error)
                };
            }
        };
        let wrong = |problem: String| RuntimeError::VersionInfo {
            plugin: kind.to_owned(),
            problem,
        };
        let info: VersionInfo =
            serde_json::from_slice(&stdout).map_err(|error| wrong(error.to_string()))?;
        match (info.current.as_str(), info.supported.as_slice()) {
            ("", _) => Err(wrong("missing field cniVersion".to_owned())),
            // The version that introduced VERSION knew no list.
            ("0.2.0", []) => Ok(vec![CniVersion::V0_1_0, CniVersion::V0_2_0]),
            (_, []) => Err(wrong("missing field supportedVersions".to_owned())),
            (_, versions) => versions
                .iter()
                .map(|text| text.parse().map_err(|error| wrong(format!("{error}"))))
                .collect(),
        }
    }

    /// Checks that every plugin of a list is there and speaks the list's version.
    pub fn validate(&self, list: &NetworkConfigList) -> Result<(), RuntimeError> {
        for plugin in &list.plugins {
            if !self.version(&plugin.kind)?.contains(&list.version) {
                return Err(RuntimeError::VersionNotSupported {
                    plugin: plugin.kind.clone(),
                    version: list.version,
                });
            }
        }
        Ok(())
    }
}
