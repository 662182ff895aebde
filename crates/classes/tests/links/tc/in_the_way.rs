use netqos_classes::{ClassBackend, Tc};
use netqos_testkit::classes::tc::{divide, sent};
use netqos_testkit::classes::{World, shares};

/// Koordinator's koordlet makes sets of the same names of another type.
#[test]
fn somebody_elses_set_stays_and_nothing_is_done() {
    let Some(mut world) = World::new() else {
        return;
    };
    let ipset = |arguments: &[&str]| world.node.run("ipset", arguments).unwrap();
    ipset(&["create", "be_class", "hash:ip"]);
    ipset(&["add", "be_class", "10.1.2.3"]);
    its_rule(&world, "-A");
    let pods: Vec<_> = world.pods.values().collect();
    let before = world.node.state(&pods).unwrap();
    world.plan.lines = [(world.line(), sent(shares(100)))].into();
    let mut tc = Tc::default();
    let error = tc.apply(&world.plan).unwrap_err().to_string();
    assert!(
        error.contains("there is an ipset be_class which is not netqos'"),
        "{error}"
    );
    tc.teardown().unwrap();
    let pods: Vec<_> = world.pods.values().collect();
    world.node.state(&pods).unwrap().assert_is(&before, error);
    let sets = world.node.run("ipset", &["save"]).unwrap();
    assert!(sets.contains("add be_class 10.1.2.3"), "{sets}");
    assert!(!sets.contains("ls_class"), "{sets}");
    its_rule(&world, "-C");
    its_rule(&world, "-D");
    world.node.run("ipset", &["destroy", "be_class"]).unwrap();
    divide(&mut world, &mut tc, shares(100));
}

/// Adds koordlet's own rule, which is as netqos' would be, or looks for it, or takes it away.
fn its_rule(world: &World, action: &str) {
    let rule = "-m set --match-set be_class src -j CLASSIFY --set-class 1:4";
    let arguments = ["-t", "mangle", action, "POSTROUTING"].into_iter();
    let arguments: Vec<&str> = arguments.chain(rule.split(' ')).collect();
    world.node.run("iptables", &arguments).unwrap();
}

/// What an operator who knows the proposal looks for.
#[test]
fn all_is_there_by_the_proposals_names() {
    let Some(mut world) = World::new() else {
        return;
    };
    divide(&mut world, &mut Tc::default(), shares(100));
    let line = world.line();
    let found = |program: &str, arguments: &[&str]| world.node.run(program, arguments).unwrap();
    let qdisc = found("tc", &["qdisc", "show", "dev", &line, "root"]);
    assert!(
        qdisc.starts_with("qdisc htb 1: root") && qdisc.contains("default 0x2"),
        "{qdisc}"
    );
    let classes = found("tc", &["class", "show", "dev", &line]);
    for class in [
        "class htb 1:1 root rate 100Mbit ceil 100Mbit",
        "prio 0 rate 40Mbit ceil 100Mbit",
        "prio 1 rate 30Mbit ceil 100Mbit",
        "prio 2 rate 30Mbit ceil 100Mbit",
    ] {
        assert!(classes.contains(class), "{class}: {classes}");
    }
    for (class, number) in [("1:2", 0), ("1:3", 1), ("1:4", 2)] {
        let parent = 12 + number;
        let class = format!("class htb {class} parent 1:{parent} leaf ");
        assert!(classes.contains(&class), "{class}: {classes}");
    }
    for (iptables, suffix) in [("iptables", ""), ("ip6tables", "_v6")] {
        for (set, class) in [
            ("system_class", "1:2"),
            ("ls_class", "1:3"),
            ("be_class", "1:4"),
        ] {
            let set = format!("{set}{suffix}");
            let sets = found("ipset", &["list", &set]);
            assert!(
                sets.contains("Type: hash:net") && sets.contains("entries: 1"),
                "{sets}"
            );
            // As it stands in the proposal.
            let rule = [
                "-m",
                "set",
                "--match-set",
                &set,
                "src",
                "-j",
                "CLASSIFY",
                "--set-class",
            ];
            let check = [&["-t", "mangle", "-C", "POSTROUTING"], &rule[..], &[class]].concat();
            found(iptables, &check);
        }
    }
}
