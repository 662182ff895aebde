//! The networks that a pod selects: `k8s.v1.cni.cncf.io/networks`.

mod json;
mod short;

use netqos_core::{Limits, ObjectName};
use serde_json::{Map, Value};

use super::MAX_SELECTIONS;
use super::address::{InfinibandGuid, MacAddress, RequestedAddress};
use super::error::{SelectionError, quoted};

/// One network that a pod selects, and what it requests of it.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkSelection {
    /// The NetworkAttachmentDefinition.
    pub nad: ObjectName,
    /// The interface's name in the pod; [`interface_names`](super::interface_names) gives the others theirs.
    pub interface: Option<String>,
    /// The addresses that the interface shall have.
    pub ips: Vec<RequestedAddress>,
    /// The hardware address that the interface shall have.
    pub mac: Option<MacAddress>,
    /// `args.cni` of each plugin's configuration, over what the NAD has there.
    pub cni_args: Map<String, Value>,
    /// Ports of the node that lead to ports of the interface.
    pub port_mappings: Vec<HostPort>,
    /// The limits of the interface. Of a direction without a burst, netqos chooses it.
    pub bandwidth: Limits,
    /// The gateways of the pod's default route, which then leads through this interface; may be empty.
    pub default_route: Option<Vec<std::net::IpAddr>>,
    /// The GUID that the InfiniBand port shall have.
    pub infiniband_guid: Option<InfinibandGuid>,
    /// The IPAMClaim that keeps the interface's addresses.
    pub ipam_claim: Option<String>,
    /// The device that becomes the interface (Multus; not in the specification).
    pub device_id: Option<String>,
}

/// A port of the node that leads to a port of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPort {
    /// The port of the node.
    pub host_port: u16,
    /// The port of the pod.
    pub container_port: u16,
    /// The protocol.
    pub protocol: PortProtocol,
    /// The address of the node; `None`: every one (Multus; not in the specification).
    pub host_ip: Option<std::net::IpAddr>,
}

/// The protocol of a [`HostPort`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PortProtocol {
    /// TCP.
    #[default]
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

impl NetworkSelection {
    /// A selection that requests nothing but the network.
    pub fn of(nad: ObjectName) -> Self {
        Self {
            nad,
            interface: None,
            ips: Vec::new(),
            mac: None,
            cni_args: Map::new(),
            port_mappings: Vec::new(),
            bandwidth: Limits::default(),
            default_route: None,
            infiniband_guid: None,
            ipam_claim: None,
            device_id: None,
        }
    }
}

/// Parses the annotation [`NETWORKS`](super::NETWORKS) of a pod in this namespace. A blank text selects nothing.
///
/// The text is JSON if it contains `[`, `{` or `"`, as Multus decides it; else it is the short form,
/// `[namespace/]name[@interface]` with commas between entries.
///
/// # Errors
/// Returns the first error of the text, with its entry and key. A key of the JSON form that the specification does not
/// have is an error too, unless it has a period: then it is another program's.
pub fn parse_selections(
    text: &str,
    pod_namespace: &str,
) -> Result<Vec<NetworkSelection>, SelectionError> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let selections = match text.contains(['[', '{', '"']) {
        true => json::parse(text, pod_namespace)?,
        false => short::parse(text, pod_namespace)?,
    };
    let mut with_route =
        (selections.iter().enumerate()).filter(|(_, it)| it.default_route.is_some());
    if let (Some((first, _)), Some((index, second))) = (with_route.next(), with_route.next()) {
        let message = format!("entry {} has it already, and a pod has one", first + 1);
        let error = SelectionError::of_key("default-route", message);
        return Err(error.in_entry(index, &second.nad.name));
    }
    for (index, selection) in selections.iter().enumerate() {
        let Some(interface) = &selection.interface else {
            continue;
        };
        let mut before = selections[..index].iter();
        if let Some(other) = before.position(|it| it.interface.as_ref() == Some(interface)) {
            let message = format!(
                "interface name {} is taken: entry {} has it",
                quoted(interface),
                other + 1
            );
            return Err(SelectionError::of_entry(message).in_entry(index, &selection.nad.name));
        }
    }
    Ok(selections)
}

/// Parses the annotation [`DEFAULT_NETWORK`](super::DEFAULT_NETWORK): one entry, whose namespace is this one where it
/// names none. A blank text selects nothing.
///
/// # Errors
/// Returns an error as [`parse_selections`] does, and if the text has several entries.
pub fn parse_default_network(
    text: &str,
    namespace: &str,
) -> Result<Option<NetworkSelection>, SelectionError> {
    let mut selections = parse_selections(text, namespace)?;
    match selections.len() {
        0 | 1 => Ok(selections.pop()),
        number => Err(SelectionError::of_list(format!(
            "a pod has one default network, and the list has {number} entries"
        ))),
    }
}

fn check_number(number: usize) -> Result<(), SelectionError> {
    match number <= MAX_SELECTIONS {
        true => Ok(()),
        false => Err(SelectionError::of_list(format!(
            "a pod selects at most {MAX_SELECTIONS} networks, and the list has {number} entries"
        ))),
    }
}

/// A NAD's namespace or name: a DNS label (RFC 1123).
fn check_label(what: &str, text: &str) -> Result<(), String> {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    let ends_well = [bytes.first(), bytes.last()]
        .iter()
        .all(|byte| byte.is_some_and(|byte| is_inner(*byte)));
    let is_label =
        ends_well && bytes.len() <= 63 && bytes.iter().all(|byte| is_inner(*byte) || *byte == b'-');
    match is_label {
        true => Ok(()),
        false => Err(format!(
            "{what} {} is not a DNS label: 1 to 63 of a-z, 0-9 and -, the first and last not -",
            quoted(text)
        )),
    }
}

/// The name of an interface in the pod. The kernel would make another name of one with `%`, and has directories `all`
/// and `default` beside those of interfaces.
fn check_interface(text: &str) -> Result<(), String> {
    let is_reserved = matches!(text, "lo" | "all" | "default") || text.contains('%');
    match netqos_core::is_interface_name(text) && !is_reserved {
        true => Ok(()),
        false => Err(format!(
            "{} cannot be the name of an interface: 1 to 15 bytes without white space, /, : and %, and not lo, all, \
             default, . or ..",
            quoted(text)
        )),
    }
}
