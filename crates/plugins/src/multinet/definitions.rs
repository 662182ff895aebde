//! Definitions of networks, permitted and made into attachments.

use netqos_api::multinet::{About, Answer, Definition, NadName};
use netqos_api::npwg::{AttachmentGrant, AttachmentNeeds, NetworkSelection, digest};
use netqos_cni::runtime::NetworkConfigList;
use netqos_cni::{CniError, Request};
use serde_json::{Map, Value};

use super::config::MultinetConfig;
use super::record::RecordedAttachment;
use super::selections::Selected;
use super::{agent, compose, object};

/// Returns the attachments of the networks that a pod selects, the one in place of the default network first.
///
/// # Errors
/// Returns an error if the agent does not answer, a definition is missing or not permitted, or cannot do what the pod
/// requests of it. The message names the definition.
pub fn attachments(
    selected: &Selected,
    request: &Request,
    config: &MultinetConfig,
    args: &[(String, String)],
) -> Result<Vec<RecordedAttachment>, CniError> {
    let default_network = selected.default_network.iter();
    let default_network = default_network.map(|it| (it, request.ifname()));
    let networks = selected
        .networks
        .iter()
        .map(|(it, interface)| (it, interface.as_str()));
    let all: Vec<(&NetworkSelection, &str)> = default_network.chain(networks).collect();
    let (Some(pod), false) = (&selected.pod, all.is_empty()) else {
        return Ok(Vec::new());
    };
    let names = all.iter().map(|(selection, _)| NadName {
        namespace: selection.nad.namespace.to_string(),
        name: selection.nad.name.to_string(),
    });
    let definitions = match agent::ask(&config.socket, pod, About::Definitions(names.collect()))? {
        Answer::Definitions(definitions) if definitions.len() == all.len() => definitions,
        other => {
            return Err(CniError::internal(format_args!(
                "netqos-agent answered what was not asked: {other:?}"
            )));
        }
    };
    let attachments = all
        .iter()
        .zip(&definitions)
        .map(|((selection, interface), definition)| {
            let refused = |why: String| {
                let nad = &selection.nad;
                CniError::invalid_config(format!("NetworkAttachmentDefinition {nad}: {why}"))
            };
            attachment(selection, interface, definition, config, args).map_err(refused)
        });
    attachments.collect()
}

fn attachment(
    selection: &NetworkSelection,
    interface: &str,
    definition: &Definition,
    config: &MultinetConfig,
    args: &[(String, String)],
) -> Result<RecordedAttachment, String> {
    if definition.driver != netqos_api::multinet::CNI_DRIVER {
        return Err(format!(
            "this version does not know driver {:?}",
            definition.driver
        ));
    }
    let text = match definition.config.as_deref().map(str::trim) {
        Some(text) if !text.is_empty() => text.to_owned(),
        _ => from_disk(&selection.nad.name, config)?,
    };
    let list = compose::list_for(selection, &text)?;
    judge(&list, &digest(&text), definition, config)?;
    let device = definition.device.as_deref();
    compose::attachment(selection, interface.to_owned(), list, device, args)
}

/// The configuration of this name on the node.
fn from_disk(name: &str, config: &MultinetConfig) -> Result<String, String> {
    let list = NetworkConfigList::load(&config.networks_dir, name);
    let list = list.map_err(|error| format!("it has no spec.config, and on the node: {error}"))?;
    Ok(Value::Object(object(&list)).to_string())
}

/// Judges a configuration by the policies, and by the limits of the plugin's own configuration.
fn judge(
    list: &Map<String, Value>,
    digest: &str,
    definition: &Definition,
    config: &MultinetConfig,
) -> Result<(), String> {
    // With what the pod writes into it.
    let text = Value::Object(list.clone()).to_string();
    let needs = AttachmentNeeds::of(&text).map_err(|why| why.to_string())?;
    let needs = AttachmentNeeds {
        digest: digest.to_owned(),
        ..needs
    };
    let mut refusals = definition.grant.refusals(&needs);
    let of_node = AttachmentGrant {
        host_paths: config.host_paths.iter().cloned().collect(),
        ..AttachmentGrant::default()
    };
    let paths = AttachmentNeeds {
        host_paths: needs.host_paths,
        ..AttachmentNeeds::default()
    };
    refusals.extend(of_node.refusals(&paths));
    match &refusals[..] {
        [] => Ok(()),
        [first, others @ ..] => {
            let more = match others.len() {
                0 => String::new(),
                more => format!(", and {more} more"),
            };
            let policies: Vec<&str> = definition.policies.keys().map(String::as_str).collect();
            let by = match policies.is_empty() {
                true => "no NetworkAttachmentPolicy selects its namespace".to_owned(),
                false => format!("not by NetworkAttachmentPolicy {}", policies.join(", ")),
            };
            Err(format!("{first}{more} ({by})"))
        }
    }
}
