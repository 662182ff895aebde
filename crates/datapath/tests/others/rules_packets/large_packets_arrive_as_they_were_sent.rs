use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Instant;

use netqos_index::Change;
use netqos_netlink::Namespace;
use netqos_testkit::rules::{World, marking, on_both_hooks, policy};

use super::two_pods;

/// No multiple of any size of packets or buffers.
const PATTERN: usize = 1_000_003;
const REPEATS: usize = 300;

/// What the kernel does not cut into packets before it has to goes through a marking rule whole:
/// nothing of it is lost or changed, and it is as quick as without a rule.
#[test]
fn through_a_rule_that_marks() {
    on_both_hooks(|hook| {
        let Some(mut world) = two_pods(hook) else {
            return;
        };
        let rate = |world: &World, v6| {
            let address = world.address("b", v6).ip();
            let listener = world.run("b", move || TcpListener::bind((address, 0)).unwrap());
            transfer(world, &listener)
        };
        let plain = rate(&world, false);
        world.apply(Change::Policy(policy("p", 1, "player", vec![marking(20)])));
        let marked = [false, true].map(|v6| rate(&world, v6));
        let best = marked[0].max(marked[1]);
        assert!(best > plain / 4.0, "{hook:?}: {marked:?} of {plain}");
        let count = &world.rules.counts().unwrap()[0];
        assert_eq!(count.marked, count.packets);
        assert!(count.bytes / count.packets > 10_000, "{count:?}");
    });
}

/// Each frame that a large packet is cut into is counted with its own headers, as the queue of a rule
/// counts them, wherever the program stands: a queue of the kernel behind it counts the same.
#[test]
fn and_are_counted_as_they_are_on_the_wire() {
    on_both_hooks(|hook| counted_as_on_the_wire(two_pods(hook), &[false, true]));
    on_both_hooks(|hook| {
        let world = World::new(hook).map(|mut world| {
            world.macvlan_pod("a", "player");
            world.macvlan_pod("b", "gateway");
            world
        });
        counted_as_on_the_wire(world, &[false]);
    });
}

fn counted_as_on_the_wire(world: Option<World>, families: &[bool]) {
    let Some(mut world) = world else { return };
    world.apply(Change::Policy(policy("p", 1, "player", vec![marking(20)])));
    let add = "qdisc add dev eth0 root pfifo limit 10000";
    tc_in_a(&world, add);
    let mut before = [0, 0];
    for &v6 in families {
        let address = world.address("b", v6).ip();
        let listener = world.run("b", move || TcpListener::bind((address, 0)).unwrap());
        transfer(&world, &listener);
        let now = [world.rules.counts().unwrap()[0].bytes, queued_by_a(&world)];
        let [by_rule, by_queue] = [now[0] - before[0], now[1] - before[1]];
        assert!(by_rule > (PATTERN * REPEATS) as u64, "{v6}: {by_rule}");
        // Beside what the rule matches, the queue has what finds neighbours; and it may still hold what
        // the rule has seen.
        let part = by_rule as f64 / by_queue as f64;
        assert!(
            (0.999..=1.001).contains(&part),
            "{v6}: {by_rule} of {by_queue}"
        );
        before = now;
    }
}

/// Bytes that the queue at the interface of the pod `a` has sent, by the kernel's `qdisc_pkt_len`.
fn queued_by_a(world: &World) -> u64 {
    let shown = tc_in_a(world, "-s -j qdisc show dev eth0");
    let queues: Vec<serde_json::Value> = serde_json::from_str(&shown).unwrap();
    let pfifo = queues.iter().find(|queue| queue["kind"] == "pfifo");
    pfifo.unwrap()["bytes"].as_u64().unwrap()
}

fn tc_in_a(world: &World, words: &str) -> String {
    let words: Vec<&str> = words.split(' ').collect();
    let pod = world.pod_named("a");
    pod.run(&world.node, "tc", &words).unwrap()
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
