use std::collections::BTreeSet;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use netqos_core::{Destination, LabelSelector, PeerSelector, Rule};
use netqos_testkit::rules::proxy::virtual_address;
use netqos_testkit::rules::{marking, on_both_hooks};

use super::scene::{SERVICE_PORT, Scene, marking_kind};

/// So many that their classes are not written in an instant.
const PEERS: u32 = 3_000;

/// Backends that differ to the old rules and are alike to the new ones, or the other way round: no
/// connection meets the rules for another's backend on the way.
#[test]
fn each_connection_meets_those_of_its_own_backend() {
    on_both_hooks(|hook| {
        let Some(mut scene) = Scene::new(hook) else {
            return;
        };
        scene.backend("web1", "web");
        scene.backend("db1", "db");
        scene.world.far_pods(PEERS, "web");
        scene.service(&["web1", "db1"]);
        let apart = vec![marking_kind(20, "web")];
        let every_pod = Destination::Pods(PeerSelector {
            namespaces: None,
            pods: Some(LabelSelector::new([])),
        });
        let alike = vec![Rule {
            to: vec![every_pod],
            ..marking(30)
        }];
        scene.rules(apart.clone());
        let client = scene.world.pod_named("client").netns();
        let ends = AtomicBool::new(false);
        let (mut web, mut db) = (BTreeSet::new(), BTreeSet::new());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _inside = netqos_netlink::Namespace::open(client)
                    .unwrap()
                    .enter()
                    .unwrap();
                let to = SocketAddr::new(virtual_address(false), SERVICE_PORT);
                // By turns they go to the one and to the other.
                let sockets: Vec<UdpSocket> = (0..4)
                    .map(|_| UdpSocket::bind("0.0.0.0:0").unwrap())
                    .collect();
                while !ends.load(Ordering::Relaxed) {
                    for socket in &sockets {
                        socket.send_to(b"hello", to).unwrap();
                    }
                    std::thread::sleep(Duration::from_micros(200));
                }
            });
            std::thread::sleep(Duration::from_millis(100));
            // The first packet of a flow is one to the virtual address.
            scene.marks_at("web1");
            scene.marks_at("db1");
            let began = Instant::now();
            for swap in 0.. {
                let rules = if swap % 2 == 0 { &alike } else { &apart };
                scene.rules(rules.clone());
                web.extend(scene.marks_at("web1"));
                db.extend(scene.marks_at("db1"));
                if swap >= 4 && began.elapsed() > Duration::from_secs(2) {
                    break;
                }
            }
            ends.store(true, Ordering::Relaxed);
        });
        assert_eq!(web, [20, 30].into(), "{hook:?}");
        assert_eq!(db, [0, 30].into(), "{hook:?}");
    });
}
