//! Repairs of limits that another process removes or changes, and of stalled queues.

use std::thread;
use std::time::{Duration, Instant};

use netqos_testkit::{Node, Pod};
use serde_json::json;

use super::stage::{self, Agent};

/// The time to the repair of a fault that the kernel announces, and of any other.
const AT_ONCE: Duration = Duration::from_secs(1);

/// The most that one of several faults may take on a busy machine: long before the turn, after 10 s or 30 s.
const BEFORE_ITS_TURN: Duration = Duration::from_secs(5);
/// Long before its turn, on a busy machine too.
const SOON: Duration = Duration::from_secs(10);
const IN_TURN: Duration = Duration::from_secs(32);
/// The most that one turn may take on a busy machine.
const LATE: Duration = Duration::from_secs(60);

const LIMITS: [&str; 2] = ["ingress", "egress"];

fn limited(pod: &Pod) {
    let annotations = LIMITS.map(|way| (format!("kubernetes.io/{way}-bandwidth"), json!("10M")));
    let annotations = serde_json::Map::from_iter(annotations);
    stage::put("a.json", &stage::manifest(pod, annotations.into()));
}

fn restored() -> u64 {
    stage::status().reconciled.limits_restored
}

fn is_limited(shown: &str) -> bool {
    shown.contains("tbf 1: root")
        && shown.contains("rate 10Mbit")
        && shown.contains("pfifo_fast 2:")
}

/// Waits for a condition, and returns the time that it took.
fn within(most: Duration, what: &str, is: impl Fn() -> bool) -> Duration {
    let began = Instant::now();
    while !is() {
        assert!(began.elapsed() < most, "{what}\n{}", stage::log());
        thread::sleep(Duration::from_millis(10));
    }
    began.elapsed()
}

/// Runs a test of the limits at the host's end of a pod.
fn at_host(act: impl FnOnce(&Node, &Pod, &dyn Fn() -> bool)) {
    let Some(node) = stage::node() else { return };
    let (pod, _) = stage::pods(&node);
    limited(&pod);
    let _agent = Agent::start_with(&["--hook", "clsact"]);
    let host = pod.host_link();
    let is_in_force = || {
        let qdiscs = node.run("tc", &["qdisc", "show", "dev", host]).unwrap();
        let filters = node.run("tc", &["filter", "show", "dev", host, "egress"]);
        is_limited(&qdiscs) && filters.unwrap().contains("netqos_rank")
    };
    within(IN_TURN, "limited", is_in_force);
    // The agent's own changes are no faults.
    thread::sleep(2 * AT_ONCE);
    assert_eq!(restored(), 0, "{}", stage::log());
    act(&node, &pod, &is_in_force);
}

/// `tc` with these words, `HOST` for the host's end of the pod's interface.
fn tc(node: &Node, pod: &Pod, words: &str) {
    let words = words.replace("HOST", pod.host_link());
    let words: Vec<&str> = words.split(' ').collect();
    node.run("tc", &words).unwrap();
}

#[test]
fn removed_or_changed_host_qdisc_is_restored_within_a_second() {
    at_host(|node, pod, is_in_force| {
        let mut least = BEFORE_ITS_TURN;
        for (times, change) in [
            "qdisc del dev HOST root",
            "qdisc change dev HOST root handle 1: tbf rate 1gbit burst 1mb latency 10ms",
            "filter del dev HOST egress",
            "qdisc del dev HOST clsact",
        ]
        .into_iter()
        .enumerate()
        {
            tc(node, pod, change);
            let is_back = || is_in_force() && restored() == times as u64 + 1;
            let took = within(BEFORE_ITS_TURN, change, is_back);
            eprintln!("{change}: {took:.0?}");
            least = least.min(took);
        }
        assert!(least < AT_ONCE, "{least:?}");
        let metrics = stage::ask("/metrics");
        assert!(
            metrics.contains("netqos_limits_restored_total 4\n"),
            "{metrics}"
        );
    });
}

#[test]
fn changed_pod_qdisc_is_restored_within_30_seconds() {
    let Some(node) = stage::node() else { return };
    let (pod, _) = stage::pods(&node);
    limited(&pod);
    let _agent = Agent::start();
    let shown = || {
        let shown = pod.run(&node, "tc", &["qdisc", "show", "dev", "eth0"]);
        is_limited(&shown.unwrap())
    };
    within(IN_TURN, "limited", shown);
    // The agent inspects a new limit soon.
    thread::sleep(2 * AT_ONCE);
    // (A deletion takes the link down, which the kernel announces at the host's end.)
    let change = "qdisc change dev eth0 root handle 1: tbf rate 1gbit burst 1mb latency 10ms";
    let change: Vec<&str> = change.split(' ').collect();
    let mut least = LATE;
    for times in 1..=2 {
        pod.run(&node, "tc", &change).unwrap();
        assert!(!shown());
        let took = within(LATE, "put back", || shown() && restored() == times);
        eprintln!("{took:.0?}");
        least = least.min(took);
        if least <= IN_TURN {
            return;
        }
    }
    panic!("{least:?}");
}

#[test]
fn qdisc_removed_six_times_is_restored_five_times() {
    at_host(|node, pod, is_in_force| {
        for times in 1..=5 {
            tc(node, pod, "qdisc del dev HOST root");
            within(SOON, "put back", || is_in_force() && restored() == times);
        }
        tc(node, pod, "qdisc del dev HOST root");
        let is_told = || {
            let problems = stage::status().problems;
            problems.iter().any(|it| it.reason == "RepairContested")
        };
        within(SOON, "told", is_told);
        thread::sleep(2 * AT_ONCE);
        assert!(!is_in_force());
        assert_eq!(restored(), 5);
        let failing = stage::pod_status(pod.name()).unwrap().failing;
        assert!(failing.contains("limit"), "{failing}");
    });
}

#[test]
fn stalled_queue_is_emptied() {
    let Some(node) = stage::node() else { return };
    let (pod, other) = stage::pods(&node);
    limited(&pod);
    let _agent = Agent::start();
    let is_limited = || stage::pod_status(pod.name()).is_some_and(|it| it.failing.is_empty());
    within(IN_TURN, "limited", is_limited);
    let sent = stage::stall_queue(&pod, &other);
    assert!(sent.goodput.received.bytes() > 500_000, "{sent}");
    let reconciled = stage::status().reconciled;
    assert!(reconciled.dropped > 0, "{reconciled:?}");
    assert!(stage::has_logged(&["QueueStalled", "stopped sending"]));
}

/// The restored ifb has another index.
#[test]
fn ifb_removed_twice_is_restored_twice() {
    let Some(node) = stage::node() else { return };
    let (pod, _) = stage::pods(&node);
    limited(&pod);
    let _agent = Agent::start_with(&["--egress", "ifb"]);
    let ifb = || {
        let links = node
            .run("ip", &["-o", "link", "show", "type", "ifb"])
            .unwrap();
        let mut words = links.lines().filter_map(|line| line.split(' ').nth(1));
        words
            .next()
            .map(|name| name.trim_end_matches(':').to_owned())
    };
    within(IN_TURN, "limited", || ifb().is_some());
    for times in 1..=2 {
        thread::sleep(2 * AT_ONCE);
        assert_eq!(restored(), times - 1, "{}", stage::log());
        node.run("ip", &["link", "del", &ifb().unwrap()]).unwrap();
        within(SOON, "restored", || ifb().is_some() && restored() == times);
    }
}
