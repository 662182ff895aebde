//! Pods that Multus attached, before this plugin took its place.
//!
//! Below its directory Multus keeps the results of its delegates as libcni does, and, in a file of the sandbox's name from
//! before the first ADD, the delegates in their order (`DelegateNetConf` of its `pkg/types`).

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use netqos_cni::runtime::{
    AttachmentRequest, CachedAttachment, NetworkConfigList, Runtime, RuntimeError, base64_text,
};
use netqos_cni::{CniError, Request};
use serde::Deserialize;

/// The directory of Multus (its key `cniDir`).
const DIRECTORY: &str = "/var/lib/cni/multus";

/// What Multus keeps of pods.
#[derive(Debug)]
pub struct MultusPods {
    runtime: Runtime,
    results: Vec<CachedAttachment>,
}

/// A delegate, the default network's first.
#[derive(Debug, Deserialize)]
struct Delegate {
    #[serde(rename = "ifnameRequest", default)]
    interface: Option<String>,
    /// Its configuration.
    #[serde(rename = "Bytes", with = "base64_text")]
    config: Vec<u8>,
}

impl MultusPods {
    /// Reads what there is, for the plugins in these directories.
    pub fn read(plugin_dirs: &[PathBuf]) -> Self {
        let runtime = Runtime::new(plugin_dirs.iter().cloned(), DIRECTORY);
        let results = runtime.cached_attachments();
        Self { runtime, results }
    }

    /// The attachments with a result.
    pub fn attachments(&self) -> &[CachedAttachment] {
        &self.results
    }

    /// Undoes the attachments of a sandbox, the last first, each with the arguments of its ADD as far as Multus keeps
    /// them. None stops the others. Returns the errors, or `None` if Multus keeps nothing of the sandbox.
    pub fn undo(&self, request: &Request) -> Option<Vec<CniError>> {
        let container_id = request.container_id();
        let file = Path::new(DIRECTORY).join(container_id);
        let mut calls = match delegates(&file) {
            Ok(delegates) => self.calls(&delegates, request),
            Err(error) => return Some(vec![error]),
        };
        let is_called = |it: &CachedAttachment| {
            { calls.iter().flatten() }
                .any(|(list, call)| (&list.name, &call.ifname) == (&it.network, &it.ifname))
        };
        let results = self.results.iter();
        let others = results.filter(|it| it.container_id == container_id && !is_called(it));
        let others = others.map(|it| Ok((it.list()?, with_netns(it.request(), request))));
        let others: Vec<_> = others.collect();
        calls.extend(others);
        if calls.is_empty() {
            return None;
        }
        let undone = { calls.into_iter().rev() }
            .map(|call| call.and_then(|(list, call)| self.runtime.del(&list, &call)));
        let failures: Vec<CniError> = undone
            .filter_map(|undone| undone.err().map(CniError::internal))
            .collect();
        if failures.is_empty() {
            let _ = fs::remove_file(file);
        }
        Some(failures)
    }

    fn calls(
        &self,
        delegates: &[Delegate],
        request: &Request,
    ) -> Vec<Result<(NetworkConfigList, AttachmentRequest), RuntimeError>> {
        let call = |(index, delegate): (usize, &Delegate)| {
            let list = NetworkConfigList::parse_any(&delegate.config)?;
            let interface = match (&delegate.interface, index) {
                (Some(name), _) if !name.is_empty() => name.clone(),
                (_, 0) => request.ifname().to_owned(),
                (_, index) => format!("net{index}"),
            };
            let is_its = |it: &&CachedAttachment| {
                let known = (&*it.container_id, &*it.network, &*it.ifname);
                known == (request.container_id(), &*list.name, &*interface)
            };
            let call = match self.results.iter().find(is_its) {
                Some(result) => result.request(),
                None => AttachmentRequest {
                    container_id: request.container_id().to_owned(),
                    ifname: interface,
                    netns: None,
                    args: { request.args.pairs() }
                        .map(|(key, value)| (key.to_owned(), value.to_owned()))
                        .collect(),
                    capability_args: serde_json::Map::new(),
                },
            };
            Ok((list, with_netns(call, request)))
        };
        delegates.iter().enumerate().map(call).collect()
    }
}

fn with_netns(call: AttachmentRequest, request: &Request) -> AttachmentRequest {
    AttachmentRequest {
        netns: request.netns.clone(),
        ..call
    }
}

/// The delegates of a sandbox. Of a file that a power cut has left incomplete there are none.
fn delegates(file: &Path) -> Result<Vec<Delegate>, CniError> {
    match fs::read(file) {
        Ok(text) => Ok(serde_json::from_slice(&text).unwrap_or_default()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(CniError::io(format!("{}: {error}", file.display()))),
    }
}
