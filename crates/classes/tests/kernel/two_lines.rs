use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use netqos_classes::ClassBackend;
use netqos_testkit::Pod;
use netqos_traffic::{Flow, Server, TcpTest};

use crate::loads::loads;
use crate::world::{SYSTEM, World, on_each_hook, shares};

/// Loads all lines until all of them were found right, three times at most: a busy machine may spoil one.
fn assert_loaded<const PODS: usize>(
    world: &World,
    flow: Flow,
    lines: &[[(&str, SocketAddr); PODS]],
    is_right: impl Fn(usize, &[f64]) -> bool,
) {
    let mut tries = Vec::new();
    for _ in 0..3 {
        let ways = lines.as_flattened().iter();
        let ways: Vec<_> = ways.map(|&(pod, server)| (pod, server, 2)).collect();
        let found = loads(world, flow, &ways);
        let mut of_lines = found.chunks(PODS).enumerate();
        if of_lines.all(|(line, of_line)| is_right(line, of_line)) {
            return;
        }
        tries.push(found);
    }
    panic!("{flow:?} {lines:?}: {tries:?}");
}

/// A server in a machine outside, by both families.
fn server(pod: &Pod) -> (Server, [SocketAddr; 2]) {
    let any: SocketAddr = "[::]:0".parse().unwrap();
    let server = pod.inside(|| Server::bind(any)).unwrap().unwrap();
    let port = server.local_addr().port();
    let at = |address: String| SocketAddr::new(address.parse().unwrap(), port);
    (server, [at(pod.address()), at(pod.address6())])
}

/// Each has shares of its own, of what it carries, and a pod its limit on each.
#[test]
fn are_divided_each_by_itself() {
    let Some(mut world) = World::new() else {
        return;
    };
    let (other, third) = (
        world.node.pod("other").unwrap(),
        world.node.pod("third").unwrap(),
    );
    let (_server, other_addresses) = server(&other);
    let (_another, third_addresses) = server(&third);
    let lines = [
        (world.line(), shares(40)),
        (other.host_link().into(), shares(20)),
        (third.host_link().into(), shares(30)),
    ];
    world.plan.lines = lines.into();
    let outcome = world.backend.apply(&world.plan).unwrap();
    assert_eq!(
        (outcome.lines.len(), outcome.troubles.len()),
        (3, 0),
        "{outcome:?}"
    );
    let servers = [0, 1].map(|family| {
        let first = world.outside_address(family == 1);
        [first, other_addresses[family], third_addresses[family]]
    });
    for (flow, family) in [(Flow::Upload, 0), (Flow::Download, 1)] {
        let ways = servers[family].map(|server| [("ls", server), ("be", server)]);
        // What of frames is payload: of 1514 bytes 1448, and 20 less by IPv6.
        let payload = (1448.0 - 20.0 * family as f64) / 1514.0;
        let should = [[28.0, 12.0], [14.0, 6.0], [21.0, 9.0]];
        assert_loaded(&world, flow, &ways, |line, found| {
            let [ls, be] = should[line].map(|rate| rate * payload);
            let is_near = (found[0] - ls).abs() < 1.5 && (found[1] - be).abs() < 1.5;
            // Where senders are outside, what they lose by a busy machine is lost to all alike.
            let sum: f64 = found.iter().sum();
            let is_alike = sum > 0.85 * (ls + be) && (found[1] / sum - 0.3).abs() < 0.04;
            is_near || flow == Flow::Download && is_alike
        });
    }

    world.ask("be", 0, Some(10));
    assert_eq!(world.backend.apply(&world.plan).unwrap().troubles, []);
    let ways = servers[0].map(|server| [("be", server)]);
    // Senders outside find out by what they lose how much that is. Two lines that shared it had 5 each.
    for (flow, least) in [(Flow::Upload, 8.5), (Flow::Download, 6.5)] {
        assert_loaded(&world, flow, &ways, |_, found| {
            assert!(found[0] < 10.0, "{found:?}");
            found[0] > least
        });
    }
}

/// The kernel hands an IPv6 packet on with the priority by which it found its class where it came.
#[test]
fn what_comes_by_one_goes_on_by_another_as_if_it_had_not() {
    on_each_hook(World::empty, |mut world| {
        let other = world.node.pod("other").unwrap();
        let (_server, [_, address]) = server(&other);
        let line: Arc<str> = other.host_link().into();
        // The first is full, and the second one carries little meanwhile.
        let lines = [(world.line(), shares(40)), (line.clone(), shares(4000))];
        world.plan.lines = lines.into();
        let outcome = world.backend.apply(&world.plan).unwrap();
        assert_eq!((outcome.lines.len(), outcome.troubles.len()), (2, 0));
        let look = || {
            let of_system = |found: BTreeMap<_, u64>| found[&SYSTEM];
            let by_second = world.sent_by(&line, Flow::Upload);
            let waited_there = world.divided_by(&line, Flow::Upload);
            let waited_first = world.divided(Flow::Download);
            [by_second, waited_there, waited_first].map(of_system)
        };
        // A line of which nothing was counted yet is held for busy from its first packet on.
        let reach = || drop(TcpStream::connect(address).unwrap());
        world.outside.inside(reach).unwrap();
        thread::sleep(Duration::from_millis(400));
        let before = look();
        let test = TcpTest {
            omit: Duration::ZERO,
            duration: Duration::from_secs(1),
            ..TcpTest::new(address)
        };
        let report = world.outside.inside(|| test.run(|_| ()).unwrap()).unwrap();
        let sent = report.goodput.rate.bits_per_second() / 8;
        let after = look();
        let [by_second, waited_there, waited_first] = [0, 1, 2].map(|at| after[at] - before[at]);
        assert!(waited_first > sent * 8 / 10, "{waited_first} of {sent}");
        assert!(by_second > sent * 95 / 100, "{by_second} of {sent}");
        assert!(waited_there < sent / 10, "{waited_there} of {sent}");
    });
}
