//! A node with pods, and a line to a machine outside.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use netqos_api::HookChoice;
use netqos_classes::{ClassBackend, Kernel, KernelOptions, Outcome};
use netqos_core::classes::{
    Ask, Asked, ClassPlan, ClassedPod, LineShares, Place, Share, Shares, TrafficClass,
};
use netqos_core::{BitRate, ObjectName, PodId};
use netqos_datapath::Paths;
use netqos_traffic::{Flow, LatencyReport, LatencyTest, Server, TcpTest};

use super::group::{Group, unified};
use crate::{Baseline, Node, Pod, has_tcx};

pub const SYSTEM: TrafficClass = TrafficClass::System;
pub const LS: TrafficClass = TrafficClass::LatencySensitive;
pub const BE: TrafficClass = TrafficClass::BestEffort;

pub const fn mbit(megabits: u64) -> BitRate {
    BitRate::from_bits_per_second(megabits * 1_000_000)
}

/// What of a frame is payload of TCP.
pub fn payload(v6: bool) -> f64 {
    if v6 { 1428.0 / 1514.0 } else { 1448.0 / 1514.0 }
}

/// 40, 30 and 30 of a hundred, and all of the line where nobody else asks.
pub fn shares(total: u64) -> LineShares {
    divided(total, [30, 100], [30, 100])
}

/// Percentages of the two lower classes.
pub fn divided(total: u64, l1: [u64; 2], l2: [u64; 2]) -> LineShares {
    let share = |[min, max]: [u64; 2]| Share {
        min: BitRate::from_bits_per_second(total * 10_000 * min),
        max: BitRate::from_bits_per_second(total * 10_000 * max),
    };
    let shares = Shares::try_new(mbit(total), share(l1), share(l2)).unwrap();
    LineShares {
        ingress: shares,
        egress: shares,
    }
}

pub struct World {
    pub backend: Kernel,
    pub plan: ClassPlan,
    pub pods: BTreeMap<&'static str, Pod>,
    pub outside: Pod,
    pub server: Server,
    servers: BTreeMap<&'static str, Server>,
    is_by_tunnel: bool,
    /// What the line is a port of, which is the line then.
    pub master: Option<&'static str>,
    group: Option<PathBuf>,
    baseline: OnceCell<Baseline>,
    // The last, since all others are in it.
    pub node: Node,
}

impl World {
    /// A node with a pod of each class. `None` when the test has to be skipped.
    pub fn new() -> Option<Self> {
        let mut world = Self::empty()?;
        for (name, class) in [("sys", SYSTEM), ("ls", LS), ("be", BE)] {
            world.pod(name, class);
        }
        Some(world)
    }

    /// The same where the kernel has tcx.
    pub fn with_tcx() -> Option<Self> {
        has_tcx().then(Self::new).flatten()
    }

    /// A node without pods.
    pub fn empty() -> Option<Self> {
        let node = Node::new().unwrap()?;
        let outside = node.pod("outside").unwrap();
        let any: SocketAddr = "[::]:0".parse().unwrap();
        Some(Self {
            backend: Kernel::open(options()).unwrap(),
            plan: ClassPlan::default(),
            pods: BTreeMap::new(),
            server: outside.inside(|| Server::bind(any)).unwrap().unwrap(),
            servers: BTreeMap::new(),
            is_by_tunnel: false,
            master: None,
            group: None,
            baseline: OnceCell::new(),
            outside,
            node,
        })
    }

    /// From now on programs are attached like this.
    pub fn attach_by(&mut self, hook: HookChoice) {
        let options = KernelOptions { hook, ..options() };
        self.backend = Kernel::open(options).unwrap();
    }

    pub fn pod(&mut self, name: &'static str, class: TrafficClass) {
        let pod = self.node.pod(name).unwrap();
        self.register(name, pod, class);
    }

    /// A pod that the test made in a way of its own, with a server in it.
    pub fn register(&mut self, name: &'static str, pod: Pod, class: TrafficClass) {
        let place = Place {
            addresses: [pod.address(), pod.address6()]
                .map(|text| text.parse().unwrap())
                .into(),
            host_links: BTreeSet::from([pod.host_link().into()]),
            ..Place::default()
        };
        self.plan
            .pods
            .insert(name.into(), classed(name, class, place));
        let any: SocketAddr = "[::]:0".parse().unwrap();
        let server = pod.inside(|| Server::bind(any)).unwrap().unwrap();
        self.servers.insert(name, server);
        self.pods.insert(name, pod);
    }

    /// The name of the line.
    pub fn line(&self) -> Arc<str> {
        let link = self.master.unwrap_or(self.outside.host_link());
        link.into()
    }

    /// Divides the line so, and expects nothing to be wrong.
    pub fn divide(&mut self, shares: LineShares) -> Outcome {
        self.plan.lines = BTreeMap::from([(self.line(), shares)]);
        let outcome = self.backend.apply(&self.plan).unwrap();
        assert_eq!(outcome.troubles, [], "{:#?}", outcome.troubles);
        assert_eq!(outcome.lines, [self.line()]);
        outcome
    }

    pub fn ask(&mut self, name: &str, min: u64, max: Option<u64>) {
        let ask = Ask {
            min: mbit(min),
            max: max.map(mbit),
        };
        self.plan.pods.get_mut(name).unwrap().asked = Asked {
            ingress: ask,
            egress: ask,
        };
    }

    pub fn outside_address(&self, v6: bool) -> SocketAddr {
        let address = match (self.is_by_tunnel, v6) {
            (true, true) => "fd99:c8::2".to_owned(),
            (true, false) => "10.99.200.2".to_owned(),
            (false, true) => self.outside.address6(),
            (false, false) => self.outside.address(),
        };
        SocketAddr::new(address.parse().unwrap(), self.server.local_addr().port())
    }

    /// What a limit of `tc` leaves of its rate, from the first use on.
    pub fn baseline(&self) -> &Baseline {
        self.baseline
            .get_or_init(|| Baseline::new(&self.node).unwrap())
    }

    /// Makes what leaves by the line the node's.
    pub fn masquerade(&self) {
        for program in ["iptables", "ip6tables"] {
            let line = self.line();
            let words = [
                "-t",
                "nat",
                "-A",
                "POSTROUTING",
                "-o",
                &line,
                "-j",
                "MASQUERADE",
            ];
            self.node.run(program, &words).unwrap();
        }
    }

    /// Two pods on a bridge, which reach the outside by the node.
    pub fn bridged_pods(&mut self) {
        let node = &self.node;
        node.bridge("br0").unwrap();
        node.run("ip", &["addr", "add", "10.99.254.1/16", "dev", "br0"])
            .unwrap();
        let address6 = ["-6", "addr", "add", "fd99:fe::1/16", "dev", "br0", "nodad"];
        node.run("ip", &address6).unwrap();
        for (name, class) in [("ls", LS), ("be", BE)] {
            let pod = self.node.bridged_pod(name, "br0").unwrap();
            for (family, to, by) in [
                ("-4", self.outside.address(), "10.99.254.1"),
                ("-6", self.outside.address6(), "fd99:fe::1"),
            ] {
                let words = [family, "route", "add", &to, "via", by];
                pod.run(&self.node, "ip", &words).unwrap();
            }
            self.register(name, pod, class);
        }
    }

    /// Reaches the outside as another node's pod, on the bridge, by a VXLAN.
    pub fn vxlan(&mut self) {
        let make = |run: &dyn Fn(&[&str]), local: &str, remote: &str| {
            let words = "link add vx0 mtu 1450 type vxlan id 7 dstport 4789 local";
            let words: Vec<&str> = words.split(' ').chain([local, "remote", remote]).collect();
            run(&words);
            run(&["link", "set", "vx0", "up"]);
        };
        let on_node = |words: &[&str]| drop(self.node.run("ip", words).unwrap());
        let outside = |words: &[&str]| drop(self.outside.run(&self.node, "ip", words).unwrap());
        make(&on_node, &self.outside.gateway(), &self.outside.address());
        on_node(&["link", "set", "vx0", "master", "br0"]);
        make(&outside, &self.outside.address(), &self.outside.gateway());
        outside(&["addr", "add", "10.99.200.2/16", "dev", "vx0"]);
        outside(&["-6", "addr", "add", "fd99:c8::2/16", "dev", "vx0", "nodad"]);
        for pod in self.pods.values() {
            pod.run(&self.node, "ip", &["link", "set", "eth0", "mtu", "1450"])
                .unwrap();
        }
        self.is_by_tunnel = true;
    }

    /// A pod on the host's network, in a cgroup of its own, of version 1 or 2.
    pub fn host_pod(&mut self, name: &'static str, class: TrafficClass, version: u8) -> Group {
        let root = match version {
            1 => {
                let root = PathBuf::from("/run/net_cls");
                fs::create_dir(&root).unwrap();
                let words = ["-t", "cgroup", "-o", "net_cls", "none", "/run/net_cls"];
                self.node.run("mount", &words).unwrap();
                root
            }
            _ => unified(),
        };
        let group = Group::new(root.clone());
        if version == 1 {
            let options = KernelOptions {
                cgroups: None,
                net_cls: Some(root),
                ..options()
            };
            self.backend = Kernel::open(options).unwrap();
        }
        let place = Place {
            host_network: true,
            cgroup: Some(group.below()),
            ..Place::default()
        };
        self.plan
            .pods
            .insert(name.into(), classed(name, class, place));
        self.group = Some(group.path.clone());
        group
    }

    fn short(&self, flow: Flow, v6: bool) -> TcpTest {
        TcpTest {
            flow,
            omit: Duration::ZERO,
            duration: SHORT,
            ..TcpTest::new(self.outside_address(v6))
        }
    }

    /// A short transfer between a pod and the outside; the bytes of payload.
    pub fn transfer(&self, pod: &str, flow: Flow, v6: bool) -> f64 {
        let test = self.short(flow, v6);
        match self.pods.get(pod) {
            Some(pod) => pod.inside(|| bytes(&test)).unwrap(),
            None => self
                .group
                .as_deref()
                .map(|group| bytes_from_group(group, &test))
                .unwrap(),
        }
    }

    /// Packets that have come in by the line.
    pub fn packets_in(&self) -> u64 {
        let text = fs::read_to_string("/proc/thread-self/net/dev").unwrap();
        let line = text
            .lines()
            .find(|text| text.trim_start().starts_with(&*self.line()));
        line.unwrap()
            .split_whitespace()
            .nth(2)
            .unwrap()
            .parse()
            .unwrap()
    }

    /// True when the outside answers.
    pub fn is_reached(&self) -> bool {
        TcpStream::connect_timeout(&self.outside_address(false), Duration::from_secs(1)).is_ok()
    }

    /// The same of the node itself.
    pub fn transfer_from_node(&self) -> f64 {
        bytes(&self.short(Flow::Upload, false))
    }

    /// What a pod sends to another one, in Mbit/s.
    pub fn between(&self, from: &str, to: &str) -> f64 {
        let address = self.pods[to].address().parse().unwrap();
        let server = SocketAddr::new(address, self.servers[to].local_addr().port());
        let test = TcpTest {
            omit: Duration::ZERO,
            duration: SHORT,
            ..TcpTest::new(server)
        };
        self.pods[from].inside(|| bytes(&test)).unwrap() * 8.0 / SHORT.as_secs_f64() / 1e6
    }

    /// What the outside gets from this port of a pod, in Mbit/s.
    pub fn served_at(&self, pod: &str, port: u16) -> f64 {
        served_at(&self.pods[pod], &self.outside, port)
    }

    /// What this port of a pod gets from the outside, in Mbit/s.
    pub fn got_at(&self, pod: &str, port: u16) -> f64 {
        exchanged_at(&self.pods[pod], &self.outside, port, Flow::Upload)
    }

    /// What these pods send outside at the same time, or get from there, each by two connections, in
    /// Mbit/s.
    pub fn together(&self, flow: Flow, v6: bool, pods: &[&str], seconds: f64) -> Vec<f64> {
        self.while_loaded(flow, v6, pods, seconds, || ()).0
    }

    /// The same, and what is found by something that is done once that has begun.
    pub fn while_loaded<T>(
        &self,
        flow: Flow,
        v6: bool,
        pods: &[&str],
        seconds: f64,
        act: impl FnOnce() -> T,
    ) -> (Vec<f64>, T) {
        let test = TcpTest {
            flow,
            streams: 2,
            omit: Duration::from_millis(1000),
            duration: Duration::from_secs_f64(seconds),
            congestion_control: Some("cubic".to_owned()),
            ..TcpTest::new(self.outside_address(v6))
        };
        thread::scope(|scope| {
            let run = |pod: &&str| {
                let pod = &self.pods[*pod];
                let test = &test;
                scope.spawn(move || {
                    let report = pod.inside(|| test.run(|_| ()).unwrap()).unwrap();
                    report.goodput.rate.bits_per_second() as f64 / 1e6
                })
            };
            let running: Vec<_> = pods.iter().map(run).collect();
            thread::sleep(Duration::from_millis(1200));
            let found = act();
            let loads = running
                .into_iter()
                .map(|test| test.join().unwrap())
                .collect();
            (loads, found)
        })
    }

    /// Requests from a pod to the machine outside.
    pub fn latency(&self, pod: &str, seconds: u64) -> LatencyReport {
        let test = LatencyTest {
            size: 128,
            interval: Duration::from_micros(1500),
            duration: Duration::from_secs(seconds),
            ..LatencyTest::new(self.outside_address(false))
        };
        self.pods[pod].inside(|| test.run(|_| ()).unwrap()).unwrap()
    }
}

/// What one machine gets from this port of a pod in two seconds, in Mbit/s.
pub fn served_at(pod: &Pod, by: &Pod, port: u16) -> f64 {
    exchanged_at(pod, by, port, Flow::Download)
}

fn exchanged_at(pod: &Pod, by: &Pod, port: u16, flow: Flow) -> f64 {
    let any = SocketAddr::new("::".parse().unwrap(), port);
    let _server = pod.inside(|| Server::bind(any)).unwrap().unwrap();
    let test = TcpTest {
        flow,
        duration: Duration::from_secs(2),
        ..TcpTest::new(SocketAddr::new(pod.address().parse().unwrap(), port))
    };
    let report = by.inside(|| test.run(|_| ()).unwrap()).unwrap();
    report.goodput.rate.bits_per_second() as f64 / 1e6
}

/// How long a short transfer takes.
pub const SHORT: Duration = Duration::from_millis(300);

fn bytes(test: &TcpTest) -> f64 {
    let report = test.run(|_| ()).unwrap();
    report.goodput.rate.bits_per_second() as f64 / 8.0 * test.duration.as_secs_f64()
}

/// What a process in a cgroup is told.
const IN_GROUP: &str = "NETQOS_TEST_IN_GROUP";

/// The same by a process in this cgroup.
fn bytes_from_group(group: &Path, test: &TcpTest) -> f64 {
    let told = format!("{} {}", test.server, test.flow == Flow::Upload);
    let output = Command::new("sh")
        .args(["-c", "echo 0 > \"$0\" && exec \"$@\""])
        .arg(group.join("cgroup.procs"))
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "in_a_group", "--ignored", "--nocapture"])
        .env(IN_GROUP, told)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let found = text.lines().find_map(|line| line.strip_prefix("bytes "));
    found.unwrap_or_else(|| panic!("{text}")).parse().unwrap()
}

/// What `bytes_from_group` runs in another process: the ignored test `in_a_group` of its program.
pub fn in_a_group() {
    let Ok(told) = std::env::var(IN_GROUP) else {
        return;
    };
    let (server, is_upload) = told.split_once(' ').unwrap();
    let test = TcpTest {
        flow: if is_upload == "true" {
            Flow::Upload
        } else {
            Flow::Download
        },
        omit: Duration::ZERO,
        duration: SHORT,
        ..TcpTest::new(server.parse().unwrap())
    };
    println!("\nbytes {}", bytes(&test));
}

/// Does it in such a world with programs on tcx, and again with programs that are filters.
pub fn on_each_hook(make: fn() -> Option<World>, test: fn(World)) {
    for hook in [HookChoice::Tcx, HookChoice::Clsact] {
        if hook == HookChoice::Tcx && !has_tcx() {
            continue;
        }
        // A thread of its own, which is the node.
        let one = move || {
            let Some(mut world) = make() else { return };
            world.attach_by(hook);
            test(world);
        };
        thread::spawn(one).join().unwrap();
    }
}

pub fn options() -> KernelOptions {
    KernelOptions {
        cgroups: Some(unified()),
        net_cls: None,
        ..KernelOptions::new(Paths::from_variables(|_| None), Path::new("/sys/fs/cgroup"))
    }
}

pub fn classed(name: &str, class: TrafficClass, place: Place) -> ClassedPod {
    ClassedPod {
        id: PodId {
            name: ObjectName::new("games", name),
            uid: name.into(),
        },
        class,
        place,
        asked: Asked::default(),
        flows: Vec::new(),
    }
}
