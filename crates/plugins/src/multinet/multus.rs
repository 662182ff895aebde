//! Pods that Multus attached, before this plugin took its place.
//!
//! Below its directory Multus keeps the results of its delegates as libcni does, and, in a file of the sandbox's name from
//! before the first ADD, the delegates in their order (`DelegateNetConf` of its `pkg/types`).

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use netqos_api::npwg::{MULTUS_DIRECTORY, is_meta_plugin};
use netqos_cni::CniError;
use netqos_cni::runtime::{
    AttachmentRequest, CachedAttachment, NetworkConfigList, Runtime, RuntimeError, base64_text,
};
use serde::Deserialize;
use serde_json::Map;

/// The state that Multus keeps of pods.
#[derive(Debug)]
pub struct MultusPods {
    directories: Vec<Directory>,
}

#[derive(Debug)]
struct Directory {
    path: PathBuf,
    runtime: Runtime,
    results: Vec<CachedAttachment>,
}

/// A delegate, the default network's first.
#[derive(Debug, Deserialize)]
struct Delegate {
    #[serde(rename = "ifnameRequest", default)]
    interface: Option<String>,
    /// Its configuration. Multus may leave out keys that it does not know.
    #[serde(rename = "Bytes", with = "base64_text")]
    config: Vec<u8>,
}

/// The plugins to call, and how.
type Delegated = Result<(NetworkConfigList, AttachmentRequest), RuntimeError>;

impl MultusPods {
    /// Reads the state in all directories that Multus has by the lists which the runtime keeps.
    pub fn read(plugin_dirs: &[PathBuf], of_runtime: &Runtime) -> Self {
        let lists = of_runtime.cached_attachments();
        let lists = lists.iter().filter_map(|it| it.list().ok());
        let plugins = lists
            .flat_map(|list| list.plugins)
            .filter(|it| is_meta_plugin(&it.kind));
        let keys = plugins.filter_map(|plugin| Some(plugin.raw.get("cniDir")?.as_str()?.into()));
        let paths: BTreeSet<PathBuf> = keys.chain([MULTUS_DIRECTORY.into()]).collect();
        let directories = paths.into_iter().map(|path| {
            let runtime = Runtime::new(plugin_dirs.iter().cloned(), &path);
            let results = runtime.cached_attachments();
            Directory {
                path,
                runtime,
                results,
            }
        });
        Self {
            directories: directories.collect(),
        }
    }

    /// The attachments with a result.
    pub fn attachments(&self) -> impl Iterator<Item = &CachedAttachment> {
        self.directories.iter().flat_map(|it| &it.results)
    }

    /// Undoes the attachments of a sandbox, the last first, each with the arguments of its ADD as far as Multus keeps
    /// them. None stops the others. `sandbox` is the call for the default network, whose list is used for a delegate that
    /// has no result. Returns the interfaces, and the errors.
    pub fn undo(
        &self,
        sandbox: &AttachmentRequest,
        default_list: Option<&NetworkConfigList>,
    ) -> (BTreeSet<String>, Vec<CniError>) {
        let (mut interfaces, mut failures) = (BTreeSet::new(), Vec::new());
        for directory in &self.directories {
            directory.undo(sandbox, default_list, &mut interfaces, &mut failures);
        }
        (interfaces, failures)
    }
}

impl Directory {
    fn undo(
        &self,
        sandbox: &AttachmentRequest,
        default_list: Option<&NetworkConfigList>,
        interfaces: &mut BTreeSet<String>,
        failures: &mut Vec<CniError>,
    ) {
        let file = self.path.join(&sandbox.container_id);
        let mut calls = match delegates(&file) {
            Ok(delegates) => self.calls(&delegates, sandbox, default_list),
            Err(error) => return failures.push(error),
        };
        let is_called = |it: &CachedAttachment| {
            { calls.iter().flatten() }
                .any(|(list, call)| (&list.name, &call.ifname) == (&it.network, &it.ifname))
        };
        let results = self.results.iter();
        let others = results.filter(|it| it.container_id == sandbox.container_id && !is_called(it));
        let others = others.map(|it| Ok((it.list()?, with_netns(it.request(), sandbox))));
        let others: Vec<Delegated> = others.collect();
        calls.extend(others);
        let before = failures.len();
        for call in calls.into_iter().rev() {
            let undone = call.and_then(|(list, call)| {
                interfaces.insert(call.ifname.clone());
                // A default network that leads back to this plugin, which waits for this call.
                match list.plugins.iter().any(|it| is_meta_plugin(&it.kind)) {
                    true => Ok(()),
                    false => self.runtime.del(&list, &call),
                }
            });
            failures.extend(undone.err().map(CniError::internal));
        }
        if failures.len() == before {
            let _ = fs::remove_file(file);
        }
    }

    fn calls(
        &self,
        delegates: &[Delegate],
        sandbox: &AttachmentRequest,
        default_list: Option<&NetworkConfigList>,
    ) -> Vec<Delegated> {
        let call = |(index, delegate): (usize, &Delegate)| {
            let list = NetworkConfigList::parse_any(&delegate.config)?;
            let interface = match (&delegate.interface, index) {
                (Some(name), _) if !name.is_empty() => name.clone(),
                (_, 0) => sandbox.ifname.clone(),
                (_, index) => format!("net{index}"),
            };
            let is_its = |it: &&CachedAttachment| {
                let known = (&*it.container_id, &*it.network, &*it.ifname);
                known == (&*sandbox.container_id, &*list.name, &*interface)
            };
            if let Some(result) = self.results.iter().find(is_its) {
                let list = result.list().unwrap_or(list);
                return Ok((list, with_netns(result.request(), sandbox)));
            }
            let default_list =
                default_list.filter(|default| index == 0 && default.name == list.name);
            let call = AttachmentRequest {
                ifname: interface,
                capability_args: match index {
                    0 => sandbox.capability_args.clone(),
                    _ => Map::new(),
                },
                ..sandbox.clone()
            };
            Ok((default_list.cloned().unwrap_or(list), call))
        };
        delegates.iter().enumerate().map(call).collect()
    }
}

fn with_netns(call: AttachmentRequest, sandbox: &AttachmentRequest) -> AttachmentRequest {
    AttachmentRequest {
        netns: sandbox.netns.clone(),
        ..call
    }
}

/// Reads the delegates of a sandbox. A file that a power cut has left incomplete has none.
fn delegates(file: &Path) -> Result<Vec<Delegate>, CniError> {
    match fs::read(file) {
        Ok(text) => Ok(serde_json::from_slice(&text).unwrap_or_default()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(CniError::io(format!("{}: {error}", file.display()))),
    }
}
