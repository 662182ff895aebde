//! The first band never takes more than half of the limit, however many flows are small enough for
//! it: what is over goes on as bulk.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use netqos_api::EgressWay;
use netqos_bpf::{Counters, Pins};
use netqos_core::{Attachment, BitRate, Direction, Limit};
use netqos_datapath::Owner;
use netqos_testkit::Pod;
use netqos_traffic::{Goodput, LatencyTest, Sample, UdpTest};

use super::{DIRECTIONS, HOOKS, Link, TCP_SHARE, both, expect, flow, mbit, within_three_tries};

const LIMIT: BitRate = mbit(10);
/// What the first band took of the limit, when there was always more for it.
const HALF: std::ops::Range<f64> = 0.40..0.55;
const WARM_UP: Duration = Duration::from_millis(500);
/// What a datagram of 1,400 bytes carries.
const UDP_SHARE: f64 = 1400.0 / 1442.0;

/// What one of a flood's datagrams carries, and what the kernel's qdiscs count of it.
const PAYLOAD: usize = 250;
const LENGTH: u64 = 292;

/// Datagrams, evenly, in turn to so many ports: each port is a flow.
#[derive(Clone, Copy)]
struct Flood {
    flows: u16,
    /// At layer 2.
    rate: BitRate,
}

/// Who took how much of the limit.
#[derive(Debug)]
struct Shares {
    /// The first band, by the limiter's counters.
    first_band: f64,
    /// The bulk flow, by what arrived of it.
    bulk: f64,
}

/// Each flow is below its share, and all together they would be four fifths of the limit: half of
/// it is theirs, and for the rest they stand in line with a bulk flow that wants more than all.
#[test]
fn though_each_alone_is_small() {
    let flood = Flood {
        flows: 500,
        rate: mbit(8),
    };
    with_everything(|link, direction| {
        let test = UdpTest {
            flow: flow(direction),
            omit: WARM_UP,
            duration: Duration::from_secs(1),
            ..UdpTest::new(link.server.local_addr(), mbit(20))
        };
        let bulk = |watch: Watch| (test.run(watch).unwrap().goodput, UDP_SHARE);
        let shares = beside(flood, link, direction, bulk);
        expect(
            HALF.contains(&shares.first_band) && shares.bulk > 0.40,
            || format!("{shares:?}"),
        )
    });
}

/// Datagrams of three times the limit, to another port each for two seconds: half of it is theirs,
/// and one honest TCP flow lives on.
#[test]
fn though_hardly_one_sends_twice() {
    let flood = Flood {
        flows: 30_000,
        rate: mbit(30),
    };
    with_everything(|link, direction| {
        let test = link.tcp_test(direction, 1.0);
        let bulk = |watch: Watch| (test.run(watch).unwrap().goodput, TCP_SHARE);
        let shares = beside(flood, link, direction, bulk);
        expect(
            HALF.contains(&shares.first_band) && shares.bulk > 0.02,
            || format!("{shares:?}"),
        )
    });
}

/// Each flow is three times its share, so all are bulk: they keep neither a TCP flow from
/// living on nor one that is really small from passing them.
#[test]
fn though_they_are_three_times_the_limit() {
    let flood = Flood {
        flows: 500,
        rate: mbit(30),
    };
    with_everything(|link, direction| {
        let test = link.tcp_test(direction, 1.5);
        // As long as the flood's datagrams, and in all four fifths of a share.
        let questions = LatencyTest {
            size: PAYLOAD,
            interval: Duration::from_millis(150),
            duration: Duration::from_millis(1500),
            ..LatencyTest::new(link.server.local_addr())
        };
        let mut asked = None;
        let bulk = |watch: Watch| {
            std::thread::scope(|scope| {
                let asking = scope.spawn(|| questions.run(|_| ()).unwrap());
                let goodput = test.run(watch).unwrap().goodput;
                asked = Some(asking.join().unwrap());
                (goodput, TCP_SHARE)
            })
        };
        let shares = beside(flood, link, direction, bulk);
        let asked = asked.unwrap();
        let median = asked.round_trip.map_or(Duration::MAX, |trips| trips.p50);
        expect(
            shares.first_band < 0.10
                && shares.bulk > 0.02
                && median < Duration::from_millis(5)
                && asked.lost * 4 < asked.sent,
            || format!("{shares:?}, {asked}"),
        )
    });
}

/// Both hooks, both directions, three tries.
fn with_everything(attempt: impl Fn(&Link, Direction) -> Result<(), String>) {
    let Some(link) = Link::new() else { return };
    for hook in HOOKS {
        link.limit(both(Limit::of(LIMIT)), hook, EgressWay::Pod);
        for direction in DIRECTIONS {
            within_three_tries(|| {
                attempt(&link, direction).map_err(|why| format!("{hook:?}, {direction}: {why}"))
            });
        }
    }
}

/// Is called by the bulk flow now and then.
type Watch<'a> = &'a mut (dyn FnMut(Sample) + Send);

/// Runs a bulk flow, which says what part of it is payload, beside a flood.
fn beside(
    flood: Flood,
    link: &Link,
    direction: Direction,
    bulk: impl FnOnce(Watch) -> (Goodput, f64) + Send,
) -> Shares {
    let pod = &link.pod;
    let (sender, receiver) = match direction {
        Direction::Ingress => (&link.other, pod),
        Direction::Egress => (pod, &link.other),
    };
    let to = receiver.address().parse().unwrap();
    let stop = AtomicBool::new(false);
    let mut readings = Vec::new();
    let (goodput, payload) = std::thread::scope(|scope| {
        let flooding = scope.spawn(|| sender.inside(|| flood.run(to, &stop)).unwrap());
        let mut watch = |sample: Sample| {
            if sample.at >= WARM_UP {
                readings.push((Instant::now(), counters(pod, direction).sparse_bytes));
            }
        };
        let measured = pod.inside(|| bulk(&mut watch)).unwrap();
        stop.store(true, Ordering::Relaxed);
        flooding.join().unwrap();
        measured
    });
    let ((from, before), (to, after)) = (readings[0], readings[readings.len() - 1]);
    let of_limit = |bits: f64| bits / LIMIT.bits_per_second() as f64;
    Shares {
        first_band: of_limit((after - before) as f64 * 8.0 / (to - from).as_secs_f64()),
        bulk: of_limit(goodput.rate.bits_per_second() as f64 / payload),
    }
}

/// What this direction's limiter has let through so far.
fn counters(pod: &Pod, direction: Direction) -> Counters {
    let attachment = Attachment::try_new("net", pod.name(), "eth0").unwrap();
    let owner = Owner::new(&attachment, direction).id;
    let pins = Pins::open(Path::new("/sys/fs/bpf")).unwrap().unwrap();
    let limiters = pins.limiters().all().unwrap();
    let mut ours = limiters.iter().map(|(_, limiter)| limiter);
    ours.find(|limiter| limiter.settings.owner == owner)
        .unwrap()
        .counters
}

impl Flood {
    /// Sends until told to stop. Nobody listens, and the node says so to nobody more than a few
    /// times.
    fn run(self, to: IpAddr, stop: &AtomicBool) {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        // It waits for no queue.
        socket.set_nonblocking(true).unwrap();
        let start = Instant::now();
        let mut bits = 0;
        for port in (1..=self.flows).cycle() {
            let _ = socket.send_to(&[0; PAYLOAD], SocketAddr::new(to, port));
            bits += LENGTH * 8;
            if port % 10 == 0 {
                let due = Duration::from_secs_f64(bits as f64 / self.rate.bits_per_second() as f64);
                std::thread::sleep(due.saturating_sub(start.elapsed()));
                if stop.load(Ordering::Relaxed) {
                    return;
                }
            }
        }
    }
}
