//! What is known of a node's classes: what is said, as far as it is right, else what was right last.
//!
//! Of how lines are shared objects speak first: the NodeSLO of the node, where that says anything of the
//! network, or else the ConfigMap. Where they are there and say nothing of it, nothing is divided, unless by one
//! of them that is gone. Where no object is there, or none ever said it right, the files of another
//! agent count ([`NetFiles`]). Of a pod they say what it does not say itself. Where terway-qos divides the
//! lines nothing is taken from them: they are what that backend writes, or koordlet.
//!
//! `netQOSPolicy` is read by koordlet, too. Where that is at work, what the policy names is koordlet's.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use netqos_api::koordinator::{
    BACKEND_LABEL, BackendKind, Mistake, NODE_BANDWIDTH_ANNOTATION, NodeSlo, PodClass, SloConfig,
    annotated,
};
use netqos_core::classes::Place;
use netqos_core::objects::Node;
use netqos_core::{ObjectName, ObjectRef, Problem, Reason};

use super::filed::{Filed, PODS_FILE};
use super::{ClassInput, Division, InputPod, KnownPod, NetFiles, Recorded, Source};

/// What is known of one node.
#[derive(Debug)]
pub struct Knowledge {
    node: String,
    /// Who divides where nobody says another.
    default: BackendKind,
    config: SloConfig,
    /// The ConfigMap could be read once.
    config_was_right: bool,
    slo: Option<NodeSlo>,
    /// Which object said that.
    source: Option<Source>,
    said: Said,
    /// Who divides as an agent before this one had it.
    recorded: Option<BackendKind>,
    label: Option<BackendKind>,
    /// koordlet is at work on the node.
    koordlet: bool,
    pods: BTreeMap<Arc<str>, PodClass>,
    filed: Filed,
    problems: Vec<Problem>,
    warnings: Vec<String>,
}

/// What objects say of how lines are shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    /// Something that can be followed.
    Right,
    /// Something, but nothing that can be.
    Wrong,
    /// That nothing is divided: an object is there, and says nothing of the network.
    Silent,
    /// Nothing.
    Nothing,
}

impl Knowledge {
    /// Nothing yet.
    pub fn new(node: &str, default: BackendKind) -> Self {
        Self {
            node: node.to_owned(),
            default,
            config: SloConfig::default(),
            config_was_right: false,
            slo: None,
            source: None,
            said: Said::Nothing,
            recorded: None,
            label: None,
            koordlet: false,
            pods: BTreeMap::new(),
            filed: Filed::default(),
            problems: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// Takes up what an agent before this one has kept, and who divides by that.
    pub fn restore(&mut self, kept: Option<&Recorded>, kind: Option<BackendKind>) {
        self.slo = kept.and_then(Recorded::slo);
        self.source = kept.map(|it| it.source).filter(|_| self.slo.is_some());
        self.recorded = kind;
    }

    /// Takes note of what files say, for when objects are heard the next time.
    pub fn hear_files(&mut self, files: Arc<NetFiles>) {
        self.filed.put(files);
    }

    /// Takes note of whether koordlet is at work on the node, for when objects are heard the next time;
    /// whether that is new.
    pub fn hear_koordlet(&mut self, is_at_work: bool) -> bool {
        std::mem::replace(&mut self.koordlet, is_at_work) != is_at_work
    }

    /// Takes note of all that objects say now.
    pub fn hear(&mut self, input: &ClassInput) {
        self.problems.clear();
        let nothing = Node::default();
        let node = input.nodes.get(self.node.as_str()).unwrap_or(&nothing);
        self.hear_label(node);
        let slo = input.slos.get(self.node.as_str());
        let is_silent = |slo: &Result<Box<NodeSlo>, _>| slo.as_ref().is_ok_and(|it| it.is_silent());
        let spoken = slo.filter(|slo| !is_silent(slo));
        let said = match (spoken, input.configs.first_key_value()) {
            (Some(Ok(slo)), _) => {
                self.hear_slo(slo, node);
                self.source = Some(Source::NodeSlo);
                Said::Right
            }
            (Some(Err(mistakes)), _) => {
                let about = format!("NodeSLO {}: spec", self.node);
                self.mistaken(&about, mistakes);
                Said::Wrong
            }
            (None, Some((name, data))) => match self.hear_config(name, data, node) {
                // It does not speak for a NodeSLO that is gone.
                Said::Silent if slo.is_none() && self.source == Some(Source::NodeSlo) => {
                    Said::Nothing
                }
                said => said,
            },
            // Nor does a NodeSLO for a ConfigMap that is gone.
            (None, None) if slo.is_some() && self.source != Some(Source::ConfigMap) => Said::Silent,
            (None, None) => Said::Nothing,
        };
        self.said = said;
        if said == Said::Silent {
            self.end(&match input.configs.first_key_value() {
                Some((name, _)) => format!("ConfigMap {name}"),
                None => format!("the NodeSLO of {}", self.node),
            });
        }
        if said == Said::Right
            && let Some(slo) = self.slo
        {
            self.warnings = slo.warnings().iter().map(ToString::to_string).collect();
        }
        let here = input.pods.values();
        let here: Vec<&InputPod> = here.filter(|pod| *pod.node == *self.node).collect();
        let classes = here.iter().map(|pod| {
            let uid = &pod.id.uid;
            let class = pod.class.clone().or_last(self.pods.get(uid));
            (uid.clone(), class)
        });
        self.pods = classes.collect();
        self.weigh_files(said, &here);
        if said == Said::Nothing && self.slo.is_some() {
            let gone = match slo {
                Some(_) => {
                    "slo-controller-config is not there any more, and the NodeSLO of this node says nothing of the \
                     network"
                }
                None if !input.configs.is_empty() => {
                    "the NodeSLO of this node is not there any more, and slo-controller-config says nothing of the \
                     network"
                }
                None => {
                    "neither a NodeSLO of this node nor slo-controller-config is there any more"
                }
            };
            self.wrong(format!(
                "{gone}; what it said stays in force. To share the lines no more, label the node \
                 {BACKEND_LABEL}=none"
            ));
        }
    }

    /// Nothing is divided any more, as this object has it.
    fn end(&mut self, object: &str) {
        let stood = self.slo.take().is_some() || self.recorded.take().is_some();
        self.source = None;
        // Said until something else is: it is logged once.
        let ended = format!(
            "{object} says nothing of the network: the uplinks are no longer divided. To divide them, write networkQOS \
             of lsClass or beClass in resource-qos-config of slo-controller-config"
        );
        if stood || self.warnings.contains(&ended) {
            self.warnings = vec![ended];
        } else {
            self.warnings.clear();
        }
    }

    /// What files say counts where objects say nothing.
    fn weigh_files(&mut self, said: Said, here: &[&InputPod]) {
        let terway = BackendKind::TerwayQos;
        if self.chosen() == terway || self.koordlet_divides() == Some(true) {
            self.filed.forget();
            if self.slo.is_none()
                && let Some(unheard) = self.filed.unheard()
            {
                self.wrong(unheard);
            }
        } else {
            self.filed.follow();
            // Without what objects said of it, another may divide.
            let is_read = self.label.unwrap_or(self.default) != terway;
            if matches!(said, Said::Nothing | Said::Silent) && self.filed.says_shares() && is_read {
                self.slo = None;
            }
            for problem in self.filed.problems(self.slo.is_none(), here) {
                self.wrong(problem);
            }
        }
    }

    fn hear_label(&mut self, node: &Node) {
        match node.labels.get(BACKEND_LABEL).map(|label| label.parse()) {
            None => self.label = None,
            Some(Ok(kind)) => self.label = Some(kind),
            Some(Err(why)) => self.wrong(format!(
                "metadata.labels[{BACKEND_LABEL}]: {why}; the class backend is {} as before",
                self.backend()
            )),
        }
    }

    fn hear_slo(&mut self, slo: &NodeSlo, node: &Node) {
        let mut slo = slo.with_defaults();
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

    fn hear_config(
        &mut self,
        name: &ObjectName,
        data: &BTreeMap<String, String>,
        node: &Node,
    ) -> Said {
        let updated = self.config.update(data);
        let is_right = updated.is_ok();
        self.config_was_right |= is_right;
        if let Err(mistakes) = updated {
            self.mistaken(&format!("ConfigMap {name}: data"), &mistakes);
        }
        match self.config.for_node(&node.labels, &node.annotations) {
            Ok(slo) if slo.is_silent() => match is_right {
                true => Said::Silent,
                false => Said::Wrong,
            },
            // What was never right says nothing, not even what would be so by default.
            Ok(slo) if self.config_was_right => {
                self.slo = Some(slo);
                self.source = Some(Source::ConfigMap);
                Said::Right
            }
            Ok(_) => Said::Wrong,
            Err(mistakes) => {
                let is_of_node = |it: &&Mistake| it.path == NODE_BANDWIDTH_ANNOTATION;
                let (of_node, others): (Vec<_>, Vec<_>) = mistakes.iter().partition(is_of_node);
                self.mistaken("metadata.annotations", of_node);
                self.mistaken(&format!("ConfigMap {name}: data"), others);
                Said::Wrong
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
    pub fn division(&self) -> Option<Division<'_>> {
        let by_files = || self.filed.shares().map(Division::Files);
        self.slo.as_ref().map(Division::Slo).or_else(by_files)
    }

    /// Who divides them: by the node's label, else by `netQOSPolicy`, else the default. Nobody of netqos
    /// where the policy has koordlet do it.
    pub fn backend(&self) -> BackendKind {
        match self.said == Said::Silent && self.division().is_none() {
            true => BackendKind::None,
            false => self.chosen(),
        }
    }

    /// The same, whether anything is divided or not.
    fn chosen(&self) -> BackendKind {
        if self.koordlet_divides() == Some(true) {
            return BackendKind::None;
        }
        let is_divided = self.division().is_some();
        // What stands is not known where an older agent divided by what cannot be followed now: it stays.
        let stands = self
            .recorded
            .filter(|_| self.said == Said::Wrong && !is_divided);
        let said = self.label.or_else(|| self.policy());
        said.or(stands).unwrap_or(self.default)
    }

    /// What is to be kept for the agent that comes after this one: what objects say, and by which of them.
    pub fn kept(&self) -> Option<(Source, NodeSlo)> {
        self.source.zip(self.slo)
    }

    fn policy(&self) -> Option<BackendKind> {
        self.slo.and_then(|slo| slo.policy)
    }

    /// Whether the lines are left to koordlet, where that is at work and `netQOSPolicy` has it divide them.
    /// A label is said to netqos alone, and goes first: only one that has nobody divide leaves them.
    pub fn koordlet_divides(&self) -> Option<bool> {
        let is_told = self.policy().is_some_and(BackendKind::is_koordinators);
        let is_left = self.label.is_none_or(|it| it == BackendKind::None);
        (self.koordlet && is_told).then_some(is_left)
    }

    /// What is known of a pod of this node that is there.
    pub fn pod(&self, pod: &InputPod, place: Place) -> Option<KnownPod> {
        let class = self.pods.get(&pod.id.uid)?.clone();
        let filed = self.filed.pod(pod, place.cgroup.as_deref()).cloned();
        Some(KnownPod {
            id: pod.id.clone(),
            class,
            filed,
            place,
        })
    }

    /// Who says of which class a pod is, in words.
    pub fn because(&self, pod: &InputPod, cgroup: Option<&Path>) -> String {
        let said = self.pods.get(&pod.id.uid).and_then(PodClass::said_by);
        match (said, self.filed.pod(pod, cgroup)) {
            (Some(said), _) => said,
            (None, Some(_)) => format!("another agent's file {PODS_FILE}"),
            (None, None) => PodClass::KUBERNETES.to_owned(),
        }
    }

    /// What is hardly meant of what is followed. It is no problem: nothing stays as it was for it, and in a
    /// cluster the webhook and the controller say it, once for all nodes.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// What is wrong with what is said. What is wrong with a pod says its reader.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }
}
