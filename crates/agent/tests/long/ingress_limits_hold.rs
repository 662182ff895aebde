//! Ingress limits that others bypass or remove on the host.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use netqos_core::BitRate;
use netqos_datapath::{Features, Paths};
use netqos_testkit::{Felix, ForeignHook, ForeignProgram, Node, Pod};
use serde_json::json;

use crate::stage::{self, Agent, download, serve};

const SECOND: Duration = Duration::from_secs(1);
const FOUND: Duration = Duration::from_secs(15);
/// What a limit of 10 Mbit/s may let through.
const MOST: BitRate = BitRate::from_bits_per_second(10_500_000);
const PROFILE: &str = "apiVersion: netqos.io/v1alpha1
kind: BandwidthProfile
metadata: {name: downloads, namespace: games}
spec: {podSelector: {matchLabels: {app: a}}, ingress: {rate: 10M}}
";

/// Pods `a`, whose profile limits it to 10 Mbit/s, and `b`, and an agent that has limited it.
fn limited(node: &Node) -> (Pod, Pod, Agent) {
    let (a, b) = stage::pods(node);
    stage::put("a.json", &stage::manifest(&a, json!({})));
    stage::put("profile.yaml", PROFILE);
    let agent = Agent::start();
    assert!(stage::eventually(|| is_held_at(a.host_link())));
    (a, b, agent)
}

fn is_held_at(link: &str) -> bool {
    let limits = stage::pod_status("a").map_or_else(Vec::new, |pod| pod.limits);
    let mut limits = limits.iter();
    limits.any(|limit| limit.in_force && limit.link.starts_with(link))
}

#[test]
fn bypassed_limit_is_found_within_15_seconds() {
    let Some(node) = stage::node() else { return };
    let features = Features::probe(&Paths::from_variables(|_| None)).unwrap();
    if !features.with_redirect_counter().counts_redirected() {
        eprintln!("skipped: this kernel does not count packets that bypass a limit");
        return;
    }
    let (a, b, _agent) = limited(&node);
    let server = serve(&b);
    let _foreign = ForeignProgram::redirect_to(&a, b.host_link(), ForeignHook::Clsact(1)).unwrap();
    let began = Instant::now();
    while !is_held_at("nqi") {
        assert!(began.elapsed() < FOUND, "{}", stage::log());
        download(&a, &server, SECOND / 2);
    }
    let found = began.elapsed();
    let rate = download(&a, &server, 10 * SECOND);
    eprintln!("found after {found:.1?}; then {rate}");
    assert!(rate <= MOST, "{rate}");
}

/// At every update of an endpoint Felix deletes TBFs at the host's end. One in a second for a minute.
#[test]
fn limit_holds_beside_calico() {
    let Some(node) = stage::node() else { return };
    let (a, b, _agent) = limited(&node);
    let calico = Felix {
        ingress: None,
        egress: Some("20mbit"),
    };
    calico.update(&node, &b).unwrap();
    assert!(stage::eventually(|| is_held_at("nqi")));
    let restored = stage::status().reconciled.limits_restored;
    let server = serve(&b);
    let is_over = AtomicBool::new(false);
    let rates = thread::scope(|scope| {
        let pod = &a;
        let downloads = scope.spawn(|| {
            let rates: Vec<BitRate> = (0..6)
                .map(|_| download(pod, &server, 10 * SECOND))
                .collect();
            is_over.store(true, Ordering::SeqCst);
            rates
        });
        while !is_over.load(Ordering::SeqCst) {
            Felix::default().update(&node, &a).unwrap();
            calico.update(&node, &b).unwrap();
            thread::sleep(SECOND);
        }
        downloads.join().unwrap()
    });
    eprintln!("{rates:?}");
    let megabits = rates.iter().map(|rate| rate.bits_per_second() as f64 / 1e6);
    // TCP's part of 10 Mbit/s.
    assert!(
        { megabits }.all(|rate| (9.07..=10.03).contains(&rate)),
        "{rates:?}"
    );
    assert_eq!(stage::status().reconciled.limits_restored, restored);
    assert!(is_held_at("nqi"));
}
