//! One container's interface on a network, and what its plugins are told about it.

use std::path::PathBuf;

use netqos_api::multinet::{PodRecord, RecordedAttachment};
use serde_json::{Map, Value};

use super::{NetworkConfigList, PluginConfig, RuntimeError};
use crate::{CniResult, names};

/// What a runtime knows about the container that it attaches.
#[derive(Clone, Debug, PartialEq)]
pub struct AttachmentRequest {
    /// The container's id.
    pub container_id: String,
    /// The interface's name inside the container.
    pub ifname: String,
    /// The container's network namespace; `None` only in DEL, when it has gone.
    pub netns: Option<PathBuf>,
    /// `CNI_ARGS`, in their order.
    pub args: Vec<(String, String)>,
    /// The arguments of capabilities, by the capability's name. A plugin gets those that its
    /// configuration declares.
    pub capability_args: Map<String, Value>,
}

impl AttachmentRequest {
    /// A request without namespace and arguments.
    pub fn new(container_id: impl Into<String>, ifname: impl Into<String>) -> Self {
        Self {
            container_id: container_id.into(),
            ifname: ifname.into(),
            netns: None,
            args: Vec::new(),
            capability_args: Map::new(),
        }
    }

    /// Returns the list of a recorded attachment, and the request with which its plugins are executed.
    ///
    /// # Errors
    /// Returns an error if the list cannot be read.
    pub fn recorded(
        record: &PodRecord,
        attachment: &RecordedAttachment,
    ) -> Result<(NetworkConfigList, Self), RuntimeError> {
        let text = Value::Object(attachment.list.clone()).to_string();
        let request = Self {
            container_id: record.container_id.clone(),
            ifname: attachment.interface.clone(),
            netns: record.netns.clone(),
            args: attachment.args.clone(),
            capability_args: attachment.capability_args.clone(),
        };
        Ok((NetworkConfigList::parse(text.as_bytes())?, request))
    }

    /// The same for a container in this network namespace.
    #[must_use]
    pub fn in_netns(mut self, netns: impl Into<PathBuf>) -> Self {
        self.netns = Some(netns.into());
        self
    }

    /// The same with one more pair in `CNI_ARGS`.
    #[must_use]
    pub fn with_arg(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.args.push((key.into(), value.into()));
        self
    }

    /// The same with the argument of a capability.
    #[must_use]
    pub fn with_capability(mut self, name: impl Into<String>, argument: Value) -> Self {
        self.capability_args.insert(name.into(), argument);
        self
    }

    /// The names become parts of file names, and plugins would refuse them.
    pub(super) fn check(&self, list: &NetworkConfigList) -> Result<(), RuntimeError> {
        names::check_container_id(&self.container_id)
            .and_then(|()| names::check_network_name(&list.name))
            .and_then(|()| names::check_interface_name(&self.ifname))
            .map_err(RuntimeError::Request)
    }

    /// What a plugin reads on standard input: its part of the list, with the list's name and
    /// version, the result of the plugin before it, and the capability arguments that it declares.
    pub(super) fn config_for(
        &self,
        list: &NetworkConfigList,
        plugin: &PluginConfig,
        previous: Option<&CniResult>,
    ) -> Result<Map<String, Value>, RuntimeError> {
        let mut config = list.config_for(plugin);
        if let Some(previous) = previous {
            let previous =
                serde_json::to_value(previous).map_err(|problem| RuntimeError::Encode {
                    plugin: plugin.kind.clone(),
                    problem,
                })?;
            config.insert("prevResult".to_owned(), previous);
        }
        let runtime_config: Map<_, _> = self
            .capability_args
            .iter()
            .filter(|(name, _)| plugin.declares(name))
            .map(|(name, argument)| (name.clone(), argument.clone()))
            .collect();
        if !runtime_config.is_empty() {
            config.insert("runtimeConfig".to_owned(), Value::Object(runtime_config));
        }
        config.values_mut().for_each(write_whole);
        Ok(config)
    }

    /// `CNI_ARGS`.
    pub(super) fn args_text(&self) -> String {
        let pairs: Vec<_> = self
            .args
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        pairs.join(";")
    }
}

/// Writes whole numbers as libcni does, which is written in Go: `1e+07`, as Helm prints ten million, is 10000000. Plugins
/// that want an integer refuse 10000000.0.
fn write_whole(value: &mut Value) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(write_whole),
        Value::Object(fields) => fields.values_mut().for_each(write_whole),
        Value::Number(number) if number.is_f64() => {
            let float = number.as_f64().filter(|it| it.fract() == 0.0);
            if let Some(whole) = float.filter(|it| (0.0..u64::MAX as f64).contains(it)) {
                *number = (whole as u64).into();
            } else if let Some(whole) = float.filter(|it| (i64::MIN as f64..0.0).contains(it)) {
                *number = (whole as i64).into();
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_reach_plugins_as_from_libcni() {
        let read = r#"{"a": [1e+07, 1.5, -2e3], "b": {"c": 0.0, "d": 1e30, "e": 7}}"#;
        let mut value: Value = serde_json::from_str(read).unwrap();
        write_whole(&mut value);
        let written = r#"{"a":[10000000,1.5,-2000],"b":{"c":0,"d":1e+30,"e":7}}"#;
        assert_eq!(value.to_string(), written);
    }
}
