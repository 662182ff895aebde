//! What is known of a node's classes: what is said, as far as it is right, else what was right last.

use std::collections::BTreeMap;
use std::sync::Arc;

use netqos_api::koordinator::{
    BackendKind, Mistake, NODE_BANDWIDTH_ANNOTATION, NodeSlo, PodClass, SloConfig, annotated,
};
use netqos_core::objects::Node;
use netqos_core::{ObjectName, ObjectRef, Problem, Reason};

use super::ClassInput;

/// The label of a node that says who divides its lines.
pub const BACKEND_LABEL: &str = "netqos.io/class-backend";

/// What is known of one node.
#[derive(Debug)]
pub struct Knowledge {
    node: String,
    /// Who divides where nobody says another.
    default: BackendKind,
    config: SloConfig,
    slo: Option<NodeSlo>,
    label: Option<BackendKind>,
    pods: BTreeMap<Arc<str>, PodClass>,
    problems: Vec<Problem>,
}

impl Knowledge {
    /// Nothing yet.
    pub fn new(node: &str, default: BackendKind) -> Self {
        Self {
            node: node.to_owned(),
            default,
            config: SloConfig::default(),
            slo: None,
            label: None,
            pods: BTreeMap::new(),
            problems: Vec::new(),
        }
    }

    /// Takes note of all that is said now.
    pub fn hear(&mut self, input: &ClassInput) {
        self.problems.clear();
        let nothing = Node::default();
        let node = input.nodes.get(self.node.as_str()).unwrap_or(&nothing);
        self.hear_label(node);
        match (
            input.slos.get(self.node.as_str()),
            input.configs.first_key_value(),
        ) {
            (Some(Ok(slo)), _) => self.hear_slo(slo, node),
            (Some(Err(mistakes)), _) => {
                let about = format!("NodeSLO {}: spec", self.node);
                self.mistaken(&about, mistakes);
            }
            (None, Some((name, data))) => self.hear_config(name, data, node),
            (None, None) if self.slo.is_some() => self.wrong(
                "neither a NodeSLO of this node nor slo-controller-config is there any more; what it \
                 said stays in force. To share the lines no more, label the node \
                 netqos.io/class-backend=none"
                    .to_owned(),
            ),
            (None, None) => {}
        }
        let here = input.pods.iter();
        let here = here.filter(|(_, pod)| *pod.node == *self.node);
        self.pods = here
            .map(|(uid, pod)| {
                let class = pod.class.clone().or_last(self.pods.get(uid));
                (uid.clone(), class)
            })
            .collect();
    }

    fn hear_label(&mut self, node: &Node) {
        match node.labels.get(BACKEND_LABEL).map(|label| label.parse()) {
            None => self.label = None,
            Some(Ok(kind)) => self.label = Some(kind),
            Some(Err(why)) => self.wrong(format!(
                "metadata.labels[{BACKEND_LABEL}]: {why}; {} divides its lines as before",
                self.backend()
            )),
        }
    }

    fn hear_slo(&mut self, slo: &NodeSlo, node: &Node) {
        let mut slo = *slo;
        match annotated(&node.annotations) {
            Ok(None) => {}
            Ok(Some(total)) => slo.total = Some(total),
            Err(mistake) => {
                slo.total = self.slo.and_then(|last| last.total).or(slo.total);
                self.mistaken("metadata.annotations", &[mistake]);
            }
        }
        self.slo = Some(slo);
    }

    fn hear_config(&mut self, name: &ObjectName, data: &BTreeMap<String, String>, node: &Node) {
        let updated = self.config.update(data);
        let is_right = updated.is_ok();
        if let Err(mistakes) = updated {
            self.mistaken(&format!("ConfigMap {name}: data"), &mistakes);
        }
        match self.config.for_node(&node.labels, &node.annotations) {
            // What was never right says nothing, not even what would be so by default.
            Ok(slo) if is_right || self.slo.is_some() => self.slo = Some(slo),
            Ok(_) => {}
            Err(mistakes) => {
                let is_of_node = |it: &&Mistake| it.path == NODE_BANDWIDTH_ANNOTATION;
                let (of_node, others): (Vec<_>, Vec<_>) = mistakes.iter().partition(is_of_node);
                self.mistaken("metadata.annotations", of_node);
                self.mistaken(&format!("ConfigMap {name}: data"), others);
            }
        }
    }

    fn mistaken<'m>(&mut self, about: &str, mistakes: impl IntoIterator<Item = &'m Mistake>) {
        for mistake in mistakes {
            self.wrong(format!(
                "{about}.{mistake}; what it said before stays in force"
            ));
        }
    }

    fn wrong(&mut self, message: String) {
        self.problems.push(Problem {
            object: ObjectRef::Node(self.node.clone()),
            reason: Reason::InvalidClasses,
            message,
        });
    }

    /// What the node's lines are divided into. `None`: nobody has said it yet.
    pub fn slo(&self) -> Option<&NodeSlo> {
        self.slo.as_ref()
    }

    /// Who divides them: by the node's label, else by `netQOSPolicy`, else the default.
    pub fn backend(&self) -> BackendKind {
        let policy = || self.slo.and_then(|slo| slo.policy);
        self.label.or_else(policy).unwrap_or(self.default)
    }

    /// What a pod of this node says of its class.
    pub fn class(&self, uid: &str) -> Option<&PodClass> {
        self.pods.get(uid)
    }

    /// What is wrong with what is said. What is wrong with a pod says its reader.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }
}
