//! What rules do to packets: policies through the index to the kernel, traffic between pods.
//!
//! That a rate takes effect is asserted beside a TBF of `tc`; `long::rates` measures it.

mod a_lost_record_does_not_double_a_hook;
mod a_rate_changes_live;
mod a_rule_has_one_limiter;
mod a_rule_marks_what_it_is_for;
mod a_shared_clsact_goes_with_the_last;
mod applied_twice_changes_nothing;
mod beside_calico;
mod changes_are_met_whole;
mod large_datagrams_arrive;
mod link_limit;
mod meter_change_keeps_flow;
mod programs_are_put_back;
mod rates_take_effect;
mod replaced_rules;
mod rule_repair;
mod running_pod_packet_loss;
mod the_pods_end_is_the_recorded_link;
mod without_a_queue_it_polices;

use std::thread;

use netqos_testkit::rules::{TCP_SHARE, World, mbit};
use netqos_traffic::UdpReport;

/// What of a datagram's frame is payload, by IPv4.
const UDP_SHARE: f64 = 1400.0 / 1442.0;

/// Asserts that floods of twice a limit in Mbit/s, at the same time, arrive at the limit. A busy machine sends less of
/// them, which the senders count.
fn assert_limited(world: &World, streams: &[(&str, &str)], megabits: u64) {
    let flood = |(from, to): &(&str, &str)| {
        let (pod, test) = (
            world.pod_named(from),
            world.udp_test(to, mbit(2 * megabits)),
        );
        move || pod.inside(|| test.run(|_| ()).unwrap()).unwrap()
    };
    let (reports, parts) = world.baseline().beside(|| {
        thread::scope(|scope| -> Vec<UdpReport> {
            let floods = streams.iter().map(|it| scope.spawn(flood(it)));
            let floods: Vec<_> = floods.collect();
            floods.into_iter().map(|it| it.join().unwrap()).collect()
        })
    });
    let sum = |of: fn(&UdpReport) -> u64| reports.iter().map(of).sum::<u64>() as f64;
    let part = sum(|it| it.goodput.rate.bits_per_second()) / (megabits as f64 * 1e6 * UDP_SHARE);
    let sent = sum(|it| it.sent) / sum(|it| it.sent + it.held_back);
    assert!(
        (parts.start * sent..parts.end).contains(&part),
        "{part:.2} of {megabits} Mbit/s, not {parts:.2?}: {reports:?}"
    );
}

/// Asserts the same of TCP, too.
fn assert_tcp_limited(world: &World, from: &str, to: &str, megabits: u64) {
    assert_limited(world, &[(from, to)], megabits);
    let limit = megabits as f64 * 1e6 * TCP_SHARE;
    let tcp = || world.tcp(from, to, 2.0);
    world.baseline().assert_limited("TCP", limit, tcp);
}
