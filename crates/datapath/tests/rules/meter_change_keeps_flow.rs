use std::thread;
use std::time::{Duration, Instant};

use netqos_core::{Bandwidth, ByteCount, Rule};
use netqos_index::Change;
use netqos_netlink::qdisc::Statistics;
use netqos_netlink::{Handle, Namespace, Socket};

use crate::hooks::on_both_hooks;
use crate::world::{World, limiting, mbit, policy};

/// The backlog before a change, in bytes, and the longest wait for it.
const WAITS: u32 = 70_000;
const FILLS: Duration = Duration::from_millis(700);
/// The size of a frame. Smaller packets pass in the sparse band.
const FRAME: u64 = 1514;
/// The time in which a queue must send a frame.
const PATIENCE: Duration = Duration::from_millis(200);

fn rule(megabits: u64, burst: Option<u64>) -> Change {
    let bandwidth = Bandwidth {
        rate: mbit(megabits),
        burst: burst.map(ByteCount::from_bytes),
    };
    let rule = Rule {
        bandwidth: Some(bandwidth),
        ..limiting(megabits)
    };
    Change::Policy(policy("p", 1, "player", vec![rule]))
}

/// The counters and the backlog of the only queue of a rule.
fn statistics() -> Statistics {
    let mut socket = Socket::open().unwrap();
    let links = socket.links().unwrap();
    let is_first = |alias: &str| alias.starts_with("netqos:rule:");
    let is_queue = |link: &&netqos_netlink::link::Link| link.alias.as_deref().is_some_and(is_first);
    let queue = links.iter().find(is_queue).unwrap();
    socket
        .qdisc_at(queue, Handle::ROOT)
        .unwrap()
        .unwrap()
        .statistics
}

#[test]
fn lowered_rate_or_burst_never_stalls_queue() {
    on_both_hooks(|hook| {
        let Some(mut world) = World::new(hook) else {
            return;
        };
        world.pod("free", "player");
        world.pod("gateway", "gateway");
        world.apply(rule(200, Some(500_000)));
        let bulk = (
            world.pod_named("free").netns(),
            world.tcp_test("gateway", 4.5),
        );
        thread::scope(|scope| {
            let bulk = scope.spawn(move || {
                let _inside = Namespace::open(bulk.0).unwrap().enter().unwrap();
                bulk.1.run(|_| ()).unwrap()
            });
            for (megabits, burst) in [
                (10, None),
                (200, None),
                (10, Some(500_000)),
                (200, Some(500_000)),
                (10, None),
                (200, None),
                (2, None),
            ] {
                let began = Instant::now();
                while began.elapsed() < FILLS && statistics().queued_bytes < WAITS {
                    thread::sleep(Duration::from_millis(1));
                }
                world.apply(rule(megabits, burst));
                let (began, before) = (Instant::now(), statistics());
                loop {
                    let is_late = began.elapsed() > PATIENCE;
                    let now = statistics();
                    if now.queued_packets == 0 || now.bytes >= before.bytes + FRAME {
                        break;
                    }
                    assert!(!is_late, "{hook:?}, {megabits} {burst:?}: {now:?}");
                    thread::sleep(Duration::from_millis(2));
                }
            }
            world.apply(rule(100, None));
            bulk.join().unwrap();
        });
    });
}
