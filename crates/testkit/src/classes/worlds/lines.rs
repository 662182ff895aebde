//! Two lines to a peer, a pod that sends over the first one, and cgroups of `net_cls`: the world of who
//! divides lines by the kernel's own means.

use std::collections::BTreeMap;
use std::fs;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use netqos_classes::{ClassBackend, Standing};
use netqos_core::classes::{ClassPlan, TrafficClass};
use netqos_core::{BitRate, Direction};
use netqos_netlink::qdisc::Statistics;
use netqos_netlink::{Handle, Namespace, Socket};
use netqos_traffic::{Flow, Server, UdpTest};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use super::{Obstacle, Tampered, World};
use crate::classes::plans::{self, CGROUPS, LINES, mbit};
use crate::{BacklogDrops, Node, Pod};

const MOUNT: &str = "/run/net_cls";
const PEER: &str = "peer";
/// The minor numbers of classes and of what they keep for themselves are below this, by either backend.
const FIRST_OF_PODS: u16 = 0x16;

static WORLDS: AtomicUsize = AtomicUsize::new(0);

/// What such backends differ in.
pub trait Divider {
    /// Which ways it divides.
    const DIRECTIONS: &[Direction];
    /// How `tc` changes the class of best-effort on the first line to 8 and 80 Mbit/s.
    const TAMPER: &str;
    /// The shell commands by which another process changes a part of what the backend made.
    const FAULTS: &[&str];

    /// The backend, with `net_cls` here.
    fn backend(net_cls: &Path) -> Box<dyn ClassBackend>;
    /// What it could change besides qdiscs, classes and cgroups.
    fn state(node: &Node) -> String;
}

/// The node.
pub struct OnLines<D> {
    divider: PhantomData<D>,
    node: Node,
    /// The root that the backend is told of: of the hierarchy that the machine has a part that is the
    /// test's own.
    net_cls: PathBuf,
}

impl<D: Divider> OnLines<D> {
    /// The backend of a process of this world.
    pub fn backend_at(net_cls: &Path) -> Box<dyn ClassBackend> {
        D::backend(net_cls)
    }

    /// Where `net_cls` is.
    pub fn net_cls(&self) -> &Path {
        &self.net_cls
    }
}

impl<D: Divider> World for OnLines<D> {
    const CHANGES: bool = true;
    const TELLS_PODS: bool = true;
    const HAS_PACKETS: bool = true;
    const SEES_LINES: bool = true;

    fn new(node: Node) -> Self {
        let number = WORLDS.fetch_add(1, Ordering::Relaxed);
        fs::create_dir_all(MOUNT).unwrap();
        mount("net_cls", MOUNT, "cgroup", MountFlags::empty(), c"net_cls").unwrap();
        let name = format!("netqos-classes-{}-{number}", std::process::id());
        let net_cls = Path::new(MOUNT).join(name);
        let world = Self {
            divider: PhantomData,
            node,
            net_cls,
        };
        for cgroup in [world.net_cls.clone()]
            .into_iter()
            .chain(cgroups(&world.net_cls))
        {
            fs::create_dir(cgroup).unwrap();
        }
        Namespace::create(peer()).unwrap();
        fs::write("/proc/sys/net/ipv6/conf/all/forwarding", "1").unwrap();
        for line in LINES {
            world.add_line(line);
        }
        // A table is there as soon as it was looked at.
        world.state();
        world
    }

    fn backend(&self) -> Box<dyn ClassBackend> {
        D::backend(&self.net_cls)
    }

    fn state(&self) -> String {
        let mut text = D::state(&self.node);
        text += &self.node.run("tc", &["qdisc", "show"]).unwrap();
        for line in LINES {
            // It may be gone.
            let classes = self.node.run("tc", &["class", "show", "dev", line]);
            text += &classes.unwrap_or_default();
        }
        for cgroup in cgroups(&self.net_cls) {
            let number = fs::read_to_string(cgroup.join("net_cls.classid")).unwrap();
            text += &format!("{}: {number}", cgroup.display());
        }
        let lasting = |line: &str| {
            let words = line.split(' ').scan("", |before, word| {
                let is_counter = std::mem::replace(before, word) == "direct_packets_stat";
                Some(if is_counter { "" } else { word })
            });
            words.collect::<Vec<_>>().join(" ")
        };
        // The order in which addresses stand in a set says nothing.
        let mut lines: Vec<String> = text.lines().map(lasting).collect();
        lines.sort();
        lines.join("\n")
    }

    fn expected(&self, plan: &ClassPlan) -> BTreeMap<Arc<str>, Standing> {
        let standing = |line: &Arc<str>| {
            let mut standing = Standing::default();
            for direction in D::DIRECTIONS {
                let tree = plan.tree(line, *direction).unwrap();
                for (class, share) in plans::classes(&tree.shares) {
                    standing.classes.insert((*direction, class), share);
                }
                for (id, part) in tree.parts {
                    let share = (part.share.min, part.share.max);
                    standing.parts.insert((*direction, id), share);
                }
            }
            standing
        };
        let lines = plan.lines.keys();
        lines.map(|line| (line.clone(), standing(line))).collect()
    }

    fn obstruct(&self) -> Obstacle<'_> {
        let line = LINES[1];
        let tbf = "qdisc replace dev line-b root handle 8: tbf rate 1gbit burst 1mb latency 9ms";
        self.node
            .run("tc", &tbf.split(' ').collect::<Vec<_>>())
            .unwrap();
        let clear = move || {
            self.node
                .run("tc", &["qdisc", "del", "dev", line, "root"])
                .unwrap();
        };
        Obstacle::Line(line, Box::new(clear), "line-b has tbf 8: at its root")
    }

    fn neighbours(&self) {
        let run = |words: &str| {
            let (program, words) = words.split_once(' ').unwrap();
            let words: Vec<&str> = words.split(' ').collect();
            self.node.run(program, &words).unwrap();
        };
        run("ipset create theirs hash:net");
        run("ipset add theirs 10.99.2.2");
        for iptables in ["iptables", "ip6tables"] {
            run(&format!(
                "{iptables} -t mangle -A POSTROUTING -o lo -j CLASSIFY --set-class 1:2"
            ));
        }
        // A line of another's, divided as the proposal has it.
        run("ip link add theirs type veth peer name theirs-peer");
        run("tc qdisc add dev theirs root handle 1: htb default 2");
        run("tc class add dev theirs parent 1: classid 1:1 htb rate 1gbit");
        run("tc class add dev theirs parent 1:1 classid 1:2 htb rate 1gbit");
        let by_hand = self.net_cls.join("by-hand/net_cls.classid");
        fs::write(by_hand, 0x1_0003.to_string()).unwrap();
    }

    fn remove_line(&self, line: &str) {
        ip(&format!("link del {line}"));
    }

    fn add_line(&self, line: &str) {
        let number = 1 + LINES.iter().position(|it| *it == line).unwrap();
        ip(&format!(
            "link add {line} type veth peer name {line} netns {PEER}"
        ));
        ip(&format!(
            "addr add 192.0.2.{number}/32 peer 198.51.100.{number} dev {line}"
        ));
        // The kernel sends multicast reports and router solicitations of its own otherwise, which are no pod's and
        // pass beside the tree of a line that carries little.
        fs::write(format!("/proc/sys/net/ipv6/conf/{line}/disable_ipv6"), "1").unwrap();
        ip(&format!("link set {line} up"));
        inside(peer(), || {
            ip(&format!(
                "addr add 198.51.100.{number}/32 peer 192.0.2.{number} dev {line}"
            ));
            ip(&format!("link set {line} up"));
            ip("link set lo up");
            if number == 1 {
                ip(&format!(
                    "route add default via 192.0.2.{number} dev {line}"
                ));
            }
        });
    }

    fn tamper(&self) -> Option<Tampered> {
        let change: Vec<&str> = D::TAMPER.split(' ').collect();
        self.node.run("tc", &change).unwrap();
        let key = (Direction::Egress, TrafficClass::BestEffort);
        Some((LINES[0], key, (mbit(8), mbit(80))))
    }

    fn faults(&self) -> Vec<Box<dyn FnOnce() + '_>> {
        let fault = |command: &'static str| -> Box<dyn FnOnce() + '_> {
            Box::new(move || drop(self.node.run("sh", &["-ec", command]).unwrap()))
        };
        D::FAULTS.iter().map(|command| fault(command)).collect()
    }

    /// A pod that changes its class sends more than it may, so that something waits when that happens, and
    /// all of it arrives. What both plans have stays what it is, and counts on.
    fn without_a_loss(&self, act: &mut dyn FnMut()) {
        // The numbers of pods begin behind the peer's: this is the second of the plans.
        let pod: Pod = self.node.pod("second").unwrap();
        assert_eq!(pod.address(), "10.99.2.2");
        let server = inside(peer(), || {
            Server::bind(SocketAddr::from(([198, 51, 100, 1], 0))).unwrap()
        });
        let place = pod.netns();
        let address = server.local_addr();
        let began = Instant::now();
        act();
        let duration = Duration::from_secs(3) + 2 * began.elapsed();
        let drops = BacklogDrops::count().unwrap();
        thread::scope(|scope| {
            let sender = scope.spawn(move || {
                let _inside = Namespace::open(place).unwrap().enter().unwrap();
                let test = UdpTest {
                    flow: Flow::Upload,
                    omit: Duration::ZERO,
                    duration,
                    ..UdpTest::new(address, BitRate::from_bits_per_second(1_200_000))
                };
                test.run(|_| {}).unwrap()
            });
            let before = loop {
                let counted = counted();
                let waiting: u32 = counted.values().map(|it| it.queued_packets).sum();
                if waiting > 10 {
                    break counted;
                }
                assert!(!sender.is_finished(), "{waiting} packets wait");
                thread::sleep(Duration::from_millis(20));
            };
            let passed = self.passed();
            act();
            assert_eq!(self.passed(), passed, "packets met no class");
            let after = counted();
            // What is of no pod is of both plans.
            let lasting = before
                .iter()
                .filter(|(handle, _)| handle.minor() < FIRST_OF_PODS);
            let lasting: Vec<_> = lasting.filter(|(_, counted)| counted.bytes > 0).collect();
            // The line at least, and the class that the pod had and has again.
            assert!(lasting.len() >= 2, "{before:?}");
            for (handle, before) in lasting {
                let after = after.get(handle).map(|counted| counted.bytes);
                assert!(
                    after.is_some_and(|bytes| bytes >= before.bytes),
                    "{handle} is another"
                );
            }
            assert!(!sender.is_finished(), "it took longer than the test");
            let report = sender.join().unwrap();
            assert!(report.lost <= drops.so_far().unwrap(), "{report}");
        });
    }
}

impl<D> OnLines<D> {
    /// How many packets have met no class, as on a line that carries little.
    fn passed(&self) -> u64 {
        let words = ["-s", "qdisc", "show", "dev", LINES[0], "root"];
        let sent = self.node.run("tc", &words).unwrap();
        let (_, passed) = sent.split_once("direct_packets_stat ").unwrap();
        passed.split(' ').next().unwrap().parse().unwrap()
    }
}

/// What the classes of the first line have counted.
fn counted() -> BTreeMap<Handle, Statistics> {
    let mut socket = Socket::open().unwrap();
    let line = socket.link_by_name(LINES[0]).unwrap();
    let classes = socket.classes(&line).unwrap().into_iter();
    classes
        .map(|class| (class.handle, class.statistics))
        .collect()
}

fn peer() -> PathBuf {
    Path::new("/run/netns").join(PEER)
}

fn inside<T: Send>(place: PathBuf, act: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let thread = scope.spawn(move || {
            let _inside = Namespace::open(place).unwrap().enter().unwrap();
            act()
        });
        thread.join().unwrap()
    })
}

/// The cgroups below this one, those above before those below.
fn cgroups(net_cls: &Path) -> Vec<PathBuf> {
    let above = ["/kubepods", "/kubelet", "/kubelet/kubelet-kubepods.slice"];
    let containers = CGROUPS.map(|pod| format!("{pod}/container"));
    let all = above.into_iter().chain(CGROUPS).map(str::to_owned);
    let all = all.chain(containers);
    // One that is no pod's.
    let all = all.chain(["/by-hand".to_owned()]);
    all.map(|cgroup| net_cls.join(cgroup.trim_start_matches('/')))
        .collect()
}

/// Runs `ip` where the calling thread is.
fn ip(words: &str) {
    let done = Command::new("ip").args(words.split(' ')).output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "ip {words}: {said}");
}

impl<D> Drop for OnLines<D> {
    fn drop(&mut self) {
        let mut cgroups = cgroups(&self.net_cls);
        cgroups.sort_by_key(|cgroup| std::cmp::Reverse(cgroup.components().count()));
        for cgroup in cgroups.iter().chain([&self.net_cls]) {
            let _ = fs::remove_dir(cgroup);
        }
        let _ = unmount(MOUNT, UnmountFlags::DETACH);
    }
}
