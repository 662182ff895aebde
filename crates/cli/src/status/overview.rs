//! How things stand in a cluster: plain data, from the objects.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::Timestamp;
use netqos_core::{LISTED_NAMES, Reason, list_names};
use netqos_k8s::{NetworkQoSNodeReport, NetworkQosStatus, NodeProblem};
use serde::Serialize;
use serde_json::Value;

use super::workload::Workload;

/// Problems that keep nothing from being in force as somebody has chosen.
const LEFT: [Reason; 3] = [
    Reason::NetworkQosElsewhere,
    Reason::AnnotationsElsewhere,
    Reason::AnotherAtWork,
];

/// The objects that say how things stand.
#[derive(Debug, Default)]
pub struct Objects {
    /// Leases of the controller's name; `None`: they may not be seen.
    pub leases: Option<Vec<Value>>,
    /// `None`: they may not be seen.
    pub nodes: Option<Vec<Value>>,
    /// `NetworkQoSNodeReport`s; `None`: they may not be seen.
    pub reports: Option<Vec<Value>>,
    /// DaemonSets of agents; `None`: they may not be seen.
    pub agents: Option<Vec<Workload>>,
    /// Deployments of controllers; `None`: they may not be seen.
    pub controllers: Option<Vec<Workload>>,
    /// `NetworkQoS` objects.
    pub policies: Vec<Value>,
}

/// How things stand.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Overview {
    /// Whether all that counts is in force.
    pub ready: bool,
    /// Who leads; absent: nobody was to be asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller: Option<Controller>,
    /// What keeps agents and controllers running, and how far it has come.
    pub workloads: Vec<Workload>,
    /// The nodes, by name.
    pub nodes: Vec<Node>,
    /// That agents are to run which have said nothing, where it is not known on which nodes.
    #[serde(skip)]
    pub unheard: Option<String>,
    /// The policies, by name.
    pub policies: Vec<Policy>,
    /// What is missing, each in a line.
    pub missing: Vec<String>,
}

/// Who leads.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Controller {
    /// The replica; absent: there was never one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leader: Option<String>,
    /// Its namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Since when its Lease is renewed no more, where it has run out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub silent_since: Option<String>,
}

/// A node.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Whether an agent is known to be meant to run on it.
    pub meant: bool,
    /// The version of its agent; absent: none has said anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// When its agent said something last. A report is written when something changes, and no sign of
    /// life.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reported: Option<String>,
    /// How many policies it has in force.
    pub policies: usize,
    /// What is not as it should be there.
    pub problems: Vec<String>,
    /// What is left to others there, on purpose.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<String>,
}

/// A policy.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Policy {
    /// `namespace/name`.
    pub name: String,
    /// `True`, `False`, or `Unknown`: of this generation nothing is said yet.
    pub accepted: String,
    /// The same.
    pub programmed: String,
    /// The same.
    pub ready: String,
    /// In force on n of m nodes.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub nodes: String,
    /// How many pods it selects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods: Option<i64>,
    /// Why it is not ready.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub why: String,
}

impl Overview {
    /// How things stand at this time, which is the API server's. Only policies count where a namespace is
    /// meant.
    pub fn of(objects: &Objects, now: Timestamp, policies_alone: bool) -> Self {
        let controller = objects.leases.as_ref().map(|it| controller(it, now));
        let mut nodes = nodes(objects);
        let unheard = expect(objects.agents.as_deref(), &mut nodes);
        // That no agent says anything where it leaves is as it should be.
        let leaves = objects.agents.iter().flatten().any(|it| it.leaving);
        let unheard = unheard.filter(|_| !leaves);
        if leaves {
            nodes.iter_mut().for_each(|node| node.meant = false);
        }
        let policies: Vec<Policy> = objects.policies.iter().map(policy).collect();
        let mut missing = Vec::new();
        if !policies_alone {
            missing.extend(controller.as_ref().and_then(|it| it.missing(&policies)));
            missing.extend(keepers("controller", objects.controllers.as_deref()));
            missing.extend(without_keeper(objects.agents.as_deref()));
            missing.extend(keepers("agents", objects.agents.as_deref()));
            missing.extend(unheard.iter().map(|it| format!("agents: {it}")));
            missing.extend(nodes.iter().flat_map(Node::missing));
        }
        missing.extend(policies.iter().filter_map(Policy::missing));
        Self {
            ready: missing.is_empty(),
            controller,
            workloads: [&objects.agents, &objects.controllers]
                .into_iter()
                .flatten()
                .flatten()
                .cloned()
                .collect(),
            nodes,
            unheard,
            policies,
            missing,
        }
    }
}

fn text<'v>(value: &'v Value, path: &str) -> Option<&'v str> {
    value.pointer(path).and_then(Value::as_str)
}

/// What DaemonSets and Deployments lack. A report is no sign of life: it outlives the agent.
fn keepers(of: &str, workloads: Option<&[Workload]>) -> Vec<String> {
    let lacking = workloads.into_iter().flatten().filter_map(Workload::lacks);
    lacking.map(|lacks| format!("{of}: {lacks}")).collect()
}

fn without_keeper(agents: Option<&[Workload]>) -> Option<String> {
    agents
        .is_some_and(<[Workload]>::is_empty)
        .then(|| "agents: there is no DaemonSet that keeps any running".to_owned())
}

/// Finds out who is meant to have an agent: as many nodes as the DaemonSets are scheduled on. Where there
/// are more of them, it is not known which, and how many have said nothing is told in words.
fn expect(agents: Option<&[Workload]>, nodes: &mut [Node]) -> Option<String> {
    let agents = agents.filter(|it| !it.is_empty())?;
    let desired: i64 = agents.iter().map(|it| it.desired).sum();
    let wanted = usize::try_from(desired).unwrap_or_default();
    if nodes.len() == wanted {
        return None;
    }
    let heard = nodes.iter().filter(|it| it.agent.is_some()).count();
    let mut silent = Vec::new();
    for node in nodes.iter_mut().filter(|it| it.agent.is_none()) {
        node.meant = false;
        silent.push(node.name.as_str());
    }
    let among = match &silent[..] {
        [] => String::new(),
        silent => format!(
            "; nothing has come from {}",
            list_names(silent, LISTED_NAMES)
        ),
    };
    (heard < wanted).then(|| {
        format!("they are to run on {wanted} nodes, and have said something on {heard}{among}")
    })
}

fn controller(leases: &[Value], now: Timestamp) -> Controller {
    let leases = leases
        .iter()
        .filter_map(|it| serde_json::from_value::<Lease>(it.clone()).ok());
    // Of several, as when it was moved to another namespace, the one that was renewed last.
    let renewed = |lease: &Lease| {
        let spec = lease.spec.as_ref()?;
        Some(spec.renew_time.as_ref()?.0)
    };
    let Some(lease) = leases.max_by_key(renewed) else {
        return Controller {
            leader: None,
            namespace: None,
            silent_since: None,
        };
    };
    let renewed = renewed(&lease);
    let spec = lease.spec.unwrap_or_default();
    let holder = spec.holder_identity.filter(|it| !it.is_empty());
    let lasts = i64::from(spec.lease_duration_seconds.unwrap_or_default());
    let until = renewed.map(|it| it.as_second() + lasts);
    let is_over = until.is_none_or(|until| until < now.as_second());
    Controller {
        silent_since: renewed
            .filter(|_| is_over || holder.is_none())
            .map(|it| it.to_string()),
        leader: holder,
        namespace: lease.metadata.namespace,
    }
}

fn nodes(objects: &Objects) -> Vec<Node> {
    let mut reports: BTreeMap<String, &Value> = BTreeMap::new();
    for report in objects.reports.iter().flatten() {
        let name = text(report, "/metadata/name").unwrap_or_default();
        reports.insert(name.to_owned(), report);
    }
    let agents = objects.agents.as_deref().unwrap_or_default();
    let served = |node: &&Value| {
        is_served(node) && (agents.is_empty() || agents.iter().any(|it| it.is_for(node)))
    };
    let known = objects.nodes.iter().flatten().filter(served);
    let known = known.filter_map(|node| Some(text(node, "/metadata/name")?.to_owned()));
    let mut names: BTreeSet<String> = known.collect();
    if objects.nodes.is_none() {
        names.extend(reports.keys().cloned());
    }
    let nodes = names.into_iter().map(|name| node(reports.get(&name), name));
    nodes.collect()
}

/// True where an agent is meant to run: the manifests ask for Linux on x86-64.
fn is_served(node: &Value) -> bool {
    let is = |path: &str, right: &str| text(node, path).is_none_or(|it| it == right);
    is("/status/nodeInfo/operatingSystem", "linux") && is("/status/nodeInfo/architecture", "amd64")
}

fn node(report: Option<&&Value>, name: String) -> Node {
    let typed =
        report.and_then(|it| serde_json::from_value::<NetworkQoSNodeReport>((**it).clone()).ok());
    let all = typed.iter().flat_map(|it| &it.problems);
    let (left, wrong): (Vec<&NodeProblem>, Vec<&NodeProblem>) = all.partition(|it| {
        let mut reasons = LEFT.iter();
        reasons.any(|left| left.to_string() == it.reason)
    });
    let said = |problem: &&NodeProblem| {
        let namespace = problem.namespace.iter().map(|it| format!("{it}/"));
        let object: String = namespace.chain([problem.name.clone()]).collect();
        let (kind, reason, message) = (&problem.kind, &problem.reason, &problem.message);
        format!("{kind} {object}: {reason}: {message}")
    };
    let mut problems: Vec<String> = wrong.iter().map(said).collect();
    let more = typed.as_ref().and_then(|it| it.more_problems);
    problems.extend(more.map(|more| format!("and {more} more")));
    Node {
        reported: report.and_then(|it| written(it)),
        policies: typed.as_ref().map_or(0, |it| it.policies.len()),
        left: left.iter().map(said).collect(),
        problems,
        agent: typed.map(|it| it.agent_version),
        meant: true,
        name,
    }
}

/// When an object was written last.
fn written(object: &Value) -> Option<String> {
    let managers = object.pointer("/metadata/managedFields");
    let managers = managers.and_then(Value::as_array);
    let times = managers
        .into_iter()
        .flatten()
        .filter_map(|it| text(it, "/time"));
    let last = times.max();
    let last = last.or_else(|| text(object, "/metadata/creationTimestamp"));
    last.map(str::to_owned)
}

fn policy(object: &Value) -> Policy {
    let generation = object.pointer("/metadata/generation");
    let generation = generation.and_then(Value::as_i64).unwrap_or_default();
    let name = format!(
        "{}/{}",
        text(object, "/metadata/namespace").unwrap_or_default(),
        text(object, "/metadata/name").unwrap_or_default()
    );
    let status = object.get("status").cloned();
    let status = status.and_then(|it| serde_json::from_value::<NetworkQosStatus>(it).ok());
    let status = status.unwrap_or_default();
    let conditions = status.conditions.unwrap_or_default();
    let said = |type_: &str| {
        let condition = conditions.iter().find(|it| it.type_ == type_);
        // What was said of an older generation says nothing of this one.
        condition.filter(|it| it.observed_generation >= Some(generation))
    };
    let holds = |type_: &str| said(type_).map_or("Unknown", |it| &it.status).to_owned();
    let why = match said("Ready") {
        None => format!("nothing is said of generation {generation} yet"),
        Some(ready) if ready.status == "True" => String::new(),
        Some(ready) => format!("{}: {}", ready.reason, ready.message),
    };
    Policy {
        name,
        accepted: holds("Accepted"),
        programmed: holds("Programmed"),
        ready: holds("Ready"),
        nodes: status.nodes.unwrap_or_default(),
        pods: status.selected_pods,
        why,
    }
}

impl Controller {
    /// Whether it leads, in words.
    pub fn words(&self) -> String {
        match self {
            Self { leader: None, .. } => "no replica leads".to_owned(),
            Self {
                leader: Some(leader),
                silent_since: Some(since),
                ..
            } => format!("{leader} led, and has not been heard of since {since}"),
            Self {
                leader: Some(leader),
                ..
            } => format!("{leader} leads"),
        }
    }

    /// True when one leads.
    pub fn leads(&self) -> bool {
        self.leader.is_some() && self.silent_since.is_none()
    }

    /// What is missing. Where there is no policy, none is missed.
    fn missing(&self, policies: &[Policy]) -> Option<String> {
        let leads = self.leads();
        let installed = self.leader.is_some() || self.silent_since.is_some();
        (!leads && (installed || !policies.is_empty()))
            .then(|| format!("controller: {}", self.words()))
    }
}

impl Node {
    fn missing(&self) -> Vec<String> {
        let name = &self.name;
        if self.agent.is_none() && !self.meant {
            return Vec::new();
        }
        if self.agent.is_none() {
            return vec![format!("Node {name}: no agent has said anything")];
        }
        let problems = self.problems.iter();
        problems
            .map(|problem| format!("Node {name}: {problem}"))
            .collect()
    }
}

impl Policy {
    fn missing(&self) -> Option<String> {
        let Self { name, why, .. } = self;
        (self.ready != "True").then(|| format!("NetworkQoS {name}: {why}"))
    }
}
