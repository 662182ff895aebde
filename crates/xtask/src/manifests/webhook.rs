//! The configurations of the admission webhook, as the webhook itself says them: a template of the
//! chart.

use netqos_admission::{OF_ANNOTATIONS, OF_NETWORKS, Options, Reach, mutating, validating};

/// Stand where the release's namespace is to be, and those of Koordinator and its ConfigMap.
const NAMESPACE: &str = "NAMESPACE-OF-RELEASE";
const KOORDINATOR: &str = "NAMESPACE-OF-KOORDINATOR";
const SLO_CONFIG: &str = "NAME-OF-SLO-CONFIG";
/// Stand where it is to be said what becomes of what no replica answers about.
const OBJECTS_POLICY: &str = "POLICY-FOR-OBJECTS";
const ANNOTATIONS_POLICY: &str = "POLICY-FOR-ANNOTATIONS";

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
    let mut validating = validating(&options, &Reach::Service)?;
    for webhook in validating.webhooks.iter_mut().flatten() {
        webhook.failure_policy = Some(policy(&webhook.name));
    }
    let mut mutating = mutating(&options, &Reach::Service)?;
    for webhook in mutating.webhooks.iter_mut().flatten() {
        webhook.failure_policy = Some(policy(&webhook.name));
    }
    let validating = serde_saphyr::to_string(&validating)?;
    let mutating = serde_saphyr::to_string(&mutating)?;
    let mut text = format!("{validating}---\n{mutating}");
    anyhow::ensure!(!text.contains("{{"), "it would be taken for an action");
    let chosen = ".Values.controller.webhookFailurePolicy";
    let strict = ".Values.controller.strictAnnotations";
    for (place, value) in [
        (NAMESPACE, "{{ .Release.Namespace }}"),
        (KOORDINATOR, "{{ .Values.nodeSlo.configMap.namespace }}"),
        (SLO_CONFIG, "{{ .Values.nodeSlo.configMap.name }}"),
        (OBJECTS_POLICY, &format!("{{{{ {chosen} }}}}")),
        (
            ANNOTATIONS_POLICY,
            &format!("{{{{ if {strict} }}}}{{{{ {chosen} }}}}{{{{ else }}}}Ignore{{{{ end }}}}"),
        ),
    ] {
        anyhow::ensure!(text.contains(place), "there is no {place}");
        text = text.replace(place, value);
    }
    Ok(format!(
        "{{{{- /* Made by `cargo xtask manifests` from crates/admission. */ -}}}}\n{text}"
    ))
}

/// What only warns of annotations, unless it is told to refuse them, stops no pod where nobody answers.
fn policy(webhook: &str) -> String {
    match webhook {
        // It refuses nothing.
        OF_NETWORKS => "Ignore",
        _ if OF_ANNOTATIONS.contains(&webhook) => ANNOTATIONS_POLICY,
        _ => OBJECTS_POLICY,
    }
    .to_owned()
}
