//! Running pods reach their limit whatever transmit queue length their links have.

use std::thread;

use netqos_api::{EgressWay, HookChoice};
use netqos_core::{Attachment, Limit};
use netqos_datapath::{HostLinks, LimitDatapath, Paths, Request};
use netqos_testkit::{Node, Pod};

use super::{DIRECTIONS, both, expect, goodput, mbit, serve_in, tcp_test, within_three_tries};

/// The kernel's default is the last, with which the others are compared.
const LENGTHS: [u32; 5] = [0, 1, 10, 100, 1000];

/// Limits running pods, one of each length, and compares the goodput of flows that run at once.
fn compare(node: &Node, pods: [Pod; 5], other: &Pod, egress: EgressWay) {
    let mut datapath = LimitDatapath::open(Paths::from_variables(|_| None)).unwrap();
    for (pod, length) in pods.iter().zip(LENGTHS) {
        pod.set_tx_queue_len(node, length).unwrap();
        let request = Request {
            attachment: &Attachment::try_new("net", pod.name(), "eth0").unwrap(),
            netns: &pod.netns(),
            ends: None,
            host_links: HostLinks::Unknown,
            limits: both(Limit::of(mbit(10))),
            egress,
            hook: HookChoice::Auto,
            is_running: true,
        };
        datapath.apply(&request).unwrap();
    }
    let server = &serve_in(other, other.address().parse().unwrap());
    within_three_tries(|| {
        let [ingress, egress] = thread::scope(|scope| {
            let started = DIRECTIONS.map(|direction| {
                let test = move || tcp_test(server, direction, 2.0);
                let measure = |pod| scope.spawn(move || goodput(pod, &test()));
                pods.each_ref().map(measure)
            });
            started.map(|flows| flows.map(|flow| flow.join().unwrap()))
        });
        let holds = |rates: [f64; 5]| rates.iter().all(|rate| *rate >= 0.95 * rates[4]);
        expect(holds(ingress) && holds(egress), || {
            format!("of {LENGTHS:?} packets: {ingress:.0?} and {egress:.0?} bit/s")
        })
    });
}

#[test]
fn veth_pods_reach_their_limit() {
    for egress in [EgressWay::Pod, EgressWay::Ifb] {
        thread::spawn(move || {
            let Some(node) = Node::new().unwrap() else {
                return;
            };
            let pods = LENGTHS.map(|length| node.pod(&format!("q{length}")).unwrap());
            compare(&node, pods, &node.pod("free").unwrap(), egress);
        })
        .join()
        .unwrap();
    }
}

#[test]
fn macvlan_pods_reach_their_limit() {
    let Some(node) = Node::new().unwrap() else {
        return;
    };
    node.parent_link("parent").unwrap();
    let pod = |name: &str| node.macvlan_pod(name, "parent").unwrap();
    let pods = LENGTHS.map(|length| pod(&format!("q{length}")));
    compare(&node, pods, &pod("free"), EgressWay::Pod);
}
