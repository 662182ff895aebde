//! Calling a CNI plugin as a runtime does.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::{Pod, lacking};

/// One call of a plugin, under construction.
#[derive(Clone, Debug)]
pub struct Call {
    plugin: PathBuf,
    variables: Vec<(String, String)>,
    stdin: String,
    user: Option<u32>,
    lacking: Vec<String>,
    loses_stderr: bool,
}

/// A call under way.
#[derive(Debug)]
pub struct Running(Child);

/// What came of a call.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    /// Standard output, as it came.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Outcome {
    /// What came of a process that has ended, whose output was piped.
    pub(crate) fn of(mut child: Child, status: ExitStatus) -> Result<Self> {
        let text = |pipe: Option<&mut dyn Read>| -> Result<String> {
            let mut bytes = Vec::new();
            pipe.context("no pipe")?.read_to_end(&mut bytes)?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        Ok(Self {
            code: status.code(),
            stdout: text(child.stdout.as_mut().map(|pipe| pipe as &mut dyn Read))?,
            stderr: text(child.stderr.as_mut().map(|pipe| pipe as &mut dyn Read))?,
        })
    }
}

impl Call {
    /// A call of this executable with this command, and nothing else.
    pub fn bare(plugin: impl AsRef<Path>, command: &str) -> Self {
        Self {
            plugin: plugin.as_ref().to_owned(),
            variables: vec![("CNI_COMMAND".to_owned(), command.to_owned())],
            stdin: String::new(),
            user: None,
            lacking: Vec::new(),
            loses_stderr: false,
        }
    }

    /// A call with everything that ADD, DEL and CHECK need.
    pub fn of(plugin: impl AsRef<Path>, command: &str, pod: &Pod, config: &Value) -> Self {
        Self::bare(plugin, command)
            .variable("CNI_CONTAINERID", pod.name())
            .variable("CNI_NETNS", &pod.netns().display().to_string())
            .variable("CNI_IFNAME", "eth0")
            .variable("CNI_PATH", "/opt/cni/bin")
            .config(config)
    }

    /// Sets a variable of the environment, over what was there.
    pub fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.retain(|(known, _)| known != name);
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Takes a variable away.
    pub fn without(mut self, name: &str) -> Self {
        self.variables.retain(|(known, _)| known != name);
        self
    }

    /// Sets standard input.
    pub fn config(mut self, config: &Value) -> Self {
        self.stdin = config.to_string();
        self
    }

    /// Sets standard input to what need not be JSON.
    pub fn stdin(mut self, text: &str) -> Self {
        self.stdin = text.to_owned();
        self
    }

    /// Lets a user make it who is not root, and is in no group but its own.
    pub fn as_user(mut self, user: u32) -> Self {
        self.user = Some(user);
        self
    }

    /// Makes it on a kernel without these kinds of qdiscs, links, filters or actions.
    pub fn on_kernel_without(mut self, kinds: &[&str]) -> Self {
        self.lacking = kinds.iter().map(ToString::to_string).collect();
        self
    }

    /// Has standard error on a full disk.
    pub fn losing_stderr(mut self) -> Self {
        self.loses_stderr = true;
        self
    }

    /// Runs it, in the namespaces of the calling thread and with no environment but its own.
    pub fn run(&self) -> Result<Outcome> {
        if self.lacking.is_empty() {
            return self.start()?.finish();
        }
        let mut command = self.command();
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        lacking::prepare(&mut command);
        lacking::finish_without(self.spawn(&mut command)?, &self.lacking)
    }

    /// The same without waiting for the end.
    pub fn start(&self) -> Result<Running> {
        let mut command = self.command();
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        if self.loses_stderr {
            command.stderr(File::options().write(true).open("/dev/full")?);
        }
        self.spawn(&mut command).map(Running)
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.plugin);
        command
            .env_clear()
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped());
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        command
    }

    /// Starts it and gives it its input, which a pipe holds whether or not anybody reads.
    pub(crate) fn spawn(&self, command: &mut Command) -> Result<Child> {
        let mut child = command
            .spawn()
            .with_context(|| format!("run {}", self.plugin.display()))?;
        if let Some(mut stdin) = child.stdin.take() {
            // A plugin that needs no input may have ended before it got any.
            let _ = stdin.write_all(self.stdin.as_bytes());
        }
        Ok(child)
    }

    /// Runs it, and expects it to succeed; standard output as JSON, `null` when there is none.
    pub fn succeed(&self) -> Result<Value> {
        let outcome = self.run()?;
        anyhow::ensure!(outcome.code == Some(0), "plugin failed: {outcome:?}");
        if outcome.stdout.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_str(&outcome.stdout).context("standard output is not JSON")
    }

    /// Runs it, and expects it to fail with a CNI error; its code and message.
    pub fn fail(&self) -> Result<(u64, String)> {
        let outcome = self.run()?;
        anyhow::ensure!(
            outcome.code == Some(1),
            "plugin did not fail as CNI says: {outcome:?}"
        );
        let error: Value = serde_json::from_str(&outcome.stdout)
            .with_context(|| format!("standard output is not JSON: {outcome:?}"))?;
        let code = error["code"].as_u64().context("no code")?;
        Ok((code, error["msg"].as_str().unwrap_or_default().to_owned()))
    }
}

impl Running {
    /// Waits for the end.
    pub fn finish(self) -> Result<Outcome> {
        let output = self.0.wait_with_output()?;
        Ok(Outcome {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }
}
