//! Sandboxes of `netqos-multinet` become those of Multus: from then on its DEL releases them.
//!
//! ```text
//!  lock ─► mark the record ─► results ─► delegates ─► the runtime's own result ─► remove record, results, lock
//! ```
//!
//! A plugin that is called between two steps finds a sandbox whole: `netqos-multinet` goes by the record and removes the files
//! that the mark names, or without one by Multus' files; Multus is called only once its files are there. Each step may
//! be repeated.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display};
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use netqos_agent::multinet::calls_plugin;
use netqos_api::multinet::{CNI_DRIVER, HandOver, PodRecord};
use netqos_cni::runtime::{
    AttachmentRequest, LIBCNI_CACHE, MultusDelegate, NetworkConfigList, Runtime, RuntimeError,
};
use netqos_datapath::FileLock;

use super::multus::Multus;
use super::sandboxes::{Sandbox, Sandboxes};
use super::{Problem, failed};

/// The reason for which a sandbox stays with netqos.
#[derive(Debug, thiserror::Error)]
pub(super) enum Kept {
    /// Another call holds the lock.
    #[error("its ADD or DEL did not end in time")]
    Busy,
    /// ADD was killed, or could not undo what it had made.
    #[error("its ADD did not make all attachments")]
    Incomplete,
    /// There is no record, or one that cannot be read.
    #[error("its record cannot be read; once the pod is gone, remove {}", .0.display())]
    Broken(PathBuf),
    /// Multus knows only plugins.
    #[error("interface {interface} is of driver {driver:?}, which Multus does not know")]
    Driver { interface: String, driver: String },
    /// A plugin is elsewhere.
    #[error("Multus does not find plugin {kind} in {directories}")]
    Plugin { kind: String, directories: String },
    /// A list cannot be read, or a result not be written.
    #[error(transparent)]
    Runtime(Box<RuntimeError>),
    /// A record cannot be written.
    #[error(transparent)]
    Record(#[from] netqos_datapath::Error),
    /// A file cannot be written.
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
}

impl From<RuntimeError> for Kept {
    fn from(error: RuntimeError) -> Self {
        Self::Runtime(Box::new(error))
    }
}

/// The result of a hand-over.
#[derive(Debug, Default)]
pub(super) struct HandedOver {
    /// The number of sandboxes that Multus has got.
    pub(super) count: usize,
    /// The pods that stay with netqos.
    pub(super) kept: BTreeMap<String, Kept>,
}

impl Display for HandedOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kept = self.kept.iter().map(|(pod, why)| format!("{pod} ({why})"));
        let kept: Vec<String> = kept.collect();
        f.write_str(&kept.join(", "))
    }
}

impl HandedOver {
    /// Hands over all sandboxes, those included that come meanwhile. Waits until this time for locks, and attempts each
    /// once at least. A sandbox whose network namespace is gone is left out.
    ///
    /// # Errors
    /// Returns an error if the records cannot be listed.
    pub(super) fn all(
        sandboxes: &Sandboxes,
        multus: &Multus,
        end: Instant,
    ) -> Result<Self, Problem> {
        let (mut done, mut attempted) = (Self::default(), BTreeSet::new());
        loop {
            let known: BTreeMap<String, Sandbox> = { sandboxes.all()?.into_iter() }
                .map(|it| (it.container_id.clone(), it))
                .collect();
            let mut containers: BTreeSet<String> = sandboxes.containers()?.into_iter().collect();
            containers.extend(known.keys().cloned());
            containers.retain(|it| !attempted.contains(it));
            if containers.is_empty() {
                break;
            }
            for container_id in containers {
                let is_gone = known
                    .get(&container_id)
                    .is_some_and(|it| !it.may_be_alive());
                if !is_gone {
                    // A DEL removes the record.
                    let name = sandboxes.name(&container_id);
                    match hand_over(sandboxes, &container_id, multus, end) {
                        Ok(true) => done.count += 1,
                        Ok(false) => {}
                        Err(why) => {
                            done.kept.insert(name, why);
                        }
                    }
                }
                attempted.insert(container_id);
            }
        }
        // Else a power cut brings removed records back.
        let records = sandboxes.records().folder();
        match File::open(records).and_then(|it| it.sync_all()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(records, error)),
            _ => Ok(done),
        }
    }
}

/// Hands over a sandbox. Returns false if it has no attachments.
fn hand_over(
    sandboxes: &Sandboxes,
    container_id: &str,
    multus: &Multus,
    end: Instant,
) -> Result<bool, Kept> {
    let path = sandboxes.lock(container_id);
    let patience = end.saturating_duration_since(Instant::now());
    let lock = FileLock::wait_at_most(&path, patience.max(Duration::from_millis(1)));
    let lock = lock.map_err(|source| match source.kind() {
        io::ErrorKind::WouldBlock => Kept::Busy,
        _ => Kept::File {
            path: path.clone(),
            source,
        },
    })?;
    let removed = |lock: FileLock| lock.remove().map_err(|source| Kept::File { path, source });
    let Some(record) = sandboxes.record(container_id) else {
        let file = sandboxes
            .records()
            .folder()
            .join(format!("{container_id}.json"));
        // A hand-over was killed at its end.
        if !file.exists() && multus.directory.join(container_id).exists() {
            forget_results(sandboxes, container_id);
            return removed(lock).map(|()| true);
        }
        let mut known = sandboxes.all()?.into_iter();
        return match known.any(|it| it.container_id == container_id) {
            true => Err(Kept::Broken(file)),
            // Its ADD failed, or its DEL has ended.
            false => removed(lock).map(|()| false),
        };
    };
    let calls = calls(&record, multus)?;
    let marked = PodRecord {
        hand_over: Some(HandOver {
            directory: multus.directory.clone(),
            network: multus.list.name.clone(),
        }),
        ..record
    };
    sandboxes.records().write(container_id, &marked)?;
    let results = sandboxes.results();
    let none: [PathBuf; 0] = [];
    let of_multus = Runtime::new(none, &multus.directory).with_durable_cache();
    let mut delegates = Vec::new();
    for ((list, request), attachment) in calls.iter().zip(&marked.attachments) {
        let nad = attachment.nad.clone();
        let delegate = MultusDelegate::of(nad.unwrap_or_else(|| list.name.clone()), list, request)?;
        if let Some(mut result) = results.cached_attachment(list, request) {
            result.config.clone_from(&delegate.config);
            of_multus.keep(&result)?;
        }
        delegates.push(delegate);
    }
    let written = MultusDelegate::write_all(&multus.directory, container_id, &delegates);
    written.map_err(|source| Kept::File {
        path: multus.directory.clone(),
        source,
    })?;
    hand_over_results_of_runtime(multus, |it| it == container_id)?;
    sandboxes.records().remove(container_id)?;
    forget_results(sandboxes, container_id);
    removed(lock)?;
    Ok(true)
}

fn forget_results(sandboxes: &Sandboxes, container_id: &str) {
    let results = sandboxes.results();
    let all = results.cached_attachments().into_iter();
    let of_sandbox = all.filter(|it| it.container_id == container_id);
    of_sandbox.for_each(|it| results.forget(&it));
}

/// Has the runtime remember sandboxes as those of Multus' list: DEL gets their results, and GC their names.
///
/// # Errors
/// Returns an error if a result cannot be written.
pub(super) fn hand_over_results_of_runtime(
    multus: &Multus,
    is_handed_over: impl Fn(&str) -> bool,
) -> Result<(), RuntimeError> {
    let none: [PathBuf; 0] = [];
    let runtime = Runtime::new(none, LIBCNI_CACHE).with_durable_cache();
    for old in runtime.cached_attachments() {
        if !is_handed_over(&old.container_id) || !old.list().is_ok_and(|it| calls_plugin(&it)) {
            continue;
        }
        let mut new = old.clone();
        new.network.clone_from(&multus.list.name);
        new.config.clone_from(&multus.list.text);
        runtime.keep(&new)?;
        runtime.forget(&old);
    }
    Ok(())
}

/// Returns the lists and requests of a record's attachments, if Multus can release all of them.
fn calls(
    record: &PodRecord,
    multus: &Multus,
) -> Result<Vec<(NetworkConfigList, AttachmentRequest)>, Kept> {
    // Multus fails at an empty list of delegates.
    if record.made < record.attachments.len() || record.attachments.is_empty() {
        return Err(Kept::Incomplete);
    }
    let calls = record.attachments.iter().map(|attachment| {
        if attachment.driver != CNI_DRIVER {
            return Err(Kept::Driver {
                interface: attachment.interface.clone(),
                driver: attachment.driver.clone(),
            });
        }
        let (list, request) = AttachmentRequest::recorded(record, attachment)?;
        if let Some(kind) = multus.missing_plugin(&list) {
            let directories = multus.plugin_dirs.iter();
            let directories: Vec<_> = directories.map(|it| it.display().to_string()).collect();
            return Err(Kept::Plugin {
                kind,
                directories: directories.join(" and "),
            });
        }
        Ok((list, request))
    });
    calls.collect()
}
