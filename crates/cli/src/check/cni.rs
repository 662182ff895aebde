//! The node's CNI configuration: whether the runtime limits pods through it, and who attaches their networks.

use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use netqos_api::npwg::is_meta_plugin;
use netqos_cni::runtime::{ListFile, NetworkConfigList, PluginConfig, RuntimeError};
use serde::Serialize;
use serde_json::{Map, Value};

use super::annotations::AnnotationSource;
use super::line::Line;
use crate::install_plugin::MULTINET;

/// The capability by which runtimes pass a pod's limits (CNI's CONVENTIONS.md).
const BANDWIDTH: &str = "bandwidth";
/// The name of that capability in KEP-2819 and the kubelet's design. No runtime knows it.
const TRAFFIC_SHAPING: &str = "trafficShaping";
/// The capability by which containerd passes a pod's annotations.
pub const ANNOTATIONS: &str = "io.kubernetes.cri.pod-annotations";
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
                Ok((file, list)) => {
                    self.default_network = Some(List::of(&file, &list));
                    self.judge_attachments(called, &file, &list);
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
        if let Some((own, _)) = others.find(is_own) {
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

    fn fail(&mut self, what: &str, message: impl Into<String>, remedy: impl Into<String>) {
        self.checks.push(Line::failed(what, message, remedy));
    }

    /// Compares the capabilities that the called list declares with those of the default network.
    fn judge_attachments(
        &mut self,
        called: &NetworkConfigList,
        file: &Path,
        default: &NetworkConfigList,
    ) {
        let declared = declared(default);
        let missing: Vec<&str> = { declared.iter().copied().chain([ANNOTATIONS]) }
            .filter(|name| called.declaring(name).next().is_none())
            .collect();
        let message = format!(
            "{} attaches pods' networks; the default network is {} of {}",
            MULTINET.name,
            default.name,
            file.display()
        );
        self.checks.push(match missing.is_empty() {
            true => Line::ok(ATTACHMENTS, message),
            false => Line::warning(
                ATTACHMENTS,
                format!(
                    "{message}; the runtime passes only what list {} declares, and not {}",
                    called.name,
                    missing.join(", ")
                ),
                "run netqos install-plugin --multinet again",
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

fn declared(list: &NetworkConfigList) -> BTreeSet<&str> {
    let capabilities = list.plugins.iter().flat_map(|it| &it.capabilities);
    let declared = capabilities.filter(|(_, is_declared)| **is_declared);
    declared.map(|(name, _)| name.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::{Value, json};
    use tempfile::TempDir;

    use super::*;
    use crate::check::line::State;

    fn list(name: &str, plugins: Value) -> String {
        json!({"cniVersion": "1.0.0", "name": name, "plugins": plugins}).to_string()
    }

    fn directory(files: &[(&str, String)]) -> TempDir {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(directory.path().join(name), text).unwrap();
        }
        directory
    }

    /// A runtime that has attached no pod.
    fn unknown() -> AnnotationSource {
        AnnotationSource {
            cni_cache: "/nowhere".into(),
            pod_files: "/nowhere".into(),
        }
    }

    /// The state and the words of each check.
    fn checks(files: &[(&str, String)]) -> Vec<(State, String)> {
        let directory = directory(files);
        let report = CniReport::read(directory.path(), &unknown()).unwrap();
        // These have tests of their own.
        let checks = report.checks.into_iter().filter(|it| {
            !it.message.contains("is not known") && !it.message.contains("is not called")
        });
        checks
            .map(|line| (line.state, format!("{} → {}", line.message, line.remedy)))
            .collect()
    }

    fn assert_one(files: &[(&str, String)], state: State, words: &[&str]) {
        let checks = checks(files);
        let [(found, text)] = &checks[..] else {
            panic!("{checks:?}")
        };
        assert_eq!(*found, state, "{text}");
        for word in words {
            assert!(text.contains(word), "{word}: {text}");
        }
    }

    /// The list that KEP-2819 and the kubelet's design print.
    #[test]
    fn traffic_shaping_of_the_kep_gets_no_limit() {
        let plugins = json!([
            {"type": "calico"},
            {"type": "bandwidth", "capabilities": {"trafficShaping": true}},
        ]);
        let files = [("10-calico.conflist", list("k8s-pod-network", plugins))];
        let words = [
            "declares trafficShaping",
            "containerd and CRI-O pass nothing",
            "add \"capabilities\": {\"bandwidth\": true}",
        ];
        assert_one(&files, State::Warning, &words);
    }

    #[test]
    fn limits_reach_a_plugin_that_declares_bandwidth() {
        let declaring = json!([{"type": "bandwidth", "capabilities": {"bandwidth": true}}]);
        let files = [("10-net.conflist", list("net", declaring))];
        assert_one(&files, State::Ok, &["to bandwidth of list net"]);
        for capabilities in [json!({}), json!({"bandwidth": false})] {
            let plugins = json!([{"type": "bandwidth", "capabilities": capabilities}]);
            let files = [("10-net.conflist", list("net", plugins))];
            let words = ["does not declare the capability bandwidth"];
            assert_one(&files, State::Warning, &words);
        }
        let files = [("10-net.conflist", list("net", json!([{"type": "ptp"}])))];
        assert_one(&files, State::Warning, &["only an agent limits pods"]);
    }

    #[test]
    fn broken_file_before_the_list_fails() {
        let files = [
            ("05-broken.conflist", "{".to_owned()),
            ("10-net.conflist", list("net", json!([{"type": "ptp"}]))),
        ];
        assert_one(&files, State::Failed, &["05-broken.conflist"]);
        // The runtime does not read it.
        let files = [
            ("10-net.conflist", default_network()),
            ("99-broken.conflist", "{".to_owned()),
        ];
        assert_one(&files, State::Ok, &[]);
    }

    fn multinet(capabilities: Value) -> String {
        let plugin = json!({"type": "netqos-multinet", "capabilities": capabilities});
        list("netqos-multinet", json!([plugin]))
    }

    fn default_network() -> String {
        let declared = json!({"bandwidth": true, "portMappings": true});
        list(
            "net",
            json!([{"type": "bandwidth", "capabilities": declared}]),
        )
    }

    #[test]
    fn list_that_comes_before_multinets_is_what_the_runtime_calls() {
        let all = json!({"bandwidth": true, "portMappings": true, ANNOTATIONS: true});
        let files = [
            ("00-netqos.conflist", multinet(all.clone())),
            ("10-net.conflist", default_network()),
        ];
        let found = checks(&files);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found.iter().all(|(state, _)| *state == State::Ok));
        assert!(found[0].1.contains("the default network is net"));

        let files = [
            ("00-netqos.conflist", multinet(all)),
            ("00-first.conflist", default_network()),
        ];
        let found = checks(&files);
        assert_eq!(found[0].0, State::Failed, "{found:?}");
        assert!(
            found[0]
                .1
                .contains("00-first.conflist a name that comes after")
        );
    }

    #[test]
    fn default_network_before_installation_is_the_first_list_without_a_meta_plugin() {
        let would_be = |files: &[(&str, String)]| {
            let directory = directory(files);
            let report = CniReport::read(directory.path(), &unknown()).unwrap();
            let messages = report.checks.into_iter().map(|it| it.message);
            messages
                .filter(|it| it.contains("is not called; its default network would be"))
                .collect::<Vec<String>>()
        };
        let net = || ("10-net.conflist", default_network());
        let [found] = &would_be(&[net()])[..] else {
            panic!("no line")
        };
        assert!(found.contains("would be net of"), "{found}");
        let of_multus = list("multus", json!([{"type": "multus"}]));
        assert!(would_be(&[("00-multus.conflist", of_multus), net()]).is_empty());
        assert!(would_be(&[("00-netqos.conflist", multinet(json!({}))), net()]).is_empty());
    }

    #[test]
    fn default_network_is_the_one_that_the_plugin_takes() {
        let all = json!({"bandwidth": true, "portMappings": true, ANNOTATIONS: true});
        let with = |more: Value| {
            let mut plugin = json!({"type": "netqos-multinet", "capabilities": all});
            let more = more.as_object().unwrap().clone();
            plugin.as_object_mut().unwrap().extend(more);
            list("netqos-multinet", json!([plugin]))
        };
        let elsewhere = directory(&[("20-net.conflist", default_network())]);
        let file = elsewhere.path().join("20-net.conflist");
        let inline: Value = serde_json::from_str(&default_network()).unwrap();
        for key in [
            json!({"defaultNetwork": file}),
            json!({"defaultNetwork": inline}),
            json!({"confDir": elsewhere.path()}),
        ] {
            let found = checks(&[("00-netqos.conflist", with(key.clone()))]);
            assert_eq!(found[0].0, State::Ok, "{key}: {found:?}");
        }
        let of_multus = list("multus", json!([{"type": "multus"}]));
        let files = [
            ("00-netqos.conflist", with(json!({}))),
            ("10-multus.conflist", of_multus),
            ("20-net.conflist", default_network()),
        ];
        assert_one(&files, State::Failed, &["calls multus", "defaultNetwork"]);
    }

    #[test]
    fn capability_that_multinets_list_lacks_is_named() {
        let files = [
            ("00-netqos.conflist", multinet(json!({"bandwidth": true}))),
            ("10-net.conflist", default_network()),
        ];
        let found = checks(&files);
        assert_eq!(found[0].0, State::Warning, "{found:?}");
        for word in ["portMappings", ANNOTATIONS, "--multinet again"] {
            assert!(found[0].1.contains(word), "{word}: {found:?}");
        }
        let files = [("00-netqos.conflist", multinet(json!({})))];
        assert_one(&files, State::Failed, &["no default network"]);
    }

    #[test]
    fn directory_without_configuration_has_no_report() {
        let directory = directory(&[]);
        assert!(CniReport::read(directory.path(), &unknown()).is_none());
        assert!(CniReport::read(&directory.path().join("none"), &unknown()).is_none());
    }
}
