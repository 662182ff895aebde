use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use netqos_classes::{ClassBackend, Kernel, KernelOptions};
use netqos_core::Direction;
use netqos_netlink::Socket;
use netqos_testkit::classes::{BE, LS, World, mbit, options, shares};
use netqos_testkit::{ForeignHook, ForeignProgram, Verdict};
use netqos_traffic::Flow;

fn tc(world: &World, words: &str) {
    let words: Vec<&str> = words.split(' ').collect();
    world.node.run("tc", &words).unwrap();
}

fn root(world: &World) -> String {
    let shown = world
        .node
        .run("tc", &["qdisc", "show", "dev", &world.line(), "root"]);
    shown.unwrap()
}

#[test]
fn what_was_configured_by_hand_stays_and_it_is_said() {
    let Some(mut world) = World::new() else {
        return;
    };
    let line = world.line();
    let tbf = "tbf rate 50mbit burst 32k latency 50ms";
    tc(
        &world,
        &format!("qdisc add dev {line} root handle 7: {tbf}"),
    );
    let before = root(&world);
    world.plan.lines = [(line.clone(), shares(100))].into();
    let outcome = world.backend.apply(&world.plan).unwrap();
    assert_eq!(outcome.lines, []);
    let [trouble] = &outcome.troubles[..] else {
        panic!("{outcome:?}")
    };
    assert!(trouble.what.contains("tbf 7: at its root"), "{trouble:?}");
    assert_eq!(root(&world), before);
    world.backend.teardown().unwrap();
    assert_eq!(root(&world), before);
    // Once it is out of the way the line is divided.
    tc(&world, &format!("qdisc del dev {line} root"));
    assert_eq!(world.backend.apply(&world.plan).unwrap().lines, [line]);
}

/// Somebody puts a tree of his own in the place of ours: his packets have the classes that he gave them.
#[test]
fn a_line_that_was_taken_over_is_let_go_of() {
    let Some(mut world) = World::new() else {
        return;
    };
    let line = world.line();
    world.divide(shares(100));
    for words in [
        format!("tc qdisc replace dev {line} root handle 7: htb default 20"),
        format!("tc class add dev {line} parent 7: classid 7:10 htb rate 1gbit"),
        format!("tc class add dev {line} parent 7: classid 7:20 htb rate 1gbit"),
        format!("iptables -t mangle -A POSTROUTING -o {line} -j CLASSIFY --set-class 7:10"),
    ] {
        let (program, words) = words.split_once(' ').unwrap();
        let words: Vec<&str> = words.split(' ').collect();
        world.node.run(program, &words).unwrap();
    }
    let outcome = world.backend.apply(&world.plan).unwrap();
    assert_eq!((&outcome.lines[..], outcome.troubles.len()), (&[][..], 1));
    let sent = |minor: u16| {
        let mut socket = Socket::open().unwrap();
        let link = socket.link_by_name(&line).unwrap();
        let classes = socket.classes(&link).unwrap();
        let class = classes.iter().find(|class| class.handle.minor() == minor);
        class.unwrap().statistics.bytes
    };
    let found = world.transfer("be", Flow::Upload, false);
    assert!(
        sent(0x10) as f64 >= found,
        "{found}: {} {}",
        sent(0x10),
        sent(0x20)
    );
    assert!((sent(0x20) as f64) < 0.05 * found, "{}", sent(0x20));
    assert!(root(&world).contains("htb 7:"));
}

/// What comes is held to what it was held to before, and a pod that comes to its own limit, and not to that of
/// one that went whose number it gets.
#[test]
fn what_comes_by_a_line_that_was_taken_over_is_divided_all_the_same() {
    let Some(mut world) = World::new() else {
        return;
    };
    world.ask("be", 0, Some(20));
    world.divide(shares(100));
    let of_pods = |world: &mut World| -> BTreeMap<_, _> {
        let standing = world.backend.standing().unwrap().remove(&world.line());
        let parts = standing.unwrap().parts.into_iter();
        parts
            .map(|((direction, part), (_, most))| ((direction, part.pod.to_string()), most))
            .collect()
    };
    let held = |direction, pod: &str, most| ((direction, pod.to_owned()), mbit(most));
    let both = [Direction::Egress, Direction::Ingress].map(|way| held(way, "be", 20));
    assert_eq!(of_pods(&mut world), both.into());
    let line = world.line();
    tc(
        &world,
        &format!("qdisc replace dev {line} root handle 7: pfifo"),
    );
    let foreign = root(&world);
    world.backend.apply(&world.plan).unwrap();
    let again = |world: &mut World| {
        let outcome = world.backend.apply(&world.plan).unwrap();
        assert_eq!((outcome.changes, outcome.troubles.len()), (0, 1));
        assert_eq!(outcome.lines, []);
    };
    again(&mut world);
    let of_be = held(Direction::Ingress, "be", 20);
    assert_eq!(of_pods(&mut world), [of_be].into());
    let before = world.divided(Flow::Download);
    let found = world.together(Flow::Download, false, &["be"], 2.0)[0];
    assert!((12.0..22.0).contains(&found), "{found}");
    assert!(world.divided(Flow::Download)[&BE] > before[&BE]);

    world.plan.pods.remove("be");
    world.backend.apply(&world.plan).unwrap();
    assert_eq!(of_pods(&mut world), [].into());
    world.ask("ls", 0, Some(60));
    world.backend.apply(&world.plan).unwrap();
    let of_ls = [held(Direction::Ingress, "ls", 60)];
    assert_eq!(of_pods(&mut world), of_ls.clone().into());
    let before = world.divided(Flow::Download);
    let found = world.together(Flow::Download, false, &["ls"], 2.0)[0];
    assert!((30.0..66.0).contains(&found), "{found}");
    let after = world.divided(Flow::Download);
    assert!(after[&LS] > before[&LS] && after[&BE] == before[&BE]);

    // Also where it is still an earlier build's tree.
    let index = Socket::open().unwrap().link_by_name(&line).unwrap().index;
    let ifb = format!("netqos-l{index}");
    tc(&world, &format!("qdisc del dev {ifb} root"));
    tc(
        &world,
        &format!("qdisc add dev {ifb} root handle 6e71: htb"),
    );
    world.backend.apply(&world.plan).unwrap();
    assert_eq!(of_pods(&mut world), of_ls.into());
    again(&mut world);
    assert_eq!(root(&world), foreign);
}

/// A program that drops what comes in by the line drops it as before, and one that counts sees each
/// packet once.
#[test]
fn programs_of_others_on_the_line_see_every_packet() {
    use aya::programs::TcAttachType;
    let Some(mut world) = World::new() else {
        return;
    };
    let line = world.line();
    let hook = ForeignHook::Clsact(100);
    let program = |verdict| ForeignProgram::attach(&line, TcAttachType::Ingress, hook, verdict);
    let counts = program(Verdict::Next).unwrap();
    world.divide(shares(100));
    let seen = counts.seen().unwrap();
    world.transfer("be", Flow::Download, false);
    let packets = counts.seen().unwrap() - seen;
    let sent = world.packets_in();
    assert!(packets > 10 && packets <= sent, "{packets} of {sent}");
    drop(counts);
    let drops = program(Verdict::Drop).unwrap();
    assert!(!world.is_reached());
    drop(drops);
    assert!(world.is_reached());
    world.backend.teardown().unwrap();
    let shown = world
        .node
        .run("tc", &["qdisc", "show", "dev", &line])
        .unwrap();
    assert!(shown.contains("clsact"), "others' clsact stays: {shown}");
}

#[test]
fn a_line_that_goes_is_taken_up_again_when_it_is_back() {
    let Some(mut world) = World::new() else {
        return;
    };
    world.divide(shares(100));
    let line = world.line();
    // Its other end, and with it the line.
    world
        .outside
        .run(&world.node, "ip", &["link", "del", "eth0"])
        .unwrap();
    let outcome = world.backend.apply(&world.plan).unwrap();
    let [trouble] = &outcome.troubles[..] else {
        panic!("{outcome:?}")
    };
    assert_eq!(trouble.what, format!("there is no link {line}"));
    let links = world.node.run("ip", &["link"]).unwrap();
    assert!(
        !links.contains("netqos-l"),
        "its ifb is gone with it: {links}"
    );
    let again = [
        "link", "add", &line, "type", "veth", "peer", "name", "again",
    ];
    world.node.run("ip", &again).unwrap();
    let outcome = world.backend.apply(&world.plan).unwrap();
    assert_eq!((outcome.lines, outcome.troubles), (vec![line], vec![]));
    assert_eq!(world.backend.apply(&world.plan).unwrap().changes, 0);
}

/// As on real cards, which have several queues or one, unlike a veth. Of which kind one is without being told,
/// `net.core.default_qdisc` says.
#[test]
fn a_line_has_the_queues_again_that_the_kernel_gives_it() {
    let Some(mut world) = World::empty() else {
        return;
    };
    for (name, queues) in [("tap-1", None), ("tap-2", Some("multi_queue"))] {
        let words = ["tuntap", "add", name, "mode", "tap"];
        let words: Vec<&str> = words.into_iter().chain(queues).collect();
        world.node.run("ip", &words).unwrap();
        world.node.run("ip", &["link", "set", name, "up"]).unwrap();
        let shown = || {
            let words = ["qdisc", "show", "dev", name];
            world.node.run("tc", &words).unwrap()
        };
        let before = shown();
        let (first, _) = before.split_once(" 0: root").unwrap();
        assert_eq!(first == "qdisc mq", queues.is_some(), "{before}");
        world.plan.lines = [(name.into(), shares(100))].into();
        let outcome = world.backend.apply(&world.plan).unwrap();
        assert_eq!((outcome.lines.len(), outcome.troubles.len()), (1, 0));
        assert!(shown().starts_with("qdisc htb 6e71: root"), "{}", shown());
        world.backend.teardown().unwrap();
        assert_eq!(shown(), before);
    }
}

/// What comes had the handle of what is sent, in builds before. What waits in such a tree is not lost.
#[test]
fn a_tree_of_an_earlier_build_is_exchanged() {
    let Some(mut world) = World::new() else {
        return;
    };
    world.backend = Kernel::open(KernelOptions {
        divides_idle_lines: true,
        ..options()
    })
    .unwrap();
    world.divide(shares(100));
    let line = Socket::open().unwrap().link_by_name(&world.line()).unwrap();
    let ifb = format!("netqos-l{}", line.index);
    tc(&world, &format!("qdisc del dev {ifb} root"));
    tc(
        &world,
        &format!("qdisc add dev {ifb} root handle 6e71: htb default 11"),
    );
    let class = format!("class add dev {ifb} parent 6e71:");
    tc(&world, &format!("{class} classid 6e71:1 htb rate 2mbit"));
    tc(&world, &format!("{class}1 classid 6e71:11 htb rate 2mbit"));
    let bind = || UdpSocket::bind("0.0.0.0:0").unwrap();
    let pod = world.pods["be"].inside(bind).unwrap();
    let longest = Duration::from_secs(3);
    pod.set_read_timeout(Some(longest)).unwrap();
    let address: IpAddr = world.pods["be"].address().parse().unwrap();
    let to = SocketAddr::new(address, pod.local_addr().unwrap().port());
    let outside = world.outside.inside(bind).unwrap();
    // As many as the pod's socket has room for.
    for _ in 0..80 {
        outside.send_to(&[0; 1400], to).unwrap();
    }
    assert!(world.divide(shares(100)).changes > 0);
    for number in 0..80 {
        let got = pod.recv(&mut [0; 1400]);
        assert_eq!(got.ok(), Some(1400), "{number}");
    }
    assert_eq!(world.divide(shares(100)).changes, 0);
    let before = world.divided(Flow::Download);
    let found = world.transfer("be", Flow::Download, false);
    let waited = world.divided(Flow::Download)[&BE] - before[&BE];
    assert!(waited as f64 >= 0.9 * found, "{waited} of {found}");
    // One that somebody made is not exchanged.
    tc(&world, &format!("qdisc del dev {ifb} root"));
    tc(&world, &format!("qdisc add dev {ifb} root handle 1: htb"));
    world.plan.lines = [(world.line(), shares(100))].into();
    let outcome = world.backend.apply(&world.plan).unwrap();
    assert!(outcome.troubles[0].what.contains(&ifb), "{outcome:#?}");
}
