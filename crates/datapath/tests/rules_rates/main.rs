//! A rule's rate: reached, shared, and not passed, over short ways and long ones.
//!
//! Times are asserted with wide slack, and the best of three tries counts, so that a busy machine
//! fails nothing that is right. The exact figures are those of `the_table`, which is run by hand
//! (`cargo test … -- --ignored --nocapture the_table`) and by the bench.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod measure;
mod tcp_reaches_a_rate_however_long_the_way;
#[path = "../rules/world.rs"]
mod world;

use netqos_api::HookChoice;

/// Both hooks: what is tested with one is tested with the other.
const HOOKS: [HookChoice; 2] = [HookChoice::Clsact, HookChoice::Tcx];

/// The best of three tries.
fn best<T>(is_right: impl Fn(&T) -> bool, mut measure: impl FnMut() -> T) -> T {
    let mut last = measure();
    for _ in 0..2 {
        if is_right(&last) {
            break;
        }
        last = measure();
    }
    last
}

/// On a thread of its own for each hook, since a node is a thread's.
fn on_both_hooks(test: impl Fn(HookChoice) + Copy + Send) {
    for hook in HOOKS {
        std::thread::scope(|scope| {
            let _ = scope.spawn(move || test(hook)).join().unwrap();
        });
    }
}
