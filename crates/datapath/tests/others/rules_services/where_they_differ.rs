use std::net::UdpSocket;

use netqos_core::Rule;
use netqos_testkit::rules::proxy::virtual_address;
use netqos_testkit::rules::{HOOKS, marking, on_both_hooks};

use super::scene::{SERVICE_PORT, Scene, TARGET_PORT, WAYS, any_port, marking_kind};

#[test]
fn from_the_second_packet_on_the_backend_decides() {
    on_both_hooks(|hook| {
        let Some(mut scene) = Scene::new(hook) else {
            return;
        };
        scene.backend("web1", "web");
        scene.backend("db1", "db");
        scene.service(&["web1", "db1"]);
        scene.rules(vec![marking_kind(20, "web")]);
        for (protocol, v6) in WAYS {
            let mut seen = Vec::new();
            for _ in 0..4 {
                let flow = scene.flow(protocol, v6);
                let right = if flow.to == "web1" { (0, 20) } else { (0, 0) };
                assert_eq!(flow.first_and_rest(), right, "{hook:?} {flow:?}");
                seen.push(flow.to);
            }
            seen.sort();
            assert_eq!(seen, ["db1", "db1", "web1", "web1"], "by turns");
        }
    });
}

#[test]
fn the_first_packet_counts_as_one_to_the_virtual_address() {
    let Some(mut scene) = Scene::new(HOOKS[0]) else {
        return;
    };
    scene.backend("web1", "web");
    scene.backend("db1", "db");
    scene.service(&["web1", "db1"]);
    // Of the rules, the later one goes before.
    let by_service_port = Rule {
        ports: vec![any_port(SERVICE_PORT)],
        ..marking(30)
    };
    let by_target_port = Rule {
        ports: vec![any_port(TARGET_PORT)],
        ..marking_kind(20, "web")
    };
    scene.rules(vec![marking(10), by_service_port, by_target_port]);
    for (protocol, v6) in WAYS {
        for _ in 0..2 {
            let flow = scene.flow(protocol, v6);
            let rest = if flow.to == "web1" { 20 } else { 10 };
            assert_eq!(flow.first_and_rest(), (30, rest), "{flow:?}");
        }
    }
}

#[test]
fn a_pod_behind_it_may_reach_itself() {
    let Some(mut scene) = Scene::new(HOOKS[0]) else {
        return;
    };
    scene.backend("web1", "web");
    scene.service(&["client", "web1"]);
    scene.rules(vec![marking_kind(20, "player")]);
    // Masqueraded, so that the source may have another port: what arrives is marked is enough.
    for (protocol, v6) in WAYS {
        let flows: Vec<_> = (0..2).map(|_| scene.flow(protocol, v6)).collect();
        for flow in flows {
            let rest = if flow.to == "client" { 20 } else { 0 };
            assert_eq!(flow.first_and_rest(), (0, rest), "{flow:?}");
        }
    }
}

#[test]
fn a_reply_to_who_has_the_virtual_address_goes_to_no_backend() {
    let Some(mut scene) = Scene::new(HOOKS[0]) else {
        return;
    };
    scene.backend("web1", "web");
    scene.service(&["client", "web1"]);
    scene.rules(vec![marking_kind(20, "player")]);
    // The node itself asks the client something, from the Service's address and port.
    let node = &scene.world.node;
    let address = virtual_address(false).to_string();
    node.run("ip", &["address", "add", &address, "dev", "lo"])
        .unwrap();
    let asking = UdpSocket::bind((virtual_address(false), SERVICE_PORT)).unwrap();
    let answering = scene
        .world
        .run("client", || UdpSocket::bind("0.0.0.0:9999").unwrap());
    let mut buffer = [0; 8];
    for _ in 0..2 {
        asking
            .send_to(b"ask", (scene.address("client", false), 9999))
            .unwrap();
        let (_, from) = answering.recv_from(&mut buffer).unwrap();
        answering.send_to(b"answer", from).unwrap();
        asking.recv_from(&mut buffer).unwrap();
    }
    // Who replies is the client itself, which is not where its answers go.
    let counts = scene.world.rules.counts().unwrap();
    assert!(counts.iter().all(|count| count.packets == 0), "{counts:?}");
}
