//! The results of cells, which outlive a run that is interrupted.

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::{Deserialize, Serialize};

use crate::cell::{Cell, Verdict};
use crate::programs::Programs;

/// The results of all cells by their names, as in `testing/kernels/results.json`.
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
    /// The programs that it is of; results before 2026-11-29 do not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub programs: Option<Programs>,
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
        Ok(Self {
            file: file.to_owned(),
            cells: read(file)?,
        })
    }

    /// Removes those in this file.
    ///
    /// # Errors
    /// Returns an error if the file cannot be removed.
    pub fn empty(file: &Path) -> anyhow::Result<Self> {
        if file.exists() {
            fs::remove_file(file)?;
        }
        Self::open(file)
    }

    /// The last result of a cell, whatever it depended on.
    pub fn last(&self, cell: &Cell) -> Option<&Stored> {
        self.cells.get(&cell.to_string())
    }

    /// The result of a cell, if all that it depends on is the same.
    pub fn current(&self, cell: &Cell, key: &str) -> Option<&Stored> {
        self.last(cell).filter(|stored| stored.key == key)
    }

    /// Writes down a result; `None` for a cell that failed. Other processes may run other cells meanwhile.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or written.
    pub fn put(&mut self, cell: &Cell, stored: Option<Stored>) -> anyhow::Result<()> {
        let directory = self.file.parent().context("a file without a directory")?;
        let lock = File::open(directory)?;
        lock.lock()?;
        self.cells = read(&self.file)?;
        match stored {
            Some(stored) => self.cells.insert(cell.to_string(), stored),
            None => self.cells.remove(&cell.to_string()),
        };
        // A reader, or a run after one that was killed, never finds half of it.
        let mut fresh = tempfile::NamedTempFile::new_in(directory)?;
        serde_json::to_writer_pretty(&fresh, &self.cells)?;
        writeln!(fresh)?;
        fresh
            .as_file()
            .set_permissions(Permissions::from_mode(0o644))?;
        fresh.persist(&self.file)?;
        Ok(())
    }
}

fn read(file: &Path) -> anyhow::Result<BTreeMap<String, Stored>> {
    match file.exists() {
        true => serde_json::from_slice(&fs::read(file)?)
            .with_context(|| format!("read {}; --fresh starts again", file.display())),
        false => Ok(BTreeMap::new()),
    }
}

impl Stored {
    pub const fn new(
        key: String,
        kernel: String,
        programs: Programs,
        verdict: Verdict,
        seconds: u64,
    ) -> Self {
        Self {
            key,
            kernel,
            programs: Some(programs),
            verdict,
            seconds,
        }
    }
}
