//! A process that is killed while it works with a class backend.
//!
//! The process is this program itself, started again with variables in its environment, which is why it
//! has a `main` of its own.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod contract;
mod kernel;

fn main() {
    let lists = || std::env::args().any(|argument| argument == "--list");
    if !contract::take_part() && !kernel::take_part() && !lists() {
        contract::killed_anywhere();
        kernel::killed_anywhere();
    }
}
