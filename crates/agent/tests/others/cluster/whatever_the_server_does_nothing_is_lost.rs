use std::time::Duration;

use netqos_faults::{Fault, Front};

use super::stage;
use super::world::{AGENT, World};

/// Something that goes wrong, until [`Front::heal`].
type Trouble = (&'static str, fn(&Front));

const TROUBLES: [Trouble; 6] = [
    ("410 Gone", |server| {
        server.expire_versions();
    }),
    ("429", |server| {
        server.inject(Fault::status(429).of(AGENT).retry_after(1).times(20));
        server.break_watches();
    }),
    ("every third call fails", |server| {
        server.inject(Fault::status(500).of(AGENT).every(3));
        server.break_watches();
    }),
    ("slow", |server| {
        server.inject(Fault::delay(Duration::from_millis(700)).of(AGENT));
        server.break_watches();
    }),
    ("watches end", Front::end_watches),
    ("connections break", |server| {
        server.inject(Fault::close().of(AGENT).times(5));
        server.break_watches();
    }),
];

/// Packets carry the mark of before until they carry the new one, and never none; a change that is
/// made meanwhile arrives, by and by.
#[test]
fn and_what_is_in_force_stays() {
    let Some((mut world, mut controller)) = World::with_controller() else {
        return;
    };
    world.mark_by(&mut controller, 1);
    let flow = world.started_where(1, &[]);
    for (dscp, (trouble, begin)) in (2_u8..).zip(TROUBLES) {
        println!("{trouble}");
        begin(&world.front);
        world.mark_by(&mut controller, dscp);
        flow.wait_for_after(dscp - 1, dscp);
        world.front.heal();
    }
    let last = (TROUBLES.len() + 1) as u8;
    let seen = flow.end_after(200);
    assert!(seen.iter().all(|seen| seen.dscp == last), "{seen:?}");
    stage::assert_no_loss(&seen);
    // All is well again.
    assert!(stage::eventually(|| world.problems().is_empty()));
}
