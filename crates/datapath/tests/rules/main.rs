//! What rules do to packets: policies through the index to the kernel, traffic between pods.
//!
//! Times are asserted with wide slack, and the best of three tries counts, so that a busy machine
//! fails nothing that is right. Exact figures are `make bench`'s.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod a_lost_record_does_not_double_a_hook;
mod a_rate_is_reached_and_not_passed;
mod a_rule_has_one_limiter;
mod a_rule_marks_what_it_is_for;
mod a_shared_clsact_goes_with_the_last;
mod applied_twice_changes_nothing;
mod changes_are_met_whole;
mod hooks;
mod programs_are_put_back;
mod world;
