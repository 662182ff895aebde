//! A band has room for what may wait in it, also when more may wait than when it was made.

use std::net::UdpSocket;

use netqos_testkit::{Node, Pod};
use serde_json::{Value, json};

use super::calls::{CONTAINERD, add, bandwidth, check, config, start};

/// Each may have some hundred packets on their way.
const SENDERS: usize = 20;
/// What fits a band that was made for 25 ms.
const SHORT: usize = 1000;

/// 10 Mbit/s to the pod, of which this long may wait.
fn with_latency(pod: &Pod, latency: &str) -> Value {
    let mut config = config(pod, json!({}));
    config["runtimeConfig"] = bandwidth(10_000_000, 10_000_000, CONTAINERD);
    config["runtimeConfig"]["io.kubernetes.cri.pod-annotations"] =
        json!({"netqos.io/ingress-latency": latency});
    config
}

/// The most packets that were seen waiting in the bands of the pod's queue under a flood of small
/// ones.
fn longest_queue(node: &Node, pod: &Pod) -> usize {
    let sender = || {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        socket.set_nonblocking(true).unwrap();
        socket.connect((pod.address(), 9)).unwrap();
        socket
    };
    let senders: Vec<_> = std::iter::repeat_with(sender).take(SENDERS).collect();
    let mut longest = 0;
    for _ in 0..20 {
        for _ in 0..500 {
            for socket in &senders {
                // It may have as much on its way as it may, or have been told that nobody listens.
                let _ = socket.send(&[0; 100]);
            }
        }
        let shown = node
            .run("tc", &["-s", "qdisc", "show", "dev", pod.host_link()])
            .unwrap();
        let bands = shown
            .split("qdisc ")
            .find(|one| one.starts_with("pfifo_fast"));
        let packets = bands
            .and_then(|bands| bands.split("backlog ").nth(1))
            .and_then(|backlog| backlog.split(' ').nth(1))
            .and_then(|packets| packets.strip_suffix('p'))
            .and_then(|packets| packets.parse().ok());
        longest = longest.max(packets.expect(&shown));
    }
    longest
}

#[test]
fn also_when_more_may_wait_than_before() {
    let Some((node, pod)) = start() else { return };
    add(&pod, &with_latency(&pod, "25ms"));
    assert!(longest_queue(&node, &pod) <= SHORT);
    let slow = with_latency(&pod, "1s");
    add(&pod, &slow);
    check(&pod, &slow);
    let longest = longest_queue(&node, &pod);
    assert!(longest > 2 * SHORT, "{longest} packets waited at most");
    // Nothing of it is lost by an ADD that changes nothing.
    let before = longest_queue(&node, &pod);
    add(&pod, &slow);
    let after = longest_queue(&node, &pod);
    assert!(before > 2 * SHORT && after > 2 * SHORT, "{before}, {after}");
}
