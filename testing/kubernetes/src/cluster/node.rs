//! A node: kubelet and containerd in namespaces and cgroups of their own.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use std::{env, fs};

use anyhow::{Context as _, ensure};

use super::control_plane::{kubeconfig_of, service_rules};
use super::daemon::{self, Daemon};
use super::{GATEWAY, Programs, ROOT, run, sandbox};

/// Executes $1 in the namespaces and cgroups of a node.
const ENTER: &str = include_str!("node-enter.sh");
/// The first process of a node.
const INIT: &str = include_str!("node-init.sh");
/// The time until a node's namespaces exist.
const PATIENCE: Duration = Duration::from_secs(10);

/// A node. What it writes to its file system outlives it, but for `/run`.
pub struct Node {
    number: usize,
    name: String,
    directory: PathBuf,
    init: Option<Daemon>,
    environment: Vec<(&'static str, String)>,
}

impl Node {
    pub(super) fn new(number: usize, nodes: usize, programs: &Programs) -> Self {
        let name = format!("node{number}");
        let directory = Path::new(ROOT).join("nodes").join(&name);
        let others = (1..=nodes).filter(|it| *it != number);
        let routes: Vec<String> = others
            .map(|it| format!("{}.0/24 via {}", pods(it), address(it)))
            .collect();
        let environment = vec![
            ("NODE", name.clone()),
            ("DIRECTORY", directory.display().to_string()),
            ("PROGRAMS", programs.directory().display().to_string()),
            ("IMAGES", format!("{ROOT}/images")),
            ("ADDRESS", address(number)),
            ("GATEWAY", GATEWAY.to_owned()),
            ("ROUTES", routes.join("\n")),
        ];
        Self {
            number,
            name,
            directory,
            init: None,
            environment,
        }
    }

    /// The name of the Node object.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Starts the node: its namespaces, containerd and the kubelet.
    ///
    /// # Errors
    /// Returns an error if a namespace or link cannot be made.
    pub fn start(&mut self) -> anyhow::Result<()> {
        let (pods, address) = (pods(self.number), address(self.number));
        fs::create_dir_all(&self.directory)?;
        for (file, content) in [
            ("kubeconfig", kubeconfig_of(&self.name)),
            ("kubelet.yaml", KUBELET.to_owned()),
            ("containerd.toml", containerd(&runc()?)),
            ("services.nft", service_rules()),
            ("pods.conflist", network(&pods)),
        ] {
            fs::write(self.directory.join(file), content)?;
        }
        let mut arguments: Vec<String> = self
            .environment
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        arguments.push(format!("CGROUP={}/{}", sandbox::cgroup()?, self.name));
        arguments.extend(["sh", "-c", ENTER, "sh", INIT].map(str::to_owned));
        let mut init = Daemon::new(&self.name, PathBuf::from("env"), arguments)?;
        init.start()?;
        self.init = Some(init);
        let id = self.wait_for_namespaces()?.to_string();
        let bridge_port = format!("to-{}", self.name);
        let link = ["link", "add", &bridge_port, "master", "nodes", "up", "type"];
        let peer = ["veth", "peer", "name", "eth0", "netns", &id];
        run(Command::new("ip").args(link).args(peer))?;
        let pods = format!("{pods}.0/24");
        let route = ["route", "replace", &pods, "via", &address];
        run(Command::new("ip").args(route))?;
        Ok(())
    }

    /// Kills every process of the node, as a power cut does, and removes its link and the cgroups of its pods.
    ///
    /// # Errors
    /// Returns an error if it does not run, or its processes stay.
    pub fn stop(&mut self) -> anyhow::Result<()> {
        let mut init = self.init.take().context("does not run")?;
        init.kill()?;
        // The kernel removes it with the namespace, some time after the last process has ended.
        let link = format!("to-{}", self.name);
        run(Command::new("ip").args(["link", "delete", &link])).ok();
        // cgroups of containers do not outlive a reboot. Each that did would hold up the kubelet for 3 s.
        sandbox::remove_cgroups(&self.name)
    }

    /// A command in the network and mount namespaces of the node.
    ///
    /// # Errors
    /// Returns an error if the node does not run.
    pub fn command(&self, program: &str) -> anyhow::Result<Command> {
        let id = self.init.as_ref().and_then(Daemon::id);
        let id = id.context("the node does not run")?.to_string();
        let mut command = Command::new("nsenter");
        command.args(["--target", &id, "--net", "--mount", "--", program]);
        Ok(command)
    }

    /// Returns an error if the node has ended by itself, with the end of its log.
    pub(super) fn check(&mut self) -> anyhow::Result<()> {
        self.init.as_mut().map_or(Ok(()), Daemon::check)
    }

    /// The last lines of what init, containerd and kubelet log.
    pub fn log_end(&self) -> String {
        let init = self.init.as_ref().map_or_else(String::new, Daemon::log_end);
        let log = |name: &str| daemon::end(&self.directory.join("upper/var/log").join(name));
        format!(
            "{}:\n{init}\n{}\n{}",
            self.name,
            log("containerd"),
            log("kubelet")
        )
    }

    /// The process ID of init's parent, in all namespaces of the node except its PID namespace.
    fn wait_for_namespaces(&mut self) -> anyhow::Result<u32> {
        let init = self.init.as_mut().context("does not run")?;
        let id = init.id().context("does not run")?;
        let namespace = |id: &str| fs::read_link(format!("/proc/{id}/ns/net"));
        let own = namespace("self")?;
        let end = Instant::now() + PATIENCE;
        while namespace(&id.to_string())? == own {
            init.check()?;
            ensure!(Instant::now() < end, "{} has no namespaces", self.name);
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(id)
    }
}

fn address(node: usize) -> String {
    format!("192.168.100.{}", 10 + node)
}

/// The first three bytes of the addresses of a node's pods.
fn pods(node: usize) -> String {
    format!("10.244.{node}")
}

/// The configuration of a kubelet. One of 1.35 and newer refuses cgroup v1 unless `failCgroupV1` is false.
const KUBELET: &str = "\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
cgroupDriver: cgroupfs
clusterDNS: [10.96.0.10]
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
failCgroupV1: false
failSwapOn: false
makeIPTablesUtilChains: false
localStorageCapacityIsolation: false
evictionHard: {memory.available: 1Mi}
imageGCHighThresholdPercent: 100
serializeImagePulls: false
nodeStatusUpdateFrequency: 2s
";

/// The path of runc.
///
/// # Errors
/// Returns an error if it is not on PATH.
pub(super) fn runc() -> anyhow::Result<String> {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut files = env::split_paths(&path).map(|it| it.join("runc"));
    let runc = files.find(|it| it.is_file());
    let runc = runc.context("cannot find runc on PATH; install the Debian package runc")?;
    Ok(runc.display().to_string())
}

/// The configuration of containerd 2.
fn containerd(runc: &str) -> String {
    format!(
        r#"version = 3
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "{PAUSE}"
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
    BinaryName = "{runc}"
"#
    )
}

/// The image of pods' sandboxes, which is that of their containers, too.
const PAUSE: &str = "localhost/busybox:test";

/// The network of a node's pods, with the upstream plugin in it until netqos takes its place.
fn network(pods: &str) -> String {
    format!(
        r#"{{
  "cniVersion": "1.0.0",
  "name": "pods",
  "plugins": [
    {{"type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true,
     "ipam": {{"type": "host-local", "ranges": [[{{"subnet": "{pods}.0/24"}}]],
       "routes": [{{"dst": "0.0.0.0/0"}}]}}}},
    {{"type": "bandwidth", "capabilities": {{"bandwidth": true}}}}
  ]
}}
"#
    )
}
