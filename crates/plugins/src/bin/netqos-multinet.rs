//! The CNI meta plugin `netqos-multinet`.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use netqos_plugins::multinet::Multinet;

fn main() -> ExitCode {
    netqos_cni::plugin::run(&Multinet)
}
