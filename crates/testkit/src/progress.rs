//! A queue that sends its backlog.

use std::thread;
use std::time::{Duration, Instant};

use netqos_core::{BitRate, ByteCount};
use netqos_netlink::qdisc::Statistics;

/// The size of a frame. Smaller packets pass in a sparse band, and prove no progress of bulk.
const FRAME: u64 = 1514;
/// The time in which a queue must send a frame, at rates that allow it.
const PATIENCE: Duration = Duration::from_millis(200);
/// The longest time between two looks that counts as waiting.
const LONGEST_STEP: Duration = Duration::from_millis(10);
/// The longest wait for a backlog.
const FILLS: Duration = Duration::from_millis(400);

/// Waits for a backlog. A connection may pause after losses.
pub fn wait_for_backlog(mut has_backlog: impl FnMut() -> bool) {
    let began = Instant::now();
    while began.elapsed() < FILLS && !has_backlog() {
        thread::sleep(Duration::from_millis(1));
    }
}

/// Returns the time within which a queue of this rate must send a frame: the time of four, and 200 ms at least.
pub fn time_of_progress(rate: BitRate) -> Duration {
    let four_frames = ByteCount::from_bytes(4 * FRAME);
    Duration::from_nanos(rate.nanos_for(four_frames)).max(PATIENCE)
}

/// Asserts that a queue sends a frame within this time, or becomes empty. Returns true if it had a backlog.
///
/// # Panics
/// Panics with the situation if it sends nothing.
pub fn assert_progress(
    within: Duration,
    mut statistics: impl FnMut() -> Statistics,
    situation: impl FnOnce() -> String,
) -> bool {
    let (mut asked, mut waited, before) = (Instant::now(), Duration::ZERO, statistics());
    loop {
        // A machine that stands still lets no queue send.
        waited += asked.elapsed().min(LONGEST_STEP);
        asked = Instant::now();
        let is_late = waited > within;
        let now = statistics();
        if now.queued_packets == 0 || now.bytes >= before.bytes + FRAME {
            return before.queued_packets > 0;
        }
        if is_late {
            panic!(
                "nothing is sent for {within:?}, and {now:?} waits: {}",
                situation()
            );
        }
        thread::sleep(Duration::from_millis(2));
    }
}
