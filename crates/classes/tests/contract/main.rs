//! What every backend keeps: each promise of [`ClassBackend`](netqos_classes::ClassBackend), kept by each
//! backend in a world of its own. (That it may be killed anywhere is `contract_killed`'s.)
//!
//! A backend is added by a [`World`](worlds::World) and one line below.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod plans;
mod promises;
mod worlds;

/// One test for each promise.
macro_rules! keeps_its_contract {
    ($backend:ident, $world:ty) => {
        mod $backend {
            keeps_its_contract!(@ $world:
                all_or_as_before_by_line,
                again_is_nothing,
                a_change_is_a_change,
                what_is_not_ours_stays,
                a_line_that_is_gone_is_no_error_of_the_others,
                reading_is_not_changing,
                change_by_another_process_is_restored,
                teardown_leaves_nothing,
                what_it_counts_it_has_seen,
            );
        }
    };
    (@ $world:ty: $($promise:ident,)*) => {
        $(
            #[test]
            fn $promise() {
                crate::promises::$promise::<$world>();
            }
        )*
    };
}

keeps_its_contract!(kernel, crate::worlds::Kernel);
keeps_its_contract!(kernel_on_clsact, crate::worlds::KernelOnClsact);
keeps_its_contract!(tc, crate::worlds::Tc);
keeps_its_contract!(terway_qos, crate::worlds::TerwayQos);
keeps_its_contract!(none, crate::worlds::None);
