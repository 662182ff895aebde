//! The order in which the classes of an uplink are lowered and raised.

use netqos_classes::Tc;
use netqos_testkit::classes::tc::{ask, divide};
use netqos_testkit::classes::{World, shares};

/// HTB lets a class send at its rate whatever those above it owe, and they pause for that.
#[test]
fn class_is_never_lowered_below_rates_of_its_children() {
    let Some(mut world) = World::new() else {
        return;
    };
    let mut tc = Tc::default();
    let above = world.rates_above_parents(|world| {
        // With a part that stays, and with one that goes.
        for (megabits, guarantee) in [(600, 150), (14, 3), (600, 150), (14, 0)].repeat(10) {
            ask(world, "be", guarantee, None);
            divide(world, &mut tc, shares(megabits));
        }
    });
    assert_eq!(above, Vec::<String>::new());
}
