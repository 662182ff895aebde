//! What the lines are divided into, as it is kept for the agent that comes after this one.
//!
//! A configuration that cannot be followed leaves in force what stands, also where the agent starts with it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use netqos_api::koordinator::NodeSlo;
use netqos_core::classes::LineShares;
use netqos_datapath::Documents;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The name of the document.
const NAME: &str = "class-shares";

/// Which object says how lines are shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Source {
    /// The NodeSLO of the node.
    NodeSlo,
    /// The ConfigMap.
    ConfigMap,
}

/// What was said last that could be followed, and what each line is divided into.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recorded {
    /// By which object.
    pub source: Source,
    /// As a `NodeSLO.spec` says it.
    spec: Map<String, Value>,
    /// By the lines' names.
    pub lines: BTreeMap<Arc<str>, LineShares>,
    /// The names of all lines, also of those that are not divided.
    pub uplinks: Vec<Arc<str>>,
}

impl Recorded {
    /// Of what is said, and of lines.
    #[cfg(feature = "daemon")]
    pub(crate) fn new(
        source: Source,
        slo: NodeSlo,
        lines: BTreeMap<Arc<str>, LineShares>,
        uplinks: Vec<Arc<str>>,
    ) -> Self {
        Self {
            source,
            spec: slo.to_spec(),
            lines,
            uplinks,
        }
    }

    /// The file.
    pub fn path(run: &Path) -> PathBuf {
        run.join(format!("{NAME}.json"))
    }

    /// What an agent has kept; `None` if nothing, or nothing that this one can read.
    pub fn read(run: &Path) -> Option<Self> {
        Documents::new(run.to_owned()).peek(NAME)
    }

    /// What was said.
    pub fn slo(&self) -> Option<NodeSlo> {
        NodeSlo::from_spec(&self.spec).ok()
    }

    /// Keeps this, or that nothing is divided.
    ///
    /// # Errors
    /// It cannot be written: what was kept before stays.
    #[cfg(feature = "daemon")]
    pub(crate) fn write(now: Option<&Self>, run: &Path) -> netqos_datapath::Result<()> {
        let documents = Documents::new(run.to_owned());
        match now {
            Some(now) => documents.write(NAME, now),
            None => documents.remove(NAME),
        }
    }
}
