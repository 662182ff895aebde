use std::net::SocketAddr;

use netqos_api::{EgressWay, HookChoice};
use netqos_core::Limit;
use netqos_testkit::Node;

use super::{DIRECTIONS, HOOKS, Link, TCP_SHARE, both, expect, mbit, within_three_tries};

fn is_held(link: &Link, what: &str) {
    for direction in DIRECTIONS {
        within_three_tries(|| {
            let share = link.tcp(direction, 1.0) / (mbit(20).bits_per_second() as f64 * TCP_SHARE);
            expect((0.90..1.05).contains(&share), || {
                format!("{what}, {direction}: {:.1} % of ideal", share * 100.0)
            })
        });
    }
}

#[test]
fn a_veth_by_way_of_an_ifb() {
    let Some(link) = Link::new() else { return };
    for hook in HOOKS.into_iter().chain([HookChoice::None]) {
        link.limit(both(Limit::of(mbit(20))), hook, EgressWay::Ifb);
        is_held(&link, &format!("{hook:?}"));
    }
}

#[test]
fn a_macvlan_inside_of_its_namespace() {
    let Some(link) = Link::by_macvlan() else {
        return;
    };
    for hook in HOOKS {
        link.limit(both(Limit::of(mbit(20))), hook, EgressWay::Pod);
        is_held(&link, &format!("{hook:?}"));
    }
}

#[test]
fn also_for_ipv6() {
    let Some(node) = Node::new().unwrap() else {
        return;
    };
    let pod = node.pod("limited").unwrap();
    let other = node.pod("free").unwrap();
    let address = other.address6();
    let link = Link::between(node, pod, other, &address);
    assert!(matches!(link.server.local_addr(), SocketAddr::V6(_)));
    for hook in HOOKS {
        link.limit(both(Limit::of(mbit(20))), hook, EgressWay::Pod);
        is_held(&link, &format!("IPv6, {hook:?}"));
    }
}
