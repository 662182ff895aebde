//! Results of 0.1.0 and 0.2.0: one address of each family, with its routes.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{CniResult, Dns, FAMILY_KEY, IpConfig, ResultError, Route};
use crate::json::null_is_default;
use crate::prefix::optional_address;
use crate::{CniVersion, IpPrefix};

/// Keys of a result that are fields either here or since 0.3.0.
const FIELDS: [&str; 5] = ["interfaces", "ip4", "ip6", "ips", "routes"];

/// The same for an address.
const ADDRESS_FIELDS: [&str; 5] = ["address", "interface", "ip", "routes", FAMILY_KEY];

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
    for (field, old) in [("ip4", source.ip4), ("ip6", source.ip6)] {
        let Some(old) = old else { continue };
        let mut prefixes = old.routes.iter().map(|route| route.dst).chain([old.ip]);
        if let Some(found) = prefixes.find(|prefix| prefix.is_ipv4() != (field == "ip4")) {
            return Err(ResultError::WrongField { field, found });
        }
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

/// Drops what these versions have no place for; IPv4 comes first.
pub(super) fn reduce(result: &mut CniResult) -> Result<(), ResultError> {
    if result.ips.is_empty() {
        return Err(ResultError::NoAddresses);
    }
    result.interfaces.clear();
    // The sort keeps the order inside of a family, of which the first address counts.
    result.ips.sort_by_key(|ip| !ip.address.is_ipv4());
    result.ips.dedup_by_key(|ip| ip.address.is_ipv4());
    for ip in &mut result.ips {
        ip.interface = None;
    }
    let has = |ipv4| result.ips.iter().any(|ip| ip.address.is_ipv4() == ipv4);
    let (has_ipv4, has_ipv6) = (has(true), has(false));
    result.routes.sort_by_key(|route| !route.dst.is_ipv4());
    result.routes.retain(|route| match route.dst.is_ipv4() {
        true => has_ipv4,
        false => has_ipv6,
    });
    Ok(())
}

/// Drops what the one form does not know and the other takes for a field of its own: printed
/// there, it would stand beside the field, under the same key.
pub(super) fn forget_other_form(result: &mut CniResult) {
    for key in FIELDS {
        result.other.remove(key);
    }
    for ip in &mut result.ips {
        for key in ADDRESS_FIELDS {
            ip.other.remove(key);
        }
    }
}
