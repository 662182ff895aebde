//! What went through the classes of lines, as counters that never fall.
//!
//! The kernel's begin anew with each class that is made anew, and what a queue dropped is forgotten with
//! it. These begin with the agent, as whoever reads counters expects of a process, and only grow.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use netqos_classes::{Counted, Traffic};
use netqos_core::Direction;
use netqos_core::classes::TrafficClass;

/// What was counted, by line, direction and class.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counters(BTreeMap<(Arc<str>, Direction, TrafficClass), Counter>);

/// What a rate is of at least: what was sent in less is as much chance as use.
const INTERVAL: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug)]
struct Counter {
    last: Counted,
    total: Counted,
    /// When what comes next began, and how many bytes had gone through by then.
    since: (Instant, u64),
    /// What was taken in the interval before that.
    rate: Option<u64>,
}

impl Counters {
    /// What went through a class. `None`: nobody has counted it.
    pub(crate) fn of(
        &self,
        line: &Arc<str>,
        direction: Direction,
        class: TrafficClass,
    ) -> Option<Counted> {
        let counter = self.0.get(&(line.clone(), direction, class));
        counter.map(|counter| counter.total)
    }

    /// What a class took in the last interval that was looked at, in bits per second: of a second at
    /// least, and of those before that somebody asked.
    pub(crate) fn rate(
        &self,
        line: &Arc<str>,
        direction: Direction,
        class: TrafficClass,
    ) -> Option<u64> {
        let counter = self.0.get(&(line.clone(), direction, class))?;
        counter.rate
    }

    /// Takes note of what the kernel has counted now. What nobody counts any more has no rate.
    pub(super) fn note(&mut self, line: &Arc<str>, traffic: Traffic, now: Instant) {
        for ((of, direction, class), counter) in &mut self.0 {
            if of == line && !traffic.contains_key(&(*direction, *class)) {
                counter.rate = None;
                counter.since = (now, counter.total.bytes);
            }
        }
        for ((direction, class), counted) in traffic {
            let counter = self.0.entry((line.clone(), direction, class));
            let counter = counter.or_insert(Counter {
                last: counted,
                total: Counted::default(),
                since: (now, 0),
                rate: None,
            });
            let Counter { last, total, .. } = counter;
            total.packets += grown(last.packets, counted.packets);
            total.bytes += grown(last.bytes, counted.bytes);
            total.dropped_packets += grown(last.dropped_packets, counted.dropped_packets);
            *last = counted;
            let (began, bytes) = counter.since;
            let taken = now.saturating_duration_since(began);
            if taken >= INTERVAL {
                let bits = (counter.total.bytes - bytes) as f64 * 8.0;
                counter.rate = Some((bits / taken.as_secs_f64()) as u64);
                counter.since = (now, counter.total.bytes);
            }
        }
    }
}

/// By how much, where what fell has begun anew and not counted much since.
fn grown(last: u64, now: u64) -> u64 {
    now.saturating_sub(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_begin_with_the_process_and_never_fall() {
        let mut counters = Counters::default();
        let line: Arc<str> = "eth0".into();
        let (way, class) = (Direction::Egress, TrafficClass::BestEffort);
        let mut seen = Vec::new();
        let began = Instant::now();
        for (bytes, milliseconds) in [(1_000, 0), (1_500, 500), (20, 2_000), (120, 2_500)] {
            let counted = Counted {
                bytes,
                ..Counted::default()
            };
            let now = began + Duration::from_millis(milliseconds);
            counters.note(&line, Traffic::from([((way, class), counted)]), now);
            let total = counters.of(&line, way, class).unwrap().bytes;
            seen.push((total, counters.rate(&line, way, class)));
        }
        // 500 bytes in two seconds.
        let rate = Some(2_000);
        assert_eq!(seen, [(0, None), (500, None), (500, rate), (600, rate)]);
        assert_eq!(counters.of(&line, Direction::Ingress, class), None);
        // Who divides now counts something else.
        counters.note(&line, Traffic::new(), began + Duration::from_secs(3));
        let total = counters.of(&line, way, class).unwrap().bytes;
        assert_eq!((total, counters.rate(&line, way, class)), (600, None));
    }
}
