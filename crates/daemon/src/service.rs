//! Who a daemon is.

/// Who a process is, for whoever collects what many of them say.
#[derive(Clone, Debug, Default)]
pub struct Service {
    /// The name of its program: `netqos-agent`.
    pub name: &'static str,
    /// Its version.
    pub version: &'static str,
    /// What tells it from others of that name.
    pub instance: String,
    /// The node that it keeps, if it keeps one.
    pub node: Option<String>,
}
