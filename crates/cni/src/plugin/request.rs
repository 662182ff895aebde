//! What a plugin is asked, after all checks.

use std::collections::BTreeSet;
use std::path::PathBuf;

use netqos_core::Attachment;
use serde_json::Value;

use super::{CniArgs, Command, NetConf};
use crate::{CniError, json};

/// A request about one attachment: ADD, DEL or CHECK.
#[derive(Clone, Debug)]
pub struct Request {
    /// Which of the three.
    pub command: Command,
    /// The network, the container and its interface.
    pub attachment: Attachment,
    /// The container's network namespace. `None` only in DEL, when it has gone.
    pub netns: Option<PathBuf>,
    /// `CNI_ARGS`.
    pub args: CniArgs,
    /// `CNI_PATH`: where other plugins are.
    pub path: Vec<PathBuf>,
    /// The network configuration.
    pub config: NetConf,
}

/// A request to remove what belongs to no living attachment of a network.
#[derive(Clone, Debug)]
pub struct GcRequest {
    /// The attachments of this network that are alive.
    pub valid: BTreeSet<GcAttachment>,
    /// `CNI_PATH`: where other plugins are.
    pub path: Vec<PathBuf>,
    /// The network configuration.
    pub config: NetConf,
}

/// A living attachment, as the runtime names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GcAttachment {
    /// The container's id.
    pub container_id: String,
    /// The interface's name inside the container.
    pub ifname: String,
}

/// A question whether ADD could be served now.
#[derive(Clone, Debug)]
pub struct StatusRequest {
    /// `CNI_PATH`: where other plugins are.
    pub path: Vec<PathBuf>,
    /// The network configuration.
    pub config: NetConf,
}

impl Request {
    /// The container's id (`CNI_CONTAINERID`).
    pub fn container_id(&self) -> &str {
        self.attachment.container()
    }

    /// The interface's name inside the container (`CNI_IFNAME`).
    pub fn ifname(&self) -> &str {
        self.attachment.interface()
    }
}

impl GcRequest {
    /// The keys under which the living attachments may stand: that of the specification, and the
    /// one that its text has used by mistake (containernetworking/cni#1101).
    const KEYS: [&'static str; 2] = ["cni.dev/valid-attachments", "cni.dev/attachments"];

    /// Reads the valid attachments from the configuration; `None` without such a list. Then nothing
    /// may be removed: which attachments are valid is not known. (`cnitool gc` sends no list.)
    ///
    /// # Errors
    ///
    /// A list that cannot be read. Code 7.
    pub(super) fn new(config: NetConf, path: Vec<PathBuf>) -> Result<Option<Self>, CniError> {
        let [key, _] = Self::KEYS;
        let Some(list) = Self::KEYS.iter().find_map(|key| config.raw.get(*key)) else {
            return Ok(None);
        };
        let wrong = || {
            CniError::invalid_config(format!(
                "{key:?} must be a list of objects with containerID and ifname"
            ))
        };
        let attachment = |item: &Value| {
            let object = item.as_object()?;
            let text = |key: &str| json::text_field(object, key).ok().filter(|t| !t.is_empty());
            Some(GcAttachment {
                container_id: text("containerID")?.to_owned(),
                ifname: text("ifname")?.to_owned(),
            })
        };
        let valid = match list {
            // A list without elements, as Go may write it.
            Value::Null => BTreeSet::new(),
            Value::Array(items) => items
                .iter()
                .map(|item| attachment(item).ok_or_else(wrong))
                .collect::<Result<_, _>>()?,
            _ => return Err(wrong()),
        };
        Ok(Some(Self {
            valid,
            path,
            config,
        }))
    }

    /// True when this attachment is of another network, or alive: whoever collects leaves it.
    pub fn keeps(&self, attachment: &netqos_core::Attachment) -> bool {
        attachment.network() != self.config.name
            || self.valid.contains(&GcAttachment {
                container_id: attachment.container().to_owned(),
                ifname: attachment.interface().to_owned(),
            })
    }
}
