//! Random changes of the shares of a class and of a pod's part under bulk traffic in one direction.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::iter::successors;
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};
use std::{fmt, io, thread};

use netqos_classes::ClassBackend;
use netqos_core::classes::{Ask, Asked, LineShares, Share, Shares};
use netqos_core::{BitRate, ByteCount, Direction};
use netqos_netlink::class::InstalledClass;
use netqos_netlink::qdisc::Statistics;
use netqos_netlink::{Handle, Socket};
use netqos_testkit::classes::World;
use netqos_testkit::random_changes::run_cases;
use netqos_testkit::{Bulk, assert_progress, has_big_tcp, time_of_progress, wait_for_backlog};
use netqos_traffic::{Flow, TcpTest};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

/// The default size, and one of BIG TCP.
const GSO: [u32; 2] = [65_536, 196_608];
/// The minor number of the class of best-effort.
const BEST_EFFORT: u16 = 4;
/// That of its leaf for sparse flows; the next one is that for bulk flows.
const BEST_EFFORT_SPARSE: u16 = 0x14;
/// Changes of each scene in a row.
const CHANGES: usize = 6;
/// Packets up to this size, in bytes, stay whole on uplinks below this capacity.
const UNCUT: u64 = 9_238;
/// More bytes than wait in the leaves of a slot whose limit is low. Others hold what passes in this time, of each leaf.
const ROOM: u64 = 2 * 192 * 1024;
const BULK_NANOS: u64 = 25_000_000;
const CUTS_BELOW: BitRate = BitRate::from_bits_per_second(500_000_000);

/// The traffic of a series of changes.
#[derive(Clone, Copy, Debug)]
struct Scene {
    direction: Direction,
    congestion_control: &'static str,
    gso: u32,
}

/// All combinations. Among each second one are all directions, congestion controls and sizes.
fn scenes() -> Vec<Scene> {
    let mut scenes = Vec::new();
    for direction in [Direction::Egress, Direction::Ingress] {
        for congestion_control in ["cubic", "bbr"] {
            for gso in GSO {
                scenes.push(Scene {
                    direction,
                    congestion_control,
                    gso,
                });
            }
        }
    }
    scenes.swap(0, 1);
    scenes.swap(6, 7);
    scenes.retain(|scene| scene.gso == GSO[0] || has_big_tcp());
    scenes
}

/// The shares of an uplink, and what the pod of best-effort asks for.
#[derive(Clone, Copy)]
struct Change {
    total: BitRate,
    best_effort: Share,
    asked: Ask,
}

impl Change {
    /// The limit of the pod.
    fn limit(&self) -> BitRate {
        self.asked.max.unwrap_or(self.best_effort.max)
    }
}

impl fmt::Debug for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            total,
            best_effort: Share { min, max },
            asked,
        } = self;
        write!(f, "{min} to {max} of {total}, the pod {} to ", asked.min)?;
        match asked.max {
            Some(max) => write!(f, "{max}"),
            None => write!(f, "all"),
        }
    }
}

fn bits(bytes_per_second: u64) -> BitRate {
    BitRate::from_bits_per_second(8 * bytes_per_second)
}

fn part_of(rate: BitRate, part: f64) -> BitRate {
    BitRate::from_bits_per_second((rate.bits_per_second() as f64 * part) as u64)
}

/// Uplinks from 2 Mbit/s to 1 Gbit/s, each size as likely, and pods with and without a part of their own.
fn changes() -> impl Strategy<Value = Change> {
    let total = (0.3..3.0_f64).prop_map(|power| 1_000_000.0 * 10_f64.powf(power));
    let asked = (
        prop::option::of(0.2..1.0_f64),
        prop::option::of(0.2..1.0_f64),
    );
    (total, 0.05..0.5_f64, 0.0..1.0_f64, asked).prop_map(|(total, min, more, (least, most))| {
        let total = BitRate::from_bits_per_second(total as u64);
        let min = part_of(total, min);
        let max = min.max(part_of(total, more));
        let most = most.map(|most| part_of(max, most));
        let least = least.map(|least| part_of(most.unwrap_or(max), least));
        Change {
            total,
            best_effort: Share { min, max },
            asked: Ask {
                min: least.unwrap_or_default(),
                max: most,
            },
        }
    })
}

/// An uplink under bulk traffic.
struct Loaded {
    scene: Scene,
    world: World,
    /// The changes so far.
    history: Vec<Change>,
    /// The time at which the class has paid for what it has sent.
    owes_until: Instant,
    /// The time at which nothing waits any more that waited before the last exchange of queues. These GSO packets stay
    /// whole on a slow uplink, too.
    empty_at: Instant,
}

fn classes(link: &str) -> BTreeMap<Handle, InstalledClass> {
    let mut socket = Socket::open().unwrap();
    let link = match socket.link_by_name(link) {
        Err(error) if error.is_not_found() => return BTreeMap::new(),
        link => link.unwrap(),
    };
    let classes = socket.classes(&link).unwrap();
    classes
        .into_iter()
        .map(|class| (class.handle, class))
        .collect()
}

/// The bytes that the class of best-effort has sent, and the packets that wait in its leaves.
fn of_class(link: &str) -> Statistics {
    let classes = classes(link);
    let is_of_class = |leaf: &&InstalledClass| {
        let mut above = successors(Some(leaf.handle), |it| Some(classes.get(it)?.parent));
        above.any(|class| class.minor() == BEST_EFFORT)
    };
    let leaves = classes.values().filter(is_of_class);
    let class = { classes.values() }.find(|class| class.handle.minor() == BEST_EFFORT);
    Statistics {
        bytes: class.map_or(0, |class| class.statistics.bytes),
        queued_packets: leaves.map(|leaf| leaf.statistics.queued_packets).sum(),
        ..Statistics::default()
    }
}

/// Returns the longest time for which the class of best-effort sends nothing and something waits.
fn longest_pause(link: &str, observed: Duration) -> Duration {
    let (began, mut longest) = (Instant::now(), Duration::ZERO);
    let (mut sent_at, mut bytes) = (began, 0);
    while began.elapsed() < observed {
        let now = of_class(link);
        if now.bytes != bytes || now.queued_packets == 0 {
            (sent_at, bytes) = (Instant::now(), now.bytes);
        }
        longest = longest.max(sent_at.elapsed());
        thread::sleep(Duration::from_millis(5));
    }
    longest
}

impl Loaded {
    /// The link with the tree of the direction.
    fn link(&self) -> String {
        let uplink = self.world.line();
        match self.scene.direction {
            Direction::Egress => uplink.to_string(),
            Direction::Ingress => {
                let mut socket = Socket::open().unwrap();
                format!("netqos-l{}", socket.link_by_name(&uplink).unwrap().index)
            }
        }
    }

    fn classes(&self) -> BTreeMap<Handle, InstalledClass> {
        classes(&self.link())
    }

    /// The tree as `tc` prints it, with the tokens of its classes.
    fn tree(&self) -> String {
        let link = self.link();
        let show = |what| ["-s", "-d", what, "show", "dev", &link].map(str::to_owned);
        let shown = ["class", "qdisc"].map(|what| {
            let arguments = show(what);
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            self.world
                .node
                .run("tc", &arguments)
                .unwrap_or_else(|error| format!("{error:#}"))
        });
        shown.join("\n")
    }

    /// The leaves in which packets wait.
    fn waiting(&self) -> Vec<InstalledClass> {
        let mut classes: Vec<_> = self.classes().into_values().collect();
        classes.retain(|class| class.statistics.queued_packets > 0);
        classes
    }

    fn statistics(&self, leaf: Handle) -> Statistics {
        let class = self.classes().remove(&leaf);
        class.map(|class| class.statistics).unwrap_or_default()
    }

    /// Adds what the class may owe after a change. HTB keeps a debt as time, also when the rate is raised: of one packet,
    /// which is small on slow uplinks.
    fn owe(&mut self, before: Change, change: Change) {
        let is_cut = |change: &Change| change.total < CUTS_BELOW;
        let is_exchanged = is_cut(&before) != is_cut(&change);
        let is_small = is_cut(&before) && is_cut(&change) && self.empty_at <= Instant::now();
        let waited = before.limit().bytes_in_nanos(2 * BULK_NANOS).bytes();
        let bytes = if is_small { UNCUT } else { waited.max(ROOM) };
        let slowest = before.limit().min(change.limit());
        let debt = Duration::from_nanos(slowest.nanos_for(ByteCount::from_bytes(bytes)));
        self.owes_until = self.owes_until.max(Instant::now() + debt);
        if is_exchanged {
            self.empty_at = self.owes_until;
        }
    }

    /// Makes a change.
    fn divide(&mut self, change: Change) {
        self.history.push(change);
        let open = Share::up_to(change.total);
        let shares = Shares::try_new(change.total, open, change.best_effort).unwrap();
        let shares = LineShares {
            ingress: shares,
            egress: shares,
        };
        let world = &mut self.world;
        world.plan.lines = BTreeMap::from([(world.line(), shares)]);
        world.plan.pods.get_mut("be").unwrap().asked = Asked {
            ingress: change.asked,
            egress: change.asked,
        };
        let outcome = world.backend.apply(&world.plan).unwrap();
        assert_eq!(outcome.lines, [world.line()], "{outcome:#?}");
        assert_eq!(outcome.stalled, []);
    }

    /// Makes a change and asserts that the leaves send their backlog. Returns true if one had any.
    fn change(&mut self, change: Change) -> bool {
        let before = self.history.last().copied().unwrap_or(change);
        self.divide(change);
        self.owe(before, change);
        let situation = || {
            let history = &self.history;
            format!("{:?}, after {history:#?}\n{}", self.scene, self.tree())
        };
        let debt = || self.owes_until.saturating_duration_since(Instant::now());
        let within = time_of_progress(change.limit()) + debt();
        let waited = assert_progress(within, || of_class(&self.link()), situation);
        for leaf in self.waiting() {
            // The others of its class may take all but its guarantee.
            let rate = bits(leaf.rate());
            let time = |bytes| Duration::from_nanos(rate.nanos_for(ByteCount::from_bytes(bytes)));
            // A leaf that owes borrows in turn with another leaf.
            let largest = if change.total < CUTS_BELOW {
                UNCUT
            } else {
                ROOM
            };
            let turns = time(u64::from(leaf.quantum()) + 2 * largest);
            let within = time_of_progress(rate).max(time(UNCUT)) + leaf.debt().min(turns) + debt();
            assert_progress(within, || self.statistics(leaf.handle), situation);
        }
        waited
    }
}

/// An uplink with bulk traffic that lasts until the second value is dropped. `None` if the test must be skipped.
fn loaded(scene: Scene) -> Option<(Loaded, Bulk)> {
    let world = World::new()?;
    for pod in [&world.pods["be"], &world.outside] {
        pod.set_gso_max_size(&world.node, scene.gso).unwrap();
    }
    let test = TcpTest {
        flow: match scene.direction {
            Direction::Ingress => Flow::Download,
            Direction::Egress => Flow::Upload,
        },
        streams: 2,
        omit: Duration::ZERO,
        duration: Duration::from_secs(1),
        congestion_control: Some(scene.congestion_control.to_owned()),
        // BIG TCP of IPv4 came later than that of IPv6.
        ..TcpTest::new(world.outside_address(true))
    };
    let bulk = Bulk::start(world.pods["be"].netns(), move || drop(test.run(|_| ()))).unwrap();
    let loaded = Loaded {
        scene,
        world,
        history: Vec::new(),
        owes_until: Instant::now(),
        empty_at: Instant::now(),
    };
    Some((loaded, bulk))
}

/// Makes changes at random. Returns the number of those with a backlog, or `None` if the test must be skipped.
fn assert_no_change_stalls(scene: Scene, times: usize) -> Option<usize> {
    let (mut loaded, _bulk) = loaded(scene)?;
    let mut runner = TestRunner::default();
    let waited = (0..times).filter(|_| {
        let drawn = (changes(), 0_u64..20).new_tree(&mut runner).unwrap();
        let (change, pause) = drawn.current();
        wait_for_backlog(|| !loaded.waiting().is_empty());
        thread::sleep(Duration::from_millis(pause));
        loaded.change(change)
    });
    Some(waited.count())
}

/// The short form has half of the scenes.
#[test]
fn random_change_of_class_or_part_never_stalls_leaf() {
    run_cases(&scenes(), 2, CHANGES, |scene, times| {
        assert_no_change_stalls(*scene, times)
    });
}

/// At 1 Mbit/s a class owes for a GSO packet of 192 kB for 1.6 s. None is sent at such a rate.
#[test]
fn uplink_that_becomes_slow_owes_for_no_gso_packet() {
    let open = |total: u64| BitRate::from_bits_per_second(total * 1_000_000);
    let change = |total, min, max| Change {
        total: open(total),
        best_effort: Share {
            min: open(min),
            max: open(max),
        },
        asked: Ask::default(),
    };
    for direction in [Direction::Egress, Direction::Ingress] {
        let scene = Scene {
            direction,
            congestion_control: "cubic",
            gso: if has_big_tcp() { GSO[1] } else { GSO[0] },
        };
        let Some((mut loaded, _bulk)) = loaded(scene) else {
            return;
        };
        loaded.change(change(900, 90, 800));
        wait_for_backlog(|| !loaded.waiting().is_empty());
        let link = loaded.link();
        let pause = thread::scope(|scope| {
            let pause = scope.spawn(|| longest_pause(&link, Duration::from_secs(5)));
            loaded.divide(change(6, 0, 1));
            pause.join().unwrap()
        });
        let most = Duration::from_millis(250);
        assert!(pause < most, "{direction}: {pause:?}\n{}", loaded.tree());
        println!("{direction}: the longest pause is {pause:.0?}");
    }
}

/// A GSO packet in the queue of sparse flows would be sent whole.
#[test]
fn large_gso_packets_of_sparse_flow_are_segmented() {
    let Some((mut loaded, bulk)) = loaded(Scene {
        direction: Direction::Egress,
        congestion_control: "cubic",
        gso: GSO[0],
    }) else {
        return;
    };
    drop(bulk);
    let megabits = |rate: u64| BitRate::from_bits_per_second(rate * 1_000_000);
    loaded.divide(Change {
        total: megabits(450),
        best_effort: Share {
            min: megabits(400),
            max: megabits(440),
        },
        asked: Ask::default(),
    });
    let (outside, pod) = (&loaded.world.outside, &loaded.world.pods["be"]);
    let address = loaded.world.outside_address(false);
    let listener = outside.inside(move || TcpListener::bind((address.ip(), 0)));
    let listener = listener.unwrap().unwrap();
    let to = listener.local_addr().unwrap();
    let receiver =
        thread::spawn(move || io::copy(&mut listener.accept().unwrap().0, &mut io::sink()));
    let mut sender = pod.inside(move || TcpStream::connect(to)).unwrap().unwrap();
    sender.set_nodelay(true).unwrap();
    // The flow takes 6 Mbit/s of 400, and each packet less time than a sparse flow may owe.
    for _ in 0..20 {
        sender.write_all(&[0; 40_000]).unwrap();
        thread::sleep(Duration::from_millis(50));
    }
    drop(sender);
    receiver.join().unwrap().unwrap();
    let classes = loaded.classes();
    let sent = |minor| {
        let mut of_leaf = classes.values().filter(|it| it.handle.minor() == minor);
        of_leaf.next().unwrap().statistics.bytes
    };
    let (sparse, bulk) = (sent(BEST_EFFORT_SPARSE), sent(BEST_EFFORT_SPARSE + 1));
    assert!(
        bulk > 9 * sparse,
        "{bulk} of bulk, {sparse} of sparse\n{}",
        loaded.tree()
    );
}
