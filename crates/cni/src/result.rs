//! What a plugin made: interfaces, addresses, routes, name servers.
//!
//! One model, that of 1.1.0, for the results of all versions since 0.3.0:
//!
//! | | 0.3.0, 0.3.1, 0.4.0 | 1.0.0, 1.1.0 |
//! |---|---|---|
//! | addresses | `ips` with `version` | `ips` |
//! | interfaces | `name`, `mac`, `sandbox` | also `mtu`, `socketPath`, `pciID` |
//! | empty `dns` | printed | left out |
//!
//! The Go library reads and writes the fields of 1.1.0 in 1.0.0 results, and those of routes in
//! all; so does this. Fields that no version knows are kept, at every level.

mod parts;
mod print;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io::{self, Write};

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::json;
use crate::{CniVersion, VersionError};

pub use parts::{Dns, Interface, IpConfig, Route};

/// The key of an address' family in 0.3.0 to 0.4.0; later versions leave it to the address.
const FAMILY_KEY: &str = "version";

/// The result of ADD, also what the next plugin of a list gets as `prevResult`.
///
/// ```
/// # use netqos_cni::{CniResult, CniVersion};
/// let result = CniResult::parse(
///     br#"{"cniVersion": "1.0.0", "interfaces": [{"name": "eth0", "colour": "red"}]}"#,
///     CniVersion::V1_0_0,
/// )?;
/// assert_eq!(result.interfaces[0].name, "eth0");
/// assert_eq!(result.interfaces[0].other["colour"], "red");
/// # Ok::<(), netqos_cni::ResultError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct CniResult {
    /// The version in which it is printed. To change it, [`into_version`](Self::into_version).
    version: CniVersion,
    /// What was made or found, on the host and in the sandbox.
    pub interfaces: Vec<Interface>,
    /// Addresses of the interfaces.
    pub ips: Vec<IpConfig>,
    /// Routes inside the sandbox.
    pub routes: Vec<Route>,
    /// Name servers and search domains.
    pub dns: Dns,
    /// Fields that no version knows.
    pub other: Map<String, Value>,
}

/// Why a document is not a result, or can't be one of another version.
#[derive(Debug, thiserror::Error)]
pub enum ResultError {
    /// Not JSON, or not the fields of a result.
    #[error("{}", json::parser_message(.0))]
    Json(#[from] serde_json::Error),
    /// The result's `cniVersion` is no version.
    #[error(transparent)]
    Version(#[from] VersionError),
    /// A version whose results nobody here can read.
    #[error("unsupported CNI result version {0:?}")]
    UnsupportedVersion(String),
    /// A `prevResult` whose form is not that of its configuration's version.
    #[error("result type supports {supported:?} but unmarshalled CNIVersion is {found:?}", supported = Spaced(supported))]
    OtherFamily {
        /// The versions that it could have had.
        supported: &'static [CniVersion],
        /// The version that it says.
        found: String,
    },
}

impl CniResult {
    /// A result without anything.
    pub fn new(version: CniVersion) -> Self {
        Self {
            version,
            interfaces: Vec::new(),
            ips: Vec::new(),
            routes: Vec::new(),
            dns: Dns::default(),
            other: Map::new(),
        }
    }

    /// Reads what a plugin printed. A result that names no version has that of its configuration,
    /// as the Go library decided (containernetworking/cni#895).
    pub fn parse(text: &[u8], config_version: CniVersion) -> Result<Self, ResultError> {
        Self::from_value(serde_json::from_slice(text)?, config_version)
    }

    /// The same from parsed JSON.
    pub fn from_value(value: Value, config_version: CniVersion) -> Result<Self, ResultError> {
        let is_old = ["ip4", "ip6"].iter().any(|key| value.get(key).is_some());
        let version = match named_version(&value) {
            "" if is_old => CniVersion::V0_2_0,
            "" => config_version,
            text => text.parse()?,
        };
        match version.family() {
            [] => Err(ResultError::UnsupportedVersion(version.to_string())),
            _ => Self::of_version(value, version),
        }
    }

    /// Reads a `prevResult`: as [`from_value`](Self::from_value), but its version must be of the
    /// [family](CniVersion::family) of its configuration's.
    pub fn from_previous(value: Value, config_version: CniVersion) -> Result<Self, ResultError> {
        let supported = config_version.family();
        if supported.is_empty() {
            return Err(ResultError::UnsupportedVersion(config_version.to_string()));
        }
        let found = named_version(&value);
        let version = match found {
            "" => config_version,
            text => supported
                .iter()
                .copied()
                .find(|version| version.to_string() == text)
                .ok_or_else(|| ResultError::OtherFamily {
                    supported,
                    found: text.to_owned(),
                })?,
        };
        Self::of_version(value, version)
    }

    fn of_version(value: Value, version: CniVersion) -> Result<Self, ResultError> {
        let value = match value {
            Value::Null => Value::Object(Map::new()),
            value => value,
        };
        let document = Document::deserialize(value)?;
        let mut result = Self {
            version,
            interfaces: document.interfaces,
            ips: document.ips,
            routes: document.routes,
            dns: document.dns,
            other: document.other,
        };
        if version < CniVersion::V1_0_0 {
            result.forget_families();
        }
        Ok(result)
    }

    /// The version in which it is printed.
    pub const fn version(&self) -> CniVersion {
        self.version
    }

    /// The same as a result of another version. What that version has no place for is dropped.
    ///
    /// # Errors
    ///
    /// A version whose results nobody here can write.
    pub fn into_version(mut self, version: CniVersion) -> Result<Self, ResultError> {
        if version.family().is_empty() {
            return Err(ResultError::UnsupportedVersion(version.to_string()));
        }
        if version < CniVersion::V1_0_0 && self.version >= CniVersion::V1_0_0 {
            for interface in &mut self.interfaces {
                interface.forget_details();
            }
            self.forget_families();
        }
        self.version = version;
        Ok(self)
    }

    /// Prints it: indented by four spaces, no newline at the end.
    pub fn write(&self, out: impl Write) -> io::Result<()> {
        json::write_pretty(out, self)
    }

    /// It is printed anew from the address.
    fn forget_families(&mut self) {
        for ip in &mut self.ips {
            ip.other.remove(FAMILY_KEY);
        }
    }
}

/// A result, as it is written.
#[derive(Deserialize)]
struct Document {
    #[serde(rename = "cniVersion", default)]
    _version: Value,
    #[serde(default, deserialize_with = "json::null_is_default")]
    interfaces: Vec<Interface>,
    #[serde(default, deserialize_with = "json::null_is_default")]
    ips: Vec<IpConfig>,
    #[serde(default, deserialize_with = "json::null_is_default")]
    routes: Vec<Route>,
    #[serde(default, deserialize_with = "json::null_is_default")]
    dns: Dns,
    #[serde(flatten)]
    other: Map<String, Value>,
}

/// The version that a result names; what is not a text is no version.
fn named_version(value: &Value) -> &str {
    value
        .get("cniVersion")
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// A list as Go prints it: `[1.0.0 1.1.0]`.
struct Spaced<'a>(&'a [CniVersion]);

impl fmt::Debug for Spaced<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (index, version) in self.0.iter().enumerate() {
            let space = if index == 0 { "" } else { " " };
            write!(f, "{space}{version}")?;
        }
        f.write_str("]")
    }
}
