use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use netqos_classes::ClassBackend;
use netqos_traffic::{Server, TcpTest};

use crate::world::{World, shares};

/// What these pods send by each line at the same time, in Mbit/s.
fn sent(world: &World, ways: &[(&str, SocketAddr)]) -> Vec<f64> {
    thread::scope(|scope| {
        let one = |&(pod, server): &(&str, SocketAddr)| {
            let pod = &world.pods[pod];
            scope.spawn(move || {
                let test = TcpTest {
                    streams: 2,
                    omit: Duration::from_millis(1000),
                    duration: Duration::from_secs(3),
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

/// Each has shares of its own, of what it carries, and a pod its limit on each.
#[test]
fn are_divided_each_by_itself() {
    let Some(mut world) = World::new() else {
        return;
    };
    let other = world.node.pod("other").unwrap();
    let any: SocketAddr = "[::]:0".parse().unwrap();
    let server = other.inside(|| Server::bind(any)).unwrap().unwrap();
    let port = server.local_addr().port();
    let other_address = SocketAddr::new(other.address().parse().unwrap(), port);
    let first_address = world.outside_address(false);
    let lines = [
        (world.line(), shares(40)),
        (other.host_link().into(), shares(20)),
    ];
    world.plan.lines = lines.into();
    let outcome = world.backend.apply(&world.plan).unwrap();
    assert_eq!(
        (outcome.lines.len(), outcome.troubles.len()),
        (2, 0),
        "{outcome:?}"
    );
    let ways = [
        ("ls", first_address),
        ("be", first_address),
        ("ls", other_address),
        ("be", other_address),
    ];
    // What of frames is payload: 1448 of 1514 bytes. A busy machine may spoil one.
    let should = [28.0, 12.0, 14.0, 6.0].map(|rate| rate * 1448.0 / 1514.0);
    let found: Vec<Vec<f64>> = (0..3).map(|_| sent(&world, &ways)).collect();
    let is_right = |found: &Vec<f64>| {
        let mut pairs = found.iter().zip(should);
        pairs.all(|(is, should)| (is - should).abs() < 1.5)
    };
    assert!(found.iter().any(is_right), "{found:?}, not {should:?}");

    world.ask("be", 0, Some(10));
    assert_eq!(world.backend.apply(&world.plan).unwrap().troubles, []);
    let ways = [("be", first_address), ("be", other_address)];
    let found: Vec<Vec<f64>> = (0..3).map(|_| sent(&world, &ways)).collect();
    assert!(found.iter().flatten().all(|rate| *rate < 10.0), "{found:?}");
    assert!(
        found.iter().any(|it| it.iter().all(|rate| *rate > 8.5)),
        "{found:?}"
    );
}
