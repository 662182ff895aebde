//! A Kubernetes cluster with real nodes, on one machine.
//!
//! ```text
//!   sandbox: network, mount and PID namespaces; killed with the process that made it
//!   ├── etcd, kube-apiserver, kube-controller-manager, kube-scheduler
//!   ├── Internet: addresses that no pod has
//!   └── bridge ── eth0 of node ─ namespaces and cgroups of its own, killed with its first process
//!                               └── containerd, kubelet, kube-proxy, pods on a bridge of the node
//! ```
//!
//! A node sees the file system of the machine below an overlay of its own, fresh `/run`, `/sys` and bpffs,
//! and cgroups that begin at its own. What it writes outlives [`Node::stop`], as a disk outlives a reboot.
//!
//! Nodes and pods have addresses of both families, IPv4 first. kube-proxy serves ClusterIPs by nftables.

mod control_plane;
mod counters;
mod daemon;
mod internet;
mod kubectl;
mod node;
mod sandbox;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Context as _;

pub use self::control_plane::ControlPlane;
pub use self::counters::Counters;
pub use self::daemon::Daemon;
pub use self::internet::{ADDRESS as INTERNET, ADDRESS6 as INTERNET6, Internet};
pub use self::kubectl::{Kubectl, run};
pub use self::node::Node;
pub use self::sandbox::enter;

/// The directory of everything that a cluster writes: a tmpfs of the sandbox.
const ROOT: &str = "/mnt";
/// The directory of all executables.
const PROGRAMS: &str = "/mnt/programs";
/// The addresses of the sandbox on the network of the nodes.
const GATEWAY: &str = "192.168.100.1";
const GATEWAY6: &str = "fd00:100::1";
/// The executables of a node. runc is from Debian.
const NODE_PROGRAMS: [&str; 5] = [
    "kubelet",
    "kube-proxy",
    "containerd",
    "containerd-shim-runc-v2",
    "ctr",
];
/// The CNI plugins of a node's list.
pub const CNI_PLUGINS: [&str; 4] = ["bandwidth", "bridge", "host-local", "loopback"];
/// The executables of a control plane, besides those of a server.
const CONTROL_PLANE_PROGRAMS: [&str; 2] = ["kube-controller-manager", "kube-scheduler"];
/// The time until all nodes are Ready. An idle machine needs 10 s.
const PATIENCE: Duration = Duration::from_secs(180);

/// A control plane and nodes. All of it ends with the process.
pub struct Cluster {
    /// The control plane.
    pub control_plane: ControlPlane,
    /// The nodes, `node1` and so on.
    pub nodes: Vec<Node>,
    /// Hosts outside of the cluster.
    pub internet: Internet,
    /// kubectl of an administrator.
    pub kubectl: Kubectl,
    /// The executables of its version.
    pub programs: Programs,
}

impl Cluster {
    /// Finds the executables, and others. Those that the environment does not name ([`Binaries`](crate::Binaries)) are
    /// built once, which takes minutes.
    ///
    /// # Errors
    /// Returns an error if an executable cannot be found or built, or runc is missing.
    pub fn build(others: &[&str]) -> anyhow::Result<Programs> {
        let names = [
            &["etcd", "kube-apiserver", "kubectl", "helm"][..],
            &CONTROL_PLANE_PROGRAMS,
            &NODE_PROGRAMS,
            others,
        ]
        .concat();
        let mut programs = Programs::default();
        let mut missing = Vec::new();
        for name in names {
            match crate::binaries::in_environment(name)? {
                Some(path) => drop(programs.paths.insert(name.to_owned(), path)),
                None => missing.push(name),
            }
        }
        if !missing.is_empty() {
            let directory = crate::binaries::build(&missing)?;
            let built = missing
                .iter()
                .map(|it| ((*it).to_owned(), directory.join(it)));
            programs.paths.extend(built);
        }
        programs.check_versions()?;
        node::runc()?;
        Ok(programs)
    }

    /// Starts a cluster in the sandbox, imports images (OCI archives) on each node, and waits until all nodes
    /// are Ready.
    ///
    /// # Errors
    /// Returns an error if a process ends or a node is not Ready in time, with the end of its log.
    pub fn start(programs: &Programs, nodes: usize, images: &[PathBuf]) -> anyhow::Result<Self> {
        sandbox::prepare()?;
        programs.mount()?;
        let mut control_plane = ControlPlane::start(programs, nodes)?;
        let internet = Internet::start()?;
        let kubectl = Kubectl::new(
            programs.path("kubectl")?.to_owned(),
            programs.path("helm")?.to_owned(),
            control_plane.kubeconfig().to_owned(),
        );
        let store = Path::new(ROOT).join("images");
        fs::create_dir_all(&store)?;
        for image in images {
            // Two archives may have the same name.
            let number = fs::read_dir(&store)?.count();
            fs::copy(image, store.join(format!("{number}.tar")))
                .with_context(|| format!("cannot read {}", image.display()))?;
        }
        control_plane.wait_until_ready(&kubectl)?;
        let mut nodes: Vec<Node> = (1..=nodes).map(|number| Node::new(number, nodes)).collect();
        for node in &mut nodes {
            node.start()?;
        }
        let mut cluster = Self {
            control_plane,
            nodes,
            internet,
            kubectl,
            programs: programs.clone(),
        };
        cluster.wait_until_ready()?;
        Ok(cluster)
    }

    /// The upstream plugin `bandwidth`, by its path on a node.
    pub fn bandwidth_plugin(&self) -> &'static str {
        match self.programs.path("bandwidth") {
            Ok(_) => "/opt/programs/bandwidth",
            Err(_) => "/usr/lib/cni/bandwidth",
        }
    }

    /// The number of nodes and their versions.
    pub fn describe(&self) -> String {
        let versions = self.kubectl.run(&[
            "get",
            "nodes",
            "-o",
            "jsonpath={.items[0].status.nodeInfo.kubeletVersion}, \
             {.items[0].status.nodeInfo.containerRuntimeVersion}",
        ]);
        let versions = versions.unwrap_or_else(|error| format!("{error:#}"));
        format!("{} nodes: {versions}", self.nodes.len())
    }

    /// Waits until all nodes are Ready.
    ///
    /// # Errors
    /// Returns an error if this takes minutes, with the end of their logs.
    pub fn wait_until_ready(&mut self) -> anyhow::Result<()> {
        let end = Instant::now() + PATIENCE;
        loop {
            let ready = self.kubectl.run(&[
                "get",
                "nodes",
                "-o",
                r#"jsonpath={.items[*].status.conditions[?(@.type=="Ready")].status}"#,
            ]);
            let ready = ready.map_or(0, |it| it.split(' ').filter(|it| *it == "True").count());
            if ready == self.nodes.len() {
                return Ok(());
            }
            self.control_plane.check()?;
            for node in &mut self.nodes {
                node.check()?;
            }
            if Instant::now() > end {
                let logs: Vec<String> = self.nodes.iter().map(Node::log_end).collect();
                anyhow::bail!("{ready} nodes are Ready:\n{}", logs.join("\n"));
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

/// The executables of one version of Kubernetes, and what runs beside them.
#[derive(Clone, Debug, Default)]
pub struct Programs {
    paths: BTreeMap<String, PathBuf>,
}

impl Programs {
    /// The path of an executable.
    ///
    /// # Errors
    /// Returns an error if the cluster was built without it.
    pub fn path(&self, name: &str) -> anyhow::Result<&Path> {
        let path = self.paths.get(name).map(PathBuf::as_path);
        path.with_context(|| format!("{name} was not built"))
    }

    /// Mounts each in one directory: nodes do not see all file systems of the machine.
    fn mount(&self) -> anyhow::Result<()> {
        fs::create_dir_all(PROGRAMS)?;
        for (name, path) in &self.paths {
            let place = Path::new(PROGRAMS).join(name);
            fs::write(&place, [])?;
            run(Command::new("mount").arg("--bind").arg(path).arg(place))?;
        }
        Ok(())
    }

    /// Returns an error if server and nodes are of different versions: the environment may name some alone.
    fn check_versions(&self) -> anyhow::Result<()> {
        let version = |name| run(Command::new(self.path(name)?).arg("--version"));
        let (server, kubelet) = (version("kube-apiserver")?, version("kubelet")?);
        anyhow::ensure!(
            server == kubelet,
            "kube-apiserver is {}, the kubelet {}: name all executables by KUBEBUILDER_ASSETS, or none",
            server.trim(),
            kubelet.trim()
        );
        Ok(())
    }
}
