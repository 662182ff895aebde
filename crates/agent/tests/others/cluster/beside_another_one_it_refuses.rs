use std::thread::sleep;
use std::time::Duration;

use super::stage;
use super::world::World;

/// What the second one is recorded as.
const SECOND: &str = "second";

/// Two are started for one node by mistake, by two DaemonSets, say.
#[test]
fn and_asks_for_nothing_and_changes_nothing() {
    let Some((mut world, mut controller)) = World::with_controller() else {
        return;
    };
    world.mark_by(&mut controller, 10);
    let flow = world.started_where(10, &[]);
    // Until nothing changes any more.
    sleep(Duration::from_millis(1_500));
    let before = world.node.state(&[&world.a]).unwrap();
    let second = world.spawn_another(SECOND);
    assert_eq!(second.ends(), Some(1));
    let first = format!("process {} holds /run/netqos/agent.lock", world.agent_pid());
    let says_so = stage::has_logged(&[&first, "stop that one first"]);
    assert!(says_so, "{}", stage::log());
    let asked = |world: &World| {
        let requests = world.front.requests().into_iter();
        requests.filter(|it| it.client == SECOND).count()
    };
    assert_eq!(asked(&world), 0);
    let after = world.node.state(&[&world.a]).unwrap();
    after.assert_is(&before, "there was a second one");

    // The first one goes on.
    world.mark_by(&mut controller, 20);
    let mut seen = flow.seen_until(20);
    seen.extend(flow.end());
    assert_eq!(stage::marks(&seen), [10, 20]);
    stage::assert_no_loss(&seen);

    // With it, what keeps another one away is gone.
    world.stop_agent();
    let second = world.spawn_another(SECOND);
    second.wait_until_ready();
    assert!(asked(&world) > 0);
}
