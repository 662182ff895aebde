//! What every backend keeps: each promise of [`ClassBackend`](netqos_classes::ClassBackend), kept by each
//! backend in a world of its own. (That it may be killed anywhere is `killed::contract`'s.)
//!
//! A backend is added by a [`World`](worlds::World) and one line below.

mod promises;

use netqos_testkit::classes::worlds;

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
                super::promises::$promise::<$world>();
            }
        )*
    };
}

keeps_its_contract!(kernel, super::worlds::Kernel);
keeps_its_contract!(kernel_on_clsact, super::worlds::KernelOnClsact);
keeps_its_contract!(tc, super::worlds::Tc);
keeps_its_contract!(terway_qos, super::worlds::TerwayQos);
keeps_its_contract!(none, super::worlds::None);
