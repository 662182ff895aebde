//! Executing a plugin: environment, standard input, and what its end means.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{self, Child, Output, Stdio};
use std::thread;
use std::time::Duration;

use super::AttachmentRequest;
use super::error::InvocationError;
use crate::plugin::Command;
use crate::{CniError, ErrorCode};

/// An executable that is being written can't be executed: the first pause before the next attempt.
/// Each is twice as long as the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(10);

/// How many pauses: five seconds in all, as long as libcni waits.
const PAUSES: u32 = 9;

/// The bytes that an empty pipe takes without a reader, on any kernel: one page (pipe(7)). Most inputs are smaller, and a thread
/// costs as much as all else here.
const FITS: usize = 4096;

/// A Go plugin runs on one processor, unless the environment of this process says otherwise: plugins do one thing after the
/// other, and to start threads for all processors of the node takes more than a tenth of their CPU time.
const GO_PROCESSORS: (&str, &str) = ("GOMAXPROCS", "1");

/// One call of a plugin, whichever it is.
#[derive(Debug)]
pub(super) struct Invocation {
    env: Vec<(OsString, OsString)>,
    directory: Option<PathBuf>,
}

impl Invocation {
    /// What a plugin is told in the environment, over that of this process. Without a request the
    /// variables about the container are empty, not those that this process may have.
    pub(super) fn new(
        command: Command,
        plugin_dirs: &[PathBuf],
        request: Option<&AttachmentRequest>,
        extra_env: &[(OsString, OsString)],
    ) -> Self {
        let path = plugin_dirs
            .iter()
            .map(|dir| dir.as_os_str())
            .collect::<Vec<_>>()
            .join(":".as_ref());
        let text = |read: fn(&AttachmentRequest) -> OsString| request.map(read).unwrap_or_default();
        let own = [
            ("CNI_COMMAND", command.as_str().into()),
            ("CNI_CONTAINERID", text(|r| r.container_id.clone().into())),
            (
                "CNI_NETNS",
                text(|r| r.netns.clone().unwrap_or_default().into()),
            ),
            ("CNI_ARGS", text(|r| r.args_text().into())),
            ("CNI_IFNAME", text(|r| r.ifname.clone().into())),
            ("CNI_PATH", path),
        ];
        let (name, processors) = GO_PROCESSORS;
        let processors = std::env::var_os(name).unwrap_or_else(|| processors.into());
        Self {
            env: std::iter::once((name.into(), processors))
                .chain(extra_env.iter().cloned())
                .chain(own.map(|(name, value)| (name.into(), value)))
                .collect(),
            directory: None,
        }
    }

    /// The same in another working directory than that of this process.
    pub(super) fn in_directory(mut self, directory: Option<PathBuf>) -> Self {
        self.directory = directory;
        self
    }

    /// The same with another value of a variable.
    pub(super) fn with(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Runs it to its end and returns what it printed. What it wrote to standard error goes to
    /// ours when it succeeded, and into the error when it printed nothing else.
    pub(super) fn run(&self, path: &Path, stdin: &[u8]) -> Result<Vec<u8>, InvocationError> {
        let output = self
            .spawn(path)
            .and_then(|child| feed(child, stdin))
            .map_err(|error| InvocationError::Execute {
                path: path.to_owned(),
                error,
            })?;
        if output.status.success() {
            // Only informational, so what can't be written is not worth an error.
            let _ = io::stderr().write_all(&output.stderr);
            return Ok(output.stdout);
        }
        Err(InvocationError::Failed(read_failure(&output)))
    }

    fn spawn(&self, path: &Path) -> io::Result<Child> {
        let mut pause = FIRST_PAUSE;
        let mut left = PAUSES;
        loop {
            let mut command = process::Command::new(path);
            if let Some(directory) = &self.directory {
                command.current_dir(directory);
            }
            let child = command
                .envs(self.env.iter().map(|(name, value)| (name, value)))
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn();
            match child {
                Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy && left > 0 => {
                    thread::sleep(pause);
                    pause *= 2;
                    left -= 1;
                }
                child => return child,
            }
        }
    }
}

/// Writes the input and reads the output, so that neither waits for the other.
fn feed(mut child: Child, input: &[u8]) -> io::Result<Output> {
    let pipe = child.stdin.take();
    let write = move || match pipe {
        Some(mut pipe) => pipe.write_all(input),
        None => Ok(()),
    };
    let (output, written) = match input.len() <= FITS {
        true => {
            let written = write();
            (child.wait_with_output()?, written)
        }
        false => thread::scope(|scope| {
            let writer = scope.spawn(write);
            let output = child.wait_with_output()?;
            io::Result::Ok((output, writer.join().unwrap_or(Ok(()))))
        })?,
    };
    match written {
        // A plugin need not read all, or anything: VERSION has no input.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(output),
    }
}

/// The error object that a plugin printed, or one that says how it ended.
fn read_failure(output: &Output) -> CniError {
    let unknown = |msg: String| CniError::new(ErrorCode::default(), msg);
    let (stdout, stderr) = (&output.stdout, String::from_utf8_lossy(&output.stderr));
    if !stdout.is_empty() {
        return serde_json::from_slice(stdout).unwrap_or_else(|problem| {
            let text = String::from_utf8_lossy(stdout);
            unknown(format!(
                "netplugin failed but error parsing its diagnostic message {text:?}: {problem}"
            ))
        });
    }
    let status = output.status;
    match stderr.as_ref() {
        "" => unknown(format!("netplugin failed with no error message: {status}")),
        stderr => unknown(format!("netplugin failed: {stderr:?}: {status}")),
    }
}
