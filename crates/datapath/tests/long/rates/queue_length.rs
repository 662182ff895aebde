//! A rule's queue is as long as its rate needs, whatever transmit queue length the links have.

use netqos_api::HookChoice;
use netqos_index::Change;
use netqos_testkit::rules::{World, limiting, policy};

use super::{Stream, best, together};

/// The kernel's default is the last, with which the others are compared.
const LENGTHS: [u32; 5] = [0, 1, 10, 100, 1000];

#[test]
fn rules_reach_their_rate_whatever_the_transmit_queue_length() {
    let Some(mut world) = World::new(HookChoice::Auto) else {
        return;
    };
    world.pod("gateway", "gateway");
    let names = LENGTHS.map(|length| format!("q{length}"));
    for (name, length) in names.iter().zip(LENGTHS) {
        world.pod(name, name);
        let pod = world.pod_named(name);
        pod.set_tx_queue_len(&world.node, length).unwrap();
        let outcome = world.apply(Change::Policy(policy(name, 1, name, vec![limiting(10)])));
        let mut meters = outcome.meters.iter();
        let meter = meters.find(|(rule, _)| *rule.policy.name == **name);
        // The queue is restored on a link of that length.
        let queue = meter.unwrap().1.queue.clone().unwrap();
        let length = length.to_string();
        let shorten = ["link", "set", &queue, "txqueuelen", &length];
        world.node.run("ip", &shorten).unwrap();
        let delete = ["qdisc", "del", "dev", &queue, "root"];
        world.node.run("tc", &delete).unwrap();
        let outcome = world.rules.inspect(world.index.plan());
        assert_eq!(outcome.queues_restored, 1);
    }
    let is_right = |rates: &[f64; 5]| rates.iter().all(|rate| *rate >= 0.95 * rates[4]);
    let streams = || {
        let stream = |name: &String| Stream::tcp(&world, name, "gateway");
        names.each_ref().map(stream)
    };
    let rates = best(is_right, || together(streams(), 2.0));
    assert!(
        is_right(&rates),
        "of {LENGTHS:?} packets: {rates:.0?} bit/s"
    );
}
