//! The error object that a plugin prints, and its codes.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What kind of error it is (CNI specification 1.1.0, "Error"). Codes from 100 are the plugin's
/// own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ErrorCode(pub u32);

/// The error object that a failing plugin prints on standard output: `{"code", "msg", "details"}`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{msg}{}", Details(details))]
#[serde(default)]
pub struct CniError {
    /// What kind of error it is.
    pub code: ErrorCode,
    /// What happened, in one line.
    pub msg: String,
    /// More about it; may be empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub details: String,
}

impl ErrorCode {
    /// The configuration's version is one that the plugin does not speak.
    pub const INCOMPATIBLE_VERSION: Self = Self(1);
    /// A field of the configuration that the plugin does not support; the message names it.
    pub const UNSUPPORTED_FIELD: Self = Self(2);
    /// The container is unknown or gone. The runtime will not clean up after it.
    pub const UNKNOWN_CONTAINER: Self = Self(3);
    /// A variable of the environment is missing or wrong.
    pub const INVALID_ENVIRONMENT: Self = Self(4);
    /// Reading or writing failed.
    pub const IO_FAILURE: Self = Self(5);
    /// The configuration is not what can be decoded.
    pub const DECODING_FAILURE: Self = Self(6);
    /// The configuration can be decoded, and is wrong.
    pub const INVALID_NETWORK_CONFIG: Self = Self(7);
    /// The network namespace is not one that the plugin may act on.
    pub const INVALID_NETNS: Self = Self(8);
    /// A passing condition; the runtime should try again.
    pub const TRY_AGAIN_LATER: Self = Self(11);
    /// STATUS: the plugin can't serve ADD now.
    pub const PLUGIN_NOT_AVAILABLE: Self = Self(50);
    /// STATUS: the plugin can't serve ADD, and existing containers may have limited connectivity.
    pub const LIMITED_CONNECTIVITY: Self = Self(51);
    /// Everything else: what the Go skeleton gives to errors without a code.
    pub const INTERNAL: Self = Self(999);
}

impl CniError {
    /// An error with this code and message, and no details.
    pub fn new(code: ErrorCode, msg: impl Into<String>) -> Self {
        Self {
            code,
            msg: msg.into(),
            details: String::new(),
        }
    }

    /// The same with these details.
    #[must_use]
    pub fn with_details(mut self, details: impl Into<String>) -> Self {
        self.details = details.into();
        self
    }

    /// An error without a code of its own (999).
    pub fn internal(error: impl fmt::Display) -> Self {
        Self::new(ErrorCode::INTERNAL, error.to_string())
    }

    /// A variable of the environment is missing or wrong (4).
    pub fn environment(msg: impl Into<String>) -> Self {
        Self::new(ErrorCode::INVALID_ENVIRONMENT, msg)
    }

    /// The configuration can't be decoded (6).
    pub fn decoding(msg: impl Into<String>) -> Self {
        Self::new(ErrorCode::DECODING_FAILURE, msg)
    }

    /// The configuration is wrong (7).
    pub fn invalid_config(msg: impl Into<String>) -> Self {
        Self::new(ErrorCode::INVALID_NETWORK_CONFIG, msg)
    }

    /// STATUS: the plugin can't serve ADD now (50).
    pub fn not_available(msg: impl Into<String>) -> Self {
        Self::new(ErrorCode::PLUGIN_NOT_AVAILABLE, msg)
    }

    /// Reading or writing failed (5).
    pub fn io(msg: impl Into<String>) -> Self {
        Self::new(ErrorCode::IO_FAILURE, msg)
    }
}

/// The details behind a message, as the Go library joins them.
struct Details<'a>(&'a str);

impl fmt::Display for Details<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            "" => Ok(()),
            details => write!(f, "; {details}"),
        }
    }
}
