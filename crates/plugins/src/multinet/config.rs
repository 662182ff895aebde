//! The plugin's own configuration: its entry of the runtime's list.

use std::path::PathBuf;

use netqos_api::npwg::InterfaceNames;
use netqos_cni::{CniError, NetConf};
use serde::Deserialize;
use serde_json::{Map, Value};

/// The socket of the agent.
const SOCKET: &str = "/run/netqos/multinet.sock";
/// The agent's files about pods, for runtimes that pass no annotations.
pub const PODS: &str = "/run/netqos/multinet-pods";
/// Records and results, which a reboot does not remove.
const STATE: &str = "/var/lib/netqos/multinet";
/// The lists of the runtime.
const CONF: &str = "/etc/cni/net.d";

/// The configuration of `netqos-multinet`. Root writes it: no agent and no object can lift its limits.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MultinetConfig {
    /// The default network, which every pod is on: the path of its list, or the list itself. By default the first list
    /// in `confDir` that does not call this plugin.
    #[serde(default)]
    pub default_network: Option<DefaultNetwork>,
    /// The directory from which the runtime reads its lists.
    #[serde(default = "conf")]
    pub conf_dir: PathBuf,
    /// How interfaces are named that their entries give no name.
    #[serde(default, deserialize_with = "interface_names")]
    pub interface_names: InterfaceNames,
    /// A pod with an annotation that is not valid starts with the default network alone, as the specification says it.
    /// By default it does not start.
    #[serde(default)]
    pub spec_literal: bool,
    /// The agent's socket.
    #[serde(default = "socket")]
    pub socket: PathBuf,
    /// The directory of records and results.
    #[serde(default = "state")]
    pub state_dir: PathBuf,
    /// Directories that attachments' plugins may be in; by default those that the runtime names.
    #[serde(default)]
    pub plugin_dirs: Vec<PathBuf>,
    /// Paths of the host that attachments' configurations may name, with all below them, whatever a policy permits.
    #[serde(default)]
    pub host_paths: Vec<String>,
}

/// Where the list of the default network is.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum DefaultNetwork {
    /// In this file.
    File(PathBuf),
    /// Here.
    List(Map<String, Value>),
}

impl MultinetConfig {
    /// Reads the configuration.
    ///
    /// # Errors
    /// Returns an error of code 7 that names the key.
    pub fn read(config: &NetConf) -> Result<Self, CniError> {
        let raw = Value::Object(config.raw.clone());
        serde_path_to_error::deserialize(raw).map_err(|error| {
            let (path, why) = (error.path().to_string(), error.into_inner());
            CniError::invalid_config(format!("configuration of netqos-multinet: {path}: {why}"))
        })
    }
}

fn interface_names<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<InterfaceNames, D::Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Names {
        Net,
        Eth,
    }
    Ok(match Names::deserialize(deserializer)? {
        Names::Net => InterfaceNames::Net,
        Names::Eth => InterfaceNames::Eth,
    })
}

fn socket() -> PathBuf {
    SOCKET.into()
}

fn conf() -> PathBuf {
    CONF.into()
}

fn state() -> PathBuf {
    STATE.into()
}
