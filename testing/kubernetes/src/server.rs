//! kube-apiserver with an etcd of its own.

use std::net::{Ipv4Addr, TcpListener};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use serde_json::json;

use crate::process::{Process, SCRATCH};
use crate::{Binaries, Etcd, keys};

/// The token of the group `system:masters`.
const ADMINISTRATOR: &str = "netqos-administrator";
/// The time that a server may take to be ready; an idle machine needs 4 s.
const PATIENCE: Duration = Duration::from_secs(120);
/// The number of attempts with other ports, where another process took one in between.
const ATTEMPTS: usize = 3;

/// kube-apiserver and etcd, without controllers, scheduler and nodes, on the loopback of the network
/// namespace of this process. Both are killed with this value, and with the thread that started it.
pub struct ApiServer {
    port: u16,
    etcd_port: u16,
    version: String,
    // In the order in which they end.
    server: Process,
    etcd: Process,
}

impl ApiServer {
    /// Starts both, and waits until the API server is ready.
    ///
    /// # Errors
    /// Returns an error if an executable is missing or too old, or if a process ends or is not ready in
    /// time, with the end of its log.
    pub async fn start() -> anyhow::Result<Self> {
        let binaries = Binaries::find()?;
        let version = binaries.version()?;
        let mut attempt = 1;
        loop {
            match Self::attempt(binaries, &version).await {
                Err(error)
                    if attempt < ATTEMPTS
                        && format!("{error:#}").contains("address already in use") =>
                {
                    attempt += 1;
                }
                result => return result,
            }
        }
    }

    async fn attempt(binaries: &Binaries, version: &str) -> anyhow::Result<Self> {
        let (port, etcd_port) = (free_port()?, free_port()?);
        let etcd = start_etcd(binaries, etcd_port)?;
        let server = start_server(binaries, etcd_port, port)?;
        let mut server = Self {
            port,
            etcd_port,
            version: version.to_owned(),
            server,
            etcd,
        };
        server.wait_until_ready().await?;
        Ok(server)
    }

    /// The version, such as `v1.37.2`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The port on loopback.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// A client of an administrator, which repeats no request by itself.
    ///
    /// # Errors
    /// Returns an error if no TLS configuration can be made.
    pub fn client(&self) -> anyhow::Result<kube::Client> {
        Ok(kube::Client::try_from(self.config()?)?)
    }

    fn config(&self) -> anyhow::Result<kube::Config> {
        let url = format!("https://127.0.0.1:{}", self.port).parse()?;
        let mut config = kube::Config::new(url);
        config.accept_invalid_certs = true;
        config.auth_info.token = Some(String::from(ADMINISTRATOR).into());
        config.default_retry = false;
        Ok(config)
    }

    /// A client that is this user, with the rights of an administrator.
    ///
    /// # Errors
    /// As of [`client`](Self::client).
    pub fn client_as(&self, user: &str) -> anyhow::Result<kube::Client> {
        let mut config = self.config()?;
        config.auth_info.impersonate = Some(user.to_owned());
        config.auth_info.impersonate_groups = Some(vec!["system:masters".to_owned()]);
        Ok(kube::Client::try_from(config)?)
    }

    /// The port of etcd on loopback.
    pub(crate) fn etcd_port(&self) -> u16 {
        self.etcd_port
    }

    /// A client of etcd.
    pub(crate) fn etcd(&self) -> anyhow::Result<Etcd> {
        Etcd::at(self.etcd_port)
    }

    /// A kubeconfig of an administrator, for a port that leads here.
    pub fn kubeconfig(&self, port: u16) -> String {
        kubeconfig(&format!("https://127.0.0.1:{port}"), ADMINISTRATOR)
    }

    /// Returns an error if a process has ended, with the end of its log.
    ///
    /// # Errors
    /// See above.
    pub fn check(&mut self) -> anyhow::Result<()> {
        for process in [&mut self.server, &mut self.etcd] {
            if let Some(ended) = process.ended()? {
                bail!("{ended}");
            }
        }
        Ok(())
    }

    async fn wait_until_ready(&mut self) -> anyhow::Result<()> {
        let client = self.client()?;
        let end = Instant::now() + PATIENCE;
        loop {
            let request = http::Request::get("/readyz").body(Vec::new())?;
            if client.request_text(request).await.is_ok() {
                return Ok(());
            }
            self.check()?;
            if Instant::now() > end {
                bail!("kube-apiserver is not ready:\n{}", self.server.log_end());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// A kubeconfig for the user of a token.
pub(crate) fn kubeconfig(server: &str, token: &str) -> String {
    let named = |kind: &str, value: serde_json::Value| json!([{"name": "test", kind: value}]);
    // The server signed its certificate itself.
    let cluster = json!({"server": server, "insecure-skip-tls-verify": true});
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "clusters": named("cluster", cluster),
        "users": named("user", json!({"token": token})),
        "contexts": named("context", json!({"cluster": "test", "user": "test"})),
    })
    .to_string()
}

fn free_port() -> anyhow::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port")?;
    Ok(listener.local_addr()?.port())
}

fn start_etcd(binaries: &Binaries, port: u16) -> anyhow::Result<Process> {
    let url = format!("http://127.0.0.1:{port}");
    let peers = format!("http://127.0.0.1:{}", free_port()?);
    let arguments = [
        format!("--data-dir={SCRATCH}/etcd"),
        format!("--listen-client-urls={url}"),
        format!("--advertise-client-urls={url}"),
        format!("--listen-peer-urls={peers}"),
        format!("--initial-advertise-peer-urls={peers}"),
        format!("--initial-cluster=default={peers}"),
        // Its data are lost with it anyway.
        "--unsafe-no-fsync".to_owned(),
        "--log-level=warn".to_owned(),
    ];
    Process::start(&binaries.path("etcd")?, &arguments, &[])
}

fn start_server(binaries: &Binaries, etcd: u16, port: u16) -> anyhow::Result<Process> {
    let tokens = format!("{ADMINISTRATOR},administrator,administrator,system:masters\n");
    let (private, public) = keys::pair()?;
    let files = [
        ("tokens.csv", tokens.as_str()),
        ("service-accounts.key", &private),
        ("service-accounts.pub", &public),
    ];
    let arguments = [
        format!("--etcd-servers=http://127.0.0.1:{etcd}"),
        "--bind-address=127.0.0.1".to_owned(),
        // Otherwise it looks for the default route, which a network namespace may not have.
        "--advertise-address=127.0.0.1".to_owned(),
        // Endpoints of the Service `kubernetes` may not be on loopback.
        "--endpoint-reconciler-type=none".to_owned(),
        format!("--secure-port={port}"),
        format!("--cert-dir={SCRATCH}/certificates"),
        format!("--token-auth-file={SCRATCH}/tokens.csv"),
        "--authorization-mode=RBAC".to_owned(),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        format!("--service-account-key-file={SCRATCH}/service-accounts.pub"),
        format!("--service-account-signing-key-file={SCRATCH}/service-accounts.key"),
        "--service-cluster-ip-range=10.96.0.0/16".to_owned(),
        // No controller creates the service accounts that pods would need.
        "--disable-admission-plugins=ServiceAccount".to_owned(),
        "--allow-privileged=true".to_owned(),
    ];
    Process::start(&binaries.path("kube-apiserver")?, &arguments, &files)
}
