use std::path::PathBuf;

use netqos_classes::ClassBackend;
use netqos_core::Direction;
use netqos_core::classes::{Ask, FlowMatch, FlowPart, Place};
use netqos_testkit::classes::{BE, LS, SHORT, SYSTEM, World, mbit, on_each_hook, shares};
use netqos_traffic::Flow;

/// Small transfers by which it is seen whose traffic a packet is.
fn assert_is_seen_as(world: &World, pod: &str, class: netqos_core::classes::TrafficClass) {
    for v6 in [false, true] {
        for flow in [Flow::Upload, Flow::Download] {
            let before = world.sent(flow);
            let found = world.transfer(pod, flow, v6);
            let after = world.sent(flow);
            let of = |class| after[&class] - before[&class];
            // What the other classes have is acknowledgements, neighbours and the test's own messages.
            assert!(
                of(class) as f64 >= 0.95 * found,
                "{pod} {flow:?} {v6}: {before:?} {after:?}"
            );
        }
    }
}

#[test]
fn by_their_addresses_and_nothing_stays_behind() {
    on_each_hook(World::new, |mut world| {
        let pods: Vec<_> = world.pods.values().collect();
        let before = world.node.state(&pods).unwrap();
        let first = world.divide(shares(100));
        assert!(first.changes > 20, "{first:?}");
        assert_eq!(world.divide(shares(100)).changes, 0);
        for (pod, class) in [("sys", SYSTEM), ("ls", LS), ("be", BE)] {
            assert_is_seen_as(&world, pod, class);
        }
        world.backend.teardown().unwrap();
        world.backend.teardown().unwrap();
        let pods: Vec<_> = world.pods.values().collect();
        world
            .node
            .state(&pods)
            .unwrap()
            .assert_is(&before, "after the teardown");
    });
}

/// What leaves has the node's address then, and so has what comes back.
#[test]
fn where_the_node_masquerades_them() {
    on_each_hook(World::new, |mut world| {
        world.masquerade();
        world.divide(shares(100));
        for (pod, class) in [("sys", SYSTEM), ("ls", LS), ("be", BE)] {
            assert_is_seen_as(&world, pod, class);
        }
    });
}

#[test]
fn on_a_bridge() {
    let Some(mut world) = World::empty() else {
        return;
    };
    world.bridged_pods();
    world.divide(shares(100));
    for (pod, class) in [("ls", LS), ("be", BE)] {
        assert_is_seen_as(&world, pod, class);
    }
    world.masquerade();
    for (pod, class) in [("ls", LS), ("be", BE)] {
        assert_is_seen_as(&world, pod, class);
    }
}

#[test]
fn on_a_bridge_with_a_vxlan_to_other_nodes() {
    on_each_hook(World::empty, |mut world| {
        world.bridged_pods();
        world.vxlan();
        world.divide(shares(100));
        for (pod, class) in [("ls", LS), ("be", BE)] {
            assert_is_seen_as(&world, pod, class);
        }
        world.masquerade();
        for (pod, class) in [("ls", LS), ("be", BE)] {
            assert_is_seen_as(&world, pod, class);
        }
    });
}

#[test]
fn by_their_cgroup_on_the_hosts_network() {
    for version in [2, 1] {
        let known = std::fs::read_to_string("/proc/cgroups").unwrap_or_default();
        if version == 1 && !known.lines().any(|line| line.starts_with("net_cls\t")) {
            eprintln!(
                "skipped: this kernel has no net_cls, by which cgroups of version 1 are known"
            );
            continue;
        }
        std::thread::spawn(move || by_a_cgroup_of(version))
            .join()
            .unwrap();
    }
}

fn by_a_cgroup_of(version: u8) {
    let Some(mut world) = World::empty() else {
        return;
    };
    let group = world.host_pod("be", BE, version);
    world.divide(shares(100));
    assert_eq!(world.divide(shares(100)).changes, 0, "{version}");
    assert_is_seen_as(&world, "be", BE);
    // What the node does by itself is the system's.
    let before = world.sent(Flow::Upload);
    let found = world.transfer_from_node();
    let after = world.sent(Flow::Upload);
    assert!((after[&SYSTEM] - before[&SYSTEM]) as f64 >= 0.95 * found);
    // What it asks for itself.
    world.ask("be", 10, Some(20));
    world.divide(shares(100));
    let standing = world.backend.standing().unwrap();
    let parts: Vec<_> = standing[&*world.line()].parts.values().collect();
    assert_eq!(parts, [&(mbit(10), mbit(20)); 2], "{version}");
    for flow in [Flow::Upload, Flow::Download] {
        for v6 in [false, true] {
            let bits = world.transfer("be", flow, v6) * 8.0;
            let rate = bits / SHORT.as_secs_f64() / 1e6;
            assert!(
                (5.0..25.0).contains(&rate),
                "{version} {flow:?} {v6}: {rate}"
            );
        }
    }
    world.backend.teardown().unwrap();
    if version == 1 {
        let class = std::fs::read_to_string(group.path.join("net_cls.classid")).unwrap();
        assert_eq!(class.trim(), "0");
    }
    drop(group);
}

#[test]
fn what_stays_on_the_node_takes_nothing_from_the_line() {
    let Some(mut world) = World::new() else {
        return;
    };
    world.divide(shares(1));
    let before = [world.sent(Flow::Upload), world.sent(Flow::Download)];
    let rate = world.between("be", "ls");
    assert!(rate > 100.0, "{rate}");
    let after = [world.sent(Flow::Upload), world.sent(Flow::Download)];
    for (before, after) in before.iter().zip(&after) {
        assert!(after[&BE] - before[&BE] < 10_000, "{before:?} {after:?}");
    }
}

/// What has this port on the pod is latency-sensitive, and may have 20 Mbit/s.
fn part(direction: Direction, port: u16) -> FlowPart {
    FlowPart {
        direction,
        flow: FlowMatch {
            port: Some(port..=port),
            ..FlowMatch::default()
        },
        class: Some(LS),
        ask: Ask {
            min: mbit(10),
            max: Some(mbit(20)),
        },
        dscp: None,
    }
}

#[test]
fn and_single_ports_of_them() {
    on_each_hook(World::new, |mut world| {
        let port = 8443;
        let pod = world.plan.pods.get_mut("be").unwrap();
        pod.flows = [Direction::Ingress, Direction::Egress]
            .map(|direction| part(direction, port))
            .into();
        world.divide(shares(100));
        for rate in [World::served_at, World::got_at] {
            // Of 20 Mbit/s on the wire; a busy machine may leave less.
            let found = rate(&world, "be", port);
            assert!((6.0..22.0).contains(&found), "{found}");
            // Another port of the same pod is not held to that.
            let other = rate(&world, "be", port + 1);
            assert!(other > 1.5 * found && other > 22.0, "{other} and {found}");
        }
        let standing = world.backend.standing().unwrap();
        assert_eq!(standing[&*world.line()].parts.len(), 2);
        let place = Place {
            cgroup: Some(PathBuf::from("/nowhere")),
            host_network: true,
            ..Place::default()
        };
        // A part that goes takes its classes along, and one that cannot be told apart is said.
        let pod = world.plan.pods.get_mut("be").unwrap();
        pod.flows.clear();
        pod.place = place;
        let outcome = world.backend.apply(&world.plan).unwrap();
        assert_eq!(outcome.troubles.len(), 1, "{outcome:?}");
        assert_eq!(
            world.backend.standing().unwrap()[&*world.line()]
                .parts
                .len(),
            0
        );
    });
}

/// On the line there is nothing to be seen of the port: the packets are those of a tunnel.
#[test]
fn and_single_ports_of_them_in_a_tunnel() {
    on_each_hook(World::empty, |mut world| {
        world.bridged_pods();
        world.vxlan();
        let port = 8443;
        let pod = world.plan.pods.get_mut("be").unwrap();
        pod.flows = vec![part(Direction::Egress, port)];
        world.divide(shares(100));
        let found = world.served_at("be", port);
        assert!((6.0..22.0).contains(&found), "{found}");
        // Another port of the same pod is not held to that.
        let other = world.served_at("be", port + 1);
        assert!(other > 1.5 * found && other > 22.0, "{other} and {found}");
    });
}
