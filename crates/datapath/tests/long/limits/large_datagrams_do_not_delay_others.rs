use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use netqos_api::EgressWay;
use netqos_core::{Direction, Limit};
use netqos_testkit::rules::{Datagram, Wire};
use netqos_traffic::LatencyTest;

use super::{HOOKS, Link, TCP_SHARE, both, expect, mbit, within_three_tries};

/// Sends so many bytes again and again, at three times the limit, until told to stop.
fn flood(stop: &AtomicBool, bytes: usize, send: impl Fn()) {
    let (start, mut sent) = (Instant::now(), 0);
    while !stop.load(Ordering::Relaxed) {
        send();
        sent += bytes;
        let due = Duration::from_secs_f64(sent as f64 * 8.0 / 30e6);
        thread::sleep(due.saturating_sub(start.elapsed()));
    }
}

/// Sparse flows wait for nothing, bulk waits as beside any flood, and TCP lives on.
fn beside(flood: impl Fn(Datagram, &AtomicBool) + Sync) {
    let Some(link) = Link::new() else { return };
    let shown = ["-br", "link", "show", link.other.host_link()];
    let shown = link._node.run("ip", &shown).unwrap();
    let digits = shown.split_whitespace().nth(2).unwrap().split(':');
    let bytes = digits.map(|byte| u8::from_str_radix(byte, 16).unwrap());
    let datagram = Datagram {
        to_mac: bytes.collect::<Vec<u8>>().try_into().unwrap(),
        from: link.other.address().parse().unwrap(),
        to: link.pod.address().parse().unwrap(),
        number: 1,
    };
    for hook in HOOKS {
        link.limit(both(Limit::of(mbit(10))), hook, EgressWay::Pod);
        within_three_tries(|| {
            let stop = AtomicBool::new(false);
            thread::scope(|scope| {
                let (other, flood, stop) = (&link.other, &flood, &stop);
                let flooding = scope.spawn(move || other.inside(|| flood(datagram, stop)).unwrap());
                thread::sleep(Duration::from_millis(300));
                let measured = measure(&link);
                stop.store(true, Ordering::Relaxed);
                flooding.join().unwrap();
                measured.map_err(|why| format!("{hook:?}: {why}"))
            })
        });
    }
}

fn measure(link: &Link) -> Result<(), String> {
    let questions = LatencyTest {
        interval: Duration::from_millis(20),
        duration: Duration::from_secs(1),
        ..LatencyTest::new(link.server.local_addr())
    };
    let asked = link.pod.inside(|| questions.run(|_| ())).unwrap().unwrap();
    let tcp = link.tcp(Direction::Ingress, 1.5) / (10e6 * TCP_SHARE);
    let udp = link.udp(Direction::Ingress, mbit(20));
    let median = asked.round_trip.as_ref().map_or(Duration::MAX, |q| q.p50);
    let wait = udp.delay.as_ref().map_or(Duration::MAX, |delay| delay.p99);
    let udp = udp.goodput.rate.bits_per_second() as f64 / 10e6;
    let measured = format!("{asked}; TCP {tcp:.3}; UDP {udp:.3}, waits {wait:?}");
    println!("{measured}");
    let holds = asked.lost == 0
        && median < Duration::from_millis(5)
        && wait <= Duration::from_millis(65)
        && tcp > 0.004
        && udp > 0.2;
    expect(holds, || measured)
}

#[test]
fn of_the_largest_size() {
    beside(|datagram, stop| {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        // The discard service, where nobody listens.
        socket.connect((datagram.to, 9)).unwrap();
        flood(stop, 65_507, || {
            let _ = socket.send(&[0; 65_507]);
        });
    });
}

#[test]
fn of_fragments_without_end() {
    beside(|datagram, stop| {
        let wire = Wire::open("eth0");
        wire.send(&datagram.fragment(0, 8, true));
        flood(stop, 1448, || wire.send(&datagram.fragment(8, 1448, true)));
    });
}
