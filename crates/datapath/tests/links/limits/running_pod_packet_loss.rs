use std::time::Duration;

use netqos_api::HookChoice;
use netqos_core::BitRate;
use netqos_testkit::{Changes, Node, Pod, assert_loses_no_more_than_tc};
use netqos_traffic::{Flow, Server, UdpTest};

use super::{Wanted, both, datapath, server};

const CHANGES: Changes = Changes {
    pairs: 20,
    stays: Duration::from_millis(40),
    takes: Duration::from_millis(10),
};

/// Runs changes, and returns the number of datagrams that were lost meanwhile.
fn lost(pod: &Pod, server: &Server, flow: Flow, mut act: impl FnMut(bool)) -> u64 {
    let changes = CHANGES.timed(&mut act);
    let stream = |duration| {
        let test = UdpTest {
            flow,
            omit: Duration::ZERO,
            duration,
            size: 200,
            ..UdpTest::new(
                server.local_addr(),
                BitRate::from_bits_per_second(16_000_000),
            )
        };
        pod.inside(|| test.run(|_| ())).unwrap().unwrap().lost
    };
    changes.lost(stream, act).unwrap()
}

/// The kernel takes a link down for a moment when it adds or deletes the root qdisc. On kernels with tcx nothing
/// else does.
#[test]
fn first_limit_loses_no_more_packets_than_tc() {
    for flow in [Flow::Download, Flow::Upload] {
        let Some(node) = Node::new().unwrap() else {
            return;
        };
        let (pod, other) = (node.pod("limited").unwrap(), node.pod("free").unwrap());
        let server = server(&other, &other.address());
        let by_tc = || {
            lost(&pod, &server, flow, |comes| {
                let add = "add dev LINK root handle 1: tbf rate 200mbit burst 100kb latency 25ms";
                let words = if comes { add } else { "del dev LINK root" };
                let at_host = matches!(flow, Flow::Download);
                let link = if at_host { pod.host_link() } else { "eth0" };
                let words = format!("qdisc {}", words.replace("LINK", link));
                let words: Vec<&str> = words.split(' ').collect();
                let done = match at_host {
                    true => node.run("tc", &words),
                    false => pod.run(&node, "tc", &words),
                };
                done.unwrap();
            })
        };
        let mut datapath = datapath();
        let mut limits = both(200);
        match flow {
            Flow::Download => limits.egress = None,
            Flow::Upload => limits.ingress = None,
        }
        let wanted = Wanted::new(&pod, limits, HookChoice::Auto).running();
        let mut by_netqos = || {
            lost(&pod, &server, flow, |comes| {
                let mut request = wanted.request();
                if !comes {
                    request.limits = Default::default();
                }
                datapath.apply(&request).unwrap();
            })
        };
        assert_loses_no_more_than_tc(flow, &mut by_netqos, by_tc);
    }
}

/// One pair of rates would need longer bands.
#[test]
fn limit_change_loses_no_packet() {
    let Some(node) = Node::new().unwrap() else {
        return;
    };
    let (pod, other) = (node.pod("limited").unwrap(), node.pod("free").unwrap());
    let server = server(&other, &other.address());
    let mut datapath = datapath();
    let at = |megabits| Wanted::new(&pod, both(megabits), HookChoice::Auto).running();
    for (low, high) in [(30, 50), (100, 200), (30, 1000)] {
        let (low, high) = (at(low), at(high));
        datapath.apply(&low.request()).unwrap();
        for flow in [Flow::Download, Flow::Upload] {
            let lost = lost(&pod, &server, flow, |rises| {
                let wanted = if rises { &high } else { &low };
                datapath.apply(&wanted.request()).unwrap();
            });
            assert_eq!(lost, 0, "{flow:?}");
        }
    }
}
