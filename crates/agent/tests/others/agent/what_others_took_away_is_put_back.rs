use std::thread;
use std::time::{Duration, Instant};

use netqos_bpf::rules::Rules;
use netqos_netlink::filter::{Bpf, Place};
use netqos_netlink::link::LinkChange;
use netqos_netlink::{Handle, Socket};
use netqos_testkit::has_tcx;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::config_map;
use super::stage::{self, Agent, Flow};

/// The time to the repair of a fault that the kernel announces.
const AT_ONCE: Duration = Duration::from_secs(1);

/// The most that one of several faults may take on a busy machine: long before the turn, after 10 s or 30 s.
const BEFORE_ITS_TURN: Duration = Duration::from_secs(5);

/// Whoever deletes clsact deletes the programs of all others with it.
#[test]
fn within_a_second() {
    let Some(node) = stage::node() else { return };
    let (a, b) = stage::pods(&node);
    stage::put("a.json", &stage::manifest(&a, json!({})));
    stage::put("p.yaml", &stage::policy("p", "a", "[{dscp: 46}]"));
    let _agent = Agent::start_with(&["--hook", "clsact"]);
    let flow = Flow::begin(&a, &b, Duration::from_millis(5));
    flow.wait_for(46);
    let delete = ["qdisc", "del", "dev", a.host_link(), "clsact"];
    node.run("tc", &delete).unwrap();
    let deleted = Instant::now();
    flow.wait_for(0);
    flow.wait_for(46);
    let took = deleted.elapsed();
    flow.end();
    assert!(took < BEFORE_ITS_TURN, "{took:?}");
    assert_eq!(stage::status().reconciled.restored, 1);
    let metrics = stage::ask("/metrics");
    assert!(
        metrics.contains("netqos_hooks_restored_total 1\n"),
        "{metrics}"
    );
}

/// With a filter beside the tcx program each packet would have its rules twice. Inspections between full ones do not
/// look for it.
#[test]
fn filter_beside_tcx_program_is_removed_within_a_second_also_if_notifications_are_lost() {
    let Some(node) = stage::node() else { return };
    if !has_tcx() {
        return;
    }
    let (a, b) = stage::pods(&node);
    stage::put("a.json", &stage::manifest(&a, json!({})));
    stage::put("p.yaml", &stage::policy("p", "a", "[{dscp: 46}]"));
    let agent = Agent::start();
    let add = ["qdisc", "add", "dev", a.host_link(), "clsact"];
    node.run("tc", &add).unwrap();
    // The first inspection is a full one.
    thread::sleep(Duration::from_secs(11));
    let rules = Rules::open("/sys/fs/bpf".as_ref()).unwrap().unwrap();
    let mut socket = Socket::open().unwrap();
    let link = socket.link_by_name(a.host_link()).unwrap();
    let filter = Bpf {
        program: rules.program().unwrap(),
        name: "netqos_rules",
        argument: 0,
    };
    let place = Place {
        hook: Handle::CLSACT_INGRESS,
        preference: 1,
        handle: 0x6e72,
    };
    let restored = || stage::status().reconciled.restored;
    let mut least = BEFORE_ITS_TURN;
    for is_lost in [true, false] {
        let before = restored();
        let pid = Pid::from_raw(agent.pid() as i32).unwrap();
        if is_lost {
            kill_process(pid, Signal::STOP).unwrap();
            // More than the kernel keeps for a process that does not read.
            let other = socket.link_by_name(b.host_link()).unwrap();
            for number in 0..2_000 {
                let change = LinkChange {
                    tx_queue_len: Some(1_000 + number % 2),
                    ..LinkChange::default()
                };
                socket.change_link(&other, &change).unwrap();
            }
        }
        socket.put_filter(&link, place, &filter).unwrap();
        if is_lost {
            kill_process(pid, Signal::CONT).unwrap();
        }
        let began = Instant::now();
        let is_removed = || restored() == before + 1;
        assert!(stage::eventually(is_removed), "{is_lost} {}", stage::log());
        let took = began.elapsed();
        assert!(took < BEFORE_ITS_TURN, "{is_lost} {took:?}");
        least = least.min(took);
        let shown = node.run("tc", &["filter", "show", "dev", a.host_link(), "ingress"]);
        assert!(!shown.unwrap().contains("netqos_rules"));
    }
    assert!(least < AT_ONCE, "{least:?}");
}

#[test]
fn removed_or_changed_rule_queue_is_restored_within_a_second() {
    let Some(node) = stage::node() else { return };
    let (a, _) = stage::pods(&node);
    stage::put("a.json", &stage::manifest(&a, json!({})));
    let rule = "[{bandwidth: {rate: 10000}}]";
    stage::put("p.yaml", &stage::policy("p", "a", rule));
    let _agent = Agent::start();
    let queue = || {
        let links = node
            .run("ip", &["-o", "link", "show", "type", "veth"])
            .unwrap();
        let mut names = links
            .lines()
            .filter_map(|line| line.split([' ', '@']).nth(1));
        names
            .find(|name| name.starts_with("nq") && name.ends_with('a'))
            .map(str::to_owned)
    };
    let is_in_force = || {
        let Some(name) = queue() else { return false };
        let shown = node.run("tc", &["qdisc", "show", "dev", &name]).unwrap();
        let link = node.run("ip", &["-o", "link", "show", "dev", &name]);
        // Both ends are up.
        let is_up = link.is_ok_and(|link| link.contains("LOWER_UP"));
        is_up && shown.contains("rate 10Mbit") && shown.contains("pfifo_fast 2:")
    };
    assert!(stage::eventually(is_in_force), "{}", stage::log());
    let name = queue().unwrap();
    let peer = format!("{}b", name.strip_suffix('a').unwrap());
    let state: Value = serde_json::from_str(&stage::ask("/debug/state")).unwrap();
    let meter = &state["actual"]["rules"]["meters"]["games/p[0]"];
    assert_eq!(meter["queue"], name.as_str(), "{state}");
    let restored = || stage::status().reconciled.queues_restored;
    let mut least = BEFORE_ITS_TURN;
    for (times, words) in [
        format!("tc qdisc del dev {name} root"),
        format!("tc qdisc change dev {name} root handle 1: tbf rate 1gbit burst 1mb latency 10ms"),
        format!("ip link set {name} down"),
        format!("ip link set {peer} down"),
        format!("ip link del {name}"),
    ]
    .iter()
    .enumerate()
    {
        thread::sleep(AT_ONCE);
        assert_eq!(restored(), times as u64, "{}", stage::log());
        let words: Vec<&str> = words.split(' ').collect();
        node.run(words[0], &words[1..]).unwrap();
        let began = Instant::now();
        let is_back = || is_in_force() && restored() == times as u64 + 1;
        assert!(stage::eventually(is_back), "{words:?}: {}", stage::log());
        let took = began.elapsed();
        assert!(took < BEFORE_ITS_TURN, "{words:?}: {took:?}");
        least = least.min(took);
    }
    assert!(least < AT_ONCE, "{least:?}");
}

#[test]
fn removed_uplink_htb_is_restored_within_a_second() {
    let Some(node) = stage::node() else { return };
    let _far = config_map::outside(&node);
    let said = config_map::config_map((30, 100), (30, 100));
    stage::put("slo.json", &said.to_string());
    let _agent = Agent::start();
    let up = Socket::open().unwrap().link_by_name("up0").unwrap();
    let ifb = format!("netqos-l{}", up.index);
    let has_tree = |link: &str| {
        let classes = node.run("tc", &["class", "show", "dev", link]);
        classes.is_ok_and(|shown| shown.matches("class htb").count() > 9)
    };
    let is_up = || {
        let ifb = Socket::open().unwrap().link_by_name(&ifb);
        ifb.is_ok_and(|ifb| ifb.is_up)
    };
    let is_in_force = || has_tree("up0") && has_tree(&ifb) && is_up();
    assert!(stage::eventually(is_in_force), "{}", stage::log());
    let restored = || stage::status().reconciled.uplinks_restored;
    let faults = [
        "tc qdisc del dev up0 root".to_owned(),
        format!("tc qdisc del dev {ifb} root"),
        format!("ip link set {ifb} down"),
        format!("ip link del {ifb}"),
    ];
    let mut least = BEFORE_ITS_TURN;
    for (times, fault) in faults.iter().enumerate() {
        thread::sleep(AT_ONCE);
        assert_eq!(restored(), times as u64, "{}", stage::log());
        let words: Vec<&str> = fault.split(' ').collect();
        node.run(words[0], &words[1..]).unwrap();
        let began = Instant::now();
        let is_back = || is_in_force() && restored() == times as u64 + 1;
        assert!(stage::eventually(is_back), "{fault}: {}", stage::log());
        let took = began.elapsed();
        assert!(took < BEFORE_ITS_TURN, "{fault}: {took:?}");
        least = least.min(took);
    }
    assert!(least < AT_ONCE, "{least:?}");
    let metrics = stage::ask("/metrics");
    assert!(
        metrics.contains("netqos_uplinks_restored_total 4\n"),
        "{metrics}"
    );
    let delete = || {
        node.run("tc", &["qdisc", "del", "dev", "up0", "root"])
            .unwrap()
    };
    let is_contested = || {
        let problems = stage::status().problems;
        problems.iter().any(|it| it.reason == "RepairContested")
    };
    delete();
    assert!(stage::eventually(is_in_force), "{}", stage::log());
    assert!(!is_contested());
    delete();
    assert!(stage::eventually(is_contested), "{}", stage::log());
    thread::sleep(2 * AT_ONCE);
    assert!(!is_in_force());
}

#[test]
fn removed_stamp_of_pod_is_restored_within_a_second() {
    let Some(node) = stage::node() else { return };
    let _far = config_map::outside(&node);
    let (a, _) = stage::pods(&node);
    let asked = json!({"koordinator.sh/networkQOS": r#"{"egressRequest": 10, "QoSClass": "BE"}"#});
    stage::put("a.json", &stage::manifest(&a, asked));
    let said = config_map::config_map((30, 100), (30, 100));
    stage::put("slo.json", &said.to_string());
    let _agent = Agent::start_with(&["--hook", "clsact"]);
    let link = a.host_link();
    let is_stamped = || {
        let filters = node.run("tc", &["filter", "show", "dev", link, "ingress"]);
        filters.is_ok_and(|shown| shown.contains("netqos_stamp"))
    };
    assert!(stage::eventually(is_stamped), "{}", stage::log());
    let restored = || stage::status().reconciled.uplinks_restored;
    let faults = [
        ["filter", "del", "dev", link, "ingress"],
        ["qdisc", "del", "dev", link, "clsact"],
    ];
    let mut least = BEFORE_ITS_TURN;
    for (times, fault) in faults.iter().enumerate() {
        thread::sleep(AT_ONCE);
        assert_eq!(restored(), times as u64, "{}", stage::log());
        node.run("tc", fault).unwrap();
        let began = Instant::now();
        let is_back = || is_stamped() && restored() == times as u64 + 1;
        assert!(stage::eventually(is_back), "{fault:?}: {}", stage::log());
        let took = began.elapsed();
        assert!(took < BEFORE_ITS_TURN, "{fault:?}: {took:?}");
        least = least.min(took);
    }
    assert!(least < AT_ONCE, "{least:?}");
}
