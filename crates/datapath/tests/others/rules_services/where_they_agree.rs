use std::net::SocketAddr;

use netqos_core::{IpBlock, Protocol, Rule};
use netqos_testkit::rules::proxy::virtual_address;
use netqos_testkit::rules::{HOOKS, TCP_SHARE, apart, limiting, marking, on_both_hooks, proxy};
use netqos_traffic::TcpTest;

use super::scene::{SERVICE_PORT, Scene, TARGET_PORT, WAYS, any_port, marking_kind, to_kind};

#[test]
fn the_first_packet_is_marked_as_all_others() {
    on_both_hooks(|hook| {
        let Some(mut scene) = Scene::new(hook) else {
            return;
        };
        scene.backend("web1", "web");
        scene.backend("web2", "web");
        scene.service(&["web1", "web2"]);
        scene.rules(vec![marking_kind(20, "web")]);
        for (protocol, v6) in WAYS {
            let mut to: Vec<_> = (0..2)
                .map(|_| {
                    let flow = scene.flow(protocol, v6);
                    assert_eq!(flow.first_and_rest(), (20, 20), "{hook:?}");
                    flow.to
                })
                .collect();
            to.sort();
            assert_eq!(to, ["web1", "web2"], "by turns");
            // Sent to the backend itself it is the same.
            let backend = SocketAddr::new(scene.address("web1", v6), TARGET_PORT);
            let direct = scene.flow_to(protocol, backend);
            assert_eq!(direct.first_and_rest(), (20, 20));
        }
    });
}

#[test]
fn a_rules_port_is_the_one_on_the_backend() {
    let Some(mut scene) = Scene::new(HOOKS[0]) else {
        return;
    };
    scene.backend("web1", "web");
    scene.service(&["web1"]);
    for (port, mark) in [(TARGET_PORT, 20), (SERVICE_PORT, 0)] {
        scene.rules(vec![Rule {
            ports: vec![any_port(port)],
            ..marking_kind(20, "web")
        }]);
        for (protocol, v6) in WAYS {
            let flow = scene.flow(protocol, v6);
            assert_eq!(flow.first_and_rest(), (mark, mark), "port {port}");
        }
    }
}

#[test]
fn as_far_as_the_pods_own_rules_go() {
    let Some(mut scene) = Scene::new(HOOKS[0]) else {
        return;
    };
    scene.backend("web1", "web");
    scene.backend("db1", "db");
    scene.service(&["web1", "db1"]);
    // To others' rules the two are of different kinds, to the client's they are alike: neither is
    // in the virtual addresses' range.
    let only_web = netqos_testkit::rules::policy("other", 1, "web", vec![marking_kind(9, "db")]);
    scene.world.apply(netqos_index::Change::Policy(only_web));
    let pods = IpBlock::try_new("10.99.0.0/16".parse().unwrap(), vec![]).unwrap();
    scene.rules(vec![Rule {
        to: vec![netqos_core::Destination::Block(pods)],
        ..marking(20)
    }]);
    for _ in 0..2 {
        for protocol in [Protocol::Udp, Protocol::Tcp] {
            let flow = scene.flow(protocol, false);
            assert_eq!(flow.first_and_rest(), (20, 20), "{flow:?}");
        }
    }
}

#[test]
fn a_rate_holds_through_it() {
    apart([false, true], rate);
}

/// The same where connections go to one of two backends that differ.
fn rate(mixed: bool) {
    let Some(mut scene) = Scene::new(HOOKS[1]) else {
        return;
    };
    scene.backend("web1", "web");
    scene.backend("db1", "db");
    let server = scene.world.address("web1", false);
    let port = SocketAddr::new(virtual_address(false), SERVICE_PORT);
    for protocol in ["udp", "tcp"] {
        proxy::forward(&scene.world.node, protocol, port, &[server]);
    }
    let backends: &[&str] = if mixed { &["web1", "db1"] } else { &["web1"] };
    scene.objects(backends, server.port());
    scene.rules(vec![Rule {
        to: vec![to_kind("web")],
        ..limiting(20)
    }]);
    let test = TcpTest {
        server: port,
        ..scene.world.tcp_test("web1", 1.5)
    };
    let goodput = || {
        let report = scene.world.run("client", || test.run(|_| ()).unwrap());
        report.goodput.rate.bits_per_second() as f64
    };
    let case = format!("mixed: {mixed}");
    let baseline = scene.world.baseline();
    baseline.assert_limited(case, 20e6 * TCP_SHARE, goodput);
}
