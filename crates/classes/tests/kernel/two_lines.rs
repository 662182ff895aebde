use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use netqos_classes::ClassBackend;
use netqos_testkit::Pod;
use netqos_traffic::{Flow, Server, TcpTest};

use crate::world::{World, shares};

/// What these pods send by each line at the same time, or get by it, in Mbit/s.
fn loaded(world: &World, flow: Flow, ways: &[(&str, SocketAddr)]) -> Vec<f64> {
    thread::scope(|scope| {
        let one = |&(pod, server): &(&str, SocketAddr)| {
            let pod = &world.pods[pod];
            scope.spawn(move || {
                let test = TcpTest {
                    flow,
                    streams: 2,
                    omit: Duration::from_millis(1000),
                    duration: Duration::from_secs(4),
                    congestion_control: Some("cubic".to_owned()),
                    ..TcpTest::new(server)
                };
                let report = pod.inside(|| test.run(|_| ()).unwrap()).unwrap();
                report.goodput.rate.bits_per_second() as f64 / 1e6
            })
        };
        let running: Vec<_> = ways.iter().map(one).collect();
        running.into_iter().map(|it| it.join().unwrap()).collect()
    })
}

/// The same until each of so many lines was found right, three times at most: a busy machine may spoil
/// one.
fn assert_loaded<const PODS: usize>(
    world: &World,
    flow: Flow,
    lines: &[[(&str, SocketAddr); PODS]],
    is_right: impl Fn(usize, &[f64]) -> bool,
) {
    let mut were_right = vec![false; lines.len()];
    let mut tries = Vec::new();
    for _ in 0..3 {
        let found = loaded(world, flow, lines.as_flattened());
        for (line, of_line) in found.chunks(PODS).enumerate() {
            were_right[line] |= is_right(line, of_line);
        }
        tries.push(found);
        if were_right.iter().all(|it| *it) {
            return;
        }
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
            let mut pairs = found.iter().zip(should[line]);
            pairs.all(|(is, should)| (is - should * payload).abs() < 1.5)
        });
    }

    world.ask("be", 0, Some(10));
    assert_eq!(world.backend.apply(&world.plan).unwrap().troubles, []);
    let ways = servers[0].map(|server| [("be", server)]);
    for flow in [Flow::Upload, Flow::Download] {
        assert_loaded(&world, flow, &ways, |_, found| {
            assert!(found[0] < 10.0, "{found:?}");
            found[0] > 8.5
        });
    }
}
