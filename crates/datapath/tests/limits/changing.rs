//! Bulk of one direction, and a limit that changes under it.

use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use netqos_api::{EgressWay, HookChoice};
use netqos_core::{Attachment, BitRate, ByteCount, Direction, Limit, Limits};
use netqos_datapath::{HostLinks, LimitDatapath, Paths, Request, Shaped, SideName};
use netqos_netlink::qdisc::Statistics;
use netqos_netlink::{Handle, Namespace, Socket};
use netqos_testkit::{Node, Pod};
use netqos_traffic::{Flow, Server, TcpTest};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

/// What the kernel cuts by itself, and BIG TCP.
const GSO: [u32; 2] = [65_536, 196_608];
/// A frame of the pods' links. What is smaller passes in a band of its own, and says nothing of the rest.
const FRAME: u64 = 1514;
/// How long a queue may send nothing, at rates at which frames take less.
const PATIENCE: Duration = Duration::from_millis(200);

/// How long it is waited at most for something to wait.
const FILLS: Duration = Duration::from_millis(400);

/// Under what a limit changes.
#[derive(Clone, Debug)]
pub(crate) struct Scene {
    direction: Direction,
    egress: EgressWay,
    hook: HookChoice,
    congestion_control: &'static str,
    gso: u32,
}

impl fmt::Display for Scene {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            direction,
            egress,
            hook,
            congestion_control,
            gso,
        } = self;
        write!(
            f,
            "{direction} by {egress:?}, {hook:?}, {congestion_control}, GSO of {gso} bytes"
        )
    }
}

/// All of them.
pub(crate) fn scenes() -> Vec<Scene> {
    let mut scenes = Vec::new();
    let ways = [
        (Direction::Ingress, EgressWay::Pod),
        (Direction::Egress, EgressWay::Pod),
        (Direction::Egress, EgressWay::Ifb),
    ];
    for (direction, egress) in ways {
        // Without a program the packets wait in a queue of another kind.
        for hook in [HookChoice::Auto, HookChoice::None] {
            for congestion_control in ["cubic", "bbr"] {
                for gso in GSO {
                    scenes.push(Scene {
                        direction,
                        egress,
                        hook,
                        congestion_control,
                        gso,
                    });
                }
            }
        }
    }
    scenes
}

/// From 100 kbit/s to 1 Gbit/s, with bursts of all sizes, each as likely.
fn limits() -> impl Strategy<Value = Limit> {
    let rate = (0.0..4.0_f64).prop_map(|power| 100_000.0 * 10_f64.powf(power));
    let burst = prop::option::of((0.0..4.0_f64).prop_map(|power| 1_000.0 * 10_f64.powf(power)));
    (rate, burst).prop_map(|(rate, burst)| Limit {
        burst: burst.map(|bytes| ByteCount::from_bytes(bytes as u64)),
        ..Limit::of(BitRate::from_bits_per_second(rate as u64))
    })
}

/// Changes a limit at random, so often, under bulk, and asserts after each change that what waits is
/// sent. How often something waited; `None`: the test has to be skipped.
pub(crate) fn assert_no_change_stops(scene: &Scene, times: usize) -> Option<usize> {
    let node = Node::new().unwrap()?;
    let (pod, other) = (node.pod("limited").unwrap(), node.pod("free").unwrap());
    for at in [&pod, &other] {
        let gso = scene.gso.to_string();
        let set = |link| ["link", "set", link, "gso_max_size", &gso];
        node.run("ip", &set(at.host_link())).unwrap();
        at.run(&node, "ip", &set("eth0")).unwrap();
    }
    // Only IPv6 has packets as large as that, wherever there is BIG TCP.
    let address = SocketAddr::new(other.address6().parse().unwrap(), 0);
    let server = other.inside(|| Server::bind(address)).unwrap().unwrap();
    let test = TcpTest {
        flow: match scene.direction {
            Direction::Ingress => Flow::Download,
            Direction::Egress => Flow::Upload,
        },
        streams: 2,
        omit: Duration::ZERO,
        duration: Duration::from_secs(1),
        congestion_control: Some(scene.congestion_control.to_owned()),
        ..TcpTest::new(server.local_addr())
    };
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                // Whether it ends well is not what is looked at.
                let _ = pod.inside(|| test.run(|_| ())).unwrap();
            }
        });
        // Also when an assertion fails.
        let _ended = Ended(&is_over);
        let mut limited = Limited::new(&pod, scene);
        let mut runner = TestRunner::default();
        let waited = (0..times).filter(|_| {
            let drawn = (limits(), 0_u64..20).new_tree(&mut runner).unwrap();
            let (limit, pause) = drawn.current();
            limited.fill();
            thread::sleep(Duration::from_millis(pause));
            limited.change(&limit)
        });
        let waited = waited.count();
        limited.set(Limits::default());
        Some(waited)
    })
}

/// Ends the bulk.
struct Ended<'o>(&'o AtomicBool);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A pod that is held to limits.
struct Limited<'s> {
    scene: &'s Scene,
    pod: &'s Pod,
    attachment: Attachment,
    datapath: LimitDatapath,
    /// What it was held to, the last of it at the end.
    history: Vec<Limit>,
    queue: Option<Shaped>,
}

impl<'s> Limited<'s> {
    fn new(pod: &'s Pod, scene: &'s Scene) -> Self {
        Self {
            scene,
            pod,
            attachment: Attachment::try_new("net", pod.name(), "eth0").unwrap(),
            datapath: LimitDatapath::open(Paths::from_variables(|_| None)).unwrap(),
            history: Vec::new(),
            queue: None,
        }
    }

    fn set(&mut self, limits: Limits) -> Option<Shaped> {
        let applied = self.datapath.apply(&Request {
            attachment: &self.attachment,
            netns: &self.pod.netns(),
            host_links: HostLinks::Unknown,
            limits,
            egress: self.scene.egress,
            hook: self.scene.hook,
            is_at_work: true,
        });
        applied.unwrap().queues.pop()
    }

    /// Waits until something waits, but not for ever: a connection that lost much is silent for a while.
    fn fill(&self) {
        let began = Instant::now();
        let is_empty = |queue| self.statistics(queue).queued_packets == 0;
        while began.elapsed() < FILLS && self.queue.as_ref().is_some_and(is_empty) {
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Changes the limit, and asserts that the queue sends while something waits in it. Whether
    /// something did.
    fn change(&mut self, limit: &Limit) -> bool {
        self.history.push(*limit);
        let mut limits = Limits::default();
        match self.scene.direction {
            Direction::Ingress => limits.ingress = Some(*limit),
            Direction::Egress => limits.egress = Some(*limit),
        }
        let queue = self.set(limits).unwrap();
        self.queue = Some(queue.clone());
        let four_frames = ByteCount::from_bytes(4 * FRAME);
        let patience = Duration::from_nanos(limit.rate.nanos_for(four_frames)).max(PATIENCE);
        let (began, before) = (Instant::now(), self.statistics(&queue));
        loop {
            let is_late = began.elapsed() > patience;
            let now = self.statistics(&queue);
            if now.queued_packets == 0 || now.bytes >= before.bytes + FRAME {
                return before.queued_packets > 0;
            }
            assert!(
                !is_late,
                "{}: nothing is sent for {patience:?}, and {now:?} waits, after {:#?}",
                self.scene,
                &self.history[self.history.len().saturating_sub(3)..]
            );
            thread::sleep(Duration::from_millis(2));
        }
    }

    fn statistics(&self, queue: &Shaped) -> Statistics {
        let mut socket = match queue.side {
            SideName::Host => Socket::open().unwrap(),
            SideName::Pod => Socket::open_in(&Namespace::open(self.pod.netns()).unwrap()).unwrap(),
        };
        let link = socket.link_by_name(&queue.link).unwrap();
        let root = socket.qdisc_at(&link, Handle::ROOT).unwrap().unwrap();
        root.statistics
    }
}
