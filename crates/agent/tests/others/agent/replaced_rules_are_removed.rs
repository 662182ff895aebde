//! What a change of rules replaces is removed soon after it, and delays no other change.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use netqos_bpf::rules::Rules;
use netqos_datapath::rules::is_rule_link;
use netqos_netlink::Socket;
use serde_json::json;

use super::stage::{self, Agent, MANIFESTS};

/// The longest delay of one tenant's change by another tenant's. Each of those takes two grace periods, of 8 ms on most kernels.
const LONGEST: Duration = Duration::from_secs(1);

fn is_marked(pod: &str, dscp: u8) -> bool {
    let status = stage::pod_status(pod);
    let first = status.as_ref().and_then(|pod| pod.rules.first());
    first.is_some_and(|rule| rule.dscp == Some(dscp))
}

fn chains() -> usize {
    let rules = Rules::open("/sys/fs/bpf".as_ref()).unwrap().unwrap();
    rules.chains.keys().unwrap().len()
}

#[test]
fn replaced_rules_leave_the_kernel_without_another_change() {
    let Some(node) = stage::node() else { return };
    let (a, _b) = stage::pods(&node);
    stage::put("a.json", &stage::manifest(&a, json!({})));
    let _agent = Agent::start();
    for dscp in [10, 20, 30] {
        let rules = format!("[{{dscp: {dscp}}}]");
        stage::put("p.yaml", &stage::policy("p", "a", &rules));
        assert!(stage::eventually(|| is_marked("a", dscp)));
        assert!(stage::eventually(|| chains() == 1), "{} chains", chains());
    }
}

/// Of 64 a change waits until they are removed.
#[test]
fn replaced_rules_leave_the_kernel_while_others_come() {
    let Some(node) = stage::node() else { return };
    let (a, _b) = stage::pods(&node);
    stage::put("a.json", &stage::manifest(&a, json!({})));
    let _agent = Agent::start();
    stage::put("p.yaml", &stage::policy("p", "a", "[{dscp: 1}]"));
    assert!(stage::eventually(|| is_marked("a", 1)));
    let chains_at = |port: u16| {
        let to = format!("{{ports: [{{protocol: TCP, port: {port}}}]}}");
        let rules = format!("[{{dscp: 1, classifier: {to}}}]");
        stage::put("p.yaml", &stage::policy("p", "a", &rules));
        thread::sleep(Duration::from_millis(20));
        chains()
    };
    let most = (1_000..1_150).map(chains_at).max().unwrap();
    assert!((2..32).contains(&most), "{most} chains");
}

/// Each of its changes gives pods other rules, and peers other classes.
#[test]
fn tenant_that_changes_rules_without_end_delays_no_other() {
    let Some(node) = stage::node() else { return };
    let (a, b) = stage::pods(&node);
    stage::put("a.json", &stage::manifest(&a, json!({})));
    stage::put("b.json", &stage::manifest(&b, json!({})));
    let _agent = Agent::start();
    let has_ended = AtomicBool::new(false);
    let (mut changes, mut longest) = (0, Duration::ZERO);
    thread::scope(|scope| {
        let flood = scope.spawn(|| {
            let fresh = Path::new(MANIFESTS).join(".flood");
            let mut changes = 0;
            while !has_ended.load(Ordering::Relaxed) {
                changes += 1;
                let to = format!("{{key: app, operator: In, values: [b, x{changes}]}}");
                let to = format!("to: [{{podSelector: {{matchExpressions: [{to}]}}}}]");
                let rules = format!("[{{dscp: 1, classifier: {{{to}}}}}]");
                fs::write(&fresh, stage::policy("p", "a", &rules)).unwrap();
                fs::rename(&fresh, Path::new(MANIFESTS).join("p.yaml")).unwrap();
                thread::sleep(Duration::from_millis(1));
            }
            changes
        });
        for dscp in 10..20 {
            let rules = format!("[{{dscp: {dscp}}}]");
            let began = Instant::now();
            stage::put("q.yaml", &stage::policy("q", "b", &rules));
            let is_done = stage::eventually(|| is_marked("b", dscp));
            longest = longest.max(began.elapsed());
            if !is_done {
                break;
            }
            thread::sleep(Duration::from_millis(100));
        }
        has_ended.store(true, Ordering::Relaxed);
        changes = flood.join().unwrap();
    });
    println!("{changes} changes, and another one beside them took {longest:?} at most");
    assert!(changes > 100, "only {changes} changes");
    assert!(longest < LONGEST, "{longest:?}");
    assert!(stage::eventually(|| chains() == 2), "{} chains", chains());
}

fn rule_links() -> usize {
    let links = Socket::open().unwrap().links().unwrap();
    links.iter().filter(|link| is_rule_link(link)).count()
}

/// Each rule with a rate has a pair of links, which takes 10 to 50 ms to remove.
#[test]
fn removal_of_many_links_delays_no_change() {
    const RULES: u8 = 60;
    let Some(node) = stage::node() else { return };
    let (a, b) = stage::pods(&node);
    stage::put("a.json", &stage::manifest(&a, json!({})));
    stage::put("b.json", &stage::manifest(&b, json!({})));
    let _agent = Agent::start();
    let change = |dscp: u8| {
        let rules = format!("[{{dscp: {dscp}}}]");
        let began = Instant::now();
        stage::put("q.yaml", &stage::policy("q", "b", &rules));
        assert!(stage::eventually(|| is_marked("b", dscp)));
        began.elapsed()
    };
    change(62);
    // It probes the kernel in its first pause, once.
    let is_probed = || stage::ask("/metrics").contains("netqos_datapath_feature_info{");
    assert!(stage::eventually(is_probed));
    for dscp in 1..=RULES {
        let rules = format!("[{{dscp: {dscp}, bandwidth: {{rate: 10000}}}}]");
        stage::put("p.yaml", &stage::policy(&format!("p{dscp}"), "a", &rules));
        assert!(stage::eventually(|| is_marked("a", dscp)));
    }
    let most = rule_links();
    assert!(most > usize::from(RULES), "{most} links");
    assert!(stage::eventually(|| rule_links() < most));
    let took = change(61);
    let left = rule_links();
    println!("a change took {took:?}, after which {left} of {most} links are left");
    assert!(left > 2, "it waited until all links were removed");
    assert!(
        stage::eventually(|| rule_links() == 2),
        "{} links",
        rule_links()
    );
}
