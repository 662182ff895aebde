//! kubectl and Helm, as an administrator executes them.

use std::env;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use serde_json::Value;
use tempfile::NamedTempFile;

use crate::Binaries;

/// kubectl and Helm with the kubeconfig of a cluster.
#[derive(Clone, Debug)]
pub struct Kubectl {
    kubectl: PathBuf,
    helm: PathBuf,
    kubeconfig: Kubeconfig,
}

#[derive(Clone, Debug)]
enum Kubeconfig {
    /// That of the environment, in its state at the start: others may change the current context meanwhile.
    Environment(Arc<NamedTempFile>),
    /// That of a cluster in the sandbox, where commands have a home directory of their own.
    Sandbox(PathBuf),
}

impl Kubectl {
    /// Both, for a cluster in the sandbox with this kubeconfig.
    pub(super) fn new(kubectl: PathBuf, helm: PathBuf, kubeconfig: PathBuf) -> Self {
        Self {
            kubectl,
            helm,
            kubeconfig: Kubeconfig::Sandbox(kubeconfig),
        }
    }

    /// Both, for the current context of the environment (`$KUBECONFIG`).
    ///
    /// # Errors
    /// Returns an error if they cannot be found or built, or if there is no current context.
    pub fn of_environment() -> anyhow::Result<Self> {
        let (kubectl, helm) = (Binaries::tool("kubectl")?, Binaries::tool("helm")?);
        let view = ["config", "view", "--minify", "--flatten", "--raw"];
        let current = run(Command::new(&kubectl).args(view))?;
        let mut file = NamedTempFile::new()?;
        file.write_all(current.as_bytes())?;
        Ok(Self {
            kubectl,
            helm,
            kubeconfig: Kubeconfig::Environment(Arc::new(file)),
        })
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

    /// Executes kubectl with the words of a line as arguments, and returns what it prints.
    ///
    /// # Errors
    /// Returns an error if it fails, with its message.
    pub fn line(&self, line: &str) -> anyhow::Result<String> {
        run(self.command().args(line.split(' ')))
    }

    /// The same in a namespace.
    ///
    /// # Errors
    /// Returns an error if it fails, with its message.
    pub fn line_in(&self, namespace: &str, line: &str) -> anyhow::Result<String> {
        self.line(&format!("-n {namespace} {line}"))
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

    /// Has a command use the cluster, and in the sandbox a home directory that ends with it.
    fn with_home(&self, mut command: Command) -> Command {
        match &self.kubeconfig {
            Kubeconfig::Environment(file) => {
                command.env("KUBECONFIG", file.path());
                return command;
            }
            Kubeconfig::Sandbox(path) => command.env("KUBECONFIG", path),
        };
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
