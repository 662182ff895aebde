//! What rules do to packets: policies through the index to the kernel, traffic between pods.
//!
//! That a rate takes effect is asserted within a factor, which a busy machine keeps; `long::rates`
//! measures it.

mod a_lost_record_does_not_double_a_hook;
mod a_rate_changes_live;
mod a_rule_has_one_limiter;
mod a_rule_marks_what_it_is_for;
mod a_shared_clsact_goes_with_the_last;
mod applied_twice_changes_nothing;
mod changes_are_met_whole;
mod link_limit;
mod meter_change_keeps_flow;
mod programs_are_put_back;
mod rates_take_effect;
mod replaced_rules;
mod rule_repair;
mod running_pod_packet_loss;
mod without_a_queue_it_polices;

use netqos_testkit::rules::{World, mbit};

/// What arrives of a flood, in bit/s.
fn udp_rate(world: &World, from: &str, to: &str, megabits: u64) -> f64 {
    let report = world.udp(from, to, mbit(megabits));
    report.goodput.rate.bits_per_second() as f64
}

/// Asserts that a rate is as limited: a busy machine takes some of it, and adds none.
fn assert_about(rate: f64, limit: f64) {
    assert!((0.3..1.3).contains(&(rate / limit)), "{rate} of {limit}");
}
