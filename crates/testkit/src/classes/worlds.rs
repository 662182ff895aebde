//! A place for a backend to work in, and the ways to get into its way.

mod kernel;
mod lines;
mod none;
mod tc;
mod terway;

use std::collections::BTreeMap;
use std::sync::Arc;

use netqos_classes::{ClassBackend, Standing};
use netqos_core::classes::{ClassPlan, TrafficClass};
use netqos_core::{BitRate, Direction};

use crate::Node;

pub use kernel::{Kernel, KernelOnClsact};
pub use none::None;
pub use tc::Tc;
pub use terway::TerwayQos;

/// Something in a backend's way; the way to take it away, and what the backend says of it.
pub enum Obstacle<'w> {
    /// There is nothing that could be.
    None,
    /// Nothing can be done.
    Everything(Box<dyn FnOnce() + 'w>, &'static str),
    /// One line cannot be divided.
    Line(&'static str, Box<dyn FnOnce() + 'w>, &'static str),
}

/// What a class of a line has, of which a test has changed it behind the backend's back.
pub type Tampered = (&'static str, (Direction, TrafficClass), (BitRate, BitRate));

/// A place for a backend to work in: the lines of [`super::plans`], on a node of the test's own.
pub trait World: Sized {
    /// Whether the backend does anything.
    const CHANGES: bool;
    /// Whether it knows pods, and says when it cannot tell one.
    const TELLS_PODS: bool;
    /// Whether it sees the packets of lines, and counts them.
    const HAS_PACKETS: bool;
    /// Whether it notices that a line is gone.
    const SEES_LINES: bool;

    /// A fresh one.
    fn new(node: Node) -> Self;
    /// The backend, as another process would have it.
    fn backend(&self) -> Box<dyn ClassBackend>;
    /// All that the backend could change, as text.
    fn state(&self) -> String;
    /// The lines that the backend divides of a plan, in order.
    fn divided<'p>(&self, plan: &'p ClassPlan) -> Vec<&'p str> {
        plan.lines.keys().map(|line| &**line).collect()
    }
    /// What stands after a plan was applied.
    fn expected(&self, plan: &ClassPlan) -> BTreeMap<Arc<str>, Standing>;
    /// Gets into the backend's way.
    fn obstruct(&self) -> Obstacle<'_>;
    /// Puts things of others beside the backend's.
    fn neighbours(&self);
    /// Takes a line away.
    fn remove_line(&self, line: &str);
    /// Brings it back.
    fn add_line(&self, line: &str);
    /// Changes a share of the first line; `None`: there is none.
    fn tamper(&self) -> Option<Tampered>;
    /// Damages of another process to the parts of the backend that `standing` does not tell of.
    fn faults(&self) -> Vec<Box<dyn FnOnce() + '_>> {
        Vec::new()
    }
    /// Does this, and asserts that nobody who uses the lines has lost anything meanwhile.
    fn without_a_loss(&self, act: &mut dyn FnMut());
}

/// A fresh world on this thread; `None`, and said so, where that cannot be had.
pub fn enter<W: World>() -> Option<W> {
    Node::new().unwrap().map(W::new)
}
