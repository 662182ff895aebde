//! The CNI plugin `bandwidth`.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use netqos_plugins::bandwidth::Bandwidth;

fn main() -> ExitCode {
    netqos_cni::plugin::run(&Bandwidth)
}
