//! The CNI plugins of netqos, as executables that start in half a millisecond.
//!
//! | executable | stands in for | does |
//! |---|---|---|
//! | `bandwidth` | the plugin of that name of containernetworking/plugins | holds a pod's interface to its limits |
//! | `netqos-multinet` | Multus | attaches a pod to the networks that it selects |
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(
        clippy::print_stdout,
        clippy::print_stderr,
        reason = "the macros of std panic on a closed pipe and on a full disk"
    )
)]

pub mod bandwidth;
mod links;
pub mod multinet;
