//! Which way the measured traffic goes.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The way of the measured traffic, seen from the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Flow {
    /// From the client to the server.
    Upload,
    /// From the server to the client.
    Download,
}

impl fmt::Display for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Upload => "upload",
            Self::Download => "download",
        })
    }
}
