//! `cargo xtask metrics`: what is made from the registry of metrics.
//!
//! ```text
//!   registry ─► Registry ─┬─► the tables of docs/metrics.md
//!                         └─► every query of the alerts and of the dashboard is held to it
//!                               ├─► deploy/helm/netqos/templates/prometheusrule.yaml,
//!                               │   and deploy/monitoring/alerts.yaml
//!                               └─► deploy/monitoring/netqos.json, and as a ConfigMap in the chart
//! ```

mod alerts;
mod dashboard;
mod query;
mod reference;
#[cfg(test)]
mod tests;

pub use reference::Registry;

use crate::generated::{Arguments, Files, between, read};

const REFERENCE: &str = "docs/metrics.md";
const TEMPLATES: &str = "deploy/helm/netqos/templates";

/// Writes the files, or compares them.
///
/// # Errors
/// A query asks for what is not served; a file cannot be written, or is not fresh.
pub fn run(arguments: Arguments) -> anyhow::Result<()> {
    let files = Files::of("metrics", arguments);
    let registry = Registry::of_all()?;
    let mut reference = read(REFERENCE)?;
    for component in registry.components() {
        let begin = format!("<!-- {component}: made by cargo xtask metrics -->");
        let table = registry.table(component);
        reference = between(&reference, &begin, "<!-- end -->", &table)?;
    }
    files.put(REFERENCE, &reference)?;
    alerts::check(&registry)?;
    dashboard::check(&registry)?;
    files.put(
        &format!("{TEMPLATES}/prometheusrule.yaml"),
        &alerts::template()?,
    )?;
    files.put("deploy/monitoring/alerts.yaml", &alerts::rule_file()?)?;
    files.put(
        &format!("{TEMPLATES}/dashboard.yaml"),
        &dashboard::template()?,
    )?;
    files.put("deploy/monitoring/netqos.json", &dashboard::json()?)
}

/// A template that says just this text: no part of it is taken for an action.
fn literally(text: &str) -> String {
    text.replace("{{", "{{ \"{{\" }}")
}
