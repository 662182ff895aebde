//! How the agents of nodes do, as their pods tell.
//!
//! What an agent has put in force outlives it, and what is new while it is away is not in force. New is
//! what the node has started since: which of its pods that are is kept until the agent works again.
//!
//! Of a node on which no agent's pod was ever seen, its report says whether there should be one. Where it
//! does not, nothing is known: its agent may run outside of pods, and is not taken for dead.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use netqos_core::ObjectName;
use netqos_status::Agent;
use serde_json::Value;

/// What is said of a pod that runs on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodFacts {
    node: Arc<str>,
    /// When the node began to start it; `None`: it did not yet.
    started: Option<Timestamp>,
    /// It is labelled as one of an agent.
    agent: Option<AgentPod>,
}

/// A pod of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct AgentPod {
    /// `None`: it works; else since when it does not.
    away: Option<Timestamp>,
    /// It takes everything away.
    leaves: bool,
}

/// The agents of all nodes.
#[derive(Debug)]
pub(crate) struct Agents {
    /// Where their pods are: the controller's own namespace.
    namespace: Arc<str>,
    nodes: BTreeMap<Arc<str>, Node>,
    /// On which node each of their pods is.
    pods: HashMap<ObjectName, Arc<str>>,
    /// Pods of others that came while the agent was away: of each node where it is.
    late: BTreeMap<Arc<str>, BTreeSet<ObjectName>>,
    changed: BTreeSet<Arc<str>>,
    /// Nodes whose reports were written by a pod of the controller's namespace.
    reporting: BTreeSet<Arc<str>>,
    /// All pods are known.
    is_whole: bool,
}

/// A node on which a pod of an agent was seen.
#[derive(Debug, Default)]
struct Node {
    pods: BTreeMap<ObjectName, AgentPod>,
    away: Option<Timestamp>,
    leaves: bool,
}

impl PodFacts {
    /// What a pod says of itself; `None` where it is on no node.
    pub(crate) fn of(pod: &Value) -> Option<Self> {
        let text = |path: &str| pod.pointer(path).and_then(Value::as_str);
        let time = |path: &str| text(path)?.parse::<Timestamp>().ok();
        let node = text("/spec/nodeName").filter(|it| !it.is_empty())?;
        let label = |name: &str| text(&format!("/metadata/labels/{name}"));
        let is_agent = label("app.kubernetes.io~1name") == Some("netqos")
            && label("app.kubernetes.io~1component") == Some("agent");
        Some(Self {
            node: node.into(),
            started: time("/status/startTime"),
            agent: is_agent.then(|| AgentPod {
                away: away(pod, time("/metadata/creationTimestamp")),
                leaves: label("netqos.io~1leaving") == Some("true"),
            }),
        })
    }

    /// True where it is labelled as a pod of an agent.
    pub(crate) fn is_agent(&self) -> bool {
        self.agent.is_some()
    }
}

/// Since when a pod is not ready; `None`: it is.
fn away(pod: &Value, created: Option<Timestamp>) -> Option<Timestamp> {
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
    let mut conditions = conditions.into_iter().flatten();
    let ready = conditions.find(|it| it["type"] == "Ready");
    let ends = pod.pointer("/metadata/deletionTimestamp").is_some();
    match ready {
        Some(ready) if ready["status"] == "True" => ends.then(Timestamp::now),
        Some(ready) => {
            let since = ready["lastTransitionTime"].as_str();
            let since = since.and_then(|it| it.parse().ok());
            Some(since.or(created).unwrap_or_else(Timestamp::now))
        }
        None => Some(created.unwrap_or_else(Timestamp::now)),
    }
}

impl Agents {
    /// Those whose pods are in this namespace.
    pub(crate) fn new(namespace: &str) -> Self {
        Self {
            namespace: namespace.into(),
            nodes: BTreeMap::new(),
            pods: HashMap::new(),
            late: BTreeMap::new(),
            changed: BTreeSet::new(),
            reporting: BTreeSet::new(),
            is_whole: false,
        }
    }

    /// A pod is so. Where many come together, those of agents are to be told first.
    pub(crate) fn there(&mut self, name: &ObjectName, facts: Option<&PodFacts>) {
        let Some(facts) = facts else {
            return;
        };
        match facts.agent.filter(|_| name.namespace == self.namespace) {
            Some(agent) => {
                self.pods.insert(name.clone(), facts.node.clone());
                let node = self.nodes.entry(facts.node.clone()).or_default();
                node.pods.insert(name.clone(), agent);
                self.settle(&facts.node);
            }
            None => self.came(name, facts),
        }
    }

    /// Which pods were there already is said by the node's own clock, as is since when its agent is not
    /// ready.
    fn came(&mut self, name: &ObjectName, facts: &PodFacts) {
        let Some(late) = self.late.get_mut(&facts.node) else {
            return;
        };
        let since = self.nodes.get(&facts.node).and_then(|node| node.away);
        let is_new = facts.started.is_none_or(|started| Some(started) > since);
        if is_new && late.insert(name.clone()) {
            self.changed.insert(facts.node.clone());
        }
    }

    /// A pod is gone.
    pub(crate) fn gone(&mut self, name: &ObjectName) {
        for (node, late) in &mut self.late {
            if late.remove(name) {
                self.changed.insert(node.clone());
            }
        }
        if let Some(node) = self.pods.remove(name)
            && let Some(known) = self.nodes.get_mut(&node)
        {
            known.pods.remove(name);
            self.settle(&node);
        }
    }

    /// The report of a node was written by an agent in this pod (`namespace/name`), or in none, or is gone. Of
    /// one in another namespace nothing would ever be seen.
    pub(crate) fn said(&mut self, node: &Arc<str>, pod: Option<&str>) {
        let namespace = pod.and_then(|pod| Some(pod.split_once('/')?.0));
        if namespace == Some(&*self.namespace) {
            self.reporting.insert(node.clone());
            self.miss(node);
        } else if self.reporting.remove(node)
            && self.nodes.get(node).is_some_and(|it| it.pods.is_empty())
        {
            self.node_gone(node);
            self.changed.insert(node.clone());
        }
    }

    /// All pods are known from now on.
    pub(crate) fn all_told(&mut self) {
        self.is_whole = true;
        let reporting: Vec<Arc<str>> = self.reporting.iter().cloned().collect();
        reporting.iter().for_each(|node| self.miss(node));
    }

    /// Where an agent was, and nobody has seen its pod, it is away; since when, nobody knows.
    fn miss(&mut self, node: &Arc<str>) {
        if self.is_whole && !self.nodes.contains_key(node) {
            self.nodes.insert(node.clone(), Node::default());
            self.settle(node);
        }
    }

    /// A node is gone.
    pub(crate) fn node_gone(&mut self, node: &Arc<str>) {
        self.nodes.remove(node);
        self.late.remove(node);
    }

    /// Finds out how the agent of a node does now.
    fn settle(&mut self, name: &Arc<str>) {
        let Some(node) = self.nodes.get_mut(name) else {
            return;
        };
        let pods = || node.pods.values();
        // That it was left stays so until an agent comes again.
        let leaves = pods().any(|pod| pod.leaves) || (node.pods.is_empty() && node.leaves);
        let works = pods().any(|pod| pod.away.is_none() && !pod.leaves);
        let since = pods().filter_map(|pod| pod.away).min();
        let away = match works {
            true => None,
            false => Some(node.away.or(since).unwrap_or_else(Timestamp::now)),
        };
        if (leaves, away.is_some()) != (node.leaves, node.away.is_some()) {
            self.changed.insert(name.clone());
        }
        match away {
            None => drop(self.late.remove(name)),
            Some(_) => drop(self.late.entry(name.clone()).or_default()),
        }
        (node.leaves, node.away) = (leaves, away);
    }

    /// How the agent of a node does.
    pub(crate) fn of(&self, node: &str) -> Agent<'_> {
        match (self.nodes.get(node), self.late.get(node)) {
            (Some(node), _) if node.leaves => Agent::Leaves,
            (Some(_), Some(late)) => Agent::NotReady(late),
            _ => Agent::Works,
        }
    }

    /// The nodes of which anything is known.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = &Arc<str>> {
        self.nodes.keys()
    }

    /// The nodes that everything is taken away from.
    pub(crate) fn left(&self) -> impl Iterator<Item = &Arc<str>> {
        let left = self.nodes.iter().filter(|(_, node)| node.leaves);
        left.map(|(name, _)| name)
    }

    /// The nodes of which something is other than before.
    pub(crate) fn take_changed(&mut self) -> BTreeSet<Arc<str>> {
        std::mem::take(&mut self.changed)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const HOME: &str = "netqos-system";

    fn agent(ready: Option<(bool, &str)>, leaves: bool) -> PodFacts {
        let leaving = if leaves { "true" } else { "false" };
        let conditions = ready.map(|(ready, since)| {
            json!([{
                "type": "Ready", "status": if ready { "True" } else { "False" },
                "lastTransitionTime": since
            }])
        });
        let pod = json!({
            "metadata": {
                "creationTimestamp": "2026-01-01T10:00:00Z",
                "labels": {
                    "app.kubernetes.io/name": "netqos", "app.kubernetes.io/component": "agent",
                    "netqos.io/leaving": leaving
                }
            },
            "spec": {"nodeName": "node1"},
            "status": {"conditions": conditions}
        });
        PodFacts::of(&pod).unwrap()
    }

    fn pod(started: Option<&str>) -> PodFacts {
        let pod = json!({"spec": {"nodeName": "node1"}, "status": {"startTime": started}});
        PodFacts::of(&pod).unwrap()
    }

    fn name(name: &str) -> ObjectName {
        ObjectName::new("games", name)
    }

    fn late(agents: &Agents) -> Vec<String> {
        match agents.of("node1") {
            Agent::NotReady(late) => late.iter().map(|it| it.name.to_string()).collect(),
            other => vec![format!("{other:?}")],
        }
    }

    #[test]
    fn what_has_come_since_the_agent_went_is_late_until_it_works_again() {
        let mut agents = Agents::new(HOME);
        let of_agent = ObjectName::new(HOME, "agent");
        agents.there(&name("new"), Some(&pod(Some("2026-01-01T12:00:00Z"))));
        assert_eq!(late(&agents), ["Works"], "nobody knows of an agent there");
        agents.there(
            &of_agent,
            Some(&agent(Some((false, "2026-01-01T11:00:00Z")), false)),
        );
        assert_eq!(agents.take_changed().len(), 1);
        assert_eq!(late(&agents), [""; 0]);
        for (pod_name, started) in [
            ("old", Some("2026-01-01T10:59:00Z")),
            ("new", Some("2026-01-01T11:01:00Z")),
            ("starts", None),
        ] {
            agents.there(&name(pod_name), Some(&pod(started)));
        }
        assert_eq!(late(&agents), ["new", "starts"]);
        agents.gone(&name("starts"));
        // What it says later does not make it one that was there before.
        assert_eq!(late(&agents), ["new"]);
        // Gone, and another in its place, which does not work yet: it is the same absence.
        agents.gone(&of_agent);
        let next = ObjectName::new(HOME, "next");
        agents.there(&next, Some(&agent(None, false)));
        assert_eq!(late(&agents), ["new"]);
        agents.take_changed();
        agents.there(
            &next,
            Some(&agent(Some((true, "2026-01-01T13:00:00Z")), false)),
        );
        assert_eq!(
            (late(&agents), agents.take_changed().len()),
            (vec!["Works".to_owned()], 1)
        );
        agents.there(&name("newest"), Some(&pod(None)));
        assert_eq!(late(&agents), ["Works"]);
        // One that says that it is the agent, and is in another namespace.
        let mut agents = Agents::new(HOME);
        agents.there(&name("agent"), Some(&agent(None, false)));
        assert_eq!(late(&agents), ["Works"]);
    }

    #[test]
    fn who_has_reported_and_is_no_more_is_missed_by_who_has_never_seen_him() {
        let (mut agents, node) = (Agents::new(HOME), Arc::from("node1"));
        let of_agent = ObjectName::new(HOME, "agent");
        let pod_of_agent = format!("{HOME}/agent");
        agents.said(&node, Some(&pod_of_agent));
        agents.there(&name("old"), Some(&pod(Some("2026-01-01T12:00:00Z"))));
        assert_eq!(late(&agents), ["Works"], "its pod may come yet");
        agents.all_told();
        assert_eq!(
            (late(&agents), agents.take_changed().len()),
            (Vec::<String>::new(), 1)
        );
        agents.there(&name("new"), Some(&pod(None)));
        assert_eq!(late(&agents), ["new"]);
        // One that runs as a service of the node, or in another namespace, has taken its place.
        agents.said(&node, Some("elsewhere/agent"));
        assert_eq!(
            (late(&agents), agents.take_changed().len()),
            (vec!["Works".to_owned()], 1)
        );
        // One that comes to a new node may tell of itself before its pod is heard of.
        agents.said(&node, Some(&pod_of_agent));
        let works = agent(Some((true, "2026-01-01T11:00:00Z")), false);
        agents.there(&of_agent, Some(&works));
        assert_eq!(late(&agents), ["Works"]);
        // Nobody says any more that it runs in a pod; there is one.
        agents.said(&node, None);
        agents.gone(&of_agent);
        assert_eq!(late(&agents), [""; 0]);
    }

    #[test]
    fn a_node_that_was_left_stays_so_until_an_agent_comes() {
        let mut agents = Agents::new(HOME);
        let of_agent = ObjectName::new(HOME, "agent");
        agents.there(
            &of_agent,
            Some(&agent(Some((true, "2026-01-01T11:00:00Z")), false)),
        );
        agents.gone(&of_agent);
        let leaving = ObjectName::new(HOME, "leaving");
        agents.there(
            &leaving,
            Some(&agent(Some((true, "2026-01-01T12:00:00Z")), true)),
        );
        assert_eq!(late(&agents), ["Leaves"]);
        assert_eq!(agents.left().count(), 1);
        agents.gone(&leaving);
        assert_eq!(late(&agents), ["Leaves"]);
        agents.there(&of_agent, Some(&agent(None, false)));
        assert_eq!(late(&agents), [""; 0]);
        agents.there(
            &of_agent,
            Some(&agent(Some((true, "2026-01-01T13:00:00Z")), false)),
        );
        assert_eq!(
            (late(&agents), agents.left().count()),
            (vec!["Works".to_owned()], 0)
        );
        agents.node_gone(&"node1".into());
        assert_eq!(late(&agents), ["Works"]);
    }
}
