//! Queues of traffic classes are as long as they need to be, whatever transmit queue length their uplink has.

use std::thread;

use netqos_classes::Tc;
use netqos_testkit::classes::tc::divide;
use netqos_testkit::classes::{World, shares};
use netqos_traffic::Flow;

/// The kernel's default, with which others are compared.
const DEFAULT: u32 = 1000;

/// What a pod sends over an uplink of this length, in Mbit/s. `None`: skipped.
fn goodput(length: u32, program: fn(&mut World)) -> Option<f64> {
    let measured = thread::spawn(move || {
        let mut world = World::new()?;
        let (uplink, length) = (world.line(), length.to_string());
        let words = ["link", "set", &uplink, "txqueuelen", &length];
        world.node.run("ip", &words).unwrap();
        program(&mut world);
        Some(world.together(Flow::Upload, false, &["be"], 2.0)[0])
    });
    measured.join().unwrap()
}

/// The best of three tries counts.
fn assert_any_length_is_enough(program: fn(&mut World)) {
    if goodput(DEFAULT, program).is_none() {
        return;
    }
    for length in [0, 1, 10, 100] {
        let mut tries = (0..3).map(|_| [length, DEFAULT].map(|it| goodput(it, program).unwrap()));
        let is_enough = tries.any(|[short, usual]| {
            println!("{length} packets: {short:.1} of {usual:.1} Mbit/s");
            short >= 0.95 * usual
        });
        assert!(is_enough, "{length} packets");
    }
}

#[test]
fn kernel_backend_fills_an_uplink_of_any_queue_length() {
    assert_any_length_is_enough(|world| drop(world.divide(shares(10))));
}

#[test]
fn tc_backend_fills_an_uplink_of_any_queue_length() {
    assert_any_length_is_enough(|world| drop(divide(world, &mut Tc::default(), shares(10))));
}
