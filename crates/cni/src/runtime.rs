//! The runtime's role: it executes the plugins of a network configuration list.
//!
//! ```no_run
//! # use netqos_cni::runtime::{AttachmentRequest, NetworkConfigList, Runtime, RuntimeError};
//! # fn main() -> Result<(), RuntimeError> {
//! let runtime = Runtime::new(["/opt/cni/bin"], "/var/lib/cni");
//! let list = NetworkConfigList::load_default("/etc/cni/net.d".as_ref())?;
//! let pod = AttachmentRequest::new("c1", "eth0").in_netns("/var/run/netns/c1");
//! let result = runtime.add(&list, &pod)?;
//! runtime.del(&list, &pod)?;
//! # Ok(())
//! # }
//! ```
//!
//! What plugins get to see, and the cache file, are those of libcni (containernetworking/cni
//! v1.3), so that its tools can go on where this stopped and the other way round. Where libcni
//! leaves a duty of the specification to its caller, this does it: DEL after a failed ADD.
//!
//! Plugins run in the calling thread's namespaces. Nothing here locks: the specification wants
//! the operations of one container one after the other, and GC alone.

mod attachment;
mod cache;
mod error;
mod gc;
mod invoke;
mod list;
mod load;
mod multus;
mod probe;
#[cfg(test)]
pub(crate) mod tests;

use std::cmp::Ordering;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

pub use attachment::AttachmentRequest;
pub use cache::CachedAttachment;
pub use error::RuntimeError;
pub use list::{NetworkConfigList, PluginConfig};
pub use load::ListFile;
pub use multus::MultusDelegate;

use crate::plugin::Command;
use crate::{CniResult, CniVersion, json};
use cache::ResultCache;
use error::{KNOWN_IPAM, KNOWN_PLUGINS};
use invoke::Invocation;

/// The directory in which container runtimes, by libcni, remember attachments.
pub const LIBCNI_CACHE: &str = "/var/lib/cni";

/// Executes plugins, and remembers what came of it.
#[derive(Clone, Debug)]
pub struct Runtime {
    plugin_dirs: Vec<PathBuf>,
    cache: ResultCache,
    extra_env: Vec<(OsString, OsString)>,
    directory: Option<PathBuf>,
}

impl Runtime {
    /// A runtime that looks for plugins in these folders, in this order, and keeps its results
    /// in `<cache_dir>/results` (libcni's is `/var/lib/cni`).
    pub fn new<D: Into<PathBuf>>(
        plugin_dirs: impl IntoIterator<Item = D>,
        cache_dir: impl Into<PathBuf>,
    ) -> Self {
        Self {
            plugin_dirs: plugin_dirs.into_iter().map(Into::into).collect(),
            cache: ResultCache::new(cache_dir.into()),
            extra_env: Vec::new(),
            directory: None,
        }
    }

    /// Executes plugins in this working directory, and not in that of this process.
    #[must_use]
    pub fn in_directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = Some(directory.into());
        self
    }

    /// Gives plugins one more variable, beside the environment of this process and `CNI_*`.
    #[must_use]
    pub fn with_env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.extra_env.push((name.into(), value.into()));
        self
    }

    /// The same with results that are on the disk when ADD returns, for a cache that a reboot does not remove.
    #[must_use]
    pub fn with_durable_cache(mut self) -> Self {
        self.cache = self.cache.durable();
        self
    }

    /// Where plugins are looked for.
    pub fn plugin_dirs(&self) -> &[PathBuf] {
        &self.plugin_dirs
    }

    /// ADD: executes the plugins in their order, each with the result of the one before, and
    /// caches the last result, which is returned in the list's version.
    ///
    /// # Errors
    ///
    /// Returns the error of the first plugin that fails. Then DEL has been executed on every plugin of the list, as the
    /// specification demands. If DEL failed for a plugin that may have left something, the error is
    /// [`RuntimeError::AddAndUndo`] with both errors.
    pub fn add(
        &self,
        list: &NetworkConfigList,
        request: &AttachmentRequest,
    ) -> Result<CniResult, RuntimeError> {
        request.check(list)?;
        self.add_plugins(list, request).map_err(|(failed, error)| {
            let failures = self.del_plugins(list, request, None);
            let failures = failures.into_iter();
            let left: Vec<(usize, RuntimeError)> = failures
                .filter(|(index, of_del)| may_have_left(*index, failed, &error, of_del))
                .collect();
            // The last plugin is the first to be undone.
            let Some(begun) = left.first().map(|(index, _)| index + 1) else {
                self.cache.remove(list, request);
                return error;
            };
            RuntimeError::AddAndUndo {
                error: Box::new(error),
                undo: left.into_iter().map(|(_, of_del)| of_del).collect(),
                failed,
                begun,
            }
        })
    }

    /// Returns the last result, or the error with the index of the plugin that failed.
    fn add_plugins(
        &self,
        list: &NetworkConfigList,
        request: &AttachmentRequest,
    ) -> Result<CniResult, (usize, RuntimeError)> {
        let mut previous: Option<CniResult> = None;
        for (index, plugin) in list.plugins.iter().enumerate() {
            let added = self.add_plugin(list, plugin, request, previous.as_ref());
            previous = Some(added.map_err(|error| (index, error))?);
        }
        let last = list.plugins.len();
        let result = previous.ok_or((last, RuntimeError::NoPlugins))?;
        let stored = self.cache.store(list, request, &result);
        stored.map_err(|error| (last, error))?;
        Ok(result)
    }

    fn add_plugin(
        &self,
        list: &NetworkConfigList,
        plugin: &PluginConfig,
        request: &AttachmentRequest,
        previous: Option<&CniResult>,
    ) -> Result<CniResult, RuntimeError> {
        let config = request.config_for(list, plugin, previous)?;
        let stdout = self.execute(Command::Add, plugin, &config, Some(request))?;
        let result = CniResult::parse(&stdout, list.version)
            .and_then(|result| result.into_version(list.version));
        result.map_err(|problem| RuntimeError::Result {
            plugin: plugin.kind.clone(),
            problem,
        })
    }

    /// DEL: executes the plugins in reverse order with the cached result (not before 0.4.0, as the
    /// specification has it), and removes the attachment from the cache. Succeeds when there is nothing left.
    ///
    /// # Errors
    /// Returns the errors of all plugins that fail. Unlike in libcni, a plugin that fails does not keep the others from
    /// being called. The attachment stays in the cache, so that DEL can be repeated.
    pub fn del(
        &self,
        list: &NetworkConfigList,
        request: &AttachmentRequest,
    ) -> Result<(), RuntimeError> {
        request.check(list)?;
        let previous = (list.version >= CniVersion::V0_4_0)
            .then(|| self.cache.result(list, request))
            .flatten();
        let failures = self.del_plugins(list, request, previous.as_ref());
        RuntimeError::of_all(failures.into_iter().map(|(_, error)| error).collect())?;
        self.cache.remove(list, request);
        Ok(())
    }

    /// Executes DEL of all plugins. Returns the errors with the indexes of their plugins.
    fn del_plugins(
        &self,
        list: &NetworkConfigList,
        request: &AttachmentRequest,
        previous: Option<&CniResult>,
    ) -> Vec<(usize, RuntimeError)> {
        let plugins = list.plugins.iter().enumerate().rev();
        let deleted = plugins.map(|(index, plugin)| {
            let config = request.config_for(list, plugin, previous);
            let deleted = config
                .and_then(|config| self.execute(Command::Del, plugin, &config, Some(request)));
            deleted.map_err(|error| (index, error))
        });
        deleted.filter_map(Result::err).collect()
    }

    /// CHECK: executes the plugins in their order, each with the cached result. Does nothing when
    /// the list says `disableCheck`.
    ///
    /// # Errors
    ///
    /// The first plugin that fails, and a list of a version that has no CHECK.
    pub fn check(
        &self,
        list: &NetworkConfigList,
        request: &AttachmentRequest,
    ) -> Result<(), RuntimeError> {
        if list.version < CniVersion::V0_4_0 {
            return Err(RuntimeError::CheckNotSupported(list.version));
        }
        if list.disable_check {
            return Ok(());
        }
        request.check(list)?;
        let previous = self.cache.result(list, request);
        for plugin in &list.plugins {
            let config = request.config_for(list, plugin, previous.as_ref())?;
            self.execute(Command::Check, plugin, &config, Some(request))?;
        }
        Ok(())
    }

    /// The attachments that have been added and not deleted, in the order of their files' names.
    /// A file that can't be read as one is passed over, as libcni does.
    pub fn cached_attachments(&self) -> Vec<CachedAttachment> {
        self.cache.attachments()
    }

    /// Remembers an attachment that another runtime has added.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn keep(&self, attachment: &CachedAttachment) -> Result<(), RuntimeError> {
        self.cache.keep(attachment)
    }

    /// Changes the result that CHECK and DEL of an attachment get. Nothing happens if none is kept.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn change_result(
        &self,
        list: &NetworkConfigList,
        request: &AttachmentRequest,
        change: impl FnOnce(&mut CniResult),
    ) -> Result<(), RuntimeError> {
        let Some(mut result) = self.cache.result(list, request) else {
            return Ok(());
        };
        change(&mut result);
        self.cache.store(list, request, &result)
    }

    /// Forgets an attachment without a call of its plugins, and the draft that a killed process has left of it.
    pub fn forget(&self, attachment: &CachedAttachment) {
        self.cache.forget(attachment);
    }

    /// The same by its list and request.
    pub fn forget_request(&self, list: &NetworkConfigList, request: &AttachmentRequest) {
        self.cache.remove(list, request);
    }

    /// What is remembered of one attachment.
    pub fn cached_attachment(
        &self,
        list: &NetworkConfigList,
        request: &AttachmentRequest,
    ) -> Option<CachedAttachment> {
        self.cache.attachment(list, request)
    }

    /// Executes one plugin and returns what it printed.
    fn execute(
        &self,
        command: Command,
        plugin: &PluginConfig,
        config: &Map<String, Value>,
        request: Option<&AttachmentRequest>,
    ) -> Result<Vec<u8>, RuntimeError> {
        let path = self.find(&plugin.kind)?;
        let stdin = serde_json::to_vec(config).map_err(|problem| RuntimeError::Encode {
            plugin: plugin.kind.clone(),
            problem,
        })?;
        self.invocation(command, request)
            .run(&path, &stdin)
            .map_err(|error| error.of_kind(&plugin.kind, command, self.is_known(plugin)))
    }

    /// Returns true if the answers of a plugin are known, and those of its plugin of IPAM, unless that one is missing.
    fn is_known(&self, plugin: &PluginConfig) -> bool {
        let ipam = json::field(&plugin.raw, "ipam").and_then(Value::as_object);
        let ipam = ipam.and_then(|it| json::text_field(it, "type").ok());
        let is_known_ipam = |kind: &str| KNOWN_IPAM.contains(&kind) || self.find(kind).is_err();
        KNOWN_PLUGINS.contains(&&*plugin.kind) && ipam.is_none_or(is_known_ipam)
    }

    fn invocation(&self, command: Command, request: Option<&AttachmentRequest>) -> Invocation {
        let invocation = Invocation::new(command, &self.plugin_dirs, request, &self.extra_env);
        invocation.in_directory(self.directory.clone())
    }

    /// The executable of a plugin: the first regular file of this name.
    fn find(&self, kind: &str) -> Result<PathBuf, RuntimeError> {
        if kind.is_empty() || kind.contains('/') || kind == "." || kind == ".." {
            return Err(RuntimeError::PluginName(kind.to_owned()));
        }
        self.plugin_dirs
            .iter()
            .map(|dir| dir.join(kind))
            .find(|path| is_file(path))
            .ok_or_else(|| RuntimeError::PluginNotFound {
                kind: kind.to_owned(),
                dirs: self.plugin_dirs.clone(),
            })
    }
}

/// Returns true if a plugin whose DEL failed may have left something of an ADD in which plugin `failed` failed. Plugins
/// that were not executed have left nothing. Nor has one that refuses ADD and DEL.
fn may_have_left(
    index: usize,
    failed: usize,
    of_add: &RuntimeError,
    of_del: &RuntimeError,
) -> bool {
    match index.cmp(&failed) {
        Ordering::Less => true,
        Ordering::Equal => of_add.was_executed() && !of_add.has_made_nothing(of_del),
        Ordering::Greater => false,
    }
}

fn is_file(path: &Path) -> bool {
    path.metadata().is_ok_and(|file| file.is_file())
}
