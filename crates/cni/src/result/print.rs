//! A result as each version prints it.

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use super::{CniResult, Dns, Interface, IpConfig, Route};
use crate::CniVersion;

impl Serialize for CniResult {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Document::of(self).serialize(serializer)
    }
}

/// Fields are in the order of their names, in which the Go library prints 1.x.
#[derive(Serialize)]
struct Document<'a> {
    #[serde(rename = "cniVersion")]
    version: CniVersion,
    #[serde(skip_serializing_if = "Option::is_none")]
    dns: Option<&'a Dns>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    interfaces: &'a [Interface],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ips: Vec<Address<'a>>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    routes: &'a [Route],
    #[serde(flatten)]
    other: &'a Map<String, Value>,
}

/// An address, and its family where that is written.
#[derive(Serialize)]
struct Address<'a> {
    #[serde(flatten)]
    ip: &'a IpConfig,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<&'static str>,
}

impl<'a> Document<'a> {
    fn of(result: &'a CniResult) -> Self {
        let old = result.version < CniVersion::V1_0_0;
        let address = |ip: &'a IpConfig| Address {
            ip,
            version: old.then(|| if ip.address.is_ipv4() { "4" } else { "6" }),
        };
        Self {
            version: result.version,
            dns: (old || !result.dns.is_empty()).then_some(&result.dns),
            interfaces: &result.interfaces,
            ips: result.ips.iter().map(address).collect(),
            routes: &result.routes,
            other: &result.other,
        }
    }
}
