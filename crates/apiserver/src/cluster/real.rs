//! A real API server.

use std::ffi::OsString;
use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::config::{KubeConfigOptions, Kubeconfig};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::json;
use tempfile::TempDir;

/// Where envtest's binaries are put by default.
const KUBEBUILDER: &str = "/usr/local/kubebuilder/bin";
/// What the client shows.
const TOKEN: &str = "netqos-testkit";
/// What is said where none is named.
const MISSING: &str = "no real API server: set KUBEBUILDER_ASSETS to a folder with kube-apiserver and \
                       etcd, or TEST_ASSET_KUBE_APISERVER and TEST_ASSET_ETCD, or \
                       USE_EXISTING_CLUSTER=true and KUBECONFIG";
/// How long a server may take to be ready; a warm one takes 3–4 s.
const PATIENCE: Duration = Duration::from_secs(60);

/// kube-apiserver with etcd, started for a test, or a cluster that was there before.
pub struct RealCluster {
    kubeconfig: String,
    // In the order in which they end.
    _server: Option<Process>,
    _etcd: Option<Process>,
    _folder: Option<TempDir>,
}

/// A process that ends with this value.
struct Process {
    child: Child,
    log: PathBuf,
}

impl RealCluster {
    /// Whether the environment names one: `USE_EXISTING_CLUSTER=true`, or both binaries, by
    /// `TEST_ASSET_KUBE_APISERVER` and `TEST_ASSET_ETCD`, by `KUBEBUILDER_ASSETS`, or in
    /// `/usr/local/kubebuilder/bin`: the convention of envtest.
    pub fn named() -> bool {
        existing() || (binary("kube-apiserver").is_some() && binary("etcd").is_some())
    }

    /// As [`start`](Self::start); nothing, and a line that says so, when none is named.
    ///
    /// # Errors
    /// As [`start`](Self::start); or none is named, and `NETQOS_REQUIRE_REAL=1`.
    pub async fn start_if_named() -> anyhow::Result<Option<Self>> {
        if Self::named_or_not_required()? {
            return Self::start().await.map(Some);
        }
        eprintln!("skipped: {MISSING}");
        Ok(None)
    }

    /// As [`named`](Self::named).
    ///
    /// # Errors
    /// None is named, and `NETQOS_REQUIRE_REAL=1`.
    pub fn named_or_not_required() -> anyhow::Result<bool> {
        let is_named = Self::named();
        if !is_named && std::env::var_os("NETQOS_REQUIRE_REAL").is_some_and(|it| it == "1") {
            bail!("NETQOS_REQUIRE_REAL=1, and {MISSING}");
        }
        Ok(is_named)
    }

    /// Starts the one that the environment names, or uses it: with `USE_EXISTING_CLUSTER=true` that
    /// of `$KUBECONFIG`. Says on stderr which it is.
    ///
    /// # Errors
    /// A binary is missing or does not become ready, with the end of its log; or the kubeconfig
    /// cannot be read.
    pub async fn start() -> anyhow::Result<Self> {
        if existing() {
            let path = std::env::var_os("KUBECONFIG")
                .context("USE_EXISTING_CLUSTER=true, and KUBECONFIG is not set")?;
            let kubeconfig = fs::read_to_string(&path)
                .with_context(|| format!("KUBECONFIG={}", Path::new(&path).display()))?;
            eprintln!("a real API server: that of {}", Path::new(&path).display());
            return Ok(Self {
                kubeconfig,
                _server: None,
                _etcd: None,
                _folder: None,
            });
        }
        let folder = TempDir::new()?;
        let etcd_port = free_port()?;
        let etcd = start_etcd(folder.path(), etcd_port)?;
        let port = free_port()?;
        let mut server = start_server(folder.path(), etcd_port, port)?;
        let kubeconfig = kubeconfig(port);
        wait(&kubeconfig, &mut server).await?;
        let path = binary("kube-apiserver").unwrap_or_default();
        eprintln!("a real API server: {}", path.display());
        Ok(Self {
            kubeconfig,
            _server: Some(server),
            _etcd: Some(etcd),
            _folder: Some(folder),
        })
    }

    /// The kubeconfig of an administrator.
    pub fn kubeconfig(&self) -> &str {
        &self.kubeconfig
    }
}

fn existing() -> bool {
    std::env::var_os("USE_EXISTING_CLUSTER").is_some_and(|value| value == "true")
}

/// Where a binary is, by envtest's convention.
fn binary(name: &str) -> Option<PathBuf> {
    let variable = format!("TEST_ASSET_{}", name.to_uppercase().replace('-', "_"));
    if let Some(path) = std::env::var_os(variable) {
        return Some(path.into());
    }
    let folder = std::env::var_os("KUBEBUILDER_ASSETS");
    let path = Path::new(&folder.unwrap_or_else(|| OsString::from(KUBEBUILDER))).join(name);
    path.exists().then_some(path)
}

fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
        .local_addr()?
        .port())
}

fn start_etcd(folder: &Path, port: u16) -> anyhow::Result<Process> {
    let url = format!("http://127.0.0.1:{port}");
    let peers = format!("http://127.0.0.1:{}", free_port()?);
    let arguments = [
        format!("--data-dir={}", folder.join("etcd").display()),
        format!("--listen-client-urls={url}"),
        format!("--advertise-client-urls={url}"),
        format!("--listen-peer-urls={peers}"),
        format!("--initial-advertise-peer-urls={peers}"),
        format!("--initial-cluster=default={peers}"),
        // What it holds is worth nothing after the test.
        "--unsafe-no-fsync".to_owned(),
    ];
    Process::start("etcd", folder, &arguments)
}

fn start_server(folder: &Path, etcd: u16, port: u16) -> anyhow::Result<Process> {
    let tokens = folder.join("tokens.csv");
    fs::write(&tokens, format!("{TOKEN},admin,admin,system:masters\n"))?;
    let (key, public) = (
        folder.join("service-accounts.key"),
        folder.join("service-accounts.pub"),
    );
    let keys = signing_keys()?;
    fs::write(&key, keys.0)?;
    fs::write(&public, keys.1)?;
    let arguments = [
        format!("--etcd-servers=http://127.0.0.1:{etcd}"),
        "--bind-address=127.0.0.1".to_owned(),
        // Else it looks for the default route, which a test's namespace does not have.
        "--advertise-address=127.0.0.1".to_owned(),
        format!("--secure-port={port}"),
        format!("--cert-dir={}", folder.join("certificates").display()),
        format!("--token-auth-file={}", tokens.display()),
        "--authorization-mode=RBAC".to_owned(),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        format!("--service-account-key-file={}", public.display()),
        format!("--service-account-signing-key-file={}", key.display()),
        "--service-cluster-ip-range=10.96.0.0/16".to_owned(),
        // No controller makes the accounts that pods would need.
        "--disable-admission-plugins=ServiceAccount".to_owned(),
        "--allow-privileged=true".to_owned(),
    ];
    Process::start("kube-apiserver", folder, &arguments)
}

/// A key for the tokens of service accounts, which a server wants to have, and its public half. Where
/// tokens are checked, a server reads no private key of this form (client-go's `ParsePublicKeysPEM`).
fn signing_keys() -> anyhow::Result<(String, String)> {
    // Of RFC 5480: a point of P-256 comes behind it.
    const PUBLIC: &[u8] = &[
        0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08,
        0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
    ];
    let random = SystemRandom::new();
    let failed = |_| anyhow::anyhow!("no key can be made");
    let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random);
    let document = document.map_err(failed)?;
    let pair =
        EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document.as_ref(), &random);
    let pair = pair.map_err(|why| anyhow::anyhow!("the key that was made: {why}"))?;
    let public = [PUBLIC, pair.public_key().as_ref()].concat();
    let text = |of: &str, bytes: &[u8]| {
        let text = STANDARD.encode(bytes);
        format!("-----BEGIN {of} KEY-----\n{text}\n-----END {of} KEY-----\n")
    };
    Ok((text("PRIVATE", document.as_ref()), text("PUBLIC", &public)))
}

fn kubeconfig(port: u16) -> String {
    let named = |kind: &str, value: serde_json::Value| json!([{"name": "testkit", kind: value}]);
    // The server made its certificate itself, for nobody to know.
    let cluster = json!({
        "server": format!("https://127.0.0.1:{port}"),
        "insecure-skip-tls-verify": true,
    });
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "testkit",
        "clusters": named("cluster", cluster),
        "users": named("user", json!({"token": TOKEN})),
        "contexts": named("context", json!({"cluster": "testkit", "user": "testkit"})),
    })
    .to_string()
}

/// Waits until the server answers that it is ready.
async fn wait(kubeconfig: &str, server: &mut Process) -> anyhow::Result<()> {
    let options = KubeConfigOptions::default();
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig)?;
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await?;
    let client = kube::Client::try_from(config)?;
    let end = Instant::now() + PATIENCE;
    loop {
        let ready = http::Request::get("/readyz").body(Vec::new())?;
        if client.request_text(ready).await.is_ok() {
            return Ok(());
        }
        if let Some(status) = server.child.try_wait()? {
            bail!("kube-apiserver ended with {status}:\n{}", server.log_end());
        }
        if Instant::now() > end {
            bail!("kube-apiserver is not ready:\n{}", server.log_end());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

impl Process {
    fn start(name: &str, folder: &Path, arguments: &[String]) -> anyhow::Result<Self> {
        let path = binary(name).with_context(|| format!("there is no {name}"))?;
        let log = folder.join(format!("{name}.log"));
        let file = File::create(&log)?;
        let child = Command::new(&path)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .with_context(|| path.display().to_string())?;
        Ok(Self { child, log })
    }

    /// The last lines of the log.
    fn log_end(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
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

#[cfg(test)]
mod tests {
    use super::signing_keys;

    #[test]
    fn the_public_key_is_that_of_the_private_one() {
        let (private, public) = signing_keys().unwrap();
        let pair = rcgen::KeyPair::from_pem(&private).unwrap();
        let without_lines = |text: &str| text.replace(['\n', '\r'], "");
        let right = without_lines(&pair.public_key_pem());
        assert_eq!(without_lines(&public), right);
    }
}
