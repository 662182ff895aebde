//! The network configuration of one plugin, as it arrives on standard input.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::{CniError, CniResult, CniVersion, json, names};

/// A plugin's network configuration. Keys are matched without regard to case, as in Go.
#[derive(Clone, Debug, PartialEq)]
pub struct NetConf {
    /// `cniVersion`: one of those that the plugin speaks.
    pub version: CniVersion,
    /// `name` of the network: made of the characters that CNI allows.
    pub name: String,
    /// `type`: the plugin's executable; empty when not said.
    pub kind: String,
    /// `capabilities`, by which the runtime chose what to put into `runtimeConfig`.
    pub capabilities: BTreeMap<String, bool>,
    /// `runtimeConfig`: the arguments of the capabilities, by their names.
    pub runtime_config: Map<String, Value>,
    /// `prevResult`, as it came; [`NetConf::prev_result`] reads it.
    pub raw_prev_result: Option<Value>,
    /// The whole document, for what is the plugin's own.
    pub raw: Map<String, Value>,
}

impl NetConf {
    /// Reads what is the same for all plugins, from a document whose name and version the skeleton
    /// has checked.
    pub(super) fn read(document: Document, version: CniVersion) -> Result<Self, CniError> {
        let wrong = |key: &str, found: &Value, expected: &str| {
            CniError::decoding(format!(
                "failed to parse network configuration: {key} is of type {}, expected {expected}",
                json::kind_of(found)
            ))
        };
        let raw = document.0;
        let object = |key: &str| match json::field(&raw, key) {
            None => Ok(Map::new()),
            Some(Value::Object(object)) => Ok(object.clone()),
            Some(other) => Err(wrong(key, other, "object")),
        };
        let mut capabilities = BTreeMap::new();
        for (name, value) in object("capabilities")? {
            match value {
                Value::Bool(wanted) => capabilities.insert(name, wanted),
                Value::Null => capabilities.insert(name, false),
                other => return Err(wrong(&format!("capabilities.{name}"), &other, "bool")),
            };
        }
        let text = |key: &str| match json::field(&raw, key) {
            None => Ok(String::new()),
            Some(Value::String(text)) => Ok(text.clone()),
            Some(other) => Err(wrong(key, other, "string")),
        };
        Ok(Self {
            version,
            name: text("name")?,
            kind: text("type")?,
            capabilities,
            runtime_config: object("runtimeConfig")?,
            raw_prev_result: json::field(&raw, "prevResult").cloned(),
            raw,
        })
    }

    /// The previous plugin's result; `None` when this plugin is the first of its list. Its version
    /// is the configuration's.
    ///
    /// # Errors
    ///
    /// `could not parse prevResult: …`, code 999 as in the original, also when its version is of
    /// another [family](CniVersion::family) than the configuration's.
    pub fn prev_result(&self) -> Result<Option<CniResult>, CniError> {
        let Some(value) = &self.raw_prev_result else {
            return Ok(None);
        };
        CniResult::from_previous(value.clone(), self.version)
            .and_then(|result| result.into_version(self.version))
            .map(Some)
            .map_err(|problem| {
                CniError::internal(format_args!("could not parse prevResult: {problem}"))
            })
    }
}

/// A document that is known to be an object with a name, and no more.
pub(super) struct Document(Map<String, Value>);

impl Document {
    /// Decodes it and checks the network's name.
    pub(super) fn decode(text: &[u8]) -> Result<Self, CniError> {
        let fail = |problem: &str| {
            CniError::decoding(format!("error unmarshall network config: {problem}"))
        };
        let object = match serde_json::from_slice(text) {
            Ok(Value::Object(object)) => object,
            Ok(Value::Null) => Map::new(),
            Ok(other) => {
                return Err(fail(&format!(
                    "cannot unmarshal {} into a network config",
                    json::kind_of(&other)
                )));
            }
            Err(error) => return Err(fail(&json::parser_message(&error))),
        };
        let name = json::text_field(&object, "name")
            .map_err(|kind| fail(&format!("cannot unmarshal {kind} into name of type string")))?;
        names::check_network_name(name)?;
        Ok(Self(object))
    }

    /// The version as it is written; a document without one is of 0.1.0.
    pub(super) fn version(&self) -> Result<String, CniError> {
        match json::text_field(&self.0, "cniVersion") {
            Ok("") => Ok(CniVersion::V0_1_0.to_string()),
            Ok(text) => Ok(text.to_owned()),
            Err(kind) => Err(CniError::decoding(format!(
                "decoding version from network config: cannot unmarshal {kind} into cniVersion of type string"
            ))),
        }
    }
}
