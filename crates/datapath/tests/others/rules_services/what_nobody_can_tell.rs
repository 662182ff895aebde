use std::net::{SocketAddr, UdpSocket};

use netqos_core::objects::Service;
use netqos_core::{ObjectName, Reason};
use netqos_index::Change;
use netqos_testkit::Node;
use netqos_testkit::rules::proxy::virtual_address;
use netqos_testkit::rules::{HOOKS, marking};
use rustix::mount::{MountFlags, mount};

use super::scene::{SERVICE_PORT, Scene, WAYS, marking_kind};

#[test]
fn without_conntrack_the_virtual_address_decides_and_that_is_said() {
    let Some(node) = Node::new().unwrap() else {
        return;
    };
    // Where the kernel does not say how its functions are called, they are not.
    mount(
        "tmpfs",
        "/sys/kernel/btf",
        "tmpfs",
        MountFlags::empty(),
        None,
    )
    .unwrap();
    let Some(mut scene) = Scene::on(node, HOOKS[0]) else {
        return;
    };
    scene.backend("web1", "web");
    scene.backend("web2", "web");
    scene.backend("db1", "db");
    scene.service(&["web1", "web2"]);
    let rules = vec![marking(10), marking_kind(20, "web")];
    assert_eq!(scene.rules(rules).problems, [], "they are alike");
    for (protocol, v6) in WAYS {
        assert_eq!(scene.flow(protocol, v6).first_and_rest(), (20, 20));
    }

    scene.has_problems = true;
    let outcome = scene.service(&["web1", "db1"]);
    let [problem] = &outcome.problems[..] else {
        panic!("{:?}", outcome.problems);
    };
    assert_eq!(problem.reason, Reason::KernelFeatureMissing);
    for part in ["10.96.0.1:80 (", "3 other ports", "/sys/kernel/btf/vmlinux"] {
        assert!(problem.message.contains(part), "{problem}");
    }
    for (protocol, v6) in WAYS {
        for _ in 0..2 {
            assert_eq!(scene.flow(protocol, v6).first_and_rest(), (10, 10));
        }
    }
    assert_eq!(scene.service(&["web1"]).problems, []);
}

#[test]
fn a_service_without_endpoints_or_address_is_an_address_like_any_other() {
    let Some(mut scene) = Scene::new(HOOKS[0]) else {
        return;
    };
    scene.backend("web1", "web");
    scene.rules(vec![marking(10), marking_kind(20, "web")]);
    let marked = |scene: &Scene| {
        let counts = scene.world.rules.counts().unwrap();
        let of = |index: u16| {
            let own = counts.iter().find(|count| count.rule.index == index);
            own.map_or(0, |count| count.marked)
        };
        (of(0), of(1))
    };
    let send = |scene: &Scene| {
        scene.world.run("client", || {
            let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
            let to = SocketAddr::new(virtual_address(false), SERVICE_PORT);
            socket.send_to(b"hello", to).unwrap();
        });
    };
    // Resolving the neighbour is not IP, and nothing else is sent.
    let before = marked(&scene);
    scene.objects(&[], 8080);
    assert_eq!(scene.behind(false), 0);
    send(&scene);
    assert_eq!(marked(&scene), (before.0 + 1, 0));

    scene.objects(&["web1"], 8080);
    assert_eq!(scene.behind(false), 1);
    send(&scene);
    assert_eq!(marked(&scene), (before.0 + 1, 1));

    let headless = Service {
        name: ObjectName::new("games", "front"),
        addresses: [].into(),
        ports: vec![],
    };
    scene.world.apply(Change::Service(headless));
    send(&scene);
    assert_eq!(marked(&scene), (before.0 + 2, 1));
}
