//! The world with its line divided by the backend tc.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use netqos_classes::{ClassBackend, Outcome, Tc};
use netqos_core::BitRate;
use netqos_core::Direction;
use netqos_core::classes::{LineShares, Share, Shares};
use netqos_traffic::Flow;

use super::World;

/// These shares of what is sent; of what comes nothing is said, which tc could not follow.
pub fn sent(shares: LineShares) -> LineShares {
    let total = shares.ingress.total;
    let open = Share::up_to(total);
    LineShares {
        ingress: Shares::try_new(total, open, open).unwrap(),
        ..shares
    }
}

/// Divides the world's line so, and expects nothing to be wrong.
pub fn divide(world: &mut World, tc: &mut Tc, shares: LineShares) -> Outcome {
    world.plan.lines = BTreeMap::from([(world.line(), sent(shares))]);
    let outcome = tc.apply(&world.plan).unwrap();
    assert_eq!(outcome.troubles, [], "{:#?}", outcome.troubles);
    assert_eq!(outcome.lines, [world.line()]);
    outcome
}

/// What a pod asks for of what it sends.
pub fn ask(world: &mut World, pod: &'static str, min: u64, max: Option<u64>) {
    world.ask(pod, min, max);
    let asked = &mut world.plan.pods.get_mut(pod).unwrap().asked;
    asked.ingress = Default::default();
}

/// What a pod's part stands at.
pub fn part(world: &World, tc: &mut Tc, pod: &str) -> Option<(BitRate, BitRate)> {
    let standing = tc.standing().unwrap();
    let parts = &standing[&*world.line()].parts;
    let mut found = parts
        .iter()
        .filter(|((direction, part), _)| *direction == Direction::Egress && &*part.pod == pod);
    found.next().map(|(_, share)| *share)
}

/// What each class carries on the wire while these pods send all that they can, in Mbit/s. (What each
/// pod's meter finds is of a time of its own, in which others may have begun or ended.)
pub fn carried(world: &World, v6: bool, pods: &[&str]) -> Vec<f64> {
    let (_, found) = world.while_loaded(Flow::Upload, v6, pods, 3.0, || {
        let look = || Tc::default().traffic(&world.line()).unwrap();
        let (before, began) = (look(), Instant::now());
        thread::sleep(Duration::from_secs(2));
        let (after, took) = (look(), began.elapsed());
        let bytes = |class| after[class].bytes - before[class].bytes;
        let rate = |class| bytes(class) as f64 * 8e-6 / took.as_secs_f64();
        after.keys().map(rate).collect()
    });
    found
}
