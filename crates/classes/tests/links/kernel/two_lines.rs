use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use netqos_classes::ClassBackend;
use netqos_testkit::Pod;
use netqos_testkit::classes::{SYSTEM, World, on_each_hook, payload, shares};
use netqos_traffic::{Flow, Server, TcpTest};

use super::loads::loads;

/// What the pods of each line get while all lines are loaded.
fn loaded<const PODS: usize>(
    world: &World,
    flow: Flow,
    lines: &[[(&str, SocketAddr); PODS]],
) -> Vec<Vec<f64>> {
    let ways = lines.as_flattened().iter();
    let ways: Vec<_> = ways.map(|&(pod, server)| (pod, server, 2)).collect();
    let found = loads(world, flow, &ways);
    found.chunks(PODS).map(<[f64]>::to_vec).collect()
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
        (world.line(), shares(20)),
        (other.host_link().into(), shares(10)),
        (third.host_link().into(), shares(15)),
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
        let (found, parts) = world.baseline().beside(|| loaded(&world, flow, &ways));
        let what = format!("{flow:?}: {found:.2?}, not {parts:.2?}");
        for (of_line, total) in found.iter().zip([20.0, 10.0, 15.0]) {
            let sum: f64 = of_line.iter().sum();
            let carried = sum / (total * payload(family == 1));
            assert!(parts.contains(&carried), "{what}");
            let share = of_line[1] / sum;
            assert!((0.2..0.4).contains(&share), "{what}");
        }
    }

    world.ask("be", 0, Some(5));
    assert_eq!(world.backend.apply(&world.plan).unwrap().troubles, []);
    let ways = servers[0].map(|server| [("be", server)]);
    // Lines that shared it had less each.
    for flow in [Flow::Upload, Flow::Download] {
        let (found, parts) = world.baseline().beside(|| loaded(&world, flow, &ways));
        for rate in found.iter().flatten() {
            let part = rate / (5.0 * payload(false));
            assert!(
                parts.contains(&part),
                "{flow:?}: {found:.2?}, not {parts:.2?}"
            );
        }
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
