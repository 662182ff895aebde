//! etcd, kube-apiserver, kube-controller-manager and kube-scheduler.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::bail;

use super::daemon::Daemon;
use super::kubectl::Kubectl;
use super::{GATEWAY, Programs, ROOT};
use crate::{keys, server};

/// The port of kube-apiserver.
pub(super) const PORT: u16 = 6443;
const ETCD: &str = "http://127.0.0.1:2379";
/// The token of an administrator.
const ADMINISTRATOR: &str = "administrator";
/// The token of kube-proxy.
pub(super) const KUBE_PROXY: &str = "kube-proxy";
/// The time until the API server is ready. An idle machine needs 4 s.
const PATIENCE: Duration = Duration::from_secs(120);

/// The processes of a control plane.
pub struct ControlPlane {
    kubeconfig: PathBuf,
    // In the order in which they end.
    scheduler: Daemon,
    controller_manager: Daemon,
    /// kube-apiserver.
    pub api_server: Daemon,
    /// etcd, with its data on a tmpfs.
    pub etcd: Daemon,
}

impl ControlPlane {
    pub(super) fn start(programs: &Programs, nodes: usize) -> anyhow::Result<Self> {
        let directory = Path::new(ROOT).join("control-plane");
        fs::create_dir_all(&directory)?;
        let at = |name: &str| format!("{}/{name}", directory.display());
        let (private, public) = keys::pair()?;
        fs::write(at("service-accounts.key"), private)?;
        fs::write(at("service-accounts.pub"), public)?;
        fs::write(at("tokens.csv"), tokens(nodes))?;
        let kubeconfig = directory.join("kubeconfig");
        fs::write(&kubeconfig, kubeconfig_of(ADMINISTRATOR))?;

        let etcd = [
            format!("--data-dir={}", at("etcd")),
            format!("--listen-client-urls={ETCD}"),
            format!("--advertise-client-urls={ETCD}"),
            "--log-level=warn".to_owned(),
        ];
        let api_server = [
            format!("--etcd-servers={ETCD}"),
            format!("--advertise-address={GATEWAY}"),
            format!("--secure-port={PORT}"),
            format!("--cert-dir={}", at("certificates")),
            format!("--token-auth-file={}", at("tokens.csv")),
            "--authorization-mode=Node,RBAC".to_owned(),
            "--enable-admission-plugins=NodeRestriction".to_owned(),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            format!("--service-account-key-file={}", at("service-accounts.pub")),
            format!(
                "--service-account-signing-key-file={}",
                at("service-accounts.key")
            ),
            "--service-cluster-ip-range=10.96.0.0/16,fd00:96::/108".to_owned(),
            "--kubelet-preferred-address-types=InternalIP".to_owned(),
            // Webhooks are called at the addresses of their pods: kube-proxy runs on the nodes alone.
            "--enable-aggregator-routing=true".to_owned(),
            "--allow-privileged=true".to_owned(),
        ];
        let kubeconfig_flag = format!("--kubeconfig={}", kubeconfig.display());
        let controller_manager = [
            kubeconfig_flag.clone(),
            "--leader-elect=false".to_owned(),
            "--use-service-account-credentials=true".to_owned(),
            format!("--cert-dir={}", at("controller-manager")),
            format!(
                "--service-account-private-key-file={}",
                at("service-accounts.key")
            ),
            // The self-signed certificate is followed by that of its CA.
            format!("--root-ca-file={}", at("certificates/apiserver.crt")),
        ];
        let scheduler = [
            kubeconfig_flag,
            "--leader-elect=false".to_owned(),
            format!("--cert-dir={}", at("scheduler")),
        ];
        let daemon = |name: &str, arguments: &[String]| {
            Daemon::new(name, programs.path(name)?.to_owned(), arguments.to_vec())
        };
        let mut control_plane = Self {
            etcd: daemon("etcd", &etcd)?,
            api_server: daemon("kube-apiserver", &api_server)?,
            controller_manager: daemon("kube-controller-manager", &controller_manager)?,
            scheduler: daemon("kube-scheduler", &scheduler)?,
            kubeconfig,
        };
        control_plane.etcd.start()?;
        control_plane.api_server.start()?;
        Ok(control_plane)
    }

    /// A kubeconfig of an administrator.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Waits until the API server is ready, and starts what has not been started.
    pub(super) fn wait_until_ready(&mut self, kubectl: &Kubectl) -> anyhow::Result<()> {
        let end = Instant::now() + PATIENCE;
        while kubectl.line("get --raw /readyz").is_err() {
            self.check()?;
            if Instant::now() > end {
                bail!(
                    "kube-apiserver is not ready:\n{}",
                    self.api_server.log_end()
                );
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        self.controller_manager.start()?;
        self.scheduler.start()
    }

    /// Returns an error if a process has ended by itself, with the end of its log.
    ///
    /// # Errors
    /// See above.
    pub fn check(&mut self) -> anyhow::Result<()> {
        let Self {
            scheduler,
            controller_manager,
            api_server,
            etcd,
            ..
        } = self;
        for daemon in [etcd, api_server, controller_manager, scheduler] {
            daemon.check()?;
        }
        Ok(())
    }
}

/// A file for `--token-auth-file`: of an administrator, of kube-proxy, and of the kubelet of each node.
fn tokens(nodes: usize) -> String {
    let mut tokens = format!(
        "{ADMINISTRATOR},administrator,administrator,system:masters\n\
         {KUBE_PROXY},system:kube-proxy,kube-proxy\n"
    );
    for number in 1..=nodes {
        let name = format!("node{number}");
        tokens += &format!("{name},system:node:{name},{name},system:nodes\n");
    }
    tokens
}

/// A kubeconfig for the user of a token.
pub(super) fn kubeconfig_of(token: &str) -> String {
    server::kubeconfig(&format!("https://{GATEWAY}:{PORT}"), token)
}
