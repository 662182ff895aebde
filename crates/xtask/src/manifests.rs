//! `cargo xtask manifests`: how netqos is installed, from one source.
//!
//! ```text
//!   values.rs ─► values.schema.json, values.yaml ─┐
//!   deploy/helm/netqos/templates ─────────────────┴─► helm template ─► deploy/kustomize/base
//!                                            with other values, less the base ─► components
//! ```
//!
//! The chart's templates are written by hand. Helm renders the kustomize directories from them.

mod chart;
mod definition;
mod kustomize;
#[cfg(test)]
mod tests;
mod values;
mod values_files;
mod webhook;

use crate::generated::{Arguments, Files};
use chart::{CHART, Chart};

/// Writes the files, or compares them.
///
/// # Errors
/// Returns an error if Helm cannot render the chart, or if a file cannot be written or is not fresh.
pub fn run(arguments: Arguments) -> anyhow::Result<()> {
    let files = Files::of("manifests", arguments);
    let schema = serde_json::to_string_pretty(&values_files::schema()?)? + "\n";
    files.put(&format!("{CHART}/values.schema.json"), &schema)?;
    files.put(&format!("{CHART}/values.yaml"), &values_files::values()?)?;
    files.put(
        &format!("{CHART}/templates/webhook-configurations.yaml"),
        &webhook::template()?,
    )?;
    files.put(
        &format!("{CHART}/templates/node-slo-definition.yaml"),
        &definition::template()?,
    )?;
    kustomize::write(&files, &Chart::find()?)
}
