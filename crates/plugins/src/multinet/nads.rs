//! NADs, permitted and made into attachments.

use std::env;
use std::path::PathBuf;

use netqos_api::multinet::{About, Answer, Nad, NadName, RecordedAttachment};
use netqos_api::npwg::{
    AttachmentGrant, AttachmentNeeds, NetworkSelection, Refusal, digest, listed, shortened,
};
use netqos_cni::runtime::NetworkConfigList;
use netqos_cni::{CniError, Request};
use serde_json::{Map, Value};

use super::config::MultinetConfig;
use super::selections::Selected;
use super::{agent, compose, device_info, object};

/// The longest reason that a pod's error gives, in characters. Tenants write NADs, and parsers repeat what they read.
const MOST_REASON: usize = 4096;
/// Configurations on the node, by name, of NetworkAttachmentDefinitions that have none.
const NETWORKS: &str = "/etc/cni/multus/net.d";

/// Returns the attachments of the networks that a pod selects, the one in place of the default network first.
///
/// # Errors
/// Returns an error if the agent does not answer, a NAD is missing or not permitted, or cannot do what the pod
/// requests of it. The message names the NAD.
pub fn attachments(
    selected: &Selected,
    request: &Request,
    config: &MultinetConfig,
    default_network: &str,
) -> Result<Vec<RecordedAttachment>, CniError> {
    let selections = &selected.selections;
    let in_place = selections.default_network.iter();
    let in_place = in_place.map(|it| (it, request.ifname()));
    let networks = { selections.networks.iter() }.map(|(it, interface)| (it, interface.as_str()));
    let all: Vec<(&NetworkSelection, &str)> = in_place.chain(networks).collect();
    let (Some(pod), false) = (&selected.pod, all.is_empty()) else {
        return Ok(Vec::new());
    };
    let names = all.iter().map(|(selection, _)| NadName {
        namespace: selection.nad.namespace.to_string(),
        name: selection.nad.name.to_string(),
    });
    let nads = match agent::ask(&config.socket, pod, About::Nads(names.collect()))? {
        Answer::Nads(nads) if nads.len() == all.len() => nads,
        other => {
            return Err(CniError::internal(format_args!(
                "netqos-agent answered what was not asked: {other:?}"
            )));
        }
    };
    let args = args_of_pod(request);
    let attachments = all
        .iter()
        .zip(&nads)
        .map(|((selection, interface), nad)| {
            let refused = |why: String| {
                let (nad, why) = (&selection.nad, shortened(&why, MOST_REASON));
                CniError::invalid_config(format!("NetworkAttachmentDefinition {nad}: {why}"))
            };
            let list = list(selection, nad, config).map_err(refused)?;
            // In place of the default network it may be that network with other settings.
            let has_name = list.get("name").and_then(Value::as_str) == Some(default_network);
            if has_name && *interface != request.ifname() {
                return Err(refused(format!(
                    "{default_network} is the name of the default network, whose addresses it would share"
                )));
            }
            let device = nad.device.as_deref();
            // An agent names it, and no agent lifts the limits of the node.
            if device.is_some_and(|device| device.contains('/')) {
                return Err(refused(format!("device {device:?} of the pod is a path")));
            }
            let attachment =
                compose::attachment(selection, interface.to_string(), list, device, &args);
            let mut attachment = attachment.map_err(refused)?;
            let of_resource = nad.resource_name.as_deref().zip(device);
            device_info::give(&mut attachment, request.container_id(), of_resource)
                .map_err(refused)?;
            Ok(attachment)
        });
    attachments.collect()
}

/// Returns the pairs of `CNI_ARGS` that name the pod. All others, such as `IP`, are for the default network alone.
fn args_of_pod(request: &Request) -> Vec<(String, String)> {
    let pairs = request.args.pairs();
    let of_pod = pairs.filter(|(key, _)| *key == "IgnoreUnknown" || key.starts_with("K8S_"));
    of_pod
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

/// Returns the list of a NAD, if it is permitted, with what the pod writes into it.
fn list(
    selection: &NetworkSelection,
    nad: &Nad,
    config: &MultinetConfig,
) -> Result<Map<String, Value>, String> {
    if nad.driver != netqos_api::multinet::CNI_DRIVER {
        return Err(format!(
            "this version does not know driver {:?}",
            nad.driver
        ));
    }
    let text = match nad.config.as_deref().map(str::trim) {
        Some(text) if !text.is_empty() => text.to_owned(),
        _ => from_disk(&selection.nad.name)?,
    };
    let list = compose::list_for(selection, &text)?;
    // A digest permits a text, and nothing that a pod writes into it.
    let is_changed = !selection.cni_args.is_empty() || selection.device_id.is_some();
    let digest = (!is_changed).then(|| digest(&text));
    judge(&list, digest, nad, config)?;
    Ok(list)
}

/// The configuration of this name on the node. Tests have another directory.
fn from_disk(name: &str) -> Result<String, String> {
    let directory = env::var_os("NETQOS_NETWORKS_DIR");
    let directory = directory.map_or_else(|| NETWORKS.into(), PathBuf::from);
    let list = NetworkConfigList::load(&directory, name);
    let list = list.map_err(|error| format!("it has no spec.config, and on the node: {error}"))?;
    Ok(Value::Object(object(&list)).to_string())
}

/// Adds the texts that may be paths of the host, each with the keys that lead to it. Those that do not begin at the root
/// lead nowhere, unless they lead upwards.
fn paths_in(value: &Value, path: &str, found: &mut Vec<(String, String)>) {
    match value {
        Value::String(text) if text.starts_with('/') || text.split('/').any(|it| it == "..") => {
            found.push((path.trim_start_matches('.').to_owned(), text.clone()));
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                paths_in(item, &format!("{path}[{index}]"), found);
            }
        }
        Value::Object(fields) => {
            for (key, field) in fields {
                paths_in(field, &format!("{path}.{key}"), found);
            }
        }
        _ => {}
    }
}

/// Judges a configuration by the policies, and by the limits of the plugin's own configuration.
fn judge(
    list: &Map<String, Value>,
    digest: Option<String>,
    nad: &Nad,
    config: &MultinetConfig,
) -> Result<(), String> {
    // With what the pod writes into it.
    let text = Value::Object(list.clone()).to_string();
    let needs = AttachmentNeeds::of(&text).map_err(|why| why.to_string())?;
    let needs = AttachmentNeeds {
        digest: digest.unwrap_or(needs.digest),
        ..needs
    };
    let mut refusals = nad.grant.refusals(&needs);
    let of_node = AttachmentGrant {
        host_paths: config.host_paths.iter().cloned().collect(),
        ..AttachmentGrant::default()
    };
    // Also under keys that netqos does not know.
    let mut paths = AttachmentNeeds::default();
    paths_in(&Value::Object(list.clone()), "", &mut paths.host_paths);
    // One that does not begin at the root begins where the runtime runs.
    let relative = needs.host_paths.iter();
    let relative = relative.filter(|(_, path)| !path.starts_with('/'));
    paths.host_paths.extend(relative.cloned());
    refusals.extend(of_node.refusals(&paths));
    if refusals.is_empty() {
        return Ok(());
    }
    let by = match nad.policies.is_empty() {
        true => "no NetworkAttachmentPolicy selects its namespace".to_owned(),
        false => {
            let policies = listed(nad.policies.keys(), ", ");
            format!("not by NetworkAttachmentPolicy {policies}")
        }
    };
    Err(format!("{} ({by})", Refusal::message_of(&refusals)))
}
