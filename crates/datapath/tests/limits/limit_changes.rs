//! Random changes of a limit under bulk traffic in one direction.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use netqos_api::{EgressWay, HookChoice};
use netqos_core::{Attachment, BitRate, ByteCount, Direction, Limit, Limits};
use netqos_datapath::{HostLinks, LimitDatapath, Paths, Request, Shaped, SideName};
use netqos_netlink::qdisc::Statistics;
use netqos_netlink::{Handle, Namespace, Socket};
use netqos_testkit::{Node, Pod};
use netqos_traffic::{Flow, TcpTest};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use crate::server;

/// The default size, and one of BIG TCP.
const GSO: [u32; 2] = [65_536, 196_608];
/// The size of a frame. Smaller packets pass in the sparse band, and prove no progress of bulk.
const FRAME: u64 = 1514;
/// The time in which a queue must send a frame, at rates that allow it.
const PATIENCE: Duration = Duration::from_millis(200);

/// The longest wait for a backlog.
const FILLS: Duration = Duration::from_millis(400);

/// The traffic and the queue of a series of changes.
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

/// All combinations.
pub(crate) fn scenes() -> Vec<Scene> {
    let mut scenes = Vec::new();
    let ways = [
        (Direction::Ingress, EgressWay::Pod),
        (Direction::Egress, EgressWay::Pod),
        (Direction::Egress, EgressWay::Ifb),
    ];
    for (direction, egress) in ways {
        // Without a program TBF has its own queue.
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

/// Changes a limit at random and asserts that the queue sends its backlog after each change. Returns the number
/// of changes with a backlog, or `None` if the test must be skipped.
pub(crate) fn assert_no_change_stalls(scene: &Scene, times: usize) -> Option<usize> {
    let node = Node::new().unwrap()?;
    let (pod, other) = (node.pod("limited").unwrap(), node.pod("free").unwrap());
    for at in [&pod, &other] {
        let gso = scene.gso.to_string();
        let set = |link| ["link", "set", link, "gso_max_size", &gso];
        node.run("ip", &set(at.host_link())).unwrap();
        at.run(&node, "ip", &set("eth0")).unwrap();
    }
    // BIG TCP of IPv4 came later than that of IPv6.
    let server = server(&other, &other.address6());
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
                // A low limit may end a connection.
                let _ = pod.inside(|| test.run(|_| ())).unwrap();
            }
        });
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

/// Ends bulk traffic, also after a panic.
struct Ended<'o>(&'o AtomicBool);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A pod with a limit.
struct Limited<'s> {
    scene: &'s Scene,
    pod: &'s Pod,
    attachment: Attachment,
    datapath: LimitDatapath,
    /// Its limits so far.
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
            is_running: true,
        });
        applied.unwrap().queues.pop()
    }

    /// Waits for a backlog. A connection may pause after losses.
    fn fill(&self) {
        let began = Instant::now();
        let is_empty = |queue| self.statistics(queue).queued_packets == 0;
        while began.elapsed() < FILLS && self.queue.as_ref().is_some_and(is_empty) {
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Changes the limit and asserts that the queue sends its backlog. Returns true if it had one.
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
