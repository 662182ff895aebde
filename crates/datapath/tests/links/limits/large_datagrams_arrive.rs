use std::thread;
use std::time::Duration;

use netqos_api::{EgressWay, HookChoice};
use netqos_core::{BitRate, Limit, Limits};
use netqos_testkit::{Node, datagrams_arrive, has_tcx};

use super::{Wanted, datapath};

/// The largest payload of UDP, by IPv4 and by IPv6 without jumbograms.
const LARGEST: (usize, usize) = (65_507, 65_527);

/// Asserts that of datagrams of these sizes, by IPv4 and by IPv6, ten of ten arrive at a pod that has a limit in both
/// directions, and as many of its own.
fn all_arrive(mtu: u32, kilobits: u64, sizes: (usize, usize), hook: HookChoice, egress: EgressWay) {
    let Some(node) = Node::new().unwrap() else {
        return;
    };
    let limited = node.pod_of_mtu("limited", mtu).unwrap();
    let free = node.pod_of_mtu("free", mtu).unwrap();
    let limit = Some(Limit::of(BitRate::from_bits_per_second(kilobits * 1000)));
    let limits = Limits {
        ingress: limit,
        egress: limit,
    };
    let mut wanted = Wanted::new(&limited, limits, hook);
    wanted.egress = egress;
    datapath().apply(&wanted.request()).unwrap();
    // The bucket is full again.
    let pause = Duration::from_millis(60);
    for (is_ipv6, size) in [(false, sizes.0), (true, sizes.1)] {
        thread::scope(|scope| {
            for (from, to) in [(&free, &limited), (&limited, &free)] {
                let address = if is_ipv6 { to.address6() } else { to.address() };
                let address = address.parse().unwrap();
                scope.spawn(move || {
                    let arrived = datagrams_arrive((from, to), address, size, 10, pause).unwrap();
                    assert_eq!(arrived, 10, "{address}");
                });
            }
        });
    }
}

#[test]
fn in_frames_of_the_least_mtu_of_ipv6_through_an_ifb() {
    all_arrive(1280, 10_000, LARGEST, HookChoice::Clsact, EgressWay::Ifb);
}

#[test]
fn in_usual_frames_ranked_by_a_tcx_link() {
    if has_tcx() {
        all_arrive(1500, 10_000, LARGEST, HookChoice::Tcx, EgressWay::Pod);
    }
}

#[test]
fn in_jumbo_frames() {
    all_arrive(9000, 10_000, LARGEST, HookChoice::Clsact, EgressWay::Pod);
}

#[test]
fn without_programs() {
    all_arrive(1500, 10_000, LARGEST, HookChoice::None, EgressWay::Pod);
}

#[test]
fn of_thirty_thousand_bytes_at_one_megabit() {
    let sizes = (30_000, 30_000);
    all_arrive(1500, 1000, sizes, HookChoice::Clsact, EgressWay::Pod);
}
