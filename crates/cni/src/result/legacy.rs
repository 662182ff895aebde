//! Results of 0.1.0 and 0.2.0: one address of each family, with its routes.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{CniResult, Dns, IpConfig, ResultError, Route};
use crate::json::null_is_default;
use crate::prefix::optional_address;
use crate::{CniVersion, IpPrefix};

/// The whole document, as it is printed.
#[derive(Serialize)]
pub(super) struct LegacyDocument<'a> {
    #[serde(rename = "cniVersion")]
    version: CniVersion,
    dns: &'a Dns,
    #[serde(skip_serializing_if = "Option::is_none")]
    ip4: Option<LegacyIp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ip6: Option<LegacyIp>,
    #[serde(flatten)]
    other: &'a Map<String, Value>,
}

/// The whole document, as it is read.
#[derive(Deserialize)]
struct Source {
    #[serde(rename = "cniVersion", default)]
    _version: Value,
    #[serde(default, deserialize_with = "null_is_default")]
    dns: Dns,
    ip4: Option<LegacyIp>,
    ip6: Option<LegacyIp>,
    #[serde(flatten)]
    other: Map<String, Value>,
}

/// The address of one family.
#[derive(Serialize, Deserialize)]
struct LegacyIp {
    #[serde(
        default,
        deserialize_with = "optional_address",
        skip_serializing_if = "Option::is_none"
    )]
    gateway: Option<IpAddr>,
    ip: IpPrefix,
    #[serde(
        default,
        deserialize_with = "null_is_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    routes: Vec<Route>,
    #[serde(flatten)]
    other: Map<String, Value>,
}

impl<'a> LegacyDocument<'a> {
    pub(super) fn of(result: &'a CniResult) -> Self {
        Self {
            version: result.version,
            dns: &result.dns,
            ip4: LegacyIp::of(result, true),
            ip6: LegacyIp::of(result, false),
            other: &result.other,
        }
    }
}

impl LegacyIp {
    /// The first address of this family, with the family's routes.
    fn of(result: &CniResult, ipv4: bool) -> Option<Self> {
        let ip = result.ips.iter().find(|ip| ip.address.is_ipv4() == ipv4)?;
        Some(Self {
            gateway: ip.gateway,
            ip: ip.address,
            routes: result
                .routes
                .iter()
                .filter(|route| route.dst.is_ipv4() == ipv4)
                .cloned()
                .collect(),
            other: ip.other.clone(),
        })
    }
}

pub(super) fn read(value: Value, version: CniVersion) -> Result<CniResult, ResultError> {
    let source = Source::deserialize(value)?;
    let mut result = CniResult::new(version);
    for old in [source.ip4, source.ip6].into_iter().flatten() {
        result.routes.extend(old.routes);
        result.ips.push(IpConfig {
            address: old.ip,
            gateway: old.gateway,
            interface: None,
            other: old.other,
        });
    }
    result.dns = source.dns;
    result.other = source.other;
    Ok(result)
}

/// Drops what these versions have no place for.
pub(super) fn reduce(result: &mut CniResult) -> Result<(), ResultError> {
    if result.ips.is_empty() {
        return Err(ResultError::NoAddresses);
    }
    result.interfaces.clear();
    let mut has = (false, false);
    result.ips.retain_mut(|ip| {
        ip.interface = None;
        let seen = if ip.address.is_ipv4() {
            &mut has.0
        } else {
            &mut has.1
        };
        !std::mem::replace(seen, true)
    });
    result
        .routes
        .retain(|route| if route.dst.is_ipv4() { has.0 } else { has.1 });
    Ok(())
}
