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
mod device_info;
mod multus;
mod nads;
mod pod_files;
mod record;
mod release;
mod selections;
mod status;

use std::io::{self, Write as _};
use std::net::IpAddr;
use std::path::Path;

use netqos_api::multinet::{PodRecord, RecordedAttachment};
use netqos_api::npwg::is_meta_plugin;
use netqos_cni::runtime::{NetworkConfigList, Runtime, RuntimeError};
use netqos_cni::{CniError, CniResult, GcRequest, NetConf, Plugin, Request, Route, StatusRequest};
use netqos_datapath::FileLock;
use netqos_netlink::{Namespace, Socket};
use serde_json::{Map, Value, json};

use crate::links;

use config::{DefaultNetwork, MultinetConfig};
use record::{PodRecords, call};
use release::{delete, failure_of_del, has_interface};

/// The name of the executable, and so the plugin's `type`.
const NAME: &str = "netqos-multinet";

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
            list: Some(request.config.name.clone()),
            attachments,
            made: 0,
            status: None,
            hand_over: None,
            failure: None,
        };
        if node.records.read(&record.container_id)?.is_some() {
            return Err(CniError::internal(format_args!(
                "container {} is attached already; DEL comes first",
                record.container_id
            )));
        }
        if let Err(error) = node.records.write(&record, &lock) {
            let _ = lock.remove();
            return Err(error);
        }
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
            let (list, request) = call(&record, attachment)?;
            match node.runtime.check(&list, &request) {
                Ok(()) | Err(RuntimeError::CheckNotSupported(_)) => {}
                Err(error) => return Err(of_attachment(attachment, &error)),
            }
        }
        Ok(())
    }

    fn gc(&self, request: &GcRequest) -> Result<(), CniError> {
        let node = Node::open(&request.config, &request.path)?;
        node.release_all_but(&request.valid, &request.config.name)
    }

    fn status(&self, request: &StatusRequest) -> Result<(), CniError> {
        let node = Node::open(&request.config, &request.path)?;
        // Code 11 is ADD's: no plugin is available without a default network.
        let list = node.default_list();
        let list = list.map_err(|error| CniError::not_available(error.msg))?;
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
            runtime: Runtime::new(dirs.iter().cloned(), &config.state_dir)
                .with_durable_cache()
                .in_directory(NOWHERE),
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
        let mut kinds = list.plugins.iter().map(|plugin| plugin.kind.as_str());
        match kinds.find(|kind| is_meta_plugin(kind)) {
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
            nads::attachments(&selected, request, &self.config, &default_list.name)?;
        let mut default = match selected.selections.default_network {
            // The first, in place of the default network, with what the runtime asks of that.
            Some(_) => RecordedAttachment {
                args,
                ..attachments.remove(0)
            },
            None => RecordedAttachment {
                driver: netqos_api::multinet::CNI_DRIVER.to_owned(),
                nad: None,
                interface: request.ifname().to_owned(),
                ends: None,
                list: object(&default_list),
                args,
                capability_args: Map::new(),
                selects_bandwidth: false,
                default_route: None,
                device_info: None,
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
            let (list, request) = match call(record, attachment) {
                Ok(call) => call,
                Err(error) => return Err(self.give_up(record, index, error, lock)),
            };
            if let Err(error) = device_info::copy(attachment) {
                let error = device_info_error(attachment, &error);
                return Err(self.give_up(record, index, error, lock));
            }
            match self.runtime.add(&list, &request) {
                Ok(result) => {
                    let mut entries = status::entries(attachment, index == 0, &result);
                    device_info::describe(attachment, &mut entries);
                    status.extend(entries);
                    first.get_or_insert(result);
                }
                Err(error) => {
                    let answer = of_attachment(attachment, &error);
                    let begun = match error {
                        // A later DEL leaves out plugins that have made nothing, and would only refuse it.
                        RuntimeError::AddAndUndo { failed, begun, .. } => {
                            record.attachments[index].keep_plugins(begun);
                            record.made = index + usize::from(begun <= failed);
                            index + 1
                        }
                        // macvlan and host-device leave the interface if their plugin of IPAM refuses ADD and DEL.
                        error if error.plugin_error().is_some() && has_interface(&request) => {
                            record.attachments[index].forget_ipam();
                            index + 1
                        }
                        _ => index,
                    };
                    return Err(self.give_up(record, begun, answer, lock));
                }
            }
            let netns = record.netns.as_deref();
            let attachment = &mut record.attachments[index];
            attachment.ends = netns.and_then(|netns| links::ends(netns, &attachment.interface));
            record.made = index + 1;
            if record.made == record.attachments.len() {
                if let Err(error) = self.lead_default_routes(record, first.as_mut()) {
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

    /// Makes the pod's default routes lead through the attachment that its annotation names for them.
    fn lead_default_routes(
        &self,
        record: &PodRecord,
        result: Option<&mut CniResult>,
    ) -> Result<(), CniError> {
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
        let is_replaced = |route: &Route| {
            let same_family = |it: &IpAddr| it.is_ipv4() == route.dst.is_ipv4();
            route.dst.length() == 0 && (gateways.is_empty() || gateways.iter().any(same_family))
        };
        let forget_replaced = |result: &mut CniResult| {
            result.routes.retain(|route| !is_replaced(route));
        };
        // The runtime is told of the default network's routes, and CHECK of all networks looks for theirs.
        if let Some(result) = result {
            forget_replaced(result);
        }
        for attachment in &record.attachments {
            let (list, request) = call(record, attachment)?;
            let changed = self.runtime.change_result(&list, &request, forget_replaced);
            changed.map_err(|error| of_attachment(attachment, &error))?;
        }
        Ok(())
    }

    /// Undoes these first attachments of a pod, and returns the error of ADD with those of this. The record of what could not
    /// be undone has these attachments alone.
    fn give_up(
        &self,
        record: &mut PodRecord,
        begun: usize,
        error: CniError,
        lock: FileLock,
    ) -> CniError {
        // That of the attachment that failed, also where its plugins have not run.
        let not_begun = record.attachments.drain(begun..);
        let of_info = not_begun.filter_map(|attachment| {
            let removed = device_info::remove(&attachment);
            removed.err().map(|it| device_info_error(&attachment, &it))
        });
        let of_info: Vec<CniError> = of_info.collect();
        // DEL must know it even if this ADD is killed here. On a full disk the record before stays.
        let _ = self.records.write(record, &lock);
        let mut failures = self.undo(record, begun);
        failures.extend(of_info);
        if failures.is_empty() {
            return match self.records.remove(&record.container_id, lock) {
                Ok(()) => error,
                Err(of_record) => with_failures(error, &of_record),
            };
        }
        with_failures(error, &self.keep(record, &failures, Some(&lock)))
    }

    /// Keeps the record of a sandbox of which something may be left. Returns the errors with the remedy.
    fn keep(
        &self,
        record: &mut PodRecord,
        failures: &[CniError],
        lock: Option<&FileLock>,
    ) -> CniError {
        let error = several(failures);
        let failure = Some(error.to_string());
        if let Some(lock) = lock.filter(|_| record.failure != failure) {
            record.failure = failure;
            // On a full disk the one before stays, by which DEL can be repeated too.
            let _ = self.records.write(record, lock);
        }
        let path = self.records.path(&record.container_id);
        with_remedy(error, &record.container_id, &path)
    }
}

/// The working directory of plugins. Nothing can be made in it: tenants write paths, and one that does not begin at the root
/// leads nowhere.
const NOWHERE: &str = "/proc/self/fdinfo";

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

fn device_info_error(attachment: &RecordedAttachment, error: &io::Error) -> CniError {
    let path = device_info::path(attachment);
    CniError::io(format!("device information {}: {error}", path.display()))
}

/// An error of DEL with the file that says what may be left, and how the error ends.
fn with_remedy(error: CniError, container_id: &str, file: &Path) -> CniError {
    let message = format!(
        "{error}; {} has what may be left: DEL succeeds once this is repaired, or the plugin is installed again; or give the \
         sandbox up: netqos cleanup --forget {container_id}",
        file.display()
    );
    CniError::new(error.code, message)
}

fn with_failures(error: CniError, failures: &CniError) -> CniError {
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
