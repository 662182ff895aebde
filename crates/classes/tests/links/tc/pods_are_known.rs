use std::fs;
use std::net::SocketAddr;
use std::time::Duration;

use netqos_classes::{ClassBackend, Tc};
use netqos_core::classes::TrafficClass;
use netqos_testkit::classes::tc::{ask, divide, part};
use netqos_testkit::classes::{BE, LS, SYSTEM, World, mbit, shares};
use netqos_traffic::{Flow, TcpTest};

/// Small transfers by which it is seen whose traffic a packet is.
fn assert_is_seen_as(world: &World, pod: &str, class: TrafficClass) {
    for v6 in [false, true] {
        let before = world.divided(Flow::Upload);
        let found = world.transfer(pod, Flow::Upload, v6);
        let after = world.divided(Flow::Upload);
        let sent = after[&class] - before[&class];
        assert!(
            sent as f64 >= 0.95 * found,
            "{pod} {v6}: {found} of {before:?} {after:?}"
        );
    }
}

#[test]
fn by_their_addresses_masqueraded_and_not() {
    let Some(mut world) = World::new() else {
        return;
    };
    let mut tc = Tc::default();
    divide(&mut world, &mut tc, shares(100));
    for (pod, class) in [("sys", SYSTEM), ("ls", LS), ("be", BE)] {
        assert_is_seen_as(&world, pod, class);
    }
    world.masquerade();
    for (pod, class) in [("sys", SYSTEM), ("ls", LS), ("be", BE)] {
        assert_is_seen_as(&world, pod, class);
    }
}

#[test]
fn on_a_bridge_and_by_a_tunnel_that_is_routed_to() {
    let Some(mut world) = World::empty() else {
        return;
    };
    let mut tc = Tc::default();
    world.bridged_pods();
    divide(&mut world, &mut tc, shares(100));
    for (pod, class) in [("ls", LS), ("be", BE)] {
        assert_is_seen_as(&world, pod, class);
    }
    let (near, far) = (world.outside.gateway(), world.outside.address());
    let tunnel = |run: &dyn Fn(&str), local: &str, remote: &str, address: &str| {
        run(&format!(
            "link add vx0 mtu 1450 type vxlan id 7 dstport 4789 local {local} remote {remote}"
        ));
        run(&format!("addr add {address}/24 dev vx0"));
        run("link set vx0 up");
    };
    let words = |words: &str| words.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let on_node = |command: &str| {
        let words = words(command);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        world.node.run("ip", &words).unwrap();
    };
    let outside = |command: &str| {
        let words = words(command);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        world.outside.run(&world.node, "ip", &words).unwrap();
    };
    tunnel(&on_node, &near, &far, "10.200.0.1");
    tunnel(&outside, &far, &near, "10.200.0.2");
    outside("route add 10.99.0.0/16 via 10.200.0.1 dev vx0");
    for (pod, class) in [("ls", LS), ("be", BE)] {
        let pod = &world.pods[pod];
        pod.run(
            &world.node,
            "ip",
            &["route", "add", "10.200.0.2", "via", "10.99.254.1"],
        )
        .unwrap();
        let server = SocketAddr::from(([10, 200, 0, 2], world.server.local_addr().port()));
        let before = world.divided(Flow::Upload);
        let test = TcpTest {
            omit: Duration::ZERO,
            duration: Duration::from_millis(300),
            ..TcpTest::new(server)
        };
        let report = pod.inside(|| test.run(|_| ()).unwrap()).unwrap();
        let after = world.divided(Flow::Upload);
        let sent = after[&class] - before[&class];
        assert!(
            sent >= report.goodput.received.bytes(),
            "{before:?} {after:?}"
        );
    }
}

#[test]
fn by_their_cgroup_on_the_hosts_network() {
    let Some(mut world) = World::empty() else {
        return;
    };
    let group = world.host_pod("be", BE, 1);
    // What was there before it is told, too.
    let container = group.path.join("container");
    fs::create_dir(&container).unwrap();
    let number = |path: &std::path::Path| {
        let text = fs::read_to_string(path.join("net_cls.classid")).unwrap();
        text.trim().parse::<u32>().unwrap()
    };
    let mut tc = Tc::new("/run/net_cls");
    divide(&mut world, &mut tc, shares(100));
    assert_eq!([number(&group.path), number(&container)], [0x1_0004; 2]);
    assert_is_seen_as(&world, "be", BE);
    // What the node does by itself is the system's.
    let before = world.divided(Flow::Upload);
    let found = world.transfer_from_node();
    let after = world.divided(Flow::Upload);
    assert!((after[&SYSTEM] - before[&SYSTEM]) as f64 >= 0.95 * found);

    ask(&mut world, "be", 0, Some(20));
    divide(&mut world, &mut tc, shares(100));
    assert_eq!([number(&group.path), number(&container)], [0x1_0100; 2]);
    assert_eq!(part(&world, &mut tc, "be"), Some((mbit(0), mbit(20))));
    let bytes = world.transfer("be", Flow::Upload, false);
    assert!(bytes * 8.0 / 0.3 < 25e6, "{bytes} bytes in 0.3 s");

    fs::remove_dir(container).unwrap();
    drop(group);
}

#[test]
fn where_there_is_no_net_cls_it_is_said() {
    let Some(mut world) = World::empty() else {
        return;
    };
    let group = world.host_pod("be", BE, 1);
    world.plan.lines = [(world.line(), netqos_testkit::classes::tc::sent(shares(100)))].into();
    let outcome = Tc::new("/nowhere").apply(&world.plan).unwrap();
    let [trouble] = &outcome.troubles[..] else {
        panic!("{outcome:#?}")
    };
    let what = "games/be: it is on the host's network, and there is no net_cls (cgroup v1) at \
                /nowhere: what it sends is the system's";
    assert_eq!(trouble.what, what);
    assert_eq!(outcome.lines, [world.line()]);
    drop(group);
}
