//! netqos' own API group.

/// The group of netqos' own resources.
pub(crate) const GROUP: &str = "netqos.io";
/// Their version.
pub(crate) const VERSION: &str = "v1alpha1";
