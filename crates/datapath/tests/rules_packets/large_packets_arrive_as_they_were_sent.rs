use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Instant;

use netqos_index::Change;
use netqos_netlink::Namespace;

use crate::hooks::on_both_hooks;
use crate::two_pods;
use crate::world::{World, marking, policy};

/// No multiple of any size of packets or buffers.
const PATTERN: usize = 1_000_003;
const REPEATS: usize = 300;

/// What the kernel does not cut into packets before it has to goes through a marking rule whole:
/// nothing of it is lost or changed, and it is quick.
#[test]
fn through_a_rule_that_marks() {
    on_both_hooks(|hook| {
        let Some(mut world) = two_pods(hook) else {
            return;
        };
        world.apply(Change::Policy(policy("p", 1, "player", vec![marking(20)])));
        let mut best = 0.0_f64;
        for v6 in [false, true, false] {
            let address = world.address("b", v6).ip();
            let bind = move || TcpListener::bind((address, 0)).unwrap();
            let listener = world.run("b", bind);
            best = best.max(transfer(&world, &listener));
            if best > 1e9 && v6 {
                break;
            }
        }
        assert!(best > 1e9, "{hook:?}: {best}");
        let count = &world.rules.counts().unwrap()[0];
        assert_eq!(count.marked, count.packets);
        assert!(count.bytes / count.packets > 10_000, "{count:?}");
    });
}

/// Sends the pattern again and again from `a`, and compares what arrives; bits per second.
fn transfer(world: &World, listener: &TcpListener) -> f64 {
    let pattern: Vec<u8> = (0..PATTERN as u32)
        .map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    let to = listener.local_addr().unwrap();
    let netns = world.pod_named("a").netns();
    std::thread::scope(|scope| {
        let pattern = &pattern;
        scope.spawn(move || {
            let _inside = Namespace::open(netns).unwrap().enter().unwrap();
            let mut stream = TcpStream::connect(to).unwrap();
            for _ in 0..REPEATS {
                stream.write_all(pattern).unwrap();
            }
        });
        let (mut stream, _) = listener.accept().unwrap();
        let start = Instant::now();
        let mut buffer = vec![0; 1 << 18];
        let mut at = 0;
        loop {
            let length = stream.read(&mut buffer).unwrap();
            if length == 0 {
                break;
            }
            let mut seen = &buffer[..length];
            while !seen.is_empty() {
                let right = &pattern[at % PATTERN..];
                let (now, later) = seen.split_at(seen.len().min(right.len()));
                assert!(now == &right[..now.len()], "other bytes near {at}");
                at += now.len();
                seen = later;
            }
        }
        assert_eq!(at, PATTERN * REPEATS);
        at as f64 * 8.0 / start.elapsed().as_secs_f64()
    })
}
