//! The ways in which the program may be attached.

use std::thread;

use netqos_api::HookChoice;

use crate::has_tcx;

/// Both hooks: what is tested with one is tested with the other.
pub const HOOKS: [HookChoice; 2] = [HookChoice::Clsact, HookChoice::Tcx];

/// Tests with each hook that this kernel has, apart.
pub fn on_both_hooks(test: impl Fn(HookChoice) + Copy + Send) {
    apart(HOOKS.into_iter().filter(is_there), test);
}

/// Returns true if this kernel has the hook.
pub fn is_there(hook: &HookChoice) -> bool {
    *hook != HookChoice::Tcx || has_tcx()
}

/// Tests each case on a thread of its own, since a node is a thread's.
pub fn apart<C: Send>(cases: impl IntoIterator<Item = C>, test: impl Fn(C) + Copy + Send) {
    for case in cases {
        thread::scope(|scope| {
            scope.spawn(move || test(case)).join().unwrap();
        });
    }
}
