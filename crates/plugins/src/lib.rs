//! The CNI plugins of netqos, as executables that start in half a millisecond.
//!
//! | executable | stands in for | does |
//! |---|---|---|
//! | `bandwidth` | the plugin of that name of containernetworking/plugins | holds a pod's interface to its limits |
#![forbid(unsafe_code)]

pub mod bandwidth;
