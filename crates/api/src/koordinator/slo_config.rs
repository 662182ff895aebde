//! The ConfigMap `slo-controller-config`, as far as the network is concerned.
//!
//! Two of its keys count: `resource-qos-config` and `system-config`, each a JSON text
//!
//! ```json
//! {"clusterStrategy": {…}, "nodeStrategies": [{"name": "…", "nodeSelector": {…}, …}]}
//! ```
//!
//! A strategy is laid over the one before it field by field: the default, then the cluster's, then
//! that of the first node strategy whose selector chooses the node. What a later one does not say
//! stays; what it says wins, also when it is zero; null takes it away. That is Koordinator's
//! `MergeCfg`. In the proposal `system-config` stands inside `resource-qos-config`, which is read as
//! well; a key of its own goes before it.

use std::collections::BTreeMap;

use netqos_core::{BitRate, LabelSelector, Labels};
use serde_json::{Map, Value, json};

use super::amount::total;
use super::network_qos::{Mistake, NETWORK_KEYS, check_keys, field, is_one_of, join};
use super::node_slo::{ClassQos, NETWORK_QOS, NodeSlo, STRATEGY};
use super::selector;
use crate::near;

/// The key of the classes' shares.
pub const RESOURCE_QOS: &str = "resource-qos-config";
/// The key of the line's rate.
pub const SYSTEM: &str = "system-config";
/// What Koordinator's versions read in strategies of that key.
const SYSTEM_KEYS: [&str; 10] = [
    "name",
    "nodeSelector",
    "totalNetworkBandwidth",
    "minFreeKbytesFactor",
    "watermarkScaleFactor",
    "memcgReapBackGround",
    "pageCacheLimitEnabled",
    "schedIdleSaverWmark",
    "schedFeatures",
    "schedGroupIdentityEnabled",
];
/// The annotation of a node that says what its line carries, before all strategies.
pub const NODE_BANDWIDTH_ANNOTATION: &str = "node.koordinator.sh/network-bandwidth";

/// What the ConfigMap says of the network.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SloConfig {
    pub(super) resources: Strategies,
    pub(super) system: Strategies,
}

/// A key's strategies, still as they were written.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Strategies {
    cluster: Map<String, Value>,
    nodes: Vec<NodeStrategy>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct NodeStrategy {
    /// Its place in the list.
    pub(super) index: usize,
    /// Whom it is for.
    pub(super) selector: LabelSelector,
    /// What it says, and not what the cluster's does.
    pub(super) strategy: Map<String, Value>,
}

impl SloConfig {
    /// Takes over what the ConfigMap says. A key that is not there says what it says by default. A key
    /// in which something is wrong changes nothing: what it said before stays.
    ///
    /// # Errors
    /// Everything that is wrong, by its path.
    pub fn update(&mut self, data: &BTreeMap<String, String>) -> Result<(), Vec<Mistake>> {
        let keys = [RESOURCE_QOS, SYSTEM];
        let others = data.keys().filter(|key| !keys.contains(&key.as_str()));
        let misspelt = others.filter_map(|key| {
            let what = format!(
                "netqos and Koordinator read no such key; write {}",
                near(key, keys)?
            );
            Some(Mistake::new(key, what))
        });
        let mut mistakes: Vec<Mistake> = misspelt.collect();
        let resources = data.get(RESOURCE_QOS).map(|text| parse(RESOURCE_QOS, text));
        let mut nested = None;
        match resources {
            None => self.resources = Strategies::default(),
            Some(Err(mistake)) => mistakes.push(mistake),
            Some(Ok(document)) => {
                nested = field(&document, SYSTEM).cloned();
                match Strategies::read(RESOURCE_QOS, &document) {
                    Ok(strategies) => self.resources = strategies,
                    Err(wrong) => mistakes.extend(wrong),
                }
            }
        }
        let system = match (data.get(SYSTEM), &nested) {
            (Some(text), _) | (None, Some(Value::String(text))) => Some(parse(SYSTEM, text)),
            (None, Some(Value::Object(document))) => Some(Ok(document.clone())),
            (None, Some(Value::Null) | None) => None,
            (None, Some(_)) => Some(Err(Mistake::new(
                join(RESOURCE_QOS, SYSTEM),
                "is no object",
            ))),
        };
        match system.map(|read| read.map_err(|mistake| vec![mistake])) {
            // What stands inside of a text that cannot be read is not known.
            None if data.contains_key(RESOURCE_QOS) && !mistakes.is_empty() => {}
            None => self.system = Strategies::default(),
            Some(read) => match read.and_then(|document| Strategies::read(SYSTEM, &document)) {
                Ok(strategies) => self.system = strategies,
                Err(wrong) => mistakes.extend(wrong),
            },
        }
        if mistakes.is_empty() {
            Ok(())
        } else {
            Err(mistakes)
        }
    }

    /// What it says for a node. The line's rate is the annotation's, else the strategy's. Where it says nothing of the
    /// network, it says nothing of what is so by default either, nor does the annotation: no line is divided by it.
    ///
    /// # Errors
    /// The annotation cannot be read.
    pub fn for_node(
        &self,
        labels: &Labels,
        annotations: &BTreeMap<String, String>,
    ) -> Result<NodeSlo, Vec<Mistake>> {
        let mut mistakes = Vec::new();
        let (said, system) = (self.resources.of(labels), self.system.of(labels));
        let read = |resources: &Map<String, Value>, mistakes: &mut Vec<Mistake>| {
            NodeSlo::read((resources, RESOURCE_QOS), (&system, SYSTEM), mistakes)
        };
        let mut slo = read(&said, &mut mistakes);
        let is_silent = slo.is_silent();
        if !is_silent {
            mistakes.clear();
            slo = read(&with_defaults(&said), &mut mistakes);
        }
        match annotated(annotations) {
            Ok(Some(total)) if !is_silent => slo.total = Some(total),
            Ok(_) => {}
            Err(mistake) => mistakes.push(mistake),
        }
        if mistakes.is_empty() {
            Ok(slo)
        } else {
            Err(mistakes)
        }
    }
}

/// Returns true for a key of the ConfigMap that concerns the network, or is likely meant to.
pub fn concerns_network(key: &str) -> bool {
    near(key, [RESOURCE_QOS, SYSTEM]).is_some()
}

/// What a node's annotation says that its line carries; zero says nothing.
///
/// # Errors
/// It is no quantity.
pub fn annotated(annotations: &BTreeMap<String, String>) -> Result<Option<BitRate>, Mistake> {
    let Some(text) = annotations.get(NODE_BANDWIDTH_ANNOTATION) else {
        return Ok(None);
    };
    total(text).map_err(|error| Mistake::new(NODE_BANDWIDTH_ANNOTATION, error))
}

/// What is said of the classes, over what is so by default: 40, 30 and 30 hundredths of the line are
/// guaranteed, and all may have all of it.
fn with_defaults(said: &Map<String, Value>) -> Map<String, Value> {
    let class = || json!({"networkQOS": ClassQos::DEFAULT.to_object()});
    // The system's 40 are what the others leave: it asks for nothing, or nobody could ask for more
    // than 30 without saying so of the system as well.
    let mut strategy = Map::from_iter([("beClass".to_owned(), class())]);
    // Whoever speaks of LSR alone speaks of the level that both share. What cannot be read was refused
    // when it came.
    let system = Map::new();
    let of_nodes = NodeSlo::read((said, RESOURCE_QOS), (&system, SYSTEM), &mut Vec::new());
    let decides = |class: Option<ClassQos>| class.is_some_and(|it| it.decides());
    if !decides(of_nodes.lsr) || decides(of_nodes.ls) {
        strategy.insert("lsClass".to_owned(), class());
    }
    lay_over(&mut strategy, said);
    strategy
}

fn parse(key: &str, text: &str) -> Result<Map<String, Value>, Mistake> {
    if text.trim().is_empty() {
        return Ok(Map::new());
    }
    serde_json::from_str(text).map_err(|error| {
        let hint = "the key is passed over, and what it said before stays";
        Mistake::new(key, format!("is no JSON object: {error}; {hint}"))
    })
}

impl Strategies {
    fn read(key: &str, document: &Map<String, Value>) -> Result<Self, Vec<Mistake>> {
        let mut mistakes = Vec::new();
        let mut strategies = Self::default();
        check_keys(
            document,
            &["clusterStrategy", "nodeStrategies", SYSTEM],
            key,
            &mut mistakes,
        );
        match field(document, "clusterStrategy") {
            None | Some(Value::Null) => {}
            Some(Value::Object(cluster)) => strategies.cluster = cluster.clone(),
            Some(_) => mistakes.push(Mistake::new(
                format!("{key}.clusterStrategy"),
                "is no object",
            )),
        }
        check(
            key,
            &format!("{key}.clusterStrategy"),
            &strategies.cluster,
            &mut mistakes,
        );
        let nodes = match field(document, "nodeStrategies") {
            None | Some(Value::Null) => &[][..],
            Some(Value::Array(nodes)) => nodes,
            Some(_) => {
                mistakes.push(Mistake::new(format!("{key}.nodeStrategies"), "is no list"));
                &[]
            }
        };
        for (index, node) in nodes.iter().enumerate() {
            let path = format!("{key}.nodeStrategies[{index}]");
            let Value::Object(strategy) = node else {
                mistakes.push(Mistake::new(path, "is no object"));
                continue;
            };
            check(key, &path, strategy, &mut mistakes);
            match selector::read(field(strategy, "nodeSelector")) {
                // One without a selector is for no node, as in Koordinator.
                Ok(None) => {}
                Ok(Some(selector)) => strategies.nodes.push(NodeStrategy {
                    index,
                    selector,
                    strategy: strategy.clone(),
                }),
                Err(what) => mistakes.push(Mistake::new(join(&path, "nodeSelector"), what)),
            }
        }
        if mistakes.is_empty() {
            Ok(strategies)
        } else {
            Err(mistakes)
        }
    }

    /// What these say for a node.
    fn of(&self, labels: &Labels) -> Map<String, Value> {
        self.with(self.nodes.iter().find(|node| node.selector.matches(labels)))
    }

    /// The cluster's strategy, and a node's over that.
    pub(super) fn with(&self, node: Option<&NodeStrategy>) -> Map<String, Value> {
        let mut said = self.cluster.clone();
        if let Some(node) = node {
            lay_over(&mut said, &node.strategy);
        }
        said
    }

    /// What is of no use among the system's.
    pub(super) fn unknown_keys(&self) -> Vec<Mistake> {
        let cluster = (format!("{SYSTEM}.clusterStrategy"), &self.cluster);
        let nodes = self.nodes.iter();
        let nodes = nodes.map(|it| {
            (
                format!("{SYSTEM}.nodeStrategies[{}]", it.index),
                &it.strategy,
            )
        });
        let all = std::iter::once(cluster).chain(nodes);
        let unknown = all.flat_map(|(path, strategy)| {
            let keys = strategy.keys().filter(|key| !is_one_of(key, &SYSTEM_KEYS));
            let what = "netqos and Koordinator read no such key; what the uplinks carry is totalNetworkBandwidth";
            keys.map(move |key| Mistake::new(join(&path, key), what))
        });
        unknown.collect()
    }

    /// The cluster's strategy alone.
    pub(super) fn cluster(&self) -> &Map<String, Value> {
        &self.cluster
    }

    /// The nodes' strategies.
    pub(super) fn nodes(&self) -> &[NodeStrategy] {
        &self.nodes
    }

    /// The first strategy for just these nodes.
    pub(super) fn with_selector(&self, selector: &LabelSelector) -> Option<&NodeStrategy> {
        self.nodes.iter().find(|node| node.selector == *selector)
    }
}

/// Whether a strategy can be read, by itself.
fn check(key: &str, path: &str, strategy: &Map<String, Value>, mistakes: &mut Vec<Mistake>) {
    let nothing = Map::new();
    let (resources, system) = if key == SYSTEM {
        (&nothing, strategy)
    } else {
        (strategy, &nothing)
    };
    NodeSlo::read((resources, path), (system, path), mistakes);
    // Who writes a NodeSLO may know more; here nobody can mean it.
    for class in STRATEGY {
        let network = field(resources, class).and_then(|it| field(it.as_object()?, NETWORK_QOS));
        let keys = network.and_then(Value::as_object).into_iter().flatten();
        for (key, _) in keys.filter(|(key, _)| near(key, NETWORK_KEYS).is_none()) {
            let path = [path, class, NETWORK_QOS, key].join(".");
            let keys = NETWORK_KEYS.join(", ");
            let what = format!("netqos and Koordinator read no such key; write one of {keys}");
            mistakes.push(Mistake::new(path, what));
        }
    }
}

fn lay_over(under: &mut Map<String, Value>, over: &Map<String, Value>) {
    for (key, value) in over {
        let same = under.keys().find(|name| name.eq_ignore_ascii_case(key));
        let name = same.unwrap_or(key).clone();
        match (under.get_mut(&name), value) {
            (Some(Value::Object(under)), Value::Object(over)) => lay_over(under, over),
            _ => {
                under.insert(name, value.clone());
            }
        }
    }
}
