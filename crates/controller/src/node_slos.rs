//! Writes a NodeSLO for each node from the ConfigMap `slo-controller-config`, where Koordinator's
//! manager does not.
//!
//! ```text
//!   ConfigMap ──► Source ─┐
//!                         ├─ for_node ──► spec ──differs?──► apply (our fields alone)
//!   Node ──► NodeFacts ───┘                  ▲
//!   NodeSLO ──► ObjectFacts: what is ours ───┘
//! ```
//!
//! Who writes is known by the manager's pods. Where they are gone, or never were, what is left of
//! theirs in an object is taken over once; who then writes it again is at work after all, wherever its
//! pods are, and is left alone. Fields that anybody else has written are theirs.
//!
//! A node of which the ConfigMap says nothing of the network gets none, and is left nothing of what was
//! written before, such as the defaults that older versions wrote.
//!
//! What cannot be followed changes nothing: the node keeps what it was told last, and an event, a
//! metric and the log say what is wrong, and where.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream;
use kube::Client;
use netqos_cluster::ObjectVersion;
use netqos_coexistence::Enforce;
use netqos_core::{ObjectName, with_causes};
use serde_json::{Map, Value, json};
use tokio::time::{Instant, timeout};

use crate::events::Events;
use crate::metrics::{Metrics, Outcome};

mod applied;
mod config;
mod facts;
mod tell;
mod write;

use applied::is_koordinators;
use config::{Source, Wrong, told};
pub(crate) use facts::{ConfigFacts, NodeFacts, ObjectFacts};
use tell::State;
use write::{Failure, Write};

const RESOURCE: &str = "nodeslos";
/// How many are written in one look, and at the same time.
const MOST: usize = 64;
const AT_ONCE: usize = 8;
/// How long a write may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long to wait after a write that failed.
const AGAIN: Duration = Duration::from_secs(5);

/// The NodeSLO objects of a cluster.
pub(crate) struct NodeSlos {
    client: Client,
    enforce: Enforce,
    config_map: ObjectName,
    source: Source,
    nodes: BTreeMap<Arc<str>, NodeFacts>,
    objects: BTreeMap<Arc<str>, ObjectFacts>,
    /// Nodes that are to be looked at, and when.
    due: BTreeMap<Arc<str>, Instant>,
    states: BTreeMap<Arc<str>, State>,
    /// The states of objects that were found to be outdated, by their nodes.
    outdated: BTreeMap<Arc<str>, Option<ObjectVersion>>,
    /// Nodes of which fields of its manager's were taken over, and when that had written last.
    taken_over: BTreeMap<Arc<str>, Option<String>>,
    /// Its manager writes what was taken over.
    writes_again: bool,
    /// The manager writes them, and not we.
    elsewhere: bool,
    /// What was told of the ConfigMap, and of the definition.
    told: Wrong,
    told_undefined: bool,
    metrics: Metrics,
    events: Events,
}

/// What is to be done about a node.
enum Due {
    Never,
    Now(Write),
}

impl NodeSlos {
    pub(crate) fn new(
        client: Client,
        enforce: Enforce,
        config_map: ObjectName,
        metrics: Metrics,
        events: Events,
    ) -> Self {
        Self {
            client,
            enforce,
            config_map,
            source: Source::default(),
            nodes: BTreeMap::new(),
            objects: BTreeMap::new(),
            due: BTreeMap::new(),
            states: BTreeMap::new(),
            outdated: BTreeMap::new(),
            taken_over: BTreeMap::new(),
            writes_again: false,
            elsewhere: false,
            told: Wrong::default(),
            told_undefined: false,
            metrics,
            events,
        }
    }

    /// The ConfigMap is there, or has changed; `None`: it is gone.
    pub(crate) fn config(&mut self, facts: Option<ConfigFacts>) {
        match facts {
            Some(facts) => self.source.there(&facts.uid, &facts.data),
            None => self.source.gone(),
        }
        self.touch_all();
    }

    /// A node is there, or has changed; `None`: it is gone, and the server takes what goes with it.
    pub(crate) fn node(&mut self, name: &Arc<str>, facts: Option<NodeFacts>) {
        let Some(facts) = facts else {
            self.nodes.remove(name);
            self.due.remove(name);
            self.states.remove(name);
            self.outdated.remove(name);
            self.taken_over.remove(name);
            return;
        };
        // Most of what a Node tells is that it is alive.
        if self.nodes.get(name) != Some(&facts) {
            self.nodes.insert(name.clone(), facts);
            self.touch(name);
        }
    }

    /// A NodeSLO is there, or has changed; `None`: it is gone.
    pub(crate) fn object(&mut self, name: &Arc<str>, facts: Option<ObjectFacts>) {
        match facts {
            Some(facts) => {
                let known = self.objects.get(name);
                // What was told before it was written by us is old, and all is told again at times.
                if known.is_some_and(|known| {
                    facts.version.number < known.version.number || facts == *known
                }) {
                    return;
                }
                self.objects.insert(name.clone(), facts);
            }
            None => drop(self.objects.remove(name)),
        }
        self.touch(name);
    }

    fn touch(&mut self, node: &Arc<str>) {
        if self.nodes.contains_key(node) {
            self.due.insert(node.clone(), Instant::now());
        }
    }

    /// Every node's may be other than it should be.
    pub(crate) fn touch_all(&mut self) {
        let now = Instant::now();
        self.due = self.nodes.keys().map(|node| (node.clone(), now)).collect();
    }

    /// Somebody else writes from now on, and tells.
    pub(crate) fn resign(&mut self) {
        self.states.clear();
        self.told = Wrong::default();
        self.told_undefined = false;
    }

    /// Writes what is due. To be called by the leader alone, once all is known. `at_work`:
    /// Koordinator's manager is. `is_undefined`: the server does not know the kind.
    pub(crate) async fn round(&mut self, at_work: bool, is_undefined: bool) {
        self.heed(at_work);
        if self.elsewhere {
            self.count();
            return;
        }
        self.tell_of_source(is_undefined);
        if !is_undefined {
            let writes = self.writes();
            if !writes.is_empty() {
                self.write(writes).await;
            }
        }
        self.count();
    }

    /// Leaves them to Koordinator's manager, or takes them back.
    fn heed(&mut self, at_work: bool) {
        let elsewhere = match self.enforce {
            Enforce::Never => true,
            Enforce::Always => false,
            Enforce::Auto => at_work || self.writes_again,
        };
        self.metrics.node_slo_elsewhere(elsewhere);
        if elsewhere == self.elsewhere {
            return;
        }
        self.elsewhere = elsewhere;
        if elsewhere {
            tracing::info!("NodeSLO objects are left to Koordinator's manager, which is at work");
            self.resign();
            for (reason, ..) in Wrong::default().said() {
                self.metrics.slo_config_problems(reason, 0);
            }
        } else {
            tracing::info!(
                "Koordinator's manager is not at work: NodeSLO objects are written here"
            );
            self.taken_over.clear();
            self.touch_all();
        }
    }

    /// What is due now.
    fn writes(&mut self) -> Vec<Write> {
        let now = Instant::now();
        let due = self.due.iter().filter(|(_, at)| **at <= now);
        let names: Vec<Arc<str>> = due.map(|(name, _)| name.clone()).collect();
        let mut writes = Vec::new();
        for name in names {
            if writes.len() == MOST {
                break;
            }
            match self.look(&name) {
                Due::Never => drop(self.due.remove(&name)),
                Due::Now(write) => writes.push(write),
            }
        }
        writes
    }

    /// What is to be done about a node.
    fn look(&mut self, name: &Arc<str>) -> Due {
        let (Some(node), Some(config)) = (self.nodes.get(name), self.source.good()) else {
            return Due::Never;
        };
        let slo = config.for_node(&node.labels, &node.annotations);
        let slo = slo.and_then(|slo| slo.check().map(|()| slo));
        let object = self.objects.get(name);
        let applied = object.and_then(|it| it.applied.as_ref());
        let spec = match slo {
            Ok(slo) if slo.is_silent() => applied.map(|_| silent_spec()),
            Ok(slo) => Some(slo.to_spec()),
            Err(mistakes) => {
                let why = told(&mistakes);
                self.becomes(name, State::Kept(why));
                return Due::Never;
            }
        };
        let is_owned = object.is_some_and(|it| it.owners.contains(&node.uid));
        let Some(spec) = spec.filter(|spec| applied != Some(spec) || !is_owned) else {
            self.becomes(name, State::Current);
            return Due::Never;
        };
        Due::Now(Write {
            node: name.clone(),
            uid: node.uid.clone(),
            spec,
            version: self.objects.get(name).map(|object| object.version.clone()),
            force: self.enforce == Enforce::Always,
        })
    }

    async fn write(&mut self, writes: Vec<Write>) {
        let client = self.client.clone();
        let mut written = stream::iter(writes)
            .map(|write| {
                let client = client.clone();
                async move {
                    let answer = timeout(PATIENCE, write.put(client)).await;
                    (write, answer)
                }
            })
            .buffer_unordered(AT_ONCE);
        let mut again = Vec::new();
        while let Some((write, answer)) = written.next().await {
            match answer {
                Ok(Ok(version)) => self.wrote(write, version),
                Ok(Err(Failure::Theirs(managers))) => {
                    again.extend(self.is_theirs(write, &managers));
                }
                // It stays due: the next term looks at all of them.
                Ok(Err(Failure::NotLeading)) => {}
                Ok(Err(Failure::Outdated(_))) if self.is_first_refusal(&write) => {
                    self.due.insert(write.node, Instant::now() + AGAIN);
                }
                failed => {
                    let why = match failed {
                        Ok(Err(Failure::Outdated(why) | Failure::Refused(why))) => {
                            with_causes(&why)
                        }
                        _ => format!("no answer in {} s", PATIENCE.as_secs()),
                    };
                    tracing::warn!("the NodeSLO of {} could not be written: {why}", write.node);
                    self.due.insert(write.node, Instant::now() + AGAIN);
                    self.metrics.wrote(RESOURCE, Outcome::Failed);
                }
            }
        }
        drop(written);
        if !again.is_empty() {
            Box::pin(self.write(again)).await;
        }
    }

    /// Returns true if the object is not in the state that this was written for, and that was not found out before.
    fn is_first_refusal(&mut self, write: &Write) -> bool {
        let known = write.version.clone();
        let before = self.outdated.insert(write.node.clone(), known);
        before.as_ref() != Some(&write.version)
    }

    fn wrote(&mut self, write: Write, version: ObjectVersion) {
        self.due.remove(&write.node);
        self.outdated.remove(&write.node);
        self.metrics.wrote(RESOURCE, Outcome::Done);
        if write.spec == silent_spec() {
            let (node, config_map) = (&write.node, &self.config_map);
            tracing::info!(%node, %config_map, "took the network out of the NodeSLO: the ConfigMap says nothing of it");
        }
        let known = self.objects.get(&write.node);
        let facts = ObjectFacts {
            applied: Some(write.spec),
            owners: vec![write.uid],
            koordinators: known.and_then(|it| it.koordinators.clone()),
            version,
        };
        self.objects.insert(write.node.clone(), facts);
        self.becomes(&write.node, State::Current);
    }

    /// Others have fields of ours. Gives back what is to be written by force.
    fn is_theirs(&mut self, write: Write, managers: &[String]) -> Option<Write> {
        self.due.remove(&write.node);
        if managers.iter().all(|it| is_koordinators(it)) {
            let object = self.objects.get(&write.node);
            let wrote = object.and_then(|it| it.koordinators.clone());
            let before = self.taken_over.get(&write.node);
            if before.is_none_or(|before| wrote <= *before) {
                tracing::info!(
                    "the NodeSLO of {} is taken over from {managers:?}",
                    write.node
                );
                self.taken_over.insert(write.node.clone(), wrote);
                return Some(Write {
                    force: true,
                    ..write
                });
            }
            tracing::warn!(
                "{managers:?} writes the NodeSLO of {} again: it is at work, though none of its pods is in \
                 the namespaces of Koordinator (--koordinator-namespaces)",
                write.node
            );
            self.writes_again = true;
            return None;
        }
        let who = managers.join(", ");
        let why = format!(
            "{who} has written other shares into its NodeSLO than the ConfigMap {} has: they stay. Take \
             them out of it, or have netqos write it all the same (--node-slo always)",
            self.config_map
        );
        self.becomes(&write.node, State::Left(why));
        None
    }
}

/// What is left in place of what was written before: a total of zero, which says nothing of the network. An object without
/// any field would not be one of the kind.
fn silent_spec() -> Map<String, Value> {
    let system = json!({"totalNetworkBandwidth": "0"});
    Map::from_iter([("systemStrategy".to_owned(), system)])
}
