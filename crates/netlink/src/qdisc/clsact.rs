//! `clsact` and its predecessor `ingress`: no queues, but the hooks that filters hang on.

use super::Qdisc;

/// Hooks for filters on both ways through a link. Goes to [`Handle::CLSACT`](crate::Handle::CLSACT)
/// under handle `ffff:`, and shares that place with [`Ingress`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clsact;

/// The older qdisc with the ingress hook only. netqos never makes one, since it keeps others from
/// making clsact; it is here because others do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ingress;

impl Qdisc for Clsact {
    const KIND: &'static str = "clsact";
}

impl Qdisc for Ingress {
    const KIND: &'static str = "ingress";
}
