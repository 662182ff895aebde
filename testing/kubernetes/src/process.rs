//! Processes that end with this one, and leave nothing behind.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use anyhow::Context as _;

/// The directory that is a process's own: an empty file system in memory that no other process sees.
pub(crate) const SCRATCH: &str = "/mnt";

/// The bytes of a log that are looked at.
const LOG_END: u64 = 16 * 1024;

/// What runs in the process's own mounts before the executable: $1 is the number of files, which the
/// environment holds, and the rest the command.
const PREPARE: &str = r#"set -eu
mount -t tmpfs -o mode=700 tmpfs /mnt
n=$1; shift
while [ "$n" -gt 0 ]; do
  n=$((n - 1))
  eval "name=\$NETQOS_FILE_${n}_NAME content=\$NETQOS_FILE_$n"
  printf %s "$content" > "/mnt/$name"
  unset "NETQOS_FILE_${n}_NAME" "NETQOS_FILE_$n"
done
exec "$@"
"#;

/// A process that is killed with this value, and with the thread that starts it.
pub(crate) struct Process {
    name: String,
    child: Child,
    // Has no name in any file system.
    log: File,
}

impl Process {
    /// Starts an executable in the namespaces of the process's main thread, with these files in
    /// [`SCRATCH`].
    ///
    /// # Errors
    /// Returns an error if `nsenter`, `setpriv` or `unshare` (util-linux) cannot be executed.
    pub(crate) fn start(
        path: &Path,
        arguments: &[String],
        files: &[(&str, &str)],
    ) -> anyhow::Result<Self> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let log = tempfile::tempfile().context("cannot make a log file")?;
        let mut words: Vec<PathBuf> = Vec::new();
        let mut add = |all: &[&str]| words.extend(all.iter().map(PathBuf::from));
        let main_thread = std::process::id().to_string();
        let is_root = rustix::process::geteuid().is_root();
        if is_root {
            // A test's thread may be in other namespaces.
            add(&[
                "nsenter",
                "--target",
                &main_thread,
                "--net",
                "--mount",
                "--",
            ]);
        }
        add(&["setpriv", "--pdeathsig", "KILL", "--", "unshare", "--mount"]);
        if !is_root {
            add(&["--map-root-user"]);
        }
        add(&["--", "sh", "-c", PREPARE, "sh", &files.len().to_string()]);
        words.push(path.to_owned());
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).args(arguments);
        for (number, (file, content)) in files.iter().enumerate() {
            command.env(format!("NETQOS_FILE_{number}_NAME"), file);
            command.env(format!("NETQOS_FILE_{number}"), content);
        }
        let child = command
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log.try_clone()?)
            .spawn()
            .with_context(|| format!("cannot execute {}", words[0].display()))?;
        Ok(Self {
            name: name.into_owned(),
            child,
            log,
        })
    }

    /// The status that the process ended with, and its last log lines; `None` while it runs.
    pub(crate) fn ended(&mut self) -> anyhow::Result<Option<String>> {
        let status: Option<ExitStatus> = self.child.try_wait()?;
        Ok(status.map(|status| format!("{} ended with {status}:\n{}", self.name, self.log_end())))
    }

    /// The last lines of the log.
    pub(crate) fn log_end(&self) -> String {
        // The process writes at the offset of the file, which reading must not move.
        let length = self.log.metadata().map_or(0, |it| it.len());
        let begin = length.saturating_sub(LOG_END);
        let mut text = vec![0; (length - begin) as usize];
        if let Err(error) = self.log.read_exact_at(&mut text, begin) {
            return format!("cannot read the log: {error}");
        }
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
