//! A pod with `CAP_NET_ADMIN` renames and moves links in its namespace.

use netqos_api::HookChoice;
use netqos_core::plan::Attach;
use netqos_index::Change;
use netqos_testkit::rules::{World, is_there, marking, policy};

fn marking_policy(mark: i64) -> Change {
    Change::Policy(policy("p", 1, "player", vec![marking(mark)]))
}

/// The program at the pod's end on the node, as tc or the folder of pins shows it.
fn is_at_host(world: &World) -> bool {
    let link = world.pod_named("a").host_link().to_owned();
    let filters = world
        .node
        .run("tc", &["filter", "show", "dev", &link, "ingress"]);
    let pins = world
        .node
        .run("find", &["/sys/fs/bpf/netqos", "-name", "*:rules"]);
    filters.unwrap().contains("netqos_rules") || !pins.unwrap().is_empty()
}

#[test]
fn renaming_or_moving_a_link_takes_no_rule_away() {
    for hook in [HookChoice::Auto, HookChoice::Clsact] {
        std::thread::spawn(move || with(hook)).join().unwrap();
    }
}

fn with(hook: HookChoice) {
    let Some(mut world) = Some(hook).filter(is_there).and_then(World::new) else {
        return;
    };
    world.pod("a", "player");
    world.pod("b", "gateway");
    world.apply(marking_policy(20));
    assert_eq!(world.marks("a", "b", false), [20]);
    let pod = world.pod_named("a");
    let gateway = pod.gateway();
    for command in [
        "link set eth0 down",
        "link set eth0 name real0",
        "link set real0 up",
        &format!("route add {gateway} dev real0"),
        &format!("route add default via {gateway}"),
    ] {
        let arguments: Vec<&str> = command.split(' ').collect();
        pod.run(&world.node, "ip", &arguments).unwrap();
    }
    let netns = pod.netns();
    let found = world.attached_at("a", netns);
    world.apply(found.clone());
    world.apply(marking_policy(30));
    assert_eq!(world.marks("a", "b", false), [30]);

    world.node.empty_pod("nested").unwrap();
    let pod = world.pod_named("a");
    pod.run(
        &world.node,
        "ip",
        &["link", "set", "real0", "netns", "nested"],
    )
    .unwrap();
    let Change::Attachments { interfaces, .. } = &found else {
        panic!("{found:?}");
    };
    assert!(matches!(interfaces[0].attach, Attach::HostVeth(_)));
    world.apply(marking_policy(40));
    assert!(is_at_host(&world));
    let mut hidden = found.clone();
    if let Change::Attachments { interfaces, .. } = &mut hidden {
        let reason = "it is not found".to_owned();
        interfaces[0].attach = Attach::Unsupported { reason };
    }
    world.apply(hidden);
    assert!(is_at_host(&world));
    // The pod is gone.
    let pod = world.pod_named("a");
    world
        .node
        .run("ip", &["link", "delete", pod.host_link()])
        .unwrap();
}
