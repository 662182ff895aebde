use std::net::SocketAddr;
use std::time::Duration;

use netqos_api::koordinator::net_files::parse_pods;
use netqos_core::classes::TrafficClass;
use netqos_traffic::{Dscp, Flow, Server, UdpTest};
use serde_json::json;

use crate::world::{BE, LS, SYSTEM, World, mbit, shares};

/// A packet of the pod's: the port on it, its mark, whether it is of IPv6, and whose it is to be.
type Case = (u16, u8, bool, TrafficClass);

const CASES: [Case; 10] = [
    // What two rules match the first one decides.
    (7001, 46, false, SYSTEM),
    (7001, 46, true, SYSTEM),
    (7001, 0, false, LS),
    (7000, 46, true, LS),
    // By the other end.
    (7002, 0, false, SYSTEM),
    (7002, 0, true, LS),
    // By the mark alone.
    (7003, 10, false, LS),
    (7003, 10, true, LS),
    // Nothing matches: as the pod.
    (7003, 0, false, BE),
    (7003, 46, true, BE),
];

/// The rules of another agent's file `pods`, by ports, other ends and marks, on packets both ways.
#[test]
fn as_the_file_of_another_agent_has_them() {
    let Some(mut world) = World::new() else {
        return;
    };
    let class = |name: &str| json!([{"action": "qos-class", "value": name}]);
    let is = |kind: &str, what: String| json!({"type": kind, "expr": format!("={what}")});
    let port = |port: &str| is("port", port.to_owned());
    let dscp = |mark: u8| is("dscp", mark.to_string());
    let (v4, v6) = (world.outside.address(), world.outside.address6());
    let rules = json!([
        {"matchs": [port("7001"), dscp(46)], "actions": class("l0")},
        {"matchs": [port("7000-7001")], "actions": class("l1")},
        {"matchs": [is("ip", format!("{v4}/32")), port("7002")], "actions": class("l0")},
        {"matchs": [is("ip", format!("{v6}/128")), port("7002")], "actions": class("l1")},
        {"matchs": [dscp(10)], "actions": class("l1")},
    ]);
    let file = json!([{
        "cgroup": "/kubepods/be", "priority": 2, "pod": "games/be", "podUID": "be",
        "qos-config": {"ingress": rules, "egress": rules},
    }]);
    let [pod] = <[_; 1]>::try_from(parse_pods(&file.to_string()).unwrap()).unwrap();
    world.plan.pods.get_mut("be").unwrap().flows = pod.flows;
    world.divide(shares(100));
    for flow in [Flow::Upload, Flow::Download] {
        for (port, mark, v6, class) in CASES {
            let before = world.sent(flow);
            let bytes = exchanged(&world, flow, port, mark, v6);
            let after = world.sent(flow);
            let counted = after[&class] - before[&class];
            assert!(
                bytes > 100_000.0 && counted as f64 >= 0.95 * bytes,
                "{flow:?} {port} {mark} {v6}: {before:?} {after:?}"
            );
        }
    }
}

/// Datagrams that the pod sends from a port of its own (an upload by the line), or gets there; the bytes
/// that arrived.
fn exchanged(world: &World, flow: Flow, port: u16, mark: u8, v6: bool) -> f64 {
    let pod = &world.pods["be"];
    let any = SocketAddr::new("::".parse().unwrap(), port);
    let _server = pod.inside(|| Server::bind(any)).unwrap().unwrap();
    let address = if v6 { pod.address6() } else { pod.address() };
    let test = UdpTest {
        // The server is the pod's: what it gets is uploaded.
        flow: match flow {
            Flow::Upload => Flow::Download,
            Flow::Download => Flow::Upload,
        },
        omit: Duration::ZERO,
        duration: Duration::from_millis(300),
        dscp: Dscp::try_from(mark).unwrap(),
        ..UdpTest::new(SocketAddr::new(address.parse().unwrap(), port), mbit(10))
    };
    let report = world.outside.inside(|| test.run(|_| {}).unwrap()).unwrap();
    report.goodput.received.bytes() as f64
}
