//! The definition of NodeSLO, which is Koordinator's: a template of the chart, and not in its folder
//! `crds`, for it is only for clusters that do not have it.

use serde_json::Value;

/// The template. Helm refuses it where there is a definition that is not of its release.
///
/// # Errors
/// It cannot be written.
pub fn template() -> anyhow::Result<String> {
    let mut crd: Value = serde_saphyr::from_str(&netqos_k8s::node_slo_definition().yaml()?)?;
    // With it went every object of the kind, also those that somebody else has made since.
    crd["metadata"]["annotations"]["helm.sh/resource-policy"] = "keep".into();
    let text = serde_saphyr::to_string(&crd)?;
    anyhow::ensure!(!text.contains("{{"), "it would be taken for an action");
    Ok(format!(
        "{{{{- /* Made by `cargo xtask manifests` from crates/k8s/src/node_slo.rs. */ -}}}}\n\
         {{{{- if .Values.nodeSlo.installDefinition }}}}\n{text}{{{{- end }}}}\n"
    ))
}
