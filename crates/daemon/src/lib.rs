//! What netqos' daemons have in common: how they log, and how they say whether they are well.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(
        clippy::print_stdout,
        clippy::print_stderr,
        reason = "the macros of std panic on a closed pipe and on a full disk"
    )
)]

mod check;
#[cfg(feature = "process")]
mod http;
#[cfg(feature = "process")]
mod logs;

pub use check::Check;
#[cfg(feature = "process")]
pub(crate) use check::report;
#[cfg(feature = "process")]
pub use http::{OPENMETRICS, health, level, openmetrics, set_level};
#[cfg(feature = "process")]
pub use logs::{LogArguments, LogFormat, Logs};
