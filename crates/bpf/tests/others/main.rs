//! The programs, as the kernel loads and runs them.
#![allow(clippy::unwrap_used, missing_docs)]

mod bpffs;
mod leaves_are_found_again;
mod programs_verify_quickly;
mod rules_decide_about_packets;
