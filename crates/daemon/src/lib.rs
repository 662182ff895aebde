//! What netqos' daemons have in common: how they log, and how they say whether they are well.
#![forbid(unsafe_code)]

mod check;
#[cfg(feature = "logs")]
mod logs;

pub use check::{Check, report};
#[cfg(feature = "logs")]
pub use logs::{LogFormat, Logs};
