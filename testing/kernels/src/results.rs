//! The results of cells, which outlive a run that is interrupted.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::{Deserialize, Serialize};

use crate::cell::{Cell, Verdict};

/// The results of all cells by their names, as in `target/kernels/results.json`.
#[derive(Debug, Default)]
pub struct Results {
    file: PathBuf,
    cells: BTreeMap<String, Stored>,
}

/// The last result of a cell that passed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Stored {
    /// What it depends on, as [`key`](crate::image::key) says.
    key: String,
    /// The kernel and the version of its package: `7.3.4-1`.
    pub kernel: String,
    #[serde(flatten)]
    pub verdict: Verdict,
    pub seconds: u64,
}

impl Results {
    /// Reads them; a file that does not exist has none.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, or is not what this program writes.
    pub fn open(file: &Path) -> anyhow::Result<Self> {
        let cells = match file.exists() {
            true => serde_json::from_slice(&fs::read(file)?)
                .with_context(|| format!("read {}; --fresh starts again", file.display()))?,
            false => BTreeMap::new(),
        };
        Ok(Self {
            file: file.to_owned(),
            cells,
        })
    }

    /// None, to be written to this file.
    pub fn empty(file: &Path) -> Self {
        Self {
            file: file.to_owned(),
            cells: BTreeMap::new(),
        }
    }

    /// The last result of a cell, whatever it depended on.
    pub fn last(&self, cell: &Cell) -> Option<&Stored> {
        self.cells.get(&cell.to_string())
    }

    /// The result of a cell, if all that it depends on is the same.
    pub fn current(&self, cell: &Cell, key: &str) -> Option<&Stored> {
        self.last(cell).filter(|stored| stored.key == key)
    }

    /// Writes down a result; `None` for a cell that failed.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn put(&mut self, cell: &Cell, stored: Option<Stored>) -> anyhow::Result<()> {
        match stored {
            Some(stored) => self.cells.insert(cell.to_string(), stored),
            None => self.cells.remove(&cell.to_string()),
        };
        let directory = self.file.parent().context("a file without a directory")?;
        fs::create_dir_all(directory)?;
        // A reader, or a run after one that was killed, never finds half of it.
        let fresh = tempfile::NamedTempFile::new_in(directory)?;
        serde_json::to_writer_pretty(&fresh, &self.cells)?;
        fresh.persist(&self.file)?;
        Ok(())
    }
}

impl Stored {
    pub const fn new(key: String, kernel: String, verdict: Verdict, seconds: u64) -> Self {
        Self {
            key,
            kernel,
            verdict,
            seconds,
        }
    }
}
