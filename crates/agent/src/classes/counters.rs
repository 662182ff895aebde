//! What went through the classes of lines, as counters that never fall.
//!
//! The kernel's begin anew with each class that is made anew, and what a queue dropped is forgotten with
//! it. These begin with the agent, as whoever reads counters expects of a process, and only grow.

use std::collections::BTreeMap;
use std::sync::Arc;

use netqos_classes::{Counted, Traffic};
use netqos_core::Direction;
use netqos_core::classes::TrafficClass;

/// What was counted, by line, direction and class.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counters(BTreeMap<(Arc<str>, Direction, TrafficClass), Counter>);

#[derive(Clone, Copy, Debug)]
struct Counter {
    last: Counted,
    total: Counted,
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

    /// Takes note of what the kernel has counted now.
    pub(super) fn note(&mut self, line: &Arc<str>, traffic: Traffic) {
        for ((direction, class), now) in traffic {
            let counter = self.0.entry((line.clone(), direction, class));
            let Counter { last, total } = counter.or_insert(Counter {
                last: now,
                total: Counted::default(),
            });
            total.packets += grown(last.packets, now.packets);
            total.bytes += grown(last.bytes, now.bytes);
            total.dropped_packets += grown(last.dropped_packets, now.dropped_packets);
            *last = now;
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
        for bytes in [1_000, 1_500, 20, 120] {
            let now = Counted {
                bytes,
                ..Counted::default()
            };
            counters.note(&line, Traffic::from([((way, class), now)]));
            seen.push(counters.of(&line, way, class).unwrap().bytes);
        }
        assert_eq!(seen, [0, 500, 500, 600]);
        assert_eq!(counters.of(&line, Direction::Ingress, class), None);
    }
}
