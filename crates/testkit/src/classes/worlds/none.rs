//! Nobody's world: nothing happens in it.

use std::collections::BTreeMap;
use std::sync::Arc;

use netqos_classes::{ClassBackend, Nobody, Standing};
use netqos_core::classes::ClassPlan;

use super::{Obstacle, Tampered, World};
use crate::Node;

/// A node with nobody on it who divides its lines.
pub struct None(Node);

impl World for None {
    const CHANGES: bool = false;
    const TELLS_PODS: bool = false;
    const HAS_PACKETS: bool = false;
    const SEES_LINES: bool = false;

    fn new(node: Node) -> Self {
        Self(node)
    }

    fn backend(&self) -> Box<dyn ClassBackend> {
        Box::new(Nobody)
    }

    fn state(&self) -> String {
        self.0.run("tc", &["qdisc", "show"]).unwrap()
    }

    fn divided<'p>(&self, _: &'p ClassPlan) -> Vec<&'p str> {
        Vec::new()
    }

    fn expected(&self, _: &ClassPlan) -> BTreeMap<Arc<str>, Standing> {
        BTreeMap::new()
    }

    fn obstruct(&self) -> Obstacle<'_> {
        Obstacle::None
    }

    fn neighbours(&self) {}

    fn remove_line(&self, _: &str) {}

    fn add_line(&self, _: &str) {}

    fn tamper(&self) -> Option<Tampered> {
        Option::None
    }

    fn without_a_loss(&self, act: &mut dyn FnMut()) {
        act();
    }
}
