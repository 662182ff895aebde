//! The addresses of a pod, on each of its networks.
//!
//! | network | from |
//! |---|---|
//! | default | `status.podIPs` |
//! | others | `k8s.v1.cni.cncf.io/network-status` or its older name; where that names no address, or there is none, `k8s.ovn.org/pod-networks` |
//!
//! A tenant may write annotations. So they count only once the pod has an address of the default network, which the
//! kubelet writes and without which no annotation can be about a sandbox; never for the default network; and
//! `pod-networks` never names a network that `network-status` does not, except a primary one, which the index verifies.
//! Of a pod that `netqos-multinet` attached on this node they do not count at all: its record does.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use k8s_openapi::api::core::v1::PodStatus;
use netqos_api::npwg::{NETWORK_STATUS, OLD_NETWORK_STATUS, parse_status, quoted, shortened};
use netqos_core::ObjectName;
use netqos_core::objects::{NetworkName, PodAddresses};
use serde::Deserialize;

use crate::FieldError;
use crate::field::{entry, item};

/// What OVN-Kubernetes gave: a JSON object.
const POD_NETWORKS: &str = "k8s.ovn.org/pod-networks";

/// The interface of the default network.
const DEFAULT_INTERFACE: &str = "eth0";

/// The interface of a primary user-defined network.
const PRIMARY_INTERFACE: &str = "ovn-udn1";

#[derive(Deserialize)]
struct PodNetwork {
    ip_addresses: Option<Vec<String>>,
    ip_address: Option<String>,
    role: Option<String>,
}

/// The addresses, and the errors in annotations that cannot be read.
///
/// # Errors
/// An address in the status that is none.
pub(super) fn addresses(
    status: Option<&PodStatus>,
    annotations: &BTreeMap<String, String>,
    pod: &ObjectName,
) -> Result<(Vec<PodAddresses>, Vec<FieldError>), FieldError> {
    let mut unread = Vec::new();
    let mut found: Vec<PodAddresses> = Vec::new();
    let mut interface: Option<Arc<str>> = None;
    let default = from_status(status)?;
    // A pod that waits for a node may claim whatever it likes.
    let has_sandbox = !default.is_empty();
    let status = [NETWORK_STATUS, OLD_NETWORK_STATUS].map(|key| Some((key, annotations.get(key)?)));
    let status = status.into_iter().flatten().next();
    let is_listed = status.is_some();
    if let Some((key, text)) = status {
        match network_status(text, pod) {
            Ok(list) => {
                for entry in list {
                    match entry.network {
                        NetworkName::Default
                            if entry.interface.as_deref() == Some(PRIMARY_INTERFACE) => {}
                        NetworkName::Default => interface = entry.interface,
                        // As some plugins name the default network.
                        NetworkName::Cni(_)
                            if entry.interface.as_deref() == Some(DEFAULT_INTERFACE) => {}
                        _ if has_sandbox => found.push(entry),
                        _ => {}
                    }
                }
            }
            Err(why) => unread.push(cannot_read(key, &why)),
        }
    }
    if let Some(text) = annotations.get(POD_NETWORKS) {
        match pod_networks(text) {
            Ok(list) => {
                let of_others = list
                    .into_iter()
                    .filter(|(network, _)| has_sandbox && *network != NetworkName::Default);
                for (network, addresses) in of_others {
                    let mut known = found.iter_mut().filter(|one| one.network == network);
                    match known.next() {
                        // Where a pod is on a network twice, they cannot be told apart.
                        Some(one) if one.addresses.is_empty() => one.addresses = addresses,
                        Some(_) => {}
                        // CNI gives the address of a primary network to the default network's attachment.
                        None if is_listed && !matches!(network, NetworkName::Primary(_)) => {}
                        None => found.push(PodAddresses {
                            network,
                            interface: None,
                            addresses,
                        }),
                    }
                }
            }
            Err(why) => unread.push(cannot_read(POD_NETWORKS, &why)),
        }
    }
    if !default.is_empty() {
        let interface = interface.unwrap_or_else(|| DEFAULT_INTERFACE.into());
        found.insert(
            0,
            PodAddresses {
                network: NetworkName::Default,
                interface: Some(interface),
                addresses: default,
            },
        );
    }
    Ok((found, unread))
}

fn from_status(status: Option<&PodStatus>) -> Result<BTreeSet<IpAddr>, FieldError> {
    let mut addresses = BTreeSet::new();
    let Some(status) = status else {
        return Ok(addresses);
    };
    let listed = status.pod_ips.iter().flatten().enumerate();
    let listed = listed.map(|(index, one)| (item("status.podIPs", index), &one.ip));
    let single = status.pod_ip.iter();
    let single = single.map(|text| ("status.podIP".to_owned(), text));
    for (path, text) in listed.chain(single).filter(|(_, text)| !text.is_empty()) {
        let wrong = |_| FieldError::new(path, format_args!("{text:?} is no address"));
        addresses.insert(text.parse().map_err(wrong)?);
    }
    Ok(addresses)
}

fn network_status(text: &str, pod: &ObjectName) -> Result<Vec<PodAddresses>, String> {
    let list = parse_status(text).map_err(|error| error.to_string())?;
    let mut found = Vec::with_capacity(list.len());
    for entry in list {
        let network = match entry.name.split_once('/') {
            _ if entry.default => NetworkName::Default,
            Some(("", name)) => NetworkName::Attachment(ObjectName::new(&pod.namespace, name)),
            Some((namespace, name)) => NetworkName::Attachment(ObjectName::new(namespace, name)),
            None => NetworkName::Cni(entry.name.as_str().into()),
        };
        let mut addresses = BTreeSet::new();
        for text in &entry.ips {
            addresses.insert(address(text)?);
        }
        let interface = entry.interface.filter(|interface| !interface.is_empty());
        found.push(PodAddresses {
            network,
            interface: interface.map(Into::into),
            addresses,
        });
    }
    Ok(found)
}

fn pod_networks(text: &str) -> Result<Vec<(NetworkName, BTreeSet<IpAddr>)>, String> {
    let map: BTreeMap<String, PodNetwork> = serde_json::from_str(text)
        .map_err(|why| format!("not a JSON object of networks: {why}"))?;
    let mut found = Vec::with_capacity(map.len());
    for (key, entry) in map {
        let network = match key.split_once('/') {
            None if key == "default" => NetworkName::Default,
            None => NetworkName::Cni(key.as_str().into()),
            Some((namespace, rest)) => {
                // A pod that is on a network twice has a number behind the second name.
                let name = rest.split('/').next().unwrap_or(rest);
                let name = ObjectName::new(namespace, name);
                match entry.role.as_deref() {
                    Some("primary") => NetworkName::Primary(Some(name)),
                    _ => NetworkName::Attachment(name),
                }
            }
        };
        let mut addresses = BTreeSet::new();
        let listed = entry.ip_addresses.iter().flatten();
        for text in listed.chain(&entry.ip_address) {
            addresses.insert(address(text)?);
        }
        found.push((network, addresses));
    }
    Ok(found)
}

/// The longest reason that an error gives, in characters. Tenants write the annotations, and parsers repeat what they read.
const MOST_REASON: usize = 200;

/// The error of an annotation that cannot be read.
fn cannot_read(annotation: &str, why: &str) -> FieldError {
    let why = shortened(why, MOST_REASON);
    let message =
        format!("{why}; the pod's networks and addresses of this annotation are left out");
    FieldError::new(entry("metadata.annotations", annotation), message)
}

/// An address, with a prefix length behind it or not.
fn address(text: &str) -> Result<IpAddr, String> {
    let with_length = || text.parse::<IpNet>().ok().map(|net| net.addr());
    let bare = text.parse().ok();
    bare.or_else(with_length)
        .ok_or_else(|| format!("{} is no address", quoted(text)))
}
