//! `netqos-multinet`: a CNI plugin that attaches a pod to the default network and to those that it selects.
//!
//! ```text
//!   ADD    annotations ─► selections ─► agent: NADs, permissions ─► attachments ─► record ─► delegates, in order
//!   DEL    record ─► delegates, in reverse order, all of them
//!   CHECK, GC, STATUS    record, default network
//! ```
//!
//! A pod never starts with fewer networks than it selects: the first failure undoes what was made. The plugin executes
//! the delegates itself; the agent only answers which NADs there are and what policies permit. What is undone
//! later depends on the record alone, which is on the disk before the first delegate runs.

mod agent;
mod compose;
mod config;
mod multus;
mod nads;
mod record;
mod selections;
mod status;

use std::collections::BTreeSet;
use std::io::{self, Write as _};
use std::net::IpAddr;
use std::path::Path;

use netqos_api::npwg::META_PLUGINS;
use netqos_cni::plugin::GcAttachment;
use netqos_cni::runtime::{AttachmentRequest, NetworkConfigList, Runtime, RuntimeError};
use netqos_cni::{CniError, CniResult, GcRequest, NetConf, Plugin, Request, Route, StatusRequest};
use netqos_datapath::FileLock;
use netqos_netlink::{Namespace, Socket};
use serde_json::{Map, Value, json};

use config::{DefaultNetwork, MultinetConfig};
use multus::MultusPods;
use record::{PodRecord, PodRecords, RecordedAttachment};

/// The name of the executable, and so the plugin's `type`.
const NAME: &str = "netqos-multinet";

/// The cache of runtimes, with the results of pods that they attached without this plugin.
const RUNTIME_CACHE: &str = "/var/lib/cni";

/// The plugin.
#[derive(Clone, Copy, Debug)]
pub struct Multinet;

/// The plugin's configuration with what it opens.
struct Node {
    config: MultinetConfig,
    runtime: Runtime,
    records: PodRecords,
}

impl Plugin for Multinet {
    fn about(&self) -> String {
        format!(
            "CNI meta plugin netqos-multinet v{}",
            netqos_version::VERSION
        )
    }

    fn add(&self, request: &Request) -> Result<CniResult, CniError> {
        let node = Node::open(&request.config, &request.path)?;
        // Before the agent is asked: the runtime may give up meanwhile, and DEL must not come before this ADD has ended.
        let lock = node.records.lock(request.container_id())?;
        let attachments = match node.attachments(request) {
            Ok(attachments) => attachments,
            Err(error) => {
                let _ = lock.remove();
                return Err(error);
            }
        };
        let mut record = PodRecord {
            container_id: request.container_id().to_owned(),
            netns: request.netns.clone(),
            pod: selections::pod(&request.args),
            attachments,
            made: 0,
            status: None,
        };
        if node.records.read(&record.container_id)?.is_some() {
            return Err(CniError::internal(format_args!(
                "container {} is attached already; DEL comes first",
                record.container_id
            )));
        }
        node.records.write(&record, &lock)?;
        node.make(&mut record, lock)
    }

    fn del(&self, request: &Request) -> Result<(), CniError> {
        delete(request).map_err(failure_of_del)
    }

    fn check(&self, request: &Request) -> Result<(), CniError> {
        let node = Node::open(&request.config, &request.path)?;
        let Some(record) = node.records.read(request.container_id())? else {
            return Err(CniError::internal(
                "no record of the container's attachments",
            ));
        };
        for attachment in &record.attachments {
            let (list, call) = attachment.call(&record)?;
            match node.runtime.check(&list, &call) {
                Ok(()) | Err(RuntimeError::CheckNotSupported(_)) => {}
                Err(error) => return Err(of_attachment(attachment, &error)),
            }
        }
        Ok(())
    }

    fn gc(&self, request: &GcRequest) -> Result<(), CniError> {
        let node = Node::open(&request.config, &request.path)?;
        let valid: BTreeSet<&str> = { request.valid.iter() }
            .map(|it| it.container_id.as_str())
            .collect();
        let cached = node.runtime.cached_attachments();
        let mut containers: BTreeSet<String> = node.records.containers()?.into_iter().collect();
        containers.extend(cached.into_iter().map(|it| it.container_id));
        let multus = node.multus();
        let of_multus = multus.attachments().map(|it| &it.container_id);
        let gone = of_multus.filter(|it| !valid.contains(it.as_str()));
        containers.extend(gone.cloned());
        let (mut alive, mut failures, mut is_known) = (Vec::new(), Vec::new(), true);
        for container in &containers {
            if !valid.contains(container.as_str()) {
                failures.extend(node.release(container));
                continue;
            }
            let record = node.records.read(container)?;
            // The attachments of a sandbox whose record cannot be read must not be collected.
            is_known &= record.is_some();
            alive.extend(record);
        }
        if is_known {
            failures.extend(node.collect(&alive, &multus));
        }
        match failures.is_empty() {
            true => Ok(()),
            false => Err(several(&failures)),
        }
    }

    fn status(&self, request: &StatusRequest) -> Result<(), CniError> {
        let node = Node::open(&request.config, &request.path)?;
        let list = node.default_list()?;
        let status = node.runtime.status(&list);
        status.map_err(|error| match error.plugin_error() {
            Some(error) => error.clone(),
            None => CniError::not_available(error.to_string()),
        })
    }
}

impl Node {
    fn open(config: &NetConf, path: &[std::path::PathBuf]) -> Result<Self, CniError> {
        let config = MultinetConfig::read(config)?;
        let dirs = match config.plugin_dirs.is_empty() {
            true => path,
            false => &config.plugin_dirs,
        };
        Ok(Self {
            runtime: Runtime::new(dirs.iter().cloned(), &config.state_dir).with_durable_cache(),
            records: PodRecords::new(&config.state_dir),
            config,
        })
    }

    /// The list of the default network.
    fn default_list(&self) -> Result<NetworkConfigList, CniError> {
        let none = |why: String| {
            agent::try_again(format!(
                "cannot read the default network: {why}; no pod can start"
            ))
        };
        let list = match &self.config.default_network {
            // Read at each ADD: the list may change, and a node gets its default network after this plugin.
            None => NetworkConfigList::load_first(&self.config.conf_dir, |list| !is_own(list)),
            Some(DefaultNetwork::File(path)) => NetworkConfigList::from_file(path),
            Some(DefaultNetwork::List(list)) => {
                NetworkConfigList::parse(Value::Object(list.clone()).to_string().as_bytes())
            }
        };
        let list = list.map_err(|error| none(error.to_string()))?;
        let kinds = list.plugins.iter().map(|plugin| plugin.kind.as_str());
        match kinds.clone().find(|kind| META_PLUGINS.contains(kind)) {
            None => Ok(list),
            Some(kind) => Err(none(format!(
                "list {} calls {kind}, which would attach the pod's networks once more; name another list with the \
                 key defaultNetwork",
                list.name
            ))),
        }
    }

    /// All attachments of a pod, none of which is made.
    fn attachments(&self, request: &Request) -> Result<Vec<RecordedAttachment>, CniError> {
        let default_list = self.default_list()?;
        let selected = selections::of(request, &self.config)?;
        let args: Vec<(String, String)> = (request.args.pairs())
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        let mut attachments =
            nads::attachments(&selected, request, &self.config, &default_list.name, &args)?;
        let mut default = match selected.default_network {
            // The first, in place of the default network, with what the runtime asks of that.
            Some(_) => attachments.remove(0),
            None => RecordedAttachment {
                driver: netqos_api::multinet::CNI_DRIVER.to_owned(),
                nad: None,
                interface: request.ifname().to_owned(),
                list: object(&default_list),
                args,
                capability_args: Map::new(),
                default_route: None,
            },
        };
        // What no plugin has a use for is not recorded: among it are all annotations of the pod.
        for (capability, argument) in &request.config.runtime_config {
            if compose::declares(&default.list, capability) {
                let of_pod = default.capability_args.entry(capability.clone());
                of_pod.or_insert_with(|| argument.clone());
            }
        }
        attachments.insert(0, default);
        Ok(attachments)
    }

    /// Makes the attachments in their order. The first failure undoes them in the reverse order.
    fn make(&self, record: &mut PodRecord, lock: FileLock) -> Result<CniResult, CniError> {
        let (mut first, mut status) = (None, Vec::new());
        for index in 0..record.attachments.len() {
            let attachment = &record.attachments[index];
            let (list, call) = match attachment.call(record) {
                Ok(call) => call,
                Err(error) => return Err(self.give_up(record, index, error, lock)),
            };
            match self.runtime.add(&list, &call) {
                Ok(result) => {
                    status.extend(status::entries(attachment, &result));
                    first.get_or_insert(result);
                }
                Err(error) => {
                    let begun = index + usize::from(error.may_have_left_something());
                    let error = of_attachment(attachment, &error);
                    return Err(self.give_up(record, begun, error, lock));
                }
            }
            record.made = index + 1;
            if record.made == record.attachments.len() {
                if let Err(error) = lead_default_routes(record, first.as_mut()) {
                    return Err(self.give_up(record, record.made, error, lock));
                }
                record.status = Some(std::mem::take(&mut status));
            }
            if let Err(error) = self.records.write(record, &lock) {
                return Err(self.give_up(record, record.made, error, lock));
            }
        }
        first.ok_or_else(|| CniError::internal("no attachment"))
    }

    /// Undoes these first attachments of a pod, and returns the error of ADD with those of this.
    fn give_up(
        &self,
        record: &PodRecord,
        begun: usize,
        error: CniError,
        lock: FileLock,
    ) -> CniError {
        let mut failures = self.undo(record, begun);
        if failures.is_empty() {
            failures.extend(self.records.remove(&record.container_id, lock).err());
        }
        match failures.is_empty() {
            true => error,
            false => with_failures(error, &failures),
        }
    }

    /// Undoes all attachments of a sandbox that is gone.
    fn release(&self, container_id: &str) -> Vec<CniError> {
        let undone = self.records.lock(container_id).and_then(|lock| {
            let failures = match self.records.read(container_id)? {
                Some(record) => self.undo(&record, record.made + 1),
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
        let of_runtime = Runtime::new(self.runtime.plugin_dirs(), RUNTIME_CACHE);
        MultusPods::read(self.runtime.plugin_dirs(), &of_runtime)
    }

    /// Undoes these first attachments of a pod, in reverse order. None stops the others.
    fn undo(&self, record: &PodRecord, begun: usize) -> Vec<CniError> {
        let begun = record.attachments.iter().take(begun).rev();
        let undone = begun.map(|attachment| {
            let (list, call) = attachment.call(record)?;
            let undone = self.runtime.del(&list, &call);
            undone.map_err(|error| of_attachment(attachment, &error))
        });
        undone.filter_map(Result::err).collect()
    }

    /// Undoes the attachments of a pod without a record: by the results that are kept, as one that Multus attached, or as a
    /// pod of the default network that the runtime attached itself, before it called this plugin. The default network
    /// may be another one by now.
    fn undo_without_record(&self, sandbox: &AttachmentRequest) -> Vec<CniError> {
        let mut failures = Vec::new();
        let default_list = self.default_list().ok();
        let mut undone = undo_by_results(&self.runtime, sandbox, &mut failures);
        let of_runtime = Runtime::new(self.runtime.plugin_dirs(), RUNTIME_CACHE);
        let multus = MultusPods::read(self.runtime.plugin_dirs(), &of_runtime);
        let (by_multus, failures_of_multus) = multus.undo(sandbox, default_list.as_ref());
        failures.extend(failures_of_multus);
        undone.extend(by_multus);
        undone.extend(undo_by_results(&of_runtime, sandbox, &mut failures));
        // A record precedes everything that this plugin makes.
        if let Some(list) = default_list.filter(|_| !undone.contains(&sandbox.ifname)) {
            let undone = of_runtime.del(&list, sandbox);
            let failure = |error| CniError::internal(format_args!("the default network: {error}"));
            failures.extend(undone.err().map(failure));
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
                match attachment.call(record) {
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

fn delete(request: &Request) -> Result<(), CniError> {
    let node = Node::open(&request.config, &request.path)?;
    let lock = node.records.lock(request.container_id())?;
    let failures = match node.records.read(request.container_id())? {
        Some(mut record) => {
            record.netns.clone_from(&request.netns);
            node.undo(&record, record.made + 1)
        }
        None => node.undo_without_record(&call_of(request)),
    };
    match failures.is_empty() {
        true => node.records.remove(request.container_id(), lock),
        false => Err(several(&failures)),
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
fn failure_of_del(mut error: CniError) -> CniError {
    for text in [&mut error.msg, &mut error.details] {
        *text = text
            .replace("not found", "absent")
            .replace("no such file or directory", "no such path");
    }
    error
}

/// Makes the pod's default routes lead through the attachment that its annotation names for them.
fn lead_default_routes(record: &PodRecord, result: Option<&mut CniResult>) -> Result<(), CniError> {
    let mut leading = record
        .attachments
        .iter()
        .filter_map(|it| Some((it, it.default_route.as_ref()?)));
    let Some((attachment, gateways)) = leading.next() else {
        return Ok(());
    };
    let netns = record.netns.as_deref().unwrap_or(Path::new(""));
    let replaced = Namespace::open(netns).and_then(|namespace| {
        let mut socket = Socket::open_in(&namespace)?;
        let link = socket.link_by_name(&attachment.interface)?;
        socket.replace_default_routes(&link, gateways)
    });
    replaced.map_err(|error| {
        let network = attachment.nad.as_deref().unwrap_or_default();
        CniError::internal(format_args!("{network}, default-route: {error}"))
    })?;
    // The runtime is told of the default network's routes.
    let is_replaced = |route: &Route| {
        let same_family = |it: &IpAddr| it.is_ipv4() == route.dst.is_ipv4();
        route.dst.length() == 0 && (gateways.is_empty() || gateways.iter().any(same_family))
    };
    if let Some(result) = result {
        result.routes.retain(|route| !is_replaced(route));
    }
    Ok(())
}

/// Returns true if a list calls a meta plugin.
fn is_meta(list: &NetworkConfigList) -> bool {
    let mut plugins = list.plugins.iter();
    plugins.any(|plugin| META_PLUGINS.contains(&plugin.kind.as_str()))
}

/// Returns true if a list calls this plugin.
fn is_own(list: &NetworkConfigList) -> bool {
    list.plugins.iter().any(|plugin| plugin.kind == NAME)
}

/// A list with all its plugins, also those that it has from other files.
fn object(list: &NetworkConfigList) -> Map<String, Value> {
    let plugins: Vec<&Map<String, Value>> = list.plugins.iter().map(|it| &it.raw).collect();
    let text = json!({
        "cniVersion": list.version.to_string(),
        "name": list.name,
        "disableCheck": list.disable_check,
        "disableGC": list.disable_gc,
        "plugins": plugins,
    });
    match text {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}

/// The error of an attachment. Its code is that of the plugin that failed.
fn of_attachment(attachment: &RecordedAttachment, error: &RuntimeError) -> CniError {
    let network = attachment.nad.as_deref().unwrap_or("the default network");
    let message = format!("{network}, interface {}: {error}", attachment.interface);
    match error.plugin_error() {
        Some(of_plugin) => CniError::new(of_plugin.code, message),
        None => CniError::internal(message),
    }
}

fn with_failures(error: CniError, failures: &[CniError]) -> CniError {
    let failures = several(failures);
    // Code 3 would tell the runtime that there is nothing to delete.
    CniError::internal(format_args!(
        "{error}; and what was made is not undone: {failures}"
    ))
}

fn several(errors: &[CniError]) -> CniError {
    if let [error] = errors {
        return error.clone();
    }
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    let code = errors
        .first()
        .map_or(netqos_cni::ErrorCode::INTERNAL, |error| error.code);
    CniError::new(code, texts.join("; "))
}

/// A line on standard error, which the runtime logs.
fn say(text: &str) {
    let _ = writeln!(io::stderr(), "netqos-multinet: {text}");
}
