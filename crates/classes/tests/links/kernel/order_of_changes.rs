//! The order in which the classes of an uplink are lowered and raised.

use std::collections::BTreeMap;

use netqos_classes::ClassBackend;
use netqos_testkit::classes::{World, shares};

/// HTB lets a class send at its rate whatever those above it owe, and they pause for that.
#[test]
fn class_is_never_lowered_below_rates_of_its_children() {
    let Some(mut world) = World::new() else {
        return;
    };
    let above = world.rates_above_parents(|world| {
        // With a part that stays, and with one that goes.
        for (megabits, guarantee) in [(600, 150), (14, 3), (600, 150), (14, 0)].repeat(40) {
            world.ask("be", guarantee, None);
            world.plan.lines = BTreeMap::from([(world.line(), shares(megabits))]);
            world.backend.apply(&world.plan).unwrap();
        }
    });
    assert_eq!(above, Vec::<String>::new());
}
