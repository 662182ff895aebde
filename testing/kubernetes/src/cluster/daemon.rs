//! A process of the sandbox that is killed and started again.

use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, bail};

use super::ROOT;

/// The lines of a log that an error shows.
const LOG_LINES: usize = 25;

/// A process with a log file.
pub struct Daemon {
    name: String,
    program: PathBuf,
    arguments: Vec<String>,
    log: PathBuf,
    child: Option<Child>,
}

impl Daemon {
    /// Describes a process that does not run yet.
    ///
    /// # Errors
    /// Returns an error if the directory of logs cannot be made.
    pub fn new(name: &str, program: PathBuf, arguments: Vec<String>) -> anyhow::Result<Self> {
        let logs = Path::new(ROOT).join("log");
        fs::create_dir_all(&logs)?;
        Ok(Self {
            name: name.to_owned(),
            program,
            arguments,
            log: logs.join(name),
            child: None,
        })
    }

    /// Starts the process.
    ///
    /// # Errors
    /// Returns an error if it cannot be executed.
    pub fn start(&mut self) -> anyhow::Result<()> {
        let log = File::options().create(true).append(true).open(&self.log)?;
        let child = Command::new(&self.program)
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot execute {}", self.program.display()))?;
        self.child = Some(child);
        Ok(())
    }

    /// Kills the process (SIGKILL), and waits for its end.
    ///
    /// # Errors
    /// Returns an error if it does not run.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        let mut child = self.child.take().context("does not run")?;
        child.kill()?;
        child.wait()?;
        Ok(())
    }

    /// The process ID, while it runs.
    pub(super) fn id(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Returns an error if the process has ended by itself, with the end of its log.
    ///
    /// # Errors
    /// See above.
    pub fn check(&mut self) -> anyhow::Result<()> {
        if let Some(child) = &mut self.child
            && let Some(status) = child.try_wait()?
        {
            bail!("{} ended with {status}:\n{}", self.name, self.log_end());
        }
        Ok(())
    }

    /// The last lines of the log.
    pub fn log_end(&self) -> String {
        end(&self.log)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.kill().ok();
    }
}

/// The last lines of a log file.
pub(super) fn end(log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
}
