//! The permissions that a NetworkAttachmentDefinition's configuration needs.
//!
//! A configuration is executed as root on the node. The keys of a known plugin name what the configuration reaches there:
//! an interface, a device, a path. A key that is not known may reach anything.

use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::error::escaped;
use super::plugins::{ARGS, Absent, Key, Keys, PLUGINS};

/// The permissions that a configuration needs, each with the keys that lead to it, such as `plugins[0].master`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AttachmentNeeds {
    /// Plugin types, those of IPAM included.
    pub plugin_types: Vec<(String, String)>,
    /// Interfaces of the host, [`DEFAULT_ROUTE`](super::DEFAULT_ROUTE) for the one that the host's default route leads
    /// through; networks of OVN-Kubernetes.
    pub masters: Vec<(String, String)>,
    /// Devices of the host.
    pub devices: Vec<(String, String)>,
    /// Paths of the host.
    pub host_paths: Vec<(String, String)>,
    /// Keys by which the host's routes and packet filters, or other pods, are changed: `bridge.isGateway`, `ptp.ipam`,
    /// `portmap.portMappings`.
    pub host_keys: Vec<(String, String)>,
    /// The reasons that only a permission for the configuration as a whole is enough.
    pub unknown: Vec<(String, String)>,
    /// The reasons that no permission is enough.
    pub refused: Vec<(String, String)>,
    /// The SHA-256 of the configuration's text, in hexadecimal digits.
    pub digest: String,
}

/// Plugins that would attach the pod's networks once more.
const META_PLUGINS: [&str; 3] = ["netqos-multinet", "multus", "multus-shim"];

/// Returns true if a plugin of this type attaches a pod to the networks that it selects.
pub fn is_meta_plugin(kind: &str) -> bool {
    META_PLUGINS.contains(&kind)
}

/// Keys of a list.
const OF_LIST: [&str; 7] = [
    "cniVersion",
    "cniVersions",
    "name",
    "disableCheck",
    "disableGC",
    "loadOnlyInlinedPlugins",
    "plugins",
];

/// Keys of each plugin, which concern the runtime, or the plugin's own results.
const OF_EACH_PLUGIN: [&str; 5] = ["cniVersion", "name", "type", "capabilities", "dns"];

/// Keys of each plugin that a pod's annotation may fill in.
const OF_PODS: [(&str, Key); 3] = [
    ("args", ARGS),
    ("deviceID", Key::Device),
    ("pciBusID", Key::Device),
];

/// Keys that the runtime fills in.
const OF_RUNTIME: [&str; 2] = ["runtimeConfig", "prevResult"];

/// A place in a configuration: the plugin's type, and the keys that lead there, with a period behind them before a key.
#[derive(Clone, Copy)]
struct At<'a> {
    kind: &'static str,
    path: &'a str,
}

impl AttachmentNeeds {
    /// Returns the needs of a configuration: a list of plugins, or a single one.
    ///
    /// # Errors
    /// Returns an error if the text is not a JSON object.
    pub fn of(config: &str) -> Result<Self, serde_json::Error> {
        let fields: Map<String, Value> = serde_json::from_str(config)?;
        let mut needs = Self {
            digest: digest(config),
            ..Self::default()
        };
        match fields.get("plugins") {
            None => needs.plugin("", &fields),
            Some(plugins) => {
                for key in fields.keys().filter(|key| !OF_LIST.contains(&key.as_str())) {
                    needs.unknown_key(key, "a network configuration list");
                }
                needs.plugins(plugins, fields.get("name"));
            }
        }
        Ok(needs)
    }

    /// The plugins of a list. Each gets the name of the list, whatever it says itself.
    fn plugins(&mut self, plugins: &Value, name: Option<&Value>) {
        let Value::Array(plugins) = plugins else {
            self.refuse("plugins", "not a list");
            return;
        };
        for (index, plugin) in plugins.iter().enumerate() {
            let path = format!("plugins[{index}]");
            match plugin {
                Value::Object(fields) => {
                    let mut fields = fields.clone();
                    if let Some(name) = name {
                        let own = fields.insert("name".to_owned(), name.clone());
                        if own.is_some_and(|own| own != *name) {
                            self.refuse(&format!("{path}.name"), "not the name of the list");
                        }
                    }
                    self.plugin(&(path + "."), &fields);
                }
                _ => self.refuse(&path, "not an object"),
            }
        }
    }

    fn plugin(&mut self, path: &str, fields: &Map<String, Value>) {
        for key in OF_RUNTIME.iter().filter(|key| fields.contains_key(**key)) {
            self.refuse(&format!("{path}{key}"), "the runtime fills it in");
        }
        if let Some((kind, keys)) = self.plugin_type(path, fields) {
            self.keys(At { kind, path }, keys, fields, true);
        }
    }

    /// The keys of a plugin's type; `None` if they are not known, or the type is refused.
    fn plugin_type(
        &mut self,
        path: &str,
        fields: &Map<String, Value>,
    ) -> Option<(&'static str, Keys)> {
        let path = format!("{path}type");
        let kind = match fields.get("type") {
            Some(Value::String(kind)) => kind.as_str(),
            _ => "",
        };
        if kind.is_empty() || kind.contains(['/', '\0']) || kind == "." || kind == ".." {
            self.refuse(&path, "not the name of a plugin");
            return None;
        }
        if is_meta_plugin(kind) {
            self.refuse(
                &path,
                &format!("{kind} would attach the pod's networks once more"),
            );
            return None;
        }
        self.plugin_types.push((path.clone(), kind.to_owned()));
        let known = PLUGINS.iter().find(|(name, _)| *name == kind);
        if known.is_none() {
            let why = format!("netqos does not know the keys of plugin {}", escaped(kind));
            self.unknown.push((path, why));
        }
        known.copied()
    }

    fn keys(&mut self, at: At<'_>, keys: Keys, fields: &Map<String, Value>, is_plugin: bool) {
        for (name, value) in fields {
            let of_pods = OF_PODS.iter().filter(|_| is_plugin);
            let known = keys.iter().chain(of_pods).find(|(key, _)| key == name);
            let name = name.as_str();
            let path = format!("{}{name}", at.path);
            match known {
                Some((_, key)) => self.value(At { path: &path, ..at }, name, *key, value, fields),
                None if is_plugin && OF_EACH_PLUGIN.contains(&name) => {}
                None if is_plugin && OF_RUNTIME.contains(&name) => {}
                None => self.unknown_key(&path, at.kind),
            }
        }
        for (name, key) in keys.iter().filter(|(name, _)| is_absent(fields.get(*name))) {
            if let Key::Master(Absent::Is(master)) = key
                && !is_in_pod(fields)
            {
                self.masters
                    .push((format!("{}{name}", at.path), (*master).to_owned()));
            }
        }
    }

    fn value(
        &mut self,
        at: At<'_>,
        name: &str,
        key: Key,
        value: &Value,
        beside: &Map<String, Value>,
    ) {
        if is_absent(Some(value)) {
            return;
        }
        let needed = match key {
            Key::Free => return,
            Key::Master(_) if is_in_pod(beside) => return,
            Key::Master(_) => &mut self.masters,
            Key::Device => &mut self.devices,
            Key::Path => &mut self.host_paths,
            Key::Host(harmless) => {
                let is_harmless = value.as_str().is_some_and(|text| harmless.contains(&text));
                if !is_harmless && *value != Value::Bool(false) {
                    let key = format!("{}.{name}", at.kind);
                    self.host_keys.push((at.path.to_owned(), key));
                }
                return;
            }
            Key::Ipam => return self.nested(at.path, value),
            Key::RoutedIpam => {
                if value.as_object().is_none_or(|it| !it.is_empty()) {
                    let key = format!("{}.{name}", at.kind);
                    self.host_keys.push((at.path.to_owned(), key));
                }
                return self.nested(at.path, value);
            }
            Key::Keys(keys) => return self.object(at, keys, value),
        };
        match value {
            Value::String(text) => needed.push((at.path.to_owned(), text.clone())),
            _ => self.refuse(at.path, "not a string"),
        }
    }

    fn nested(&mut self, path: &str, value: &Value) {
        match value {
            // A plugin without addresses.
            Value::Object(fields) if fields.is_empty() => {}
            Value::Object(fields) => self.plugin(&format!("{path}."), fields),
            _ => self.refuse(path, "not an object"),
        }
    }

    fn object(&mut self, at: At<'_>, keys: Keys, value: &Value) {
        match value {
            Value::Object(fields) => {
                let path = format!("{}.", at.path);
                self.keys(At { path: &path, ..at }, keys, fields, false);
            }
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    let path = format!("{}[{index}]", at.path);
                    self.object(At { path: &path, ..at }, keys, item);
                }
            }
            _ => self.refuse(at.path, "not an object"),
        }
    }

    fn unknown_key(&mut self, path: &str, of: &str) {
        let why = format!("{of} has no such key that netqos knows");
        self.unknown.push((path.to_owned(), why));
    }

    fn refuse(&mut self, path: &str, why: &str) {
        self.refused.push((path.to_owned(), why.to_owned()));
    }
}

/// Returns the SHA-256 of a configuration's text, in hexadecimal digits.
pub fn digest(config: &str) -> String {
    let bytes = Sha256::digest(config.as_bytes());
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// In Go, `null` and an empty string are as good as no value.
fn is_absent(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(value) => value.as_str() == Some(""),
    }
}

/// The master is an interface of the pod.
fn is_in_pod(fields: &Map<String, Value>) -> bool {
    fields.get("linkInContainer") == Some(&Value::Bool(true))
}
