//! What was added, remembered for DEL, CHECK and GC, and across restarts.
//!
//! `<cache_dir>/results/<network>-<container>-<interface>`: libcni's place and form, so that its
//! tools see what was added here.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use super::{AttachmentRequest, NetworkConfigList, RuntimeError};
use crate::{CniResult, json};

/// What a file of this form says about itself.
const KIND: &str = "cniCacheV1";

/// An attachment that was added and not deleted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CachedAttachment {
    kind: String,
    /// The container's id.
    #[serde(rename = "containerId", default)]
    pub container_id: String,
    /// The list that it was added with, as it was read.
    #[serde(with = "base64_text", default)]
    pub config: Vec<u8>,
    /// The interface's name inside the container.
    #[serde(rename = "ifName", default)]
    pub ifname: String,
    /// The network's name.
    #[serde(rename = "networkName", default)]
    pub network: String,
    /// The container's network namespace, as a path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub netns: Option<PathBuf>,
    /// `CNI_ARGS`.
    #[serde(
        rename = "cniArgs",
        default,
        deserialize_with = "json::null_is_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub args: Vec<(String, String)>,
    /// The arguments of capabilities.
    #[serde(
        rename = "capabilityArgs",
        default,
        deserialize_with = "json::null_is_default",
        skip_serializing_if = "Map::is_empty"
    )]
    pub capability_args: Map<String, Value>,
    /// The last plugin's result.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub result: Value,
}

impl CachedAttachment {
    fn file_name(&self) -> String {
        format!("{}-{}-{}", self.network, self.container_id, self.ifname)
    }

    /// The list that it was added with, also if libcni added a single plugin.
    ///
    /// # Errors
    /// Returns an error if it cannot be read.
    pub fn list(&self) -> Result<NetworkConfigList, RuntimeError> {
        NetworkConfigList::parse_any(&self.config)
    }

    /// The request that it was added with.
    pub fn request(&self) -> AttachmentRequest {
        AttachmentRequest {
            container_id: self.container_id.clone(),
            ifname: self.ifname.clone(),
            netns: self.netns.clone(),
            args: self.args.clone(),
            capability_args: self.capability_args.clone(),
        }
    }
}

/// The folder of the attachments.
#[derive(Clone, Debug)]
pub(super) struct ResultCache {
    dir: PathBuf,
    is_durable: bool,
}

impl ResultCache {
    pub(super) const fn new(dir: PathBuf) -> Self {
        let is_durable = false;
        Self { dir, is_durable }
    }

    /// The same with files that are on the disk once they are stored.
    pub(super) fn durable(self) -> Self {
        let is_durable = true;
        Self { is_durable, ..self }
    }

    fn results(&self) -> PathBuf {
        self.dir.join("results")
    }

    fn path(&self, list: &NetworkConfigList, request: &AttachmentRequest) -> PathBuf {
        let (network, container, interface) = (&list.name, &request.container_id, &request.ifname);
        self.results()
            .join(format!("{network}-{container}-{interface}"))
    }

    /// Remembers a result. The file is there whole or not at all.
    pub(super) fn store(
        &self,
        list: &NetworkConfigList,
        request: &AttachmentRequest,
        result: &CniResult,
    ) -> Result<(), RuntimeError> {
        let result = serde_json::to_value(result).map_err(|error| RuntimeError::Cache {
            network: list.name.clone(),
            path: self.path(list, request),
            error: error.into(),
        })?;
        self.keep(&CachedAttachment {
            kind: KIND.to_owned(),
            container_id: request.container_id.clone(),
            config: list.text.clone(),
            ifname: request.ifname.clone(),
            network: list.name.clone(),
            netns: request.netns.clone(),
            args: request.args.clone(),
            capability_args: request.capability_args.clone(),
            result,
        })
    }

    /// Remembers an attachment. The file is there whole or not at all.
    pub(super) fn keep(&self, attachment: &CachedAttachment) -> Result<(), RuntimeError> {
        let path = self.results().join(attachment.file_name());
        let keep = || self.replace(&path, &serde_json::to_vec(attachment)?);
        keep().map_err(|error| RuntimeError::Cache {
            network: attachment.network.clone(),
            path: path.clone(),
            error,
        })
    }

    /// Writes under another name, outside the folder that tools list, and renames. By default not synced
    /// to the disk: a crash that loses the file takes the network namespaces with it.
    fn replace(&self, path: &Path, text: &[u8]) -> io::Result<()> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(self.results())?;
        replace(path, &self.draft(path), text, self.is_durable)
    }

    /// The file that becomes the one at this path. One process at a time works for a container.
    fn draft(&self, path: &Path) -> PathBuf {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        self.dir.join(format!(".{name}"))
    }

    /// Forgets an attachment. What can't be removed now is overwritten by the next ADD of the
    /// same name, or collected by GC.
    pub(super) fn remove(&self, list: &NetworkConfigList, request: &AttachmentRequest) {
        self.remove_file(self.path(list, request));
    }

    fn remove_file(&self, path: PathBuf) {
        // A process that was killed may have left a draft.
        let _ = fs::remove_file(self.draft(&path));
        let _ = fs::remove_file(path);
    }

    /// Forgets an attachment that was added by any runtime.
    pub(super) fn forget(&self, attachment: &CachedAttachment) {
        self.remove_file(self.results().join(attachment.file_name()));
    }

    /// What is remembered of an attachment; `None` also for what can't be read, as in libcni: DEL
    /// must work without.
    pub(super) fn attachment(
        &self,
        list: &NetworkConfigList,
        request: &AttachmentRequest,
    ) -> Option<CachedAttachment> {
        read(&self.path(list, request))
    }

    /// The result of an attachment in the list's version. Old versions of libcni have cached it
    /// without anything around it.
    pub(super) fn result(
        &self,
        list: &NetworkConfigList,
        request: &AttachmentRequest,
    ) -> Option<CniResult> {
        let value = match self.attachment(list, request) {
            Some(attachment) => attachment.result,
            None => serde_json::from_slice(&fs::read(self.path(list, request)).ok()?).ok()?,
        };
        CniResult::from_value(value, list.version)
            .and_then(|result| result.into_version(list.version))
            .ok()
    }

    /// All of them, in the order of their files' names.
    pub(super) fn attachments(&self) -> Vec<CachedAttachment> {
        let Ok(entries) = fs::read_dir(self.results()) else {
            return Vec::new();
        };
        let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        paths
            .iter()
            .filter_map(|path| read(path))
            .filter(|attachment| !attachment.ifname.is_empty() && !attachment.network.is_empty())
            .collect()
    }
}

fn read(path: &Path) -> Option<CachedAttachment> {
    let attachment: CachedAttachment = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    (attachment.kind == KIND).then_some(attachment)
}

/// Writes a file under the name of its draft and renames it.
pub(super) fn replace(path: &Path, draft: &Path, text: &[u8], is_durable: bool) -> io::Result<()> {
    let write = || {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let mut file = options.open(draft)?;
        file.write_all(text)?;
        if is_durable {
            file.sync_all()?;
        }
        fs::rename(draft, path)?;
        match path.parent().filter(|_| is_durable) {
            Some(directory) => File::open(directory)?.sync_all(),
            None => Ok(()),
        }
    };
    let written = write();
    if written.is_err() {
        // It may not even be there; the first error is the one that counts.
        let _ = fs::remove_file(draft);
    }
    written
}

/// Bytes as Go's encoding/json writes them.
pub(super) mod base64_text {
    use super::{BASE64, Deserialize, Deserializer, Engine, Serializer};
    use serde::de::Error as _;

    pub(in crate::runtime) fn serialize<S: Serializer>(
        bytes: &[u8],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&BASE64.encode(bytes))
    }

    /// Reads them; `null` is none.
    pub(in crate::runtime) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<u8>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?.unwrap_or_default();
        BASE64.decode(text).map_err(D::Error::custom)
    }
}
