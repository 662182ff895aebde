//! The delegates of a sandbox, as Multus keeps them from before the first ADD until its DEL (`DelegateNetConf` of its
//! `pkg/types`): in a file of the sandbox's name, a JSON array in the order of ADD, the default network first.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::cache::{base64_text, replace};
use super::{AttachmentRequest, NetworkConfigList, RuntimeError};
use crate::json::null_is_default;

/// A delegate. Keys of Multus that its DEL does not read are left out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MultusDelegate {
    /// The configuration of a delegate of a single plugin; else empty.
    #[serde(rename = "Conf", default)]
    conf: Map<String, Value>,
    /// An excerpt of the configuration of a list. By it Multus knows that it is one, and takes what `cniVersion` it lacks
    /// from its own configuration; then it writes the list anew, without the keys that it does not know.
    #[serde(rename = "ConfList", default)]
    conf_list: Map<String, Value>,
    /// The NAD, `namespace/name`, or else the network's name.
    #[serde(rename = "Name", default)]
    pub name: String,
    /// The interface's name in the pod; empty if Multus chooses it.
    #[serde(
        rename = "ifnameRequest",
        default,
        deserialize_with = "null_is_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub interface: String,
    /// The device that the pod has for it, if any. By it Multus finds the attachment's device information file.
    #[serde(
        rename = "deviceID",
        default,
        deserialize_with = "null_is_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub device: String,
    /// Its configuration. Of a `clusterNetwork` Multus keeps only the keys that it knows.
    #[serde(rename = "Bytes", with = "base64_text")]
    pub config: Vec<u8>,
}

impl MultusDelegate {
    /// The delegate for an attachment. Multus calls its plugins with what they are called with now: it keeps no
    /// arguments for port mappings and bandwidth, and it passes those of the pod to all delegates. So the plugins get
    /// their `runtimeConfig` from here, and declare no capabilities.
    ///
    /// # Errors
    /// Returns an error if a name is one that CNI does not allow.
    pub fn of(
        name: String,
        list: &NetworkConfigList,
        request: &AttachmentRequest,
    ) -> Result<Self, RuntimeError> {
        request.check(list)?;
        let plugins = list.plugins.iter().map(|plugin| {
            let mut config = request.config_for(list, plugin, None)?;
            config.remove("capabilities");
            Ok(Value::Object(config))
        });
        let plugins: Vec<Value> = plugins.collect::<Result<_, RuntimeError>>()?;
        let kinds = list.plugins.iter().map(|it| json!({"type": it.kind}));
        let version = list.version.to_string();
        let device = request.capability_args.get("deviceID");
        let device = device.and_then(Value::as_str);
        let of_list = |plugins: Vec<Value>| {
            Map::from_iter([
                ("cniVersion".to_owned(), version.clone().into()),
                ("name".to_owned(), list.name.clone().into()),
                ("plugins".to_owned(), plugins.into()),
            ])
        };
        Ok(Self {
            conf: Map::new(),
            conf_list: of_list(kinds.collect()),
            name,
            interface: request.ifname.clone(),
            device: device.unwrap_or_default().to_owned(),
            config: Value::Object(of_list(plugins)).to_string().into_bytes(),
        })
    }

    /// Reads the delegates of a sandbox from Multus' directory. A file that a power cut has left incomplete has none.
    ///
    /// # Errors
    /// Returns an error if the file is there and cannot be read.
    pub fn read_all(directory: &Path, container_id: &str) -> io::Result<Vec<Self>> {
        match fs::read(directory.join(container_id)) {
            Ok(text) => Ok(serde_json::from_slice(&text).unwrap_or_default()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// Writes the delegates of a sandbox. The file is there whole or not at all, and on the disk once this returns.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn write_all(directory: &Path, container_id: &str, delegates: &[Self]) -> io::Result<()> {
        let text = serde_json::to_vec(delegates)?;
        let draft = draft(directory, container_id);
        replace(&directory.join(container_id), &draft, &text, true)
    }

    /// Removes the delegates of a sandbox, and what a killed process has left of them.
    ///
    /// # Errors
    /// Returns an error if the file cannot be removed.
    pub fn remove_all(directory: &Path, container_id: &str) -> io::Result<()> {
        for path in [draft(directory, container_id), directory.join(container_id)] {
            match fs::remove_file(path) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}

/// Multus looks only for files of sandboxes' names.
fn draft(directory: &Path, container_id: &str) -> PathBuf {
    directory.join(format!(".{container_id}.netqos-new"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delegate_names_the_device_of_its_attachment_and_no_other() {
        let list = br#"{"cniVersion": "1.0.0", "name": "vf", "plugins": [{"type": "sriov"}]}"#;
        let list = NetworkConfigList::parse(list).unwrap();
        let written = |request: &AttachmentRequest| {
            let delegate = MultusDelegate::of("shop/vf".to_owned(), &list, request).unwrap();
            serde_json::to_value(delegate).unwrap()
        };
        let mut request = AttachmentRequest::new("web", "net1");
        assert_eq!(written(&request).get("deviceID"), None);
        let device = json!("0000:03:02.1");
        request
            .capability_args
            .insert("deviceID".to_owned(), device.clone());
        assert_eq!(written(&request)["deviceID"], device);
    }
}
