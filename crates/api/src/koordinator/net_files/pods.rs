//! `pods`: whose traffic is of which class, and what single flows have of their own.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use netqos_core::classes::{Asked, FlowPart, TrafficClass};
use netqos_core::{ObjectName, PodId};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::super::Mistake;
use super::rules;
use crate::terway::NET_CLS_ROOT;

/// Where hierarchies of cgroups are mounted, the longer first.
const CGROUP_ROOTS: [&str; 4] = [
    NET_CLS_ROOT,
    "/sys/fs/cgroup/net_cls,net_prio",
    "/sys/fs/cgroup/unified",
    "/sys/fs/cgroup",
];

/// A pod in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetPod {
    /// Which.
    pub id: PodId,
    /// Its class; l0 where nothing is said.
    pub class: TrafficClass,
    /// Its cgroup, below the root of the hierarchy.
    pub cgroup: Option<PathBuf>,
    /// What it asks for as a whole.
    pub asked: Asked,
    /// What single flows of it have of their own; the first that matches decides.
    pub flows: Vec<FlowPart>,
}

/// The file for these pods: a list, each pod on a line.
pub fn pods_json(pods: &[NetPod]) -> String {
    let lines: Vec<String> = pods.iter().map(|pod| written(pod).to_string()).collect();
    match lines.is_empty() {
        true => "[]\n".to_owned(),
        false => format!("[\n{}\n]\n", lines.join(",\n")),
    }
}

fn written(pod: &NetPod) -> Value {
    let cgroup = pod.cgroup.as_deref().map(|cgroup| {
        let below = cgroup.strip_prefix("/").unwrap_or(cgroup);
        Path::new(NET_CLS_ROOT).join(below).display().to_string()
    });
    json!({
        "cgroup": cgroup.unwrap_or_default(),
        "priority": pod.class.priority(),
        "pod": pod.id.name.to_string(),
        "podUID": pod.id.uid,
        "qos-config": rules::written(&pod.asked, &pod.flows),
    })
}

/// Reads the file.
///
/// # Errors
/// Everything that cannot be followed.
pub fn parse_pods(text: &str) -> Result<Vec<NetPod>, Vec<Mistake>> {
    let mut mistakes = Vec::new();
    let mut found: Vec<(String, Value)> = Vec::new();
    for document in serde_json::Deserializer::from_str(text).into_iter::<Value>() {
        match document {
            Ok(document) => split(document, &mut found, &mut mistakes),
            Err(error) => mistakes.push(Mistake::new("pods", format!("is no JSON: {error}"))),
        }
    }
    let mut pods: Vec<NetPod> = Vec::new();
    for (path, value) in found {
        let Some(pod) = read(&value, &path, &mut mistakes) else {
            continue;
        };
        if pods.iter().any(|other| other.id.uid == pod.id.uid) {
            let what = format!("pod {} stands there twice", pod.id.uid);
            mistakes.push(Mistake::new(path, what));
        } else {
            pods.push(pod);
        }
    }
    if mistakes.is_empty() {
        Ok(pods)
    } else {
        Err(mistakes)
    }
}

/// The pods of a document, each with its path: of a list, of an object by uid, or the one.
fn split(document: Value, found: &mut Vec<(String, Value)>, mistakes: &mut Vec<Mistake>) {
    match document {
        Value::Array(pods) => {
            let numbered = pods.into_iter().enumerate();
            found.extend(numbered.map(|(index, pod)| (format!("pods[{index}]"), pod)));
        }
        Value::Object(pod) if pod.contains_key("podUID") || pod.contains_key("cgroup") => {
            let path = format!("pods[{}]", found.len());
            found.push((path, Value::Object(pod)));
        }
        Value::Object(by_uid) => {
            found.extend(
                by_uid
                    .into_iter()
                    .map(|(uid, pod)| (format!("pods.{uid}"), pod)),
            );
        }
        other => mistakes.push(Mistake::new("pods", format!("{other} is no pod"))),
    }
}

/// A pod as it stands there. What it has besides is passed over, as another agent's own.
#[derive(Deserialize)]
struct Written {
    #[serde(default)]
    cgroup: Option<String>,
    #[serde(default)]
    priority: u64,
    pod: String,
    #[serde(rename = "podUID")]
    uid: String,
    #[serde(rename = "qos-config", default)]
    rules: Map<String, Value>,
}

fn read(value: &Value, path: &str, mistakes: &mut Vec<Mistake>) -> Option<NetPod> {
    let before = mistakes.len();
    let pod = Written::deserialize(value)
        .map_err(|error| mistakes.push(Mistake::new(path, error)))
        .ok()?;
    let class = TrafficClass::ALL
        .into_iter()
        .find(|class| u64::from(class.priority()) == pod.priority);
    if class.is_none() {
        let what = format!("{} is none of the priorities 0, 1 and 2", pod.priority);
        mistakes.push(Mistake::new(format!("{path}.priority"), what));
    }
    let name = pod
        .pod
        .split_once('/')
        .filter(|(namespace, name)| !namespace.is_empty() && !name.is_empty());
    if name.is_none() {
        let what = format!("{:?} is no namespace/name", pod.pod);
        mistakes.push(Mistake::new(format!("{path}.pod"), what));
    }
    if pod.uid.is_empty() {
        mistakes.push(Mistake::new(format!("{path}.podUID"), "is empty"));
    }
    let is_out = |cgroup: &str| {
        Path::new(cgroup)
            .components()
            .any(|it| it == Component::ParentDir)
    };
    if pod.cgroup.as_deref().is_some_and(is_out) {
        mistakes.push(Mistake::new(
            format!("{path}.cgroup"),
            "leads out by \"..\"",
        ));
    }
    let (asked, flows) = rules::read(&pod.rules, &format!("{path}.qos-config"), mistakes);
    let cgroup = pod.cgroup.filter(|cgroup| !cgroup.is_empty());
    let (namespace, name) = name?;
    (mistakes.len() == before).then_some(NetPod {
        id: PodId {
            name: ObjectName::new(namespace, name),
            uid: Arc::from(pod.uid.as_str()),
        },
        class: class?,
        cgroup: cgroup.map(|cgroup| below_root(Path::new(&cgroup))),
        asked,
        flows,
    })
}

/// The cgroup's path below the root of its hierarchy.
fn below_root(cgroup: &Path) -> PathBuf {
    let below = CGROUP_ROOTS
        .iter()
        .find_map(|root| cgroup.strip_prefix(root).ok());
    Path::new("/").join(below.unwrap_or(cgroup))
}
