//! kubectl and Helm, as an administrator executes them.

use std::env;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};
use serde_json::Value;

use crate::Binaries;

/// kubectl and Helm with the kubeconfig of a cluster.
#[derive(Clone, Debug)]
pub struct Kubectl {
    kubectl: PathBuf,
    helm: PathBuf,
    /// The kubeconfig of a cluster in the sandbox; without, that of the environment.
    kubeconfig: Option<PathBuf>,
}

impl Kubectl {
    /// Both, for a cluster in the sandbox with this kubeconfig, or for that of the environment.
    pub(super) fn new(kubectl: PathBuf, helm: PathBuf, kubeconfig: Option<PathBuf>) -> Self {
        Self {
            kubectl,
            helm,
            kubeconfig,
        }
    }

    /// Both, for the cluster of the environment (`$KUBECONFIG`).
    ///
    /// # Errors
    /// Returns an error if they cannot be found or built.
    pub fn of_environment() -> anyhow::Result<Self> {
        let tools = (Binaries::tool("kubectl")?, Binaries::tool("helm")?);
        Ok(Self::new(tools.0, tools.1, None))
    }

    /// A command of kubectl, without arguments.
    pub fn command(&self) -> Command {
        self.with_home(Command::new(&self.kubectl))
    }

    /// Any command, with kubectl and Helm on its PATH.
    ///
    /// # Errors
    /// Returns an error if PATH cannot be extended.
    pub fn with_path(&self, program: &str) -> anyhow::Result<Command> {
        let path = env::var_os("PATH").unwrap_or_default();
        let directories = [&self.kubectl, &self.helm].map(|it| it.parent().map(Path::to_owned));
        let path = env::join_paths(
            directories
                .into_iter()
                .flatten()
                .chain(env::split_paths(&path)),
        )?;
        let mut command = self.with_home(Command::new(program));
        command.env("PATH", path);
        Ok(command)
    }

    /// Executes kubectl, and returns what it prints.
    ///
    /// # Errors
    /// Returns an error if it fails, with its message.
    pub fn run(&self, arguments: &[&str]) -> anyhow::Result<String> {
        run(self.command().args(arguments))
    }

    /// Executes kubectl with `-o json`.
    ///
    /// # Errors
    /// Returns an error if it fails, or prints something else.
    pub fn json(&self, arguments: &[&str]) -> anyhow::Result<Value> {
        let text = run(self.command().args(arguments).args(["-o", "json"]))?;
        Ok(serde_json::from_str(&text)?)
    }

    /// Executes kubectl with this text as standard input.
    ///
    /// # Errors
    /// Returns an error if it fails, with its message.
    pub fn pipe(&self, arguments: &[&str], input: &str) -> anyhow::Result<String> {
        let mut child = self
            .command()
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let mut stdin = child.stdin.take().context("no standard input")?;
        stdin.write_all(input.as_bytes())?;
        drop(stdin);
        let output = child.wait_with_output()?;
        if !output.status.success() {
            bail!(
                "kubectl {}: {}",
                arguments.join(" "),
                String::from_utf8_lossy(&output.stderr).trim()
            );
        }
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Applies manifests, also over fields of other managers.
    ///
    /// # Errors
    /// Returns an error if the API server refuses one.
    pub fn apply(&self, manifests: &str) -> anyhow::Result<()> {
        self.pipe(
            &["apply", "--server-side", "--force-conflicts", "-f", "-"],
            manifests,
        )?;
        Ok(())
    }

    /// Executes Helm.
    ///
    /// # Errors
    /// Returns an error if it fails, with its message.
    pub fn helm(&self, arguments: &[&str]) -> anyhow::Result<String> {
        run(self.with_home(Command::new(&self.helm)).args(arguments))
    }

    /// Has a command use the cluster, and a home directory that ends with it.
    fn with_home(&self, mut command: Command) -> Command {
        let Some(kubeconfig) = &self.kubeconfig else {
            return command;
        };
        command.env("KUBECONFIG", kubeconfig);
        command.env("HOME", super::ROOT);
        for name in [
            "KUBECACHEDIR",
            "HELM_CACHE_HOME",
            "HELM_CONFIG_HOME",
            "HELM_DATA_HOME",
        ] {
            command.env(name, Path::new(super::ROOT).join("home"));
        }
        command
    }
}

/// Executes a command, and returns what it prints.
///
/// # Errors
/// Returns an error if it cannot be executed or fails, with what it prints on standard error.
pub fn run(command: &mut Command) -> anyhow::Result<String> {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(
        command
            .get_args()
            .map(|it| it.to_string_lossy().into_owned()),
    );
    let name = words.join(" ");
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot execute {name}"))?;
    if !output.status.success() {
        bail!(
            "{name}: {}: {}{}",
            output.status,
            String::from_utf8_lossy(&output.stderr),
            String::from_utf8_lossy(&output.stdout).trim()
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
