//! The configurations of the admission webhook, as the webhook itself says them: a template of the
//! chart.

use netqos_admission::{Options, Reach, mutating, validating};

/// Stand where the release's namespace is to be, and those of Koordinator and its ConfigMap.
const NAMESPACE: &str = "NAMESPACE-OF-RELEASE";
const KOORDINATOR: &str = "NAMESPACE-OF-KOORDINATOR";
const SLO_CONFIG: &str = "NAME-OF-SLO-CONFIG";

/// The template. `caBundle` is left to the webhook, which makes its own certificate.
///
/// # Errors
/// It cannot be written.
pub fn template() -> anyhow::Result<String> {
    let options = Options {
        namespace: NAMESPACE.to_owned(),
        koordinator: KOORDINATOR.to_owned(),
        slo_config: SLO_CONFIG.to_owned(),
        ..Options::default()
    };
    let validating = serde_saphyr::to_string(&validating(&options, &Reach::Service)?)?;
    let mutating = serde_saphyr::to_string(&mutating(&options, &Reach::Service)?)?;
    let text = format!("{validating}---\n{mutating}");
    anyhow::ensure!(!text.contains("{{"), "it would be taken for an action");
    let mut text = text.replace(NAMESPACE, "{{ .Release.Namespace }}");
    for (place, value) in [(KOORDINATOR, "namespace"), (SLO_CONFIG, "name")] {
        text = text.replace(
            place,
            &format!("{{{{ .Values.nodeSlo.configMap.{value} }}}}"),
        );
    }
    const POLICY: &str = "failurePolicy: Ignore";
    anyhow::ensure!(text.contains(POLICY), "there is no {POLICY}");
    let chosen = "failurePolicy: {{ .Values.controller.webhookFailurePolicy }}";
    let text = text.replace(POLICY, chosen);
    Ok(format!(
        "{{{{- /* Made by `cargo xtask manifests` from crates/admission. */ -}}}}\n\
         {{{{- if .Values.controller.enabled }}}}\n{text}{{{{- end }}}}\n"
    ))
}
