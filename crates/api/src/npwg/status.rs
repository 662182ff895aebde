//! The networks that a pod is on: `k8s.v1.cni.cncf.io/network-status`.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One interface of a pod, as the annotation describes it.
///
/// It is written as the Go client of the specification writes it. Addresses are without their prefixes there, which
/// stand under a key of netqos' own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NetworkStatus {
    /// `namespace/name` of the NetworkAttachmentDefinition; for the default network the name of its CNI network. Some
    /// programs leave it empty.
    #[serde(default)]
    pub name: String,
    /// The interface's name in the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// Its addresses: without prefixes as netqos and Multus write them, with them in the specification's examples.
    #[serde(
        default,
        deserialize_with = "null_is_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub ips: Vec<String>,
    /// Its hardware address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac: Option<String>,
    /// Its MTU in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u64>,
    /// Set for the default network, or for the network in its place.
    #[serde(
        default,
        deserialize_with = "null_is_default",
        skip_serializing_if = "is_false"
    )]
    pub default: bool,
    /// The name servers that the network's plugins returned.
    #[serde(default, deserialize_with = "null_is_default")]
    pub dns: StatusDns,
    /// The device behind the interface, as its device plugin describes it.
    #[serde(
        rename = "device-info",
        alias = "device",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub device_info: Option<Value>,
    /// The gateways of default routes through the interface; the specification calls the key `default-route`.
    #[serde(
        alias = "default-route",
        default,
        deserialize_with = "null_is_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub gateway: Vec<String>,
    /// The addresses with the lengths of their prefixes, in the order of `ips` (netqos only).
    #[serde(
        rename = "netqos.io/prefixes",
        default,
        deserialize_with = "null_is_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub prefixes: Vec<String>,
}

/// Name servers and domains, as a CNI result has them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusDns {
    /// The name servers' addresses.
    #[serde(
        default,
        deserialize_with = "null_is_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub nameservers: Vec<String>,
    /// The local domain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// The search domains.
    #[serde(
        default,
        deserialize_with = "null_is_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub search: Vec<String>,
    /// The resolver's options.
    #[serde(
        default,
        deserialize_with = "null_is_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub options: Vec<String>,
}

/// An annotation that is not a list of interfaces.
#[derive(Debug, thiserror::Error)]
#[error("not a JSON list of networks: {0}")]
pub struct StatusError(#[from] serde_json::Error);

/// Parses the annotation, also as OVN-Kubernetes, older programs and the specification's examples write it. Keys that
/// netqos does not know are passed over.
///
/// # Errors
/// Returns an error if the text is not a JSON list of objects with values of these types.
pub fn parse_status(text: &str) -> Result<Vec<NetworkStatus>, StatusError> {
    Ok(serde_json::from_str(text)?)
}

/// Returns the annotation's text, byte for byte as Multus writes it: programs compare it.
pub fn write_status(status: &[NetworkStatus]) -> String {
    let mut text = String::from("[");
    for (index, entry) in status.iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        text.push_str(&indented(entry));
    }
    text.push(']');
    text
}

/// JSON with four spaces for each level, and with the characters of HTML escaped, as Go does both.
fn indented(entry: &NetworkStatus) -> String {
    let mut bytes = Vec::new();
    let formatter = serde_json::ser::PrettyFormatter::with_indent(b"    ");
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, formatter);
    // Strings, numbers and lists of them are always JSON, and serde_json writes UTF-8.
    let _ = entry.serialize(&mut serializer);
    let text = String::from_utf8_lossy(&bytes);
    text.replace('&', "\\u0026")
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
const fn is_false(value: &bool) -> bool {
    !*value
}

fn null_is_default<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: Deserialize<'de> + Default,
    D: serde::Deserializer<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
