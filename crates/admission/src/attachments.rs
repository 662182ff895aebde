//! `NetworkAttachmentDefinition`: the needs of its configuration that no NetworkAttachmentPolicy permits.

use std::fmt::Display;

use netqos_api::npwg::{AttachmentNeeds, first_named};
use netqos_k8s::{Object, object_from_value};
use serde_json::Value;

use crate::findings::Findings;
use crate::known::Known;

/// Warns of what keeps netqos-multinet from attaching pods. Nothing is refused: the plugin judges the definition again
/// when it attaches a pod, and a policy may come later. An unchanged `spec` is passed over.
pub(crate) fn check(object: &Value, old: Option<&Value>, known: &Known) -> Findings {
    let mut findings = Findings::default();
    if old.is_some_and(|old| old["spec"] == object["spec"]) {
        return findings;
    }
    let network = match object_from_value(object) {
        Ok(Object::Network(network)) => network,
        Ok(_) => return findings,
        Err(errors) => {
            warn(&mut findings, "it cannot be read", errors);
            return findings;
        }
    };
    // A file on the nodes has the configuration otherwise.
    let config = network.attachment.config.as_deref();
    let Some(config) = config.filter(|it| !it.trim().is_empty()) else {
        return findings;
    };
    match AttachmentNeeds::of_nad(config, &network.name.name) {
        Err(error) => warn(&mut findings, "spec.config cannot be read", [error]),
        Ok(needs) => {
            let namespace = &network.name.namespace;
            let refusals = known.attachment_grant(namespace).refusals(&needs);
            if !refusals.is_empty() {
                let why = format!(
                    "no NetworkAttachmentPolicy for namespace {namespace} permits what it needs"
                );
                warn(&mut findings, &why, refusals);
            }
        }
    }
    findings
}

/// A warning with the reason, and one for each of the first causes: API servers shorten long ones.
fn warn<T: Display>(findings: &mut Findings, why: &str, causes: impl IntoIterator<Item = T>) {
    findings.warn(format!(
        "netqos-multinet attaches no pod to this network: {why}"
    ));
    let (named, more) = first_named(causes);
    named.into_iter().for_each(|it| findings.warn(it));
    if more > 0 {
        findings.warn(format!("and {more} more"));
    }
}
