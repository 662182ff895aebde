//! Limits that change at random under bulk, for an hour: no change may stop what waits.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[path = "../limits/changing.rs"]
mod changing;

use std::time::{Duration, Instant};

use changing::{assert_no_change_stops, scenes};

/// Changes of one scene in a row.
const TIMES: usize = 50;
/// How many minutes, unless `NETQOS_MINUTES` says it.
const MINUTES: u64 = 60;

#[test]
fn no_change_stops_a_flow() {
    let minutes = std::env::var("NETQOS_MINUTES").ok();
    let minutes = minutes.map_or(MINUTES, |minutes| minutes.parse().unwrap());
    let until = Instant::now() + Duration::from_secs(60 * minutes);
    let (mut changes, mut waited) = (0, 0);
    while Instant::now() < until {
        for scene in scenes() {
            let Some(times) = assert_no_change_stops(&scene, TIMES) else {
                return;
            };
            changes += TIMES;
            waited += times;
        }
        eprintln!("{changes} changes, {waited} of them while something waited: none stopped it");
    }
}
