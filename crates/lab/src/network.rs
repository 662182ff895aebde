//! The network of a node: the list that the folder holds, kept from leaving traces elsewhere.

use std::path::{Path, PathBuf};

use netqos_agent::places;
use netqos_api::capability::POD_ANNOTATIONS;
use netqos_api::npwg::digest;
use netqos_cni::runtime::{NetworkConfigList, Runtime};
use serde_json::{Map, Value, json};

use crate::plugins::MULTINET;
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

    /// The default network of a node whose pods `netqos-multinet` attaches.
    pub(crate) fn default_network(&self) -> PathBuf {
        self.0.join("default.conflist")
    }

    /// What outlives a reboot, on a node.
    pub(crate) fn state(&self) -> PathBuf {
        self.0.join("state")
    }

    /// Records and results of `netqos-multinet`.
    pub(crate) fn multinet(&self) -> PathBuf {
        self.state().join("multinet")
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
                self.adopt_plugin(&mut raw);
                Value::Object(raw)
            })
            .collect();
        json!({
            "cniVersion": list.version.to_string(),
            "name": list.name,
            "disableCheck": list.disable_check,
            // What was in the folder of the list's name has been read.
            "loadOnlyInlinedPlugins": true,
            "plugins": plugins,
        })
    }

    /// The list by which `netqos-multinet` attaches pods to this default network and to those that
    /// they select: as `netqos install-plugin --multinet` writes it, with the paths of this node.
    pub(crate) fn multinet_list(&self, default: &NetworkConfigList) -> Value {
        let of_default = default.plugins.iter().flat_map(|it| &it.capabilities);
        let declared = of_default.filter(|(_, declared)| **declared);
        let mut capabilities: Map<String, Value> = declared
            .map(|(name, _)| (name.clone(), true.into()))
            .collect();
        capabilities.insert(POD_ANNOTATIONS.to_owned(), true.into());
        json!({
            "cniVersion": default.version.to_string(),
            // The runtime's result and the plugin's own are of one attachment.
            "name": default.name,
            "plugins": [{
                "type": MULTINET,
                "capabilities": capabilities,
                "defaultNetwork": self.default_network(),
                "socket": places::multinet_socket_path(&self.run()),
                "stateDir": self.multinet(),
                "hostPaths": [self.addresses()],
            }],
        })
    }

    /// An object as this node's agent is told it: NetworkAttachmentDefinitions with the places of
    /// what they remember inside of the node's folder, and policies with the permission for these.
    /// `definitions` are the configurations of all of the former.
    pub(crate) fn adopt_object<'c>(
        &self,
        kind: &str,
        object: &Value,
        definitions: impl Iterator<Item = &'c str>,
    ) -> Value {
        let mut object = object.clone();
        match kind {
            "NetworkAttachmentDefinition" => {
                if let Some(config) = object.pointer_mut("/spec/config")
                    && let Some(adopted) = config.as_str().and_then(|it| self.adopt_config(it))
                {
                    *config = adopted.into();
                }
            }
            "NetworkAttachmentPolicy" => {
                if let Some(Value::Object(spec)) = object.get_mut("spec") {
                    self.permit_adopted(spec, definitions);
                }
            }
            _ => {}
        }
        object
    }

    fn permit_adopted<'c>(
        &self,
        policy: &mut Map<String, Value>,
        definitions: impl Iterator<Item = &'c str>,
    ) {
        let paths = policy.entry("hostPaths").or_insert_with(|| json!([]));
        if let Some(paths) = paths.as_array_mut() {
            paths.push(json!(self.addresses()));
        }
        let Some(Value::Array(digests)) = policy.get_mut("digests") else {
            return;
        };
        for config in definitions {
            if digests.contains(&digest(config).into())
                && let Some(adopted) = self.adopt_config(config)
            {
                digests.push(digest(&adopted).into());
            }
        }
    }

    /// A list or a single plugin. `None`: it is neither, or remembers nothing.
    fn adopt_config(&self, config: &str) -> Option<String> {
        let mut config: Value = serde_json::from_str(config).ok()?;
        let before = config.clone();
        let fields = config.as_object_mut()?;
        match fields.get_mut("plugins").and_then(Value::as_array_mut) {
            None => self.adopt_plugin(fields),
            Some(plugins) => {
                let plugins = plugins.iter_mut().filter_map(Value::as_object_mut);
                plugins.for_each(|plugin| self.adopt_plugin(plugin));
            }
        }
        (config != before).then(|| config.to_string())
    }

    fn adopt_plugin(&self, plugin: &mut Map<String, Value>) {
        if let Some(Value::Object(ipam)) = plugin.get_mut("ipam")
            && ipam.get("type").and_then(Value::as_str) == Some("host-local")
        {
            ipam.insert("dataDir".to_owned(), json!(self.addresses()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_that_remember_addresses_do_so_in_the_lab_and_policies_permit_that() {
        let files = Files("/run/netqos/lab/1/node".into());
        let single = r#"{"type": "macvlan", "ipam": {"type": "host-local"}}"#;
        let list = r#"{"plugins": [{"type": "tuning"}, {"type": "bridge", "ipam": {"type": "host-local"}}]}"#;
        let other = r#"{"type": "macvlan", "ipam": {"type": "static"}}"#;
        let adopt = |kind: &str, object: &Value| {
            files.adopt_object(kind, object, [single, list, other].into_iter())
        };
        let addresses = "/run/netqos/lab/1/node/addresses";
        let adopted = |config: &str| {
            let object = json!({"spec": {"config": config}});
            let object = adopt("NetworkAttachmentDefinition", &object);
            object["spec"]["config"].as_str().unwrap().to_owned()
        };
        let read = |text: &str| -> Value { serde_json::from_str(text).unwrap() };
        assert_eq!(read(&adopted(single))["ipam"]["dataDir"], addresses);
        let of_list = &read(&adopted(list))["plugins"][1]["ipam"];
        assert_eq!(of_list["dataDir"], addresses);
        assert_eq!(adopted(other), other, "not even a space is another");

        let policy = json!({"spec": {"hostPaths": ["/srv"], "digests": [digest(list)]}});
        let policy = adopt("NetworkAttachmentPolicy", &policy);
        let expected = json!({
            "hostPaths": ["/srv", addresses],
            "digests": [digest(list), digest(&adopted(list))],
        });
        assert_eq!(policy["spec"], expected);
        let qos = json!({"spec": {"config": single}});
        assert_eq!(adopt("NetworkQoS", &qos), qos);
    }
}
