//! A node with pods of all classes behind a line, and how the line is divided.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use netqos_bpf::classes::{choose_no_more, stamp_no_more};
use netqos_classes::{ClassBackend, Kernel, KernelOptions, Tc};
use netqos_core::classes::{
    Asked, ClassPlan, ClassedPod, LineShares, Place, Share, Shares, TrafficClass,
};
use netqos_core::{BitRate, ObjectName, PodId};
use netqos_datapath::Paths;
use netqos_netlink::Socket;
use netqos_testkit::{Node, Pod};
use netqos_traffic::{Flow, Server, TcpTest};
use serde::{Deserialize, Serialize};

/// How a line is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// Not at all.
    Nothing,
    /// By HTB, whose classes nothing chooses.
    Htb,
    /// By netqos' kernel backend.
    Kernel,
    /// By the same, while so much is sent that the line is not idle, or as if it were.
    KernelBusy,
    /// By the proposal's HTB, ipsets and iptables.
    Tc,
}

/// The pods that are measured, and their classes.
pub const PODS: [(&str, TrafficClass); 3] = [
    ("sys", TrafficClass::System),
    ("ls", TrafficClass::LatencySensitive),
    ("be", TrafficClass::BestEffort),
];

/// A node, its pods, and a machine outside.
pub struct Stage {
    pub pods: BTreeMap<&'static str, Pod>,
    outside: Pod,
    server: Server,
    backend: Option<Box<dyn ClassBackend>>,
    /// Pods that are nothing but addresses.
    pub others: u16,
    // The last, since all others are in it.
    node: Node,
}

/// Bytes of each class, and of the line, so far.
#[derive(Clone, Debug)]
pub struct Sent {
    pub line: u64,
    pub classes: [u64; 3],
}

/// 40, 30 and 30 of a hundred.
fn shares(total: u64) -> Result<LineShares> {
    let share = Share {
        min: BitRate::from_bits_per_second(total * 300_000),
        max: BitRate::from_bits_per_second(total * 1_000_000),
    };
    let total = BitRate::from_bits_per_second(total * 1_000_000);
    let shares = Shares::try_new(total, share, share)?;
    Ok(LineShares {
        ingress: shares,
        egress: shares,
    })
}

impl Stage {
    pub fn new(node: Node) -> Result<Self> {
        let outside = node.pod("outside")?;
        let any: SocketAddr = "[::]:0".parse()?;
        let server = outside.inside(|| Server::bind(any))??;
        let pods = PODS.iter().map(|(name, _)| Ok((*name, node.pod(name)?)));
        Ok(Self {
            pods: pods.collect::<Result<_>>()?,
            outside,
            server,
            backend: None,
            others: 0,
            node,
        })
    }

    fn line(&self) -> Arc<str> {
        self.outside.host_link().into()
    }

    fn plan(&self, megabits: u64) -> Result<ClassPlan> {
        let pod = |name: &str, class, place| {
            let pod = ClassedPod {
                id: PodId {
                    name: ObjectName::new("bench", name),
                    uid: name.into(),
                },
                class,
                place,
                asked: Asked::default(),
                flows: Vec::new(),
            };
            (Arc::from(name), pod)
        };
        let mut pods = BTreeMap::new();
        for (name, class) in PODS {
            let there = &self.pods[name];
            let place = Place {
                addresses: [there.address().parse()?, there.address6().parse()?].into(),
                host_links: [there.host_link().into()].into(),
                ..Place::default()
            };
            pods.extend([pod(name, class, place)]);
        }
        for number in 0..self.others {
            let address = std::net::Ipv4Addr::from(0x0A80_0000 + u32::from(number));
            let place = Place {
                addresses: [address.into()].into(),
                ..Place::default()
            };
            pods.extend([pod(
                &format!("other-{number}"),
                TrafficClass::BestEffort,
                place,
            )]);
        }
        Ok(ClassPlan {
            lines: [(self.line(), shares(megabits)?)].into(),
            pods,
        })
    }

    /// Divides the line so, and no other way.
    pub fn divide(&mut self, way: Way, megabits: u64) -> Result<()> {
        if let Some(mut before) = self.backend.take() {
            before.teardown()?;
        }
        let mut backend: Box<dyn ClassBackend> = match way {
            Way::Nothing => return Ok(()),
            Way::Htb | Way::Kernel | Way::KernelBusy => {
                let paths = Paths::from_variables(|_| None);
                let options = KernelOptions {
                    divides_idle_lines: way == Way::KernelBusy,
                    ..KernelOptions::new(paths, Path::new("/sys/fs/cgroup"))
                };
                Box::new(Kernel::open(options)?)
            }
            Way::Tc => Box::new(Tc::default()),
        };
        let outcome = backend.apply(&self.plan(megabits)?)?;
        ensure!(outcome.lines.len() == 1, "{outcome:?}");
        self.backend = Some(backend);
        if way == Way::Htb {
            let line = self.line();
            let filter = [
                "filter", "del", "dev", &line, "parent", "6e71:", "pref", "1",
            ];
            self.node.run("tc", &filter)?;
            let mut socket = Socket::open()?;
            choose_no_more(socket.link_by_name(&line)?.index)?;
            for pod in self.pods.values() {
                let link = socket.link_by_name(pod.host_link())?;
                if !stamp_no_more(link.index)? {
                    // Where the kernel has no tcx.
                    let words = ["qdisc", "del", "dev", &link.name, "clsact"];
                    self.node.run("tc", &words)?;
                }
            }
        }
        Ok(())
    }

    /// Where the server outside is.
    pub fn server(&self) -> Result<SocketAddr> {
        Ok(SocketAddr::new(
            self.outside.address().parse()?,
            self.server.local_addr().port(),
        ))
    }

    /// Packets that the line has sent.
    pub fn packets_out(&self) -> Result<u64> {
        let text = std::fs::read_to_string("/proc/thread-self/net/dev")?;
        let line = self.line();
        let of = text.lines().find_map(|text| {
            let (name, numbers) = text.split_once(':')?;
            (name.trim() == &*line).then(|| numbers.split_whitespace().nth(9))?
        });
        Ok(of.context("no such line")?.parse()?)
    }

    /// What has passed the classes of the kernel backend.
    pub fn sent(&self, flow: Flow) -> Result<Sent> {
        let mut socket = Socket::open()?;
        let line = socket.link_by_name(&self.line())?;
        let link = match flow {
            Flow::Upload => line,
            Flow::Download => socket.link_by_name(&format!("netqos-l{}", line.index))?,
        };
        let classes = socket.classes(&link)?;
        let bytes = |minor: u16| -> Result<u64> {
            let class = classes.iter().find(|class| class.handle.minor() == minor);
            Ok(class.context("no such class")?.statistics.bytes)
        };
        Ok(Sent {
            line: bytes(1)?,
            classes: [bytes(2)?, bytes(3)?, bytes(4)?],
        })
    }

    /// Lets these pods send to the outside, or get from there, all they can for so long, and does
    /// something once they have begun.
    pub fn while_loaded<T>(
        &self,
        flow: Flow,
        pods: &[&str],
        seconds: f64,
        act: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let test = TcpTest {
            flow,
            streams: 2,
            omit: Duration::ZERO,
            duration: Duration::from_secs_f64(seconds + 1.5),
            congestion_control: Some("cubic".to_owned()),
            ..TcpTest::new(self.server()?)
        };
        thread::scope(|scope| {
            let test = &test;
            let load = |name: &&str| {
                let pod = &self.pods[*name];
                scope.spawn(move || pod.inside(|| test.run(|_| ())))
            };
            let running: Vec<_> = pods.iter().map(load).collect();
            thread::sleep(Duration::from_millis(1200));
            let found = act();
            for load in running {
                load.join().map_err(|_| anyhow!("a load panicked"))???;
            }
            found
        })
    }
}
