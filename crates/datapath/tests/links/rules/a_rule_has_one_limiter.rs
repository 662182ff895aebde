use std::path::Path;

use netqos_api::HookChoice;
use netqos_bpf::{Pins, Settings};
use netqos_datapath::Paths;
use netqos_datapath::rules::RuleDatapath;
use netqos_index::Change;
use netqos_testkit::rules::{World, limiting, policy};

/// How many there can be; by the remainder an owner looks for a place.
const IDS: u64 = 65_535;

/// Its place was taken when it came, and is free when the next process looks for it.
#[test]
fn also_when_a_place_that_it_prefers_has_become_free() {
    let Some(mut world) = World::new(HookChoice::Auto) else {
        return;
    };
    world.pod("a", "player");
    let rule = policy("p", 1, "player", vec![limiting(10)]);
    world.apply(Change::Policy(rule.clone()));
    let pins = Pins::open(Path::new("/sys/fs/bpf")).unwrap().unwrap();
    let all = || -> Vec<(u16, Settings)> {
        let all = pins.limiters().all().unwrap().into_iter();
        all.map(|(id, limiter)| (id, limiter.settings)).collect()
    };
    let [(preferred, settings)] = all()[..] else {
        panic!("{:?}", all());
    };
    world.apply(Change::PolicyGone(rule.name.clone()));
    world.tidy();
    assert_eq!(all(), []);

    // An attachment's, which looks for the same place.
    let other = Settings {
        owner: settings.owner.wrapping_add(IDS),
        network: 7,
        ..settings
    };
    assert_eq!(pins.limiters().claim(&other, None).unwrap(), preferred);
    world.apply(Change::Policy(rule));
    assert!(
        all()
            .iter()
            .any(|(id, it)| it.owner == settings.owner && *id != preferred)
    );
    assert!(pins.limiters().release(preferred, other.owner).unwrap());

    let paths = Paths::from_variables(|_| None);
    let mut next = RuleDatapath::open(paths, HookChoice::Auto).unwrap();
    let outcome = next.sync(world.index.plan());
    assert_eq!(outcome.problems, []);
    let meter = outcome.meters.values().next().unwrap();
    let ids: Vec<u16> = all().into_iter().map(|(id, _)| id).collect();
    assert_eq!(ids, [meter.limiter]);
    assert_eq!(next.sync(world.index.plan()).changes, 0);
}
