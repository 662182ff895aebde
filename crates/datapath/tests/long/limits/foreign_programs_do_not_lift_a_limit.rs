use aya::programs::TcAttachType;
use netqos_api::EgressWay;
use netqos_core::{Direction, Limit};
use netqos_netlink::Namespace;
use netqos_testkit::{ForeignHook, ForeignProgram, Verdict};

use super::{HOOKS, Link, TCP_SHARE, both, expect, mbit, within_three_tries};

const PLACES: [ForeignHook; 4] = [
    ForeignHook::Clsact(1),
    ForeignHook::Clsact(1000),
    ForeignHook::TcxFirst,
    ForeignHook::TcxLast,
];

/// A program that accepts every packet ends the chain, so ours may not run: the limit holds.
#[test]
fn that_end_the_chain() {
    let Some(link) = Link::new() else { return };
    for hook in HOOKS {
        link.limit(both(Limit::of(mbit(20))), hook, EgressWay::Pod);
        for place in PLACES {
            let at_host = ForeignProgram::attach(
                link.pod.host_link(),
                TcAttachType::Egress,
                place,
                Verdict::Accept,
            )
            .unwrap();
            let in_pod = {
                let _inside = Namespace::open(link.pod.netns()).unwrap().enter().unwrap();
                ForeignProgram::attach("eth0", TcAttachType::Egress, place, Verdict::Accept)
                    .unwrap()
            };
            for (direction, foreign) in
                [(Direction::Ingress, &at_host), (Direction::Egress, &in_pod)]
            {
                is_held_beside(&link, direction, foreign, &format!("{hook:?}, {place:?}"));
            }
            // It is detached where it is dropped.
            let _inside = Namespace::open(link.pod.netns()).unwrap().enter().unwrap();
            drop(in_pod);
        }
    }
}

/// The same where a redirect leads to the queue, which stands behind all of them: what they keep
/// from it is caught.
#[test]
fn that_end_the_chain_before_a_redirect() {
    let Some(veth) = Link::new() else { return };
    for hook in HOOKS {
        veth.limit(both(Limit::of(mbit(20))), hook, EgressWay::Ifb);
        let at = veth.pod.host_link();
        for place in PLACES {
            let foreign = ForeignProgram::attach(at, TcAttachType::Ingress, place, Verdict::Accept);
            is_held_beside(
                &veth,
                Direction::Egress,
                &foreign.unwrap(),
                &format!("{hook:?}, {place:?}"),
            );
        }
    }
}

#[test]
fn that_end_the_chain_before_a_redirect_inside_of_a_macvlan_pod() {
    let Some(macvlan) = Link::by_macvlan() else {
        return;
    };
    for hook in HOOKS {
        macvlan.limit(both(Limit::of(mbit(20))), hook, EgressWay::Pod);
        for place in PLACES {
            // It is attached, and detached, where it is.
            let _inside = Namespace::open(macvlan.pod.netns())
                .unwrap()
                .enter()
                .unwrap();
            let foreign =
                ForeignProgram::attach("eth0", TcAttachType::Ingress, place, Verdict::Accept);
            is_held_beside(
                &macvlan,
                Direction::Ingress,
                &foreign.unwrap(),
                &format!("{hook:?}, {place:?}"),
            );
        }
    }
}

fn is_held_beside(link: &Link, direction: Direction, foreign: &ForeignProgram, what: &str) {
    within_three_tries(|| {
        let share = link.tcp(direction, 0.7) / (mbit(20).bits_per_second() as f64 * TCP_SHARE);
        expect((0.85..1.10).contains(&share), || {
            format!("{what}, {direction}: {:.1} %", share * 100.0)
        })
    });
    assert!(foreign.seen().unwrap() > 0, "{what}, {direction}");
}
