use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use netqos_api::EgressWay;
use netqos_core::{Direction, Limit};

use crate::{HOOKS, Link, TCP_SHARE, both, expect, mbit, within_three_tries};

/// Five hundred flows of datagrams, together three times the limit, each alone under a sparse
/// flow's share: the band for sparse flows is bounded in total, so one honest TCP flow lives on.
#[test]
fn though_each_alone_counts_as_small() {
    let Some(link) = Link::new() else { return };
    for hook in HOOKS {
        link.limit(both(Limit::of(mbit(10))), hook, EgressWay::Pod);
        within_three_tries(|| {
            let stop = AtomicBool::new(false);
            let (pod, to) = (&link.pod, link.server.local_addr());
            let share = std::thread::scope(|scope| {
                let abuse = scope.spawn(|| pod.inside(|| flood(to, &stop)).unwrap());
                let goodput = link.tcp(Direction::Egress, 2.0);
                stop.store(true, Ordering::Relaxed);
                abuse.join().unwrap();
                goodput / (mbit(10).bits_per_second() as f64 * TCP_SHARE)
            });
            // The flood gets its half, and fights the TCP flow for the other as bulk.
            expect((0.01..1.05).contains(&share), || {
                format!("{hook:?}: TCP got {:.2} % beside the flood", share * 100.0)
            })
        });
    }
}

/// Sends until told to stop, 30 Mbit/s from 500 ports in datagrams of 250 bytes.
fn flood(mut to: SocketAddr, stop: &AtomicBool) {
    // The discard port: nobody answers.
    to.set_port(9);
    let sockets: Vec<UdpSocket> = (0..500)
        .map(|_| UdpSocket::bind("0.0.0.0:0").unwrap())
        .collect();
    let start = Instant::now();
    let mut sent = 0_u64;
    while !stop.load(Ordering::Relaxed) {
        for socket in &sockets {
            let _ = socket.send_to(&[0; 250], to);
            sent += 250 * 8;
        }
        let due = Duration::from_nanos(sent * 1000 / 30);
        std::thread::sleep(due.saturating_sub(start.elapsed()));
    }
}
