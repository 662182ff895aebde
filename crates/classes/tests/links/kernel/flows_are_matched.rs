use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use netqos_api::koordinator::net_files::parse_pods;
use netqos_core::classes::TrafficClass;
use netqos_testkit::classes::{BE, LS, SYSTEM, World, mbit, on_each_hook, shares};
use netqos_traffic::{Dscp, Flow, Server, UdpReport, UdpTest};
use serde_json::{Value, json};

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
    let (v4, v6) = (world.outside.address(), world.outside.address6());
    let rules = json!([
        {"matchs": [port("7001"), dscp(46)], "actions": class("l0")},
        {"matchs": [port("7000-7001")], "actions": class("l1")},
        {"matchs": [is("ip", format!("{v4}/32")), port("7002")], "actions": class("l0")},
        {"matchs": [is("ip", format!("{v6}/128")), port("7002")], "actions": class("l1")},
        {"matchs": [dscp(10)], "actions": class("l1")},
    ]);
    divide_by(&mut world, &rules);
    for flow in [Flow::Upload, Flow::Download] {
        for (port, mark, v6, class) in CASES {
            let before = world.sent(flow);
            let report = exchanged(&world, flow, port, mark, v6);
            let bytes = report.goodput.received.bytes() as f64;
            let after = world.sent(flow);
            let counted = after[&class] - before[&class];
            assert!(
                counted > 100_000 && counted as f64 >= 0.95 * bytes,
                "{flow:?} {port} {mark} {v6}: {before:?} {after:?}, received {bytes}"
            );
        }
    }
}

/// The other end by prefixes that end beside a border of a byte or word. Of each length one holds the other end, and
/// one differs from it in its last bit.
#[test]
fn by_prefixes_of_any_length() {
    let Some(mut world) = World::new() else {
        return;
    };
    let (v4, v6) = (world.outside.address(), world.outside.address6());
    // A pod has 15 flows, of both directions.
    for (end, lengths) in [
        (&v4, &[0, 1, 24, 31][..]),
        (&v6, &[0, 1, 63, 64]),
        (&v6, &[65, 127]),
    ] {
        let end: IpAddr = end.parse().unwrap();
        let both = lengths
            .iter()
            .flat_map(|&length| [(length, true), (length, false)]);
        // Everything is in the prefix of length 0.
        let both = both.filter(|&prefix| prefix != (0, false));
        let cases: Vec<_> = (7100_u16..).zip(both).collect();
        let rules = cases.iter().map(|&(number, (length, holds))| {
            let prefix = prefix(end, length, holds);
            let matched = [is("ip", prefix), port(&number.to_string())];
            json!({"matchs": matched, "actions": [{"action": "qos-class", "value": "l0"}]})
        });
        divide_by(&mut world, &rules.collect());
        for (number, (length, holds)) in cases {
            let before = world.sent(Flow::Upload);
            let report = exchanged(&world, Flow::Upload, number, 0, end.is_ipv6());
            let bytes = report.goodput.received.bytes() as f64;
            let after = world.sent(Flow::Upload);
            let class = if holds { SYSTEM } else { BE };
            let counted = after[&class] - before[&class];
            assert!(
                counted > 100_000 && counted as f64 >= 0.95 * bytes,
                "{end} {length} {holds}: {before:?} {after:?}, received {bytes}"
            );
        }
    }
}

/// The prefix of this length that holds an address, or the one that differs from it in its last bit.
fn prefix(address: IpAddr, length: u32, holds: bool) -> String {
    let (bits, width) = match address {
        IpAddr::V4(address) => (u128::from(u32::from(address)), 32),
        IpAddr::V6(address) => (u128::from(address), 128),
    };
    let rest = width - length;
    let prefix = bits.checked_shr(rest).unwrap_or(0) ^ u128::from(!holds);
    let prefix = prefix.checked_shl(rest).unwrap_or(0);
    let address: IpAddr = match address {
        IpAddr::V4(_) => Ipv4Addr::from(prefix as u32).into(),
        IpAddr::V6(_) => Ipv6Addr::from(prefix).into(),
    };
    format!("{address}/{length}")
}

/// The port on the pod, the mark that packets are sent with, and the one that they arrive with.
const MARKED: [(u16, u8, u8); 5] = [
    (7001, 0, 46),
    (7001, 10, 46),
    // By the mark that they come with.
    (7002, 10, 0),
    (7002, 12, 12),
    // Nothing matches.
    (7003, 10, 10),
];

#[test]
fn and_what_they_match_is_marked_anew() {
    on_each_hook(World::new, |mut world| {
        let marked = |mark: &str| json!([{"action": "dscp", "value": mark}]);
        let rules = json!([
            {"matchs": [port("7001")], "actions": marked("46")},
            {"matchs": [port("7002"), dscp(10)], "actions": marked("0")},
        ]);
        divide_by(&mut world, &rules);
        for flow in [Flow::Upload, Flow::Download] {
            for v6 in [false, true] {
                for (port, sent, arrives) in MARKED {
                    let report = exchanged(&world, flow, port, sent, v6);
                    let seen = report.dscp_seen.iter();
                    let seen: Vec<u8> = seen.map(|it| it.dscp.value()).collect();
                    assert_eq!(seen, [arrives], "{flow:?} {port} {sent} {v6}: {report}");
                }
            }
        }
    });
}

fn is(kind: &str, what: String) -> Value {
    json!({"type": kind, "expr": format!("={what}")})
}

fn port(port: &str) -> Value {
    is("port", port.to_owned())
}

fn dscp(mark: u8) -> Value {
    is("dscp", mark.to_string())
}

/// Divides the line with these rules for both directions of the best-effort pod.
fn divide_by(world: &mut World, rules: &Value) {
    let file = json!([{
        "cgroup": "/kubepods/be", "priority": 2, "pod": "games/be", "podUID": "be",
        "qos-config": {"ingress": rules, "egress": rules},
    }]);
    let [pod] = <[_; 1]>::try_from(parse_pods(&file.to_string()).unwrap()).unwrap();
    world.plan.pods.get_mut("be").unwrap().flows = pod.flows;
    world.divide(shares(100));
}

/// Datagrams that the pod sends from a port of its own (an upload by the line), or gets there.
fn exchanged(world: &World, flow: Flow, port: u16, mark: u8, v6: bool) -> UdpReport {
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
    world.outside.inside(|| test.run(|_| {}).unwrap()).unwrap()
}
