//! A node: kubelet, kube-proxy and containerd in namespaces and cgroups of their own.

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use std::{env, fs, fs::File};

use anyhow::{Context as _, ensure};

use super::control_plane::{KUBE_PROXY, kubeconfig_of};
use super::daemon::{self, Daemon};
use super::{Counters, GATEWAY, GATEWAY6, PROGRAMS, ROOT, run, sandbox};

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
    pub(super) fn new(number: usize, nodes: usize) -> Self {
        let name = format!("node{number}");
        let directory = Path::new(ROOT).join("nodes").join(&name);
        let others = (1..=nodes).filter(|it| *it != number);
        let routes: Vec<String> = others.flat_map(routes).collect();
        let environment = vec![
            ("NODE", name.clone()),
            ("DIRECTORY", directory.display().to_string()),
            ("PROGRAMS", PROGRAMS.to_owned()),
            ("IMAGES", format!("{ROOT}/images")),
            ("ADDRESS", address(number).to_string()),
            ("ADDRESS6", address6(number)),
            ("GATEWAY", GATEWAY.to_owned()),
            ("GATEWAY6", GATEWAY6.to_owned()),
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

    /// The IPv4 address of the node.
    pub fn address(&self) -> IpAddr {
        address(self.number).into()
    }

    /// Starts the node: its namespaces, containerd, the kubelet and kube-proxy.
    ///
    /// # Errors
    /// Returns an error if a namespace or link cannot be made.
    pub fn start(&mut self) -> anyhow::Result<()> {
        fs::create_dir_all(&self.directory)?;
        for (file, content) in [
            ("kubeconfig", kubeconfig_of(&self.name)),
            ("kubelet.yaml", KUBELET.to_owned()),
            ("containerd.toml", containerd(&runc()?)),
            ("kube-proxy.kubeconfig", kubeconfig_of(KUBE_PROXY)),
            ("kube-proxy.yaml", kube_proxy(&self.name)),
            ("pods.conflist", network(self.number)),
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
        for route in routes(self.number) {
            let route = ["route", "replace"].into_iter().chain(route.split(' '));
            run(Command::new("ip").args(route))?;
        }
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
        let id = self.id()?.to_string();
        let mut command = Command::new("nsenter");
        command.args(["--target", &id, "--net", "--mount", "--", program]);
        Ok(command)
    }

    /// The network namespace of the node.
    ///
    /// # Errors
    /// Returns an error if the node does not run.
    pub fn network(&self) -> anyhow::Result<File> {
        Ok(File::open(format!("/proc/{}/ns/net", self.id()?))?)
    }

    /// Begins to count the packets that arrive at the node.
    ///
    /// # Errors
    /// Returns an error if the node does not run, or `nft` fails.
    pub fn count(&self) -> anyhow::Result<Counters> {
        Counters::start(Some(self.id()?))
    }

    /// The process ID of init's parent.
    fn id(&self) -> anyhow::Result<u32> {
        let id = self.init.as_ref().and_then(Daemon::id);
        id.context("the node does not run")
    }

    /// Has a VXLAN network carry the packets to the pods of other nodes, as Flannel does, or the network of the
    /// nodes again.
    ///
    /// # Errors
    /// Returns an error if the node does not run, or a command fails.
    pub fn tunnel(&self, others: &[&Self], on: bool) -> anyhow::Result<()> {
        let script = match on {
            true => self.vxlan(others),
            false => {
                let routes = others.iter().flat_map(|it| routes(it.number));
                let back = routes.map(|it| format!("ip route replace {it}\n"));
                back.chain(["ip link delete vxlan1\n".to_owned()]).collect()
            }
        };
        run(self.command("sh")?.args(["-euc", &script]))?;
        Ok(())
    }

    /// The commands that make a VXLAN network.
    fn vxlan(&self, others: &[&Self]) -> String {
        let own = self.number;
        let mut script = format!(
            "ip link add vxlan1 address {} mtu 1450 type vxlan id 1 dstport 4789 local {} dev eth0 nolearning
ip address add 10.244.{own}.0/32 dev vxlan1
ip -6 address add fd00:244:0:{own}:: dev vxlan1 nodad
ip link set vxlan1 up
",
            hardware_address(own),
            address(own),
        );
        for other in others {
            let (number, hardware_address) = (other.number, hardware_address(other.number));
            script += &format!(
                "bridge fdb append {hardware_address} dev vxlan1 dst {}\n",
                address(number)
            );
            for (pods, gateway) in [
                (pods(number), format!("10.244.{number}.0")),
                (pods6(number), format!("fd00:244:0:{number}::")),
            ] {
                // IPv6 takes no gateway that is reached by another link.
                script += &format!(
                    "ip route delete {pods}
ip neighbor replace {gateway} lladdr {hardware_address} dev vxlan1
ip route replace {pods} via {gateway} dev vxlan1 onlink
"
                );
            }
        }
        script
    }

    /// Returns an error if the node has ended by itself, with the end of its log.
    pub(super) fn check(&mut self) -> anyhow::Result<()> {
        self.init.as_mut().map_or(Ok(()), Daemon::check)
    }

    /// The last lines of what init, containerd, kubelet and kube-proxy log.
    pub fn log_end(&self) -> String {
        let init = self.init.as_ref().map_or_else(String::new, Daemon::log_end);
        let log = |name: &str| daemon::end(&self.directory.join("upper/var/log").join(name));
        format!(
            "{}:\n{init}\n{}\n{}\n{}",
            self.name,
            log("containerd"),
            log("kubelet"),
            log("kube-proxy")
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

fn address(node: usize) -> Ipv4Addr {
    Ipv4Addr::new(192, 168, 100, 10 + node as u8)
}

fn address6(node: usize) -> String {
    format!("fd00:100::{}", 10 + node)
}

/// The prefix of the addresses of a node's pods.
fn pods(node: usize) -> String {
    format!("10.244.{node}.0/24")
}

fn pods6(node: usize) -> String {
    format!("fd00:244:0:{node}::/64")
}

/// The routes to the pods of a node, for `ip route`.
fn routes(node: usize) -> [String; 2] {
    [
        format!("{} via {}", pods(node), address(node)),
        format!("{} via {}", pods6(node), address6(node)),
    ]
}

/// The configuration of kube-proxy: it leaves the connection tracking of the machine alone.
fn kube_proxy(node: &str) -> String {
    format!(
        "\
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
hostnameOverride: {node}
clientConnection: {{kubeconfig: /run/kube-proxy.kubeconfig}}
mode: nftables
clusterCIDR: 10.244.0.0/16,fd00:244::/48
conntrack: {{maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}}
"
    )
}

/// The hardware address of the VXLAN interface of a node.
fn hardware_address(node: usize) -> String {
    format!("02:00:00:00:00:{node:02x}")
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

/// The configuration of containerd 2. The handler `netqos` is that of docs/multinet.md: pods of it have lists of their own.
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
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.netqos]
  runtime_type = "io.containerd.runc.v2"
  cni_conf_dir = "/etc/cni/netqos.d"
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.netqos.options]
    BinaryName = "{runc}"
"#
    )
}

/// The image of pods' sandboxes, which is that of their containers, too.
const PAUSE: &str = "localhost/busybox:test";

/// The network of the pods of a node, with the upstream plugin in it until netqos takes its place.
fn network(node: usize) -> String {
    let (pods, pods6) = (pods(node), pods6(node));
    format!(
        r#"{{
  "cniVersion": "1.0.0",
  "name": "pods",
  "plugins": [
    {{"type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true,
     "ipam": {{"type": "host-local", "ranges": [[{{"subnet": "{pods}"}}], [{{"subnet": "{pods6}"}}]],
       "routes": [{{"dst": "0.0.0.0/0"}}, {{"dst": "::/0"}}]}}}},
    {{"type": "bandwidth", "capabilities": {{"bandwidth": true}}}}
  ]
}}
"#
    )
}
