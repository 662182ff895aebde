//! The configurations of the admission webhook, as the webhook itself says them: a template of the
//! chart.

use netqos_admission::{Options, Reach, mutating, validating};

/// Stands where the release's namespace is to be.
const NAMESPACE: &str = "NAMESPACE-OF-RELEASE";

/// The template. `caBundle` is left to the webhook, which makes its own certificate.
///
/// # Errors
/// It cannot be written.
pub fn template() -> anyhow::Result<String> {
    let options = Options {
        namespace: NAMESPACE.to_owned(),
        ..Options::default()
    };
    let validating = serde_saphyr::to_string(&validating(&options, &Reach::Service)?)?;
    let mutating = serde_saphyr::to_string(&mutating(&options, &Reach::Service)?)?;
    let text = format!("{validating}---\n{mutating}");
    anyhow::ensure!(!text.contains("{{"), "it would be taken for an action");
    let text = text.replace(NAMESPACE, "{{ .Release.Namespace }}");
    Ok(format!(
        "{{{{- /* Made by `cargo xtask manifests` from crates/admission. */ -}}}}\n\
         {{{{- if .Values.controller.enabled }}}}\n{text}{{{{- end }}}}\n"
    ))
}
