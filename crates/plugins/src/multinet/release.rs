//! The release of attachments, by records, by the results that runtimes keep, and by what Multus keeps of its pods.

use std::collections::BTreeSet;

use netqos_api::multinet::PodRecord;
use netqos_api::npwg::is_meta_plugin;
use netqos_cni::plugin::GcAttachment;
use netqos_cni::runtime::{
    AttachmentRequest, CachedAttachment, LIBCNI_CACHE, NetworkConfigList, Runtime,
};
use netqos_cni::{CniError, Request};
use netqos_netlink::{Namespace, Socket};

use super::multus::{MultusPods, forget_hand_over};
use super::record::call;
use super::{Node, device_info, device_info_error, is_own, of_attachment, several, with_remedy};

impl Node {
    /// Releases the sandboxes that are gone, and what no pod uses any longer on the networks of the others. `valid` are
    /// those of the list of this name.
    ///
    /// # Errors
    /// Returns all errors; none stops the others.
    pub(super) fn release_all_but(
        &self,
        valid: &BTreeSet<GcAttachment>,
        list: &str,
    ) -> Result<(), CniError> {
        let valid: BTreeSet<&str> = { valid.iter() }
            .map(|it| it.container_id.as_str())
            .collect();
        let cached = self.runtime.cached_attachments();
        let mut containers: BTreeSet<String> = self.records.containers()?.into_iter().collect();
        containers.extend(cached.into_iter().map(|it| it.container_id));
        let multus = self.multus();
        // The runtime need not name what it attached to another network: Multus'.
        let is_gone = |it: &&CachedAttachment| {
            let netns = it.netns.as_ref();
            !valid.contains(&*it.container_id) && netns.is_some_and(|netns| !netns.exists())
        };
        let gone = multus.attachments().filter(is_gone);
        containers.extend(gone.map(|it| it.container_id.clone()));
        let (mut alive, mut failures, mut is_known) = (Vec::new(), Vec::new(), true);
        for container in &containers {
            let record = match self.records.read(container) {
                Ok(record) => record,
                Err(error) => {
                    failures.push(error);
                    is_known = false;
                    continue;
                }
            };
            let stays = record.as_ref().is_some_and(|it| is_of_other_list(it, list));
            if !valid.contains(container.as_str()) && !stays {
                failures.extend(self.release(container, list));
                continue;
            }
            // The attachments of a sandbox whose record cannot be read must not be collected.
            is_known &= record.is_some();
            alive.extend(record);
        }
        if is_known {
            failures.extend(self.collect(&alive, &multus));
        }
        match failures.is_empty() {
            true => Ok(()),
            false => Err(several(&failures)),
        }
    }

    /// Undoes all attachments of a sandbox that is gone.
    fn release(&self, container_id: &str, list: &str) -> Vec<CniError> {
        let undone = self.records.lock(container_id).and_then(|lock| {
            let failures = match self.records.read(container_id)? {
                // Its ADD has ended meanwhile.
                Some(record) if is_of_other_list(&record, list) => return Ok(Vec::new()),
                Some(mut record) => {
                    let failures = self.undo_all(&record);
                    match failures.is_empty() {
                        true => failures,
                        false => vec![self.keep(&mut record, &failures, Some(&lock))],
                    }
                }
                None => {
                    let mut failures = Vec::new();
                    let sandbox = AttachmentRequest::new(container_id, "eth0");
                    undo_by_results(&self.runtime, &sandbox, &mut failures);
                    let (_, of_multus) = self.multus().undo(&sandbox, None);
                    failures.extend(of_multus);
                    failures
                }
            };
            if failures.is_empty() {
                self.records.remove(container_id, lock)?;
            }
            Ok(failures)
        });
        undone.unwrap_or_else(|error| vec![error])
    }

    /// The pods that Multus attached, before this plugin took its place.
    fn multus(&self) -> MultusPods {
        let of_runtime = Runtime::new(self.runtime.plugin_dirs(), LIBCNI_CACHE);
        MultusPods::read(self.runtime.plugin_dirs(), &of_runtime)
    }

    /// Undoes all attachments of a record, and a hand-over to Multus that has not ended.
    fn undo_all(&self, record: &PodRecord) -> Vec<CniError> {
        let mut failures = self.undo(record, record.made + 1);
        if failures.is_empty() {
            failures.extend(forget_hand_over(record).err());
        }
        failures
    }

    /// Undoes these first attachments of a pod, in reverse order. None stops the others.
    pub(super) fn undo(&self, record: &PodRecord, begun: usize) -> Vec<CniError> {
        let begun = record.attachments.iter().enumerate().take(begun).rev();
        let undone = begun.map(|(index, attachment)| {
            let (list, request) = call(record, attachment)?;
            match self.runtime.del(&list, &request) {
                Ok(()) => {}
                // Its ADD was killed, or has made no more than an interface that is gone.
                Err(error)
                    if index >= record.made
                        && error.refuses_configuration()
                        && self.runtime.cached_attachment(&list, &request).is_none()
                        && !has_interface(&request) => {}
                Err(error) => return Err(of_attachment(attachment, &error)),
            }
            // Its plugins may read the file at DEL.
            let removed = device_info::remove(attachment);
            removed.map_err(|error| device_info_error(attachment, &error))
        });
        undone.filter_map(Result::err).collect()
    }

    /// Undoes the attachments of a pod without a record: by the results that are kept, as one that Multus attached, or as a
    /// pod of the default network that the runtime attached itself, before it called this plugin. The default network
    /// may be another one by now.
    fn undo_without_record(&self, sandbox: &AttachmentRequest) -> Vec<CniError> {
        let mut failures = Vec::new();
        let (default_list, unreadable) = match self.default_list() {
            Ok(list) => (Some(list), None),
            Err(error) => (None, Some(error)),
        };
        let mut undone = undo_by_results(&self.runtime, sandbox, &mut failures);
        let of_runtime = Runtime::new(self.runtime.plugin_dirs(), LIBCNI_CACHE);
        let multus = MultusPods::read(self.runtime.plugin_dirs(), &of_runtime);
        let (by_multus, failures_of_multus) = multus.undo(sandbox, default_list.as_ref());
        failures.extend(failures_of_multus);
        undone.extend(by_multus);
        undone.extend(undo_by_results(&of_runtime, sandbox, &mut failures));
        // A record precedes everything that this plugin makes.
        if let Some(list) = default_list.filter(|_| !undone.contains(&sandbox.ifname)) {
            match of_runtime.del(&list, sandbox) {
                Ok(()) => {}
                // Nothing says that this network was ever made for the sandbox.
                Err(error) if error.is_refusal() && !has_interface(sandbox) => {}
                Err(error) => failures.push(CniError::internal(format_args!(
                    "the default network: {error}"
                ))),
            }
        } else if !undone.contains(&sandbox.ifname) && has_interface(sandbox) {
            failures.extend(unreadable);
        }
        if failures.is_empty() {
            // The runtime forgets its own list of today, and not that of a Multus that is gone.
            let of_sandbox = of_runtime.cached_attachments().into_iter();
            let of_sandbox = of_sandbox.filter(|it| it.container_id == sandbox.container_id);
            let of_others = of_sandbox
                .filter(|it| it.list().is_ok_and(|list| is_meta(&list) && !is_own(&list)));
            of_others.for_each(|it| of_runtime.forget(&it));
        }
        failures
    }

    /// Collects what no pod uses any longer, on each network of the living ones but the default network: there are pods
    /// on that one too that the runtime attached itself, before it called this plugin.
    fn collect(&self, alive: &[PodRecord], multus: &MultusPods) -> Vec<CniError> {
        // A NAD in place of the default network may have its name.
        let Ok(default_list) = self.default_list() else {
            return Vec::new();
        };
        let mut lists: Vec<NetworkConfigList> = Vec::new();
        let mut failures = Vec::new();
        let mut calls = Vec::new();
        for record in alive {
            for attachment in &record.attachments {
                match call(record, attachment) {
                    Ok(call) => calls.push((attachment.nad.is_some(), call)),
                    Err(error) => failures.push(error),
                }
            }
        }
        for (is_selected, (list, _)) in &calls {
            let is_other = *is_selected && list.name != default_list.name;
            if is_other && !lists.iter().any(|known| known.name == list.name) {
                lists.push(list.clone());
            }
        }
        for list in &lists {
            // Those of the default network, too, which may have the same name.
            let of_list = calls.iter().filter(|(_, (of, _))| of.name == list.name);
            let of_list = of_list.map(|(_, (_, call))| (&call.container_id, &call.ifname));
            // Multus attached pods to the same networks. Those that are gone are released.
            let of_multus = multus.attachments();
            let of_multus = of_multus.filter(|it| it.network == list.name);
            let valid: BTreeSet<GcAttachment> = of_list
                .chain(of_multus.map(|it| (&it.container_id, &it.ifname)))
                .map(|(container_id, ifname)| GcAttachment {
                    container_id: container_id.clone(),
                    ifname: ifname.clone(),
                })
                .collect();
            failures.extend(self.runtime.gc(list, &valid).err().map(CniError::internal));
        }
        failures
    }
}

/// Returns true if a sandbox that is there was attached by a list of another name, whose sandboxes GC of this one does not know.
fn is_of_other_list(record: &PodRecord, list: &str) -> bool {
    let is_there = record.netns.as_deref().is_none_or(|netns| netns.exists());
    is_there && record.list.as_deref().is_some_and(|name| name != list)
}

/// Returns true if the sandbox of an attachment has the interface.
pub(super) fn has_interface(attachment: &AttachmentRequest) -> bool {
    let Some(netns) = &attachment.netns else {
        return false;
    };
    let socket = Namespace::open(netns).and_then(|namespace| Socket::open_in(&namespace));
    socket.is_ok_and(|mut socket| socket.link_by_name(&attachment.ifname).is_ok())
}

/// Undoes the attachments of a sandbox whose results this runtime keeps, but for those by a meta plugin. Returns their
/// interfaces, and adds the errors.
fn undo_by_results(
    runtime: &Runtime,
    sandbox: &AttachmentRequest,
    failures: &mut Vec<CniError>,
) -> BTreeSet<String> {
    let kept = runtime.cached_attachments();
    let of_sandbox = { kept.iter().rev() }.filter(|it| it.container_id == sandbox.container_id);
    let mut interfaces = BTreeSet::new();
    for attachment in of_sandbox {
        let list = attachment.list();
        if list.as_ref().is_ok_and(is_meta) {
            continue;
        }
        interfaces.insert(attachment.ifname.clone());
        let call = AttachmentRequest {
            netns: sandbox.netns.clone(),
            ..attachment.request()
        };
        let undone = list.and_then(|list| runtime.del(&list, &call));
        failures.extend(undone.err().map(CniError::internal));
    }
    interfaces
}

pub(super) fn delete(request: &Request) -> Result<(), CniError> {
    let node = Node::open(&request.config, &request.path)?;
    let lock = node.records.lock_if_it_fits(request.container_id())?;
    let container_id = request.container_id();
    let record = node.records.read(container_id);
    let path = node.records.path(container_id);
    let failure = match record.map_err(|error| with_remedy(error, container_id, &path))? {
        Some(mut record) => {
            let netns = std::mem::replace(&mut record.netns, request.netns.clone());
            let failures = node.undo_all(&record);
            record.netns = netns;
            (!failures.is_empty()).then(|| node.keep(&mut record, &failures, lock.as_ref()))
        }
        None => {
            let failures = node.undo_without_record(&call_of(request));
            let results = node.config.state_dir.join("results");
            (!failures.is_empty()).then(|| with_remedy(several(&failures), container_id, &results))
        }
    };
    match failure {
        None => node.records.remove(container_id, lock),
        Some(failure) => Err(failure),
    }
}

/// The call for the default network.
fn call_of(request: &Request) -> AttachmentRequest {
    let args = request.args.pairs();
    AttachmentRequest {
        container_id: request.container_id().to_owned(),
        ifname: request.ifname().to_owned(),
        netns: request.netns.clone(),
        args: args
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect(),
        capability_args: request.config.runtime_config.clone(),
    }
}

/// go-cni takes an error of DEL with one of these texts, wherever it is, for a success; with the second one if there is no
/// network namespace, as after a reboot.
pub(super) fn failure_of_del(mut error: CniError) -> CniError {
    for text in [&mut error.msg, &mut error.details] {
        *text = text
            .replace("not found", "absent")
            .replace("no such file or directory", "no such path");
    }
    error
}

/// Returns true if a list calls a meta plugin.
fn is_meta(list: &NetworkConfigList) -> bool {
    list.plugins.iter().any(|it| is_meta_plugin(&it.kind))
}
