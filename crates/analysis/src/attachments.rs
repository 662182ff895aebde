//! Pods' selections of networks, and NetworkAttachmentDefinitions that no pod can be attached to.

use std::collections::BTreeMap;
use std::sync::Arc;

use netqos_api::npwg::{
    AttachmentGrant, AttachmentNeeds, DEFAULT_NETWORK, DEFAULT_NETWORK_NAMESPACE, NETWORKS,
    NetworkSelection, SelectionError, first_named, listed, parse_default_network, parse_selections,
};
use netqos_core::ObjectName;
use netqos_core::objects::Pod;

use crate::code::{INVALID_NETWORKS, NAD_NOT_FOUND, NAD_NOT_PERMITTED};
use crate::message::{Message, Subject};
use crate::snapshot::{Found, Snapshot};

const NAD: &str = "NetworkAttachmentDefinition";
const POLICY: &str = "NetworkAttachmentPolicy";

/// Selections of networks that cannot be followed, and networks that no policy permits. A cluster without
/// NetworkAttachmentDefinitions has neither.
pub(crate) fn messages(snapshot: &Snapshot) -> Vec<Message> {
    let has_nads = snapshot.nads().next().is_some();
    if snapshot.known().is_absent(NAD) && !has_nads {
        return Vec::new();
    }
    let mut messages = Vec::new();
    // Of manifests without any, those of the cluster may be meant.
    let are_nads_known = snapshot.is_live() || has_nads;
    for (pod, found) in snapshot.pods().filter(|(pod, _)| selects_networks(pod)) {
        for (annotation, selections) in selections(pod) {
            let message = match selections {
                Err(error) => {
                    let (text, _) = first_named([error]);
                    Some(Message::new(&INVALID_NETWORKS, subject(pod), text.concat()))
                }
                Ok(selections) if are_nads_known => missing(snapshot, pod, &selections),
                Ok(_) => None,
            };
            let field = format!("metadata.annotations[{annotation}]");
            messages.extend(message.map(|it| it.at(field).in_place(&found.place)));
        }
    }
    messages.extend(not_permitted(snapshot));
    messages
}

/// Returns true if a pod's selections of networks have an effect: it starts, and not in the node's own network.
pub(crate) fn selects_networks(pod: &Pod) -> bool {
    !pod.finished && !pod.host_network && pod.network_annotations.is_some()
}

/// The selections of a pod, by the annotation that has them.
pub(crate) fn selections(
    pod: &Pod,
) -> Vec<(&'static str, Result<Vec<NetworkSelection>, SelectionError>)> {
    let Some(annotations) = &pod.network_annotations else {
        return Vec::new();
    };
    let networks = annotations.networks.as_deref().unwrap_or_default();
    let default_network = annotations.default_network.as_deref().unwrap_or_default();
    let default_network = parse_default_network(default_network, DEFAULT_NETWORK_NAMESPACE);
    vec![
        (NETWORKS, parse_selections(networks, &pod.id.name.namespace)),
        (
            DEFAULT_NETWORK,
            default_network.map(|it| it.into_iter().collect()),
        ),
    ]
}

/// The message about networks that a pod selects and that do not exist.
fn missing(snapshot: &Snapshot, pod: &Pod, selections: &[NetworkSelection]) -> Option<Message> {
    let is_missing =
        |nad: &&ObjectName| snapshot.known().all_in(NAD, &nad.namespace) && !snapshot.has_nad(nad);
    let mut missing: Vec<&ObjectName> = selections
        .iter()
        .map(|it| &it.nad)
        .filter(is_missing)
        .collect();
    missing.sort();
    missing.dedup();
    let text = format!(
        "no {NAD} has the name that it selects: {}",
        listed(&missing, "; ")
    );
    (!missing.is_empty()).then(|| Message::new(&NAD_NOT_FOUND, subject(pod), text))
}

fn subject(pod: &Pod) -> Subject {
    Subject::new("Pod", &pod.id.name)
}

/// Messages about the NADs with needs that no policy permits.
fn not_permitted(snapshot: &Snapshot) -> Vec<Message> {
    let known = snapshot.known();
    let has_policies = snapshot.attachment_policies().next().is_some();
    let are_known = known.all(POLICY) && known.all("Namespace");
    // Of manifests without any, those of the cluster may be meant.
    if !are_known || !(has_policies || snapshot.is_live() && !known.is_absent(POLICY)) {
        return Vec::new();
    }
    let namespaces = snapshot.namespaces();
    let mut grants: BTreeMap<Arc<str>, AttachmentGrant> = BTreeMap::new();
    let mut messages = Vec::new();
    for (name, found) in snapshot.nads() {
        let Some(needs) = needs(found) else { continue };
        let grant = grants.entry(name.namespace.clone()).or_insert_with(|| {
            let labels = namespaces.get(&name.namespace).cloned().unwrap_or_default();
            let policies = snapshot.attachment_policies();
            AttachmentGrant::united(policies.filter(|it| it.namespaces.matches(&labels)))
        });
        let refusals = grant.refusals(&needs);
        if !refusals.is_empty() {
            let text = format!(
                "netqos-multinet attaches no pod to it, since no {POLICY} permits it: {}",
                listed(&refusals, "; ")
            );
            let message = Message::new(&NAD_NOT_PERMITTED, Subject::new(NAD, name), text);
            messages.push(message.at("spec.config").in_place(&found.place));
        }
    }
    messages
}

/// The needs of a NAD; `None` if it cannot be read, or a file on nodes has its configuration.
pub(crate) fn needs(found: &Found) -> Option<AttachmentNeeds> {
    let network = found.network()?;
    let config = network.attachment.config.as_deref()?;
    let is_blank = config.trim().is_empty();
    AttachmentNeeds::of_nad(config, &network.name.name)
        .ok()
        .filter(|_| !is_blank)
}
