//! The executables of Kubernetes.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::{env, io};

use anyhow::{Context as _, bail, ensure};

/// The directory that envtest's setup writes to by default.
const KUBEBUILDER: &str = "/usr/local/kubebuilder/bin";
/// The minor version of the oldest supported Kubernetes.
const OLDEST: u32 = 34;

/// The executables of one version.
///
/// The environment names them by envtest's convention: each by `TEST_ASSET_KUBE_APISERVER` and its like,
/// or a directory of all by `KUBEBUILDER_ASSETS` (else `/usr/local/kubebuilder/bin` where it exists).
/// Otherwise `testing/kubernetes/build` builds them into a cache, in the version that
/// `NETQOS_KUBERNETES_VERSION` names, or the newest that is pinned.
#[derive(Clone, Debug)]
pub struct Binaries {
    directory: Option<PathBuf>,
}

impl Binaries {
    /// Finds the directory of the executables; builds etcd and kube-apiserver where neither the
    /// environment nor the cache has them, which takes minutes and prints its progress on stderr.
    ///
    /// # Errors
    /// Returns an error if they cannot be built, with the remedy.
    pub fn find() -> anyhow::Result<&'static Self> {
        static FOUND: OnceLock<Result<Binaries, String>> = OnceLock::new();
        let found = FOUND.get_or_init(|| Self::look().map_err(|error| format!("{error:#}")));
        found.as_ref().map_err(|error| anyhow::anyhow!("{error}"))
    }

    fn look() -> anyhow::Result<Self> {
        if let Some(directory) = named_directory() {
            return Ok(Self {
                directory: Some(directory),
            });
        }
        let server = ["kube-apiserver", "etcd"];
        if server.iter().all(|name| named(name).is_some()) {
            return Ok(Self { directory: None });
        }
        Ok(Self {
            directory: Some(build(&server)?),
        })
    }

    /// The path of an executable, such as `kube-apiserver`.
    ///
    /// # Errors
    /// Returns an error if no such executable exists, with the remedy.
    pub fn path(&self, name: &str) -> anyhow::Result<PathBuf> {
        if let Some(path) = named_file(name)? {
            return Ok(path);
        }
        let directory = self.directory.as_deref();
        let path = directory.map(|it| it.join(name)).filter(|it| it.is_file());
        path.with_context(|| {
            let place = directory.map_or_else(String::new, |it| format!(" in {}", it.display()));
            format!(
                "cannot find {name}{place}; set {} or KUBEBUILDER_ASSETS, or unset both and run `make kubernetes`",
                variable(name)
            )
        })
    }

    /// The path of an executable that is not a part of the server, such as `helm`. The build script builds
    /// it where the environment does not name it: envtest's directory has no Helm.
    ///
    /// # Errors
    /// Returns an error if the environment names a file that does not exist, or if it cannot be built.
    pub fn tool(name: &str) -> anyhow::Result<PathBuf> {
        match in_environment(name)? {
            Some(path) => Ok(path),
            None => Ok(build(&[name])?.join(name)),
        }
    }

    /// The version that kube-apiserver prints, such as `v1.37.2`.
    ///
    /// # Errors
    /// Returns an error if it cannot be executed, or is older than the oldest supported version.
    pub fn version(&self) -> anyhow::Result<String> {
        let path = self.path("kube-apiserver")?;
        let output = Command::new(&path).arg("--version").output();
        let output = output.with_context(|| format!("cannot execute {}", path.display()))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let version = text.trim().strip_prefix("Kubernetes ");
        let version = version.with_context(|| {
            format!(
                "{} is not kube-apiserver: it prints {text:?}",
                path.display()
            )
        })?;
        let minor = version
            .strip_prefix("v1.")
            .and_then(|it| it.split('.').next());
        let minor: Option<u32> = minor.and_then(|it| it.parse().ok());
        if minor.is_none_or(|minor| minor < OLDEST) {
            bail!(
                "{} is {version}; netqos supports v1.{OLDEST} and newer",
                path.display()
            );
        }
        Ok(version.to_owned())
    }
}

/// The variable that names one executable.
fn variable(name: &str) -> String {
    format!("TEST_ASSET_{}", name.to_uppercase().replace('-', "_"))
}

fn named(name: &str) -> Option<PathBuf> {
    env::var_os(variable(name)).map(PathBuf::from)
}

/// The file that the variable of an executable names.
fn named_file(name: &str) -> anyhow::Result<Option<PathBuf>> {
    let path = named(name);
    if let Some(path) = &path {
        ensure!(
            path.is_file(),
            "cannot find {name}: {} (set by {}) is not a file",
            path.display(),
            variable(name)
        );
    }
    Ok(path)
}

/// The executable that the environment names, by itself or by its directory.
pub(crate) fn in_environment(name: &str) -> anyhow::Result<Option<PathBuf>> {
    if let Some(path) = named_file(name)? {
        return Ok(Some(path));
    }
    let path = named_directory().map(|it| it.join(name));
    Ok(path.filter(|it| it.is_file()))
}

/// The directory that the environment names, or the one that envtest's setup wrote.
fn named_directory() -> Option<PathBuf> {
    match env::var_os("KUBEBUILDER_ASSETS") {
        Some(directory) => Some(directory.into()),
        None => Some(PathBuf::from(KUBEBUILDER)).filter(|it| it.is_dir()),
    }
}

/// Has the build script build what its cache lacks.
pub(crate) fn build(programs: &[&str]) -> anyhow::Result<PathBuf> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("build");
    let mut command = Command::new(&script);
    if let Some(version) = env::var_os("NETQOS_KUBERNETES_VERSION") {
        command.arg("--version").arg(version);
    }
    let output = command
        .args(programs)
        .stderr(io::stderr())
        .output()
        .with_context(|| format!("cannot execute {}", script.display()))?;
    ensure!(
        output.status.success(),
        "cannot build {}: see above; set KUBEBUILDER_ASSETS to a directory that has them",
        programs.join(" and ")
    );
    Ok(String::from_utf8(output.stdout)?.trim().into())
}
