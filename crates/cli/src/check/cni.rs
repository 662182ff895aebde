//! The node's CNI configuration: whether the runtime limits pods through it, and who attaches their networks.

use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use netqos_agent::multinet::{LIST, install_command};
use netqos_api::npwg::is_meta_plugin;
use netqos_cni::runtime::{ListFile, NetworkConfigList, PluginConfig, RuntimeError};
use serde::Serialize;
use serde_json::{Map, Value};

use super::annotations::AnnotationSource;
use super::line::Line;
use crate::install_plugin::{MULTINET, leads_to_multinet};

/// The capability by which runtimes pass a pod's limits (CNI's CONVENTIONS.md).
const BANDWIDTH: &str = "bandwidth";
/// The name of that capability in KEP-2819 and the kubelet's design. No runtime knows it.
const TRAFFIC_SHAPING: &str = "trafficShaping";
/// The capability by which containerd passes a pod's annotations.
pub const ANNOTATIONS: &str = "io.kubernetes.cri.pod-annotations";
/// The keys of a list by which its limits hold for each pod.
const STATIC: [&str; 6] = [
    "ingressRate",
    "ingressBurst",
    "egressRate",
    "egressBurst",
    "unshapedSubnets",
    "shapedSubnets",
];
const SHAPING: &str = "limits by CNI";
const ATTACHMENTS: &str = "attachments";

const CORRECT: &str = "correct the file, or move it to another directory";

/// The network configuration of a runtime.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CniReport {
    directory: PathBuf,
    /// The list that the runtime calls for each pod: the first by the names of the files.
    #[serde(skip_serializing_if = "Option::is_none")]
    called: Option<List>,
    /// The list of the default network where the called one is that of `netqos-multinet`.
    #[serde(skip_serializing_if = "Option::is_none")]
    default_network: Option<List>,
    /// The plugins to which the runtime passes a pod's limits.
    limited_by: Vec<String>,
    /// The findings.
    pub checks: Vec<Line>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct List {
    file: PathBuf,
    name: String,
}

impl CniReport {
    /// Reads a directory as a runtime does. `None` if it has no configuration.
    pub fn read(directory: &Path, annotations: &AnnotationSource) -> Option<Self> {
        let mut report = Self {
            directory: directory.to_owned(),
            called: None,
            default_network: None,
            limited_by: Vec::new(),
            checks: Vec::new(),
        };
        let lists = match NetworkConfigList::all(directory) {
            Ok(lists) if lists.is_empty() => return None,
            Ok(lists) => lists,
            Err(why) => {
                let line = Line::failed("CNI", why.to_string(), "make the directory readable");
                report.checks.push(line);
                return Some(report);
            }
        };
        report.judge(&lists, annotations);
        Some(report)
    }

    fn judge(&mut self, lists: &[ListFile], annotations: &AnnotationSource) {
        // containerd starts no pod if that file is broken; CRI-O goes on with the next one.
        let (file, called) = match &lists[0] {
            (file, Ok(called)) => (file, called),
            (_, Err(why)) => return self.fail("CNI", why.to_string(), CORRECT),
        };
        self.called = Some(List::of(file, called));
        if let Some(plugin) = multinet(called) {
            match default_network(&plugin.raw, lists) {
                Ok((file_of_default, list)) => {
                    self.default_network = Some(List::of(&file_of_default, &list));
                    let message = format!(
                        "{} attaches pods' networks; the default network is {} of {}",
                        MULTINET.name,
                        list.name,
                        file_of_default.display()
                    );
                    self.judge_capabilities(message, (file, called), &list);
                    let declares = called.declaring(ANNOTATIONS).next().is_some();
                    self.checks.push(annotations.check(ATTACHMENTS, declares));
                    self.judge_limits(called, &list);
                }
                Err((message, remedy)) => self.fail(ATTACHMENTS, message, remedy),
            }
            return;
        }
        let mut others = lists.iter();
        let is_own =
            |(_, list): &&ListFile| list.as_ref().is_ok_and(|list| multinet(list).is_some());
        if let Some((own, Ok(list))) = others.find(is_own) {
            if own.file_name() != Some(LIST.as_ref()) {
                self.judge_beside(lists, (file, called), (own, list));
                let declares = list.declaring(ANNOTATIONS).next().is_some();
                self.checks.push(annotations.check(ATTACHMENTS, declares));
                return self.judge_limits(called, called);
            }
            let message = format!(
                "the runtime calls list {} of {} for each pod, and not {}",
                called.name,
                file.display(),
                own.display()
            );
            let remedy = format!(
                "give {} a name that comes after {}",
                file.display(),
                own.display()
            );
            self.fail(ATTACHMENTS, message, remedy);
        } else if let Ok((file, list)) = default_network(&Map::new(), lists) {
            let message = format!(
                "{} is not called; its default network would be {} of {}",
                MULTINET.name,
                list.name,
                file.display()
            );
            self.checks.push(Line::ok(ATTACHMENTS, message));
        }
        self.judge_limits(called, called);
    }

    /// Judges a list of `netqos-multinet` that is not to be called for each pod: it has another name than the first.
    fn judge_beside(
        &mut self,
        lists: &[ListFile],
        (file, called): (&Path, &NetworkConfigList),
        (own, list): (&Path, &NetworkConfigList),
    ) {
        let meta = called.plugins.iter().find(|it| is_meta_plugin(&it.kind));
        let leads = meta.map(|plugin| leads_to_multinet(&plugin.raw, own));
        match leads.transpose() {
            Ok(Some(Some(why))) => {
                let message = format!(
                    "list {} of {} leads to {}: {why}: pods are attached to their networks twice",
                    called.name,
                    file.display(),
                    MULTINET.name
                );
                return self.fail(
                    ATTACHMENTS,
                    message,
                    "name the list of the default network there",
                );
            }
            Err(why) => return self.fail(ATTACHMENTS, why, CORRECT),
            Ok(_) => {}
        }
        let plugin = multinet(list).map(|plugin| &plugin.raw);
        match default_network(plugin.unwrap_or(&Map::new()), lists) {
            Err((message, remedy)) => self.fail(ATTACHMENTS, message, remedy),
            Ok((default_file, default)) => {
                let message = format!(
                    "the runtime calls list {} of {} for each pod; {} is beside it, and attaches the pods for which the \
                     runtime's configuration names it; the default network of these is {} of {}",
                    called.name,
                    file.display(),
                    own.display(),
                    default.name,
                    default_file.display()
                );
                self.judge_capabilities(message, (own, list), &default);
            }
        }
    }

    fn fail(&mut self, what: &str, message: impl Into<String>, remedy: impl Into<String>) {
        self.checks.push(Line::failed(what, message, remedy));
    }

    /// Compares the capabilities that a list of `netqos-multinet` declares with those of its default network.
    fn judge_capabilities(
        &mut self,
        message: String,
        (own, list): (&Path, &NetworkConfigList),
        default: &NetworkConfigList,
    ) {
        let declared = declared(default);
        let missing: Vec<&str> = { declared.iter().copied().chain([ANNOTATIONS]) }
            .filter(|name| list.declaring(name).next().is_none())
            .collect();
        self.checks.push(match missing.is_empty() {
            true => Line::ok(ATTACHMENTS, message),
            false => Line::warning(
                ATTACHMENTS,
                format!(
                    "{message}; the runtime passes only what list {} declares, and not {}",
                    list.name,
                    missing.join(", ")
                ),
                capability_remedy(own, multinet(list), &missing),
            ),
        });
    }

    /// Judges whether the runtime passes limits, and to a plugin that takes them.
    fn judge_limits(&mut self, called: &NetworkConfigList, list: &NetworkConfigList) {
        let name = &list.name;
        let remedy = format!(
            "add \"capabilities\": {{\"{BANDWIDTH}\": true}} to the plugin, beside its \"type\""
        );
        let takes_limits = |list: &NetworkConfigList| list.declaring(BANDWIDTH).next().is_some();
        if takes_limits(list) && takes_limits(called) {
            let plugins = list.declaring(BANDWIDTH).map(|plugin| plugin.kind.clone());
            self.limited_by = plugins.collect();
            if let Some(line) = hidden(list) {
                self.checks.push(line);
                return;
            }
            let message = format!(
                "the runtime passes the limits of pods to {} of list {name}",
                self.limited_by.join(", ")
            );
            self.checks.push(Line::ok(SHAPING, message));
        } else if takes_limits(list) {
            // The called list lacks it, as an earlier finding says.
        } else if let Some(plugin) = list.declaring(TRAFFIC_SHAPING).next() {
            let message = format!(
                "plugin {} of list {name} declares {TRAFFIC_SHAPING}, under which containerd and CRI-O pass \
                 nothing: they know {BANDWIDTH}",
                plugin.kind
            );
            self.checks.push(Line::warning(SHAPING, message, remedy));
        } else if let Some(plugin) = list.plugins.iter().find(|it| is_bandwidth(it)) {
            let message = format!(
                "plugin {} of list {name} does not declare the capability {BANDWIDTH}: the runtime passes it no limit",
                plugin.kind
            );
            self.checks.push(Line::warning(SHAPING, message, remedy));
        } else {
            let message = format!(
                "no plugin of list {name} declares the capability {BANDWIDTH}: only an agent limits pods, once they run"
            );
            let remedy = "netqos install-plugin installs the plugin bandwidth; add {\"type\": \"bandwidth\", \
                          \"capabilities\": {\"bandwidth\": true}} to the plugins of the list";
            self.checks.push(Line::warning(SHAPING, message, remedy));
        }
    }
}

impl List {
    fn of(file: &Path, list: &NetworkConfigList) -> Self {
        Self {
            file: file.to_owned(),
            name: list.name.clone(),
        }
    }
}

/// Our plugin in a list.
fn multinet(list: &NetworkConfigList) -> Option<&PluginConfig> {
    list.plugins.iter().find(|it| it.kind == MULTINET.name)
}

/// Returns the remedy for capabilities that the list of this path does not declare. `install-plugin` keeps a capability that
/// an administrator has set to `false`.
fn capability_remedy(own: &Path, plugin: Option<&PluginConfig>, missing: &[&str]) -> String {
    let is_false = |name: &&str| plugin.is_some_and(|it| it.capabilities.contains_key(*name));
    let (written, absent): (Vec<&str>, Vec<&str>) = missing.iter().partition(|name| is_false(name));
    let renew = format!("run {} again", install_command(own));
    let write = format!(
        "write true for {} in {}, which says false",
        written.join(", "),
        own.display()
    );
    match (written.is_empty(), absent.is_empty()) {
        (true, _) => renew,
        (false, true) => write,
        (false, false) => format!("{renew}, and {write}"),
    }
}

/// Returns the default network that the plugin takes, with its file.
///
/// # Errors
/// Returns a message and a remedy if the plugin starts no pod.
fn default_network(
    plugin: &Map<String, Value>,
    lists: &[ListFile],
) -> Result<(PathBuf, NetworkConfigList), (String, &'static str)> {
    let broken = |why: &RuntimeError| (why.to_string(), CORRECT);
    let (file, list) = match (plugin.get("defaultNetwork"), plugin.get("confDir")) {
        (Some(Value::String(file)), _) => {
            let list = NetworkConfigList::from_file(Path::new(file)).map_err(|why| broken(&why))?;
            (file.into(), list)
        }
        (Some(list), _) => {
            let list = NetworkConfigList::parse(list.to_string().as_bytes());
            let key = PathBuf::from("the key defaultNetwork");
            (key, list.map_err(|why| broken(&why))?)
        }
        (None, Some(Value::String(directory))) => {
            let lists = NetworkConfigList::all(Path::new(directory)).map_err(|why| broken(&why))?;
            first_other(lists)?
        }
        (None, _) => first_other(lists)?,
    };
    match list.plugins.iter().find(|it| is_meta_plugin(&it.kind)) {
        None => Ok((file, list)),
        Some(plugin) => Err((
            format!(
                "list {} of {} calls {}, which would attach pods' networks once more: no pod can start",
                list.name,
                file.display(),
                plugin.kind
            ),
            "name another list with the plugin's key defaultNetwork",
        )),
    }
}

/// The first list that does not call our plugin.
fn first_other(
    lists: impl IntoIterator<Item = impl Borrow<ListFile>>,
) -> Result<(PathBuf, NetworkConfigList), (String, &'static str)> {
    for entry in lists {
        let (file, list) = entry.borrow();
        match list {
            Ok(list) if multinet(list).is_some() => {}
            Ok(list) => return Ok((file.clone(), list.clone())),
            Err(why) => return Err((why.to_string(), CORRECT)),
        }
    }
    let message = "no default network exists: no pod can start".to_owned();
    Err((message, "install the pod network, whose list comes after"))
}

/// The plugin of containernetworking, or netqos' in its place.
fn is_bandwidth(plugin: &PluginConfig) -> bool {
    plugin.kind == BANDWIDTH
}

/// The finding about limits in a list, which hide those that the runtime passes, whatever their values, as in Go.
fn hidden(list: &NetworkConfigList) -> Option<Line> {
    let hides = |key: &&String| STATIC.iter().any(|it| it.eq_ignore_ascii_case(key));
    let mut plugins = list.declaring(BANDWIDTH).filter(|it| is_bandwidth(it));
    let keys = plugins.find_map(|plugin| {
        let keys: Vec<&str> = plugin
            .raw
            .keys()
            .filter(hides)
            .map(String::as_str)
            .collect();
        (!keys.is_empty()).then(|| keys.join(", "))
    })?;
    let message = format!(
        "plugin {BANDWIDTH} of list {} has {keys} in its configuration, which hide the limits that the runtime passes: \
         limits of pods are not followed",
        list.name
    );
    let remedy = format!(
        "remove {keys}; write no more than {{\"type\": \"bandwidth\", \"capabilities\": {{\"bandwidth\": true}}}}"
    );
    Some(Line::warning(SHAPING, message, remedy))
}

fn declared(list: &NetworkConfigList) -> BTreeSet<&str> {
    let capabilities = list.plugins.iter().flat_map(|it| &it.capabilities);
    let declared = capabilities.filter(|(_, is_declared)| **is_declared);
    declared.map(|(name, _)| name.as_str()).collect()
}

#[cfg(test)]
mod tests;
