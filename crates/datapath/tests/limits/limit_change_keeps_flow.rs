use std::time::{Duration, Instant};

use crate::limit_changes::{Scene, assert_no_change_stalls, scenes};

/// Changes of each scene in a row.
const CHANGES: usize = 12;

/// The short form has each hook with each congestion control and GSO size once. With `NETQOS_MINUTES` it takes
/// that many minutes, and all scenes.
#[test]
fn random_limit_change_never_stalls_queue() {
    let minutes = std::env::var("NETQOS_MINUTES").ok();
    let time = minutes.map(|minutes| Duration::from_secs(60 * minutes.parse::<u64>().unwrap()));
    let began = Instant::now();
    let (mut changes, mut with_backlog) = (0, 0);
    loop {
        let step = if time.is_some() { 1 } else { 3 };
        let scenes: Vec<Scene> = scenes().into_iter().step_by(step).collect();
        for scene in &scenes {
            let Some(times) = assert_no_change_stalls(scene, CHANGES) else {
                return;
            };
            changes += CHANGES;
            with_backlog += times;
        }
        eprintln!("{changes} changes, {with_backlog} of them with a backlog");
        if time.is_none_or(|time| began.elapsed() > time) {
            break;
        }
    }
    // Without a backlog nothing was tested.
    assert!(with_backlog > CHANGES, "{with_backlog}");
}
