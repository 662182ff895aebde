//! The network of a node: the list that the folder holds, kept from leaving traces elsewhere.

use std::path::{Path, PathBuf};

use netqos_cni::runtime::{NetworkConfigList, Runtime};
use serde_json::Value;

use crate::record::{NodeRecord, Record};

/// The paths of one node's files.
#[derive(Clone, Debug)]
pub(crate) struct Files(PathBuf);

impl Files {
    pub(crate) fn of(record: &Record, node: &NodeRecord) -> Self {
        Self(record.node_folder(node))
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.0
    }

    /// The network, as it is used.
    pub(crate) fn network(&self) -> PathBuf {
        self.0.join("network.conflist")
    }

    /// Another network, by the name of its file.
    pub(crate) fn other_network(&self, name: &str) -> PathBuf {
        self.0.join("networks").join(format!("{name}.conflist"))
    }

    /// The objects that the agent reads.
    pub(crate) fn objects(&self) -> PathBuf {
        self.0.join("objects")
    }

    /// What the agent writes.
    pub(crate) fn agent_log(&self) -> PathBuf {
        self.0.join("agent.log")
    }

    /// Where the plugins' results are kept.
    pub(crate) fn cache(&self) -> PathBuf {
        self.0.join("cache")
    }

    /// Where netqos' plugins keep what they must remember.
    pub(crate) fn run(&self) -> PathBuf {
        self.0.join("run")
    }

    /// The BPF file system.
    pub(crate) fn bpffs(&self) -> PathBuf {
        self.0.join("bpf")
    }

    /// Where `host-local` keeps the addresses that it gave.
    fn addresses(&self) -> PathBuf {
        self.0.join("addresses")
    }

    /// Where what the containers print goes.
    pub(crate) fn log(&self, pod: &str, container: &str) -> PathBuf {
        self.0.join("log").join(format!("{pod}.{container}.log"))
    }

    /// What executes the plugins of this node.
    pub(crate) fn runtime(&self, node: &NodeRecord) -> Runtime {
        Runtime::new(node.plugin_dirs.clone(), self.cache())
            .with_env("NETQOS_BPFFS", self.bpffs())
            .with_env("NETQOS_RUN_DIR", self.run())
    }

    /// The list with the places of what it remembers inside of this node's folder. `host-local`
    /// would write below `/var/lib/cni`, and hand out addresses beside those of a real node's
    /// network of the same name.
    pub(crate) fn adopt(&self, list: &NetworkConfigList) -> Value {
        let plugins: Vec<Value> = list
            .plugins
            .iter()
            .map(|plugin| {
                let mut raw = plugin.raw.clone();
                if let Some(Value::Object(ipam)) = raw.get_mut("ipam")
                    && ipam.get("type").and_then(Value::as_str) == Some("host-local")
                {
                    ipam.insert(
                        "dataDir".to_owned(),
                        self.addresses().display().to_string().into(),
                    );
                }
                Value::Object(raw)
            })
            .collect();
        serde_json::json!({
            "cniVersion": list.version.to_string(),
            "name": list.name,
            "disableCheck": list.disable_check,
            // What was in the folder of the list's name has been read.
            "loadOnlyInlinedPlugins": true,
            "plugins": plugins,
        })
    }
}
