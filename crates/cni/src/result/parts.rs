//! The parts of a result. Fields are in the order of their names, as results are printed.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::IpPrefix;
use crate::json::null_is_default;
use crate::prefix::optional_address;

/// An interface that a plugin made or found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Interface {
    /// Its hardware address; empty when not known.
    #[serde(
        deserialize_with = "null_is_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub mac: String,
    /// Its MTU in bytes (since 1.1.0); 0 when not known.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub mtu: u32,
    /// Its name.
    #[serde(deserialize_with = "null_is_default")]
    pub name: String,
    /// The PCI address of the device behind it (since 1.1.0); empty when there is none.
    #[serde(
        rename = "pciID",
        deserialize_with = "null_is_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub pci_id: String,
    /// The network namespace that it is in, as the path that the runtime gave; empty on the host.
    #[serde(
        deserialize_with = "null_is_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub sandbox: String,
    /// The socket behind it (since 1.1.0, vhost-user); empty when there is none.
    #[serde(
        rename = "socketPath",
        deserialize_with = "null_is_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub socket_path: String,
    /// Fields that no version knows.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// An address of an interface.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IpConfig {
    /// The address, with the length of its network's prefix.
    pub address: IpPrefix,
    /// The gateway of its network.
    #[serde(
        default,
        deserialize_with = "optional_address",
        skip_serializing_if = "Option::is_none"
    )]
    pub gateway: Option<IpAddr>,
    /// Which of the result's interfaces has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<usize>,
    /// Fields that no version knows.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// A route inside the sandbox.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Route {
    /// The segment size that TCP advertises over it, in bytes (since 1.1.0); 0 when not set.
    #[serde(
        default,
        deserialize_with = "null_is_default",
        skip_serializing_if = "is_zero"
    )]
    pub advmss: u32,
    /// Where it leads to.
    pub dst: IpPrefix,
    /// The gateway; without one, that of the address in the same family.
    #[serde(
        default,
        deserialize_with = "optional_address",
        skip_serializing_if = "Option::is_none"
    )]
    pub gw: Option<IpAddr>,
    /// The MTU over it, in bytes (since 1.1.0); 0 when not set.
    #[serde(
        default,
        deserialize_with = "null_is_default",
        skip_serializing_if = "is_zero"
    )]
    pub mtu: u32,
    /// Its metric, lower wins (since 1.1.0); 0 when not set.
    #[serde(
        default,
        deserialize_with = "null_is_default",
        skip_serializing_if = "is_zero"
    )]
    pub priority: u32,
    /// Its scope: 0 global, 253 link, 254 host (since 1.1.0).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<u32>,
    /// The routing table that it is in (since 1.1.0).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<u32>,
    /// Fields that no version knows.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// Name servers and search domains.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Dns {
    /// The local domain; empty when not set.
    #[serde(
        deserialize_with = "null_is_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub domain: String,
    /// Addresses of name servers, the preferred first.
    #[serde(
        deserialize_with = "null_is_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub nameservers: Vec<String>,
    /// Options of the resolver.
    #[serde(
        deserialize_with = "null_is_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub options: Vec<String>,
    /// Search domains, the preferred first.
    #[serde(
        deserialize_with = "null_is_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub search: Vec<String>,
    /// Fields that no version knows.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl Interface {
    /// An interface on the host.
    pub fn on_host(name: impl Into<String>, mac: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            mac: mac.into(),
            ..Self::default()
        }
    }

    /// True when it is on the host and not in a sandbox.
    pub const fn is_on_host(&self) -> bool {
        self.sandbox.is_empty()
    }

    /// Drops what versions before 1.0.0 have no field for.
    pub(super) fn forget_details(&mut self) {
        self.mtu = 0;
        self.pci_id.clear();
        self.socket_path.clear();
    }
}

impl Dns {
    /// True when nothing is set.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
const fn is_zero(number: &u32) -> bool {
    *number == 0
}
