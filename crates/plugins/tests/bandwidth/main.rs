//! The plugin `bandwidth` as a runtime meets it: an executable, an environment, standard input and
//! output, and what the kernel holds afterwards. Where the well-known plugin is installed it gets
//! the same calls, and what it answers is what is expected.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a panic is how a test fails"
)]
#![forbid(unsafe_code)]

mod calls;
mod kernel;

mod add_is_idempotent;
mod bad_input_changes_nothing;
mod configuration_becomes_kernel_state;
mod failed_add_leaves_nothing_behind;
mod results_are_those_of_the_original;
mod versions_and_environment;
