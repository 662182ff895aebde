use aya::programs::TcAttachType;
use netqos_api::EgressWay;
use netqos_core::{Direction, Limit};
use netqos_netlink::Namespace;
use netqos_testkit::{ForeignHook, ForeignProgram, Verdict};

use crate::{HOOKS, Link, TCP_SHARE, both, expect, mbit, within_three_tries};

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
                within_three_tries(|| {
                    let share =
                        link.tcp(direction, 0.7) / (mbit(20).bits_per_second() as f64 * TCP_SHARE);
                    expect((0.85..1.10).contains(&share), || {
                        format!(
                            "{hook:?} beside {place:?}, {direction}: {:.1} %",
                            share * 100.0
                        )
                    })
                });
                assert!(
                    foreign.seen().unwrap() > 0,
                    "{hook:?} beside {place:?}, {direction}"
                );
            }
            // It is detached where it is dropped.
            let _inside = Namespace::open(link.pod.netns()).unwrap().enter().unwrap();
            drop(in_pod);
        }
    }
}
