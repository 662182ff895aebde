//! What is said of the ConfigMap and of nodes: events, numbers and lines of the log, each once.

use std::sync::Arc;

use netqos_cluster::Kind;
use netqos_core::ObjectName;

use super::NodeSlos;
use crate::events::Told;

/// What became of a node's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It says what the ConfigMap does.
    Current,
    /// It is what it was: what is said of the node now cannot be followed.
    Kept(String),
    /// Somebody else has written it.
    Left(String),
}

impl State {
    const NAMES: [&str; 3] = ["current", "kept", "left"];

    fn name(&self) -> &'static str {
        let [current, kept, left] = Self::NAMES;
        match self {
            Self::Current => current,
            Self::Kept(_) => kept,
            Self::Left(_) => left,
        }
    }
}

impl NodeSlos {
    /// Says what is wrong with the ConfigMap, once.
    pub(super) fn tell_of_source(&mut self, is_undefined: bool) {
        let wrong = self.source.wrong().clone();
        let is_missed = is_undefined && self.source.good().is_some();
        let undefined = "the API server does not know NodeSLO: install Koordinator's definition, or, where \
                         there is no Koordinator, netqos' (kubectl apply --server-side -f \
                         deploy/crds/koordinator)";
        for (now, before) in wrong.said().into_iter().zip(self.told.said()) {
            let (reason, many, note) = &now;
            self.metrics.slo_config_problems(reason, *many);
            if *many > 0 && now != before {
                self.tell_of_config(reason, note.clone());
            }
        }
        let reason = "NodeSLOUndefined";
        self.metrics.slo_config_problems(reason, is_missed.into());
        if is_missed && !self.told_undefined {
            self.tell_of_config(reason, undefined.to_owned());
        }
        if !self.told.is_followed() && wrong.is_followed() {
            tracing::info!("ConfigMap {} can be followed again", self.config_map);
        }
        self.told = wrong;
        self.told_undefined = is_missed;
    }

    fn tell_of_config(&self, reason: &str, note: String) {
        tracing::warn!(reason, "ConfigMap {}: {note}", self.config_map);
        self.events.tell(Told {
            kind: Kind::ConfigMap,
            object: self.config_map.clone(),
            uid: self.source.uid().to_owned(),
            good: false,
            reason: reason.to_owned(),
            note,
        });
    }

    /// Says what became of a node's, where that is new.
    pub(super) fn becomes(&mut self, node: &Arc<str>, state: State) {
        if self.states.get(node) == Some(&state) {
            return;
        }
        let said = match &state {
            State::Current => None,
            State::Kept(why) => Some((
                "NodeSLOKept",
                format!("it keeps the shares that it was told last: {why}"),
            )),
            State::Left(why) => Some(("NodeSLOLeft", why.clone())),
        };
        self.states.insert(node.clone(), state);
        let Some((reason, note)) = said else {
            return;
        };
        tracing::warn!(reason, "node {node}: {note}");
        self.events.tell(Told {
            kind: Kind::Node,
            object: ObjectName::new("", node),
            uid: node.to_string(),
            good: false,
            reason: reason.to_owned(),
            note,
        });
    }

    pub(super) fn count(&self) {
        for name in State::NAMES {
            let many = self.states.values().filter(|it| it.name() == name).count();
            self.metrics.node_slos(name, many);
        }
    }
}
