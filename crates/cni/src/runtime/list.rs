//! A network configuration list: what a `.conflist` says.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::RuntimeError;
use crate::{CniVersion, json as go};

/// A network: its plugins in the order in which they are called.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkConfigList {
    /// The network's name.
    pub name: String,
    /// The version in which the plugins are spoken to: the highest of `cniVersion` and
    /// `cniVersions` that is not above 1.1.0.
    pub version: CniVersion,
    /// CHECK must not be called.
    pub disable_check: bool,
    /// GC must not be called.
    pub disable_gc: bool,
    /// The folder of the list's name is not looked into for more plugins.
    pub load_only_inlined_plugins: bool,
    /// The plugins.
    pub plugins: Vec<PluginConfig>,
    /// The document, as it was read; it goes into the cache.
    pub text: Vec<u8>,
}

/// One plugin of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct PluginConfig {
    /// `type`: the name of its executable.
    pub kind: String,
    /// `capabilities`: the arguments that the runtime may fill in, where true.
    pub capabilities: BTreeMap<String, bool>,
    /// The whole document.
    pub raw: Map<String, Value>,
}

impl NetworkConfigList {
    /// Reads a list. Its `plugins` may be missing: then they are in the folder of its name.
    ///
    /// # Errors
    ///
    /// Those of libcni, with their texts: [`RuntimeError::List`], [`RuntimeError::PluginInList`].
    pub fn parse(text: &[u8]) -> Result<Self, RuntimeError> {
        let raw: Map<String, Value> = serde_json::from_slice(text)
            .map_err(|error| RuntimeError::List(go::parser_message(&error)))?;
        let name = match raw.get("name") {
            None => return Err(RuntimeError::List("no name".to_owned())),
            Some(Value::String(name)) => name.clone(),
            Some(other) => return Err(wrong_type("name", other)),
        };
        let list = Self {
            name,
            version: version(&raw)?,
            disable_check: flag(&raw, "disableCheck")?,
            disable_gc: flag(&raw, "disableGC")?,
            load_only_inlined_plugins: flag(&raw, "loadOnlyInlinedPlugins")?,
            plugins: Vec::new(),
            text: text.to_owned(),
        };
        let plugins = match raw.get("plugins") {
            None if list.load_only_inlined_plugins => {
                return Err(RuntimeError::List(
                    "`loadOnlyInlinedPlugins` is true, and no 'plugins' key".to_owned(),
                ));
            }
            None => return Ok(list),
            Some(Value::Array(plugins)) if plugins.is_empty() => {
                return Err(RuntimeError::List("no plugins in list".to_owned()));
            }
            Some(Value::Array(plugins)) => plugins
                .iter()
                .enumerate()
                .map(|(index, plugin)| {
                    PluginConfig::from_value(plugin.clone())
                        .map_err(|problem| RuntimeError::PluginInList { index, problem })
                })
                .collect::<Result<_, _>>()?,
            Some(other) => return Err(wrong_type("'plugins'", other)),
        };
        Ok(Self { plugins, ..list })
    }

    /// Makes a list of a configuration of a single plugin, the form before 1.0.0.
    pub fn parse_single(text: &[u8]) -> Result<Self, RuntimeError> {
        let plugin = PluginConfig::parse(text)?;
        let field = |key: &str| go::text_field(&plugin.raw, key).unwrap_or_default();
        let list = json!({
            "name": field("name"),
            "cniVersion": field("cniVersion"),
            "plugins": [plugin.raw],
        });
        Self::parse(list.to_string().as_bytes())
    }

    /// Reads a list, or a configuration of a single plugin.
    ///
    /// # Errors
    /// Those of [`Self::parse`] and [`Self::parse_single`].
    pub fn parse_any(text: &[u8]) -> Result<Self, RuntimeError> {
        let raw: Map<String, Value> = serde_json::from_slice(text)
            .map_err(|error| RuntimeError::List(go::parser_message(&error)))?;
        match raw.contains_key("plugins") {
            true => Self::parse(text),
            false => Self::parse_single(text),
        }
    }

    /// The plugins that declare a capability.
    pub fn declaring<'a>(&'a self, capability: &'a str) -> impl Iterator<Item = &'a PluginConfig> {
        self.plugins
            .iter()
            .filter(move |plugin| plugin.declares(capability))
    }

    /// What every plugin of the list is told, whatever the operation.
    pub(super) fn config_for(&self, plugin: &PluginConfig) -> Map<String, Value> {
        let mut config = plugin.raw.clone();
        config.insert("name".to_owned(), Value::from(self.name.as_str()));
        config.insert(
            "cniVersion".to_owned(),
            Value::from(self.version.to_string()),
        );
        config
    }
}

impl PluginConfig {
    /// Reads the configuration of one plugin.
    pub fn parse(text: &[u8]) -> Result<Self, RuntimeError> {
        serde_json::from_slice(text)
            .map_err(|error| go::parser_message(&error))
            .and_then(Self::from_value)
            .map_err(RuntimeError::Plugin)
    }

    fn from_value(value: Value) -> Result<Self, String> {
        let raw = match value {
            Value::Object(raw) => raw,
            other => return Err(format!("cannot unmarshal {}", go::kind_of(&other))),
        };
        let kind = go::text_field(&raw, "type")
            .map_err(|found| format!("cannot unmarshal {found} into type of type string"))?;
        if kind.is_empty() {
            return Err("missing 'type'".to_owned());
        }
        let mut capabilities = BTreeMap::new();
        match go::field(&raw, "capabilities") {
            None => {}
            Some(Value::Object(declared)) => {
                for (name, value) in declared {
                    let Some(wanted) = value.as_bool() else {
                        let found = go::kind_of(value);
                        return Err(format!(
                            "cannot unmarshal {found} into capabilities.{name} of type bool"
                        ));
                    };
                    capabilities.insert(name.clone(), wanted);
                }
            }
            Some(other) => {
                let found = go::kind_of(other);
                return Err(format!("cannot unmarshal {found} into capabilities"));
            }
        }
        Ok(Self {
            kind: kind.to_owned(),
            capabilities,
            raw,
        })
    }

    /// True when the runtime may fill in the arguments of this capability.
    pub fn declares(&self, capability: &str) -> bool {
        self.capabilities.get(capability) == Some(&true)
    }
}

fn version(raw: &Map<String, Value>) -> Result<CniVersion, RuntimeError> {
    let read = |what: &str, text: &str| {
        text.parse::<CniVersion>()
            .map_err(|error| RuntimeError::List(format!("invalid {what}: {error}")))
    };
    let single = match raw.get("cniVersion") {
        None => None,
        Some(Value::String(text)) => Some(read(&format!("cniVersion {text}"), text)?),
        Some(other) => return Err(wrong_type("cniVersion", other)),
    };
    let several = match raw.get("cniVersions") {
        None => Vec::new(),
        Some(Value::Array(entries)) => entries
            .iter()
            .enumerate()
            .map(|(index, entry)| match entry {
                Value::String(text) => {
                    read(&format!("cniVersions entry {text} at index {index}"), text)
                }
                other => Err(RuntimeError::List(format!(
                    "invalid type for cniVersions index {index}: {}",
                    go::kind_of(other)
                ))),
            })
            .collect::<Result<_, _>>()?,
        Some(other) => {
            return Err(RuntimeError::List(format!(
                "invalid type for cniVersions: {}",
                go::kind_of(other)
            )));
        }
    };
    let spoken = several
        .into_iter()
        .chain(single)
        .filter(|version| *version <= CniVersion::CURRENT)
        .max();
    // With no other choice the plugins get the list's own, and say that they don't speak it. Plugins that speak 0.1.0 or
    // 0.2.0 have spoken 0.3.1 since 2017, and their older results are not read.
    let chosen = spoken.or(single).unwrap_or(CniVersion::V0_1_0);
    Ok(if chosen < CniVersion::V0_3_0 {
        CniVersion::V0_3_1
    } else {
        chosen
    })
}

/// A switch: `true`, `false`, or either as a text.
fn flag(raw: &Map<String, Value>, key: &str) -> Result<bool, RuntimeError> {
    match raw.get(key) {
        None => Ok(false),
        Some(Value::Bool(value)) => Ok(*value),
        Some(Value::String(text)) => match text.to_ascii_lowercase().as_str() {
            "true" => Ok(true),
            "false" => Ok(false),
            other => Err(RuntimeError::List(format!(
                "invalid value {other:?} for {key}"
            ))),
        },
        Some(other) => Err(RuntimeError::List(format!(
            "invalid type {} for {key}",
            go::kind_of(other)
        ))),
    }
}

fn wrong_type(key: &str, found: &Value) -> RuntimeError {
    RuntimeError::List(format!("invalid {key} type {}", go::kind_of(found)))
}
