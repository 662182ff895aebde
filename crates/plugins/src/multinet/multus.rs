//! Pods that Multus attached, before this plugin took its place.
//!
//! Below its directory Multus keeps the results of its delegates as libcni does, and the [delegates](MultusDelegate) of
//! each sandbox.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use netqos_api::multinet::PodRecord;
use netqos_api::npwg::{MULTUS_DIRECTORY, is_meta_plugin};
use netqos_cni::CniError;
use netqos_cni::runtime::{
    AttachmentRequest, CachedAttachment, LIBCNI_CACHE, MultusDelegate, NetworkConfigList, Runtime,
    RuntimeError,
};
use serde_json::Map;

use super::device_info;
use super::record::call;

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
        let mut calls = match MultusDelegate::read_all(&self.path, &sandbox.container_id) {
            Ok(delegates) => self.calls(&delegates, sandbox, default_list),
            Err(error) => {
                return failures.push(CniError::io(format!("{}: {error}", file.display())));
            }
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
            device_info::remove_of_container(&sandbox.container_id);
            let _ = fs::remove_file(file);
        }
    }

    fn calls(
        &self,
        delegates: &[MultusDelegate],
        sandbox: &AttachmentRequest,
        default_list: Option<&NetworkConfigList>,
    ) -> Vec<Delegated> {
        let call = |(index, delegate): (usize, &MultusDelegate)| {
            let list = NetworkConfigList::parse_any(&delegate.config)?;
            let interface = match (&*delegate.interface, index) {
                ("", 0) => sandbox.ifname.clone(),
                ("", index) => format!("net{index}"),
                (name, _) => name.to_owned(),
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

/// Removes what a hand-over to Multus has written that was killed.
///
/// # Errors
/// Returns an error if a file cannot be removed.
pub fn forget_hand_over(record: &PodRecord) -> Result<(), CniError> {
    let Some(hand_over) = &record.hand_over else {
        return Ok(());
    };
    let none: [PathBuf; 0] = [];
    let of_multus = Runtime::new(none.clone(), &hand_over.directory);
    let of_runtime = Runtime::new(none, LIBCNI_CACHE);
    for attachment in &record.attachments {
        let (mut list, request) = call(record, attachment)?;
        of_multus.forget_request(&list, &request);
        // The runtime knows only the first of them, by the name of Multus' list.
        list.name.clone_from(&hand_over.network);
        of_runtime.forget_request(&list, &request);
    }
    let removed = MultusDelegate::remove_all(&hand_over.directory, &record.container_id);
    removed.map_err(|error| CniError::io(format!("{}: {error}", hand_over.directory.display())))
}
