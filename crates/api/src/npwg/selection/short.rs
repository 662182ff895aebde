//! The short form: `[namespace/]name[@interface]`, commas between entries.

use netqos_core::ObjectName;

use super::{NetworkSelection, check_interface, check_label, check_number};
use crate::npwg::error::{SelectionError, quoted};

pub(super) fn parse(
    text: &str,
    pod_namespace: &str,
) -> Result<Vec<NetworkSelection>, SelectionError> {
    check_number(text.split(',').count())?;
    let entries = text.split(',').map(str::trim).enumerate();
    let parsed = entries.map(|(index, entry)| {
        self::entry(entry, pod_namespace)
            .map_err(|message| SelectionError::of_entry(message).in_entry(index, entry))
    });
    parsed.collect()
}

fn entry(text: &str, pod_namespace: &str) -> Result<NetworkSelection, String> {
    if text.is_empty() {
        return Err("no network between commas, or behind the last one".to_owned());
    }
    let form = || format!("{} is not [namespace/]name[@interface]", quoted(text));
    let (network, interface) = match text.split_once('@') {
        Some((_, interface)) if interface.contains('@') => return Err(form()),
        Some((network, interface)) => (network, Some(interface.trim())),
        None => (text, None),
    };
    let (namespace, name) = match network.split_once('/') {
        Some((_, name)) if name.contains('/') => return Err(form()),
        Some((namespace, name)) => (namespace.trim(), name.trim()),
        None => (pod_namespace, network.trim()),
    };
    check_label("namespace", namespace)?;
    check_label("name", name)?;
    interface.map_or(Ok(()), check_interface)?;
    Ok(NetworkSelection {
        interface: interface.map(str::to_owned),
        ..NetworkSelection::of(ObjectName::new(namespace, name))
    })
}
