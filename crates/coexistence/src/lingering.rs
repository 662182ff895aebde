//! OVN-Kubernetes, Calico, koordlet and Koordinator's manager are there for some time after their pods.

use std::time::{Duration, Instant};

use crate::AtWork;

/// How long it counts as being there when its pods are gone: one that is replaced is not there for a
/// while, and what it has put in force stays in force.
const LINGER: Duration = Duration::from_secs(300);

/// What was there last.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lingering {
    ovn_kubernetes: Last<Option<bool>>,
    calico: Last<Option<bool>>,
    koordlet: Last<()>,
    koord_manager: Last<()>,
}

/// What something said while it was there, and since when it is not.
#[derive(Clone, Copy, Debug)]
struct Last<T> {
    said: Option<T>,
    gone: Option<Instant>,
}

impl<T> Default for Last<T> {
    fn default() -> Self {
        Self {
            said: None,
            gone: None,
        }
    }
}

impl<T: Copy> Last<T> {
    fn with(&mut self, now_says: Option<T>, now: Instant) -> Option<T> {
        if now_says.is_some() {
            *self = Self {
                said: now_says,
                gone: None,
            };
        } else if self.said.is_some() && now >= *self.gone.get_or_insert(now) + LINGER {
            *self = Self::default();
        }
        self.said
    }
}

impl Lingering {
    /// What is at work now, with what was there until lately.
    #[must_use]
    pub fn with(&mut self, mut at_work: AtWork, now: Instant) -> AtWork {
        at_work.ovn_kubernetes = self.ovn_kubernetes.with(at_work.ovn_kubernetes, now);
        at_work.calico = self.calico.with(at_work.calico, now);
        let koordlet = at_work.koordlet.then_some(());
        at_work.koordlet = self.koordlet.with(koordlet, now).is_some();
        let koord_manager = at_work.koord_manager.then_some(());
        at_work.koord_manager = self.koord_manager.with(koord_manager, now).is_some();
        at_work
    }

    /// When the next one that serves a node, OVN-Kubernetes, Calico or koordlet, is not there any more, unless it
    /// comes back.
    pub fn ends(&self) -> Option<Instant> {
        let gone = [
            self.ovn_kubernetes.gone,
            self.calico.gone,
            self.koordlet.gone,
        ];
        gone.into_iter().flatten().min().map(|gone| gone + LINGER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_there_for_five_minutes_after_its_pod_however_long_that_was_there() {
        #![allow(clippy::disallowed_methods, reason = "a beginning of time")]
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let none = AtWork::default();
        let there = AtWork {
            ovn_kubernetes: Some(Some(true)),
            ..none
        };
        let mut lingering = Lingering::default();
        assert_eq!(lingering.with(none, at(0)), none);
        assert_eq!(lingering.with(there, at(1)), there);
        assert_eq!(lingering.with(none, at(5_000)), there);
        assert_eq!(lingering.ends(), Some(at(5_300)));
        assert_eq!(lingering.with(none, at(5_299)), there);
        assert_eq!(lingering.with(there, at(5_300)), there);
        assert_eq!(lingering.ends(), None);
        assert_eq!(lingering.with(none, at(6_000)), there);
        assert_eq!(lingering.with(none, at(6_300)), none);
        assert_eq!(lingering.with(none, at(6_301)), none);

        let koordlet = AtWork {
            koordlet: true,
            ..none
        };
        assert_eq!(lingering.with(koordlet, at(6_400)), koordlet);
        assert_eq!(lingering.with(none, at(6_401)), koordlet);
        assert_eq!(lingering.ends(), Some(at(6_701)));
        assert_eq!(lingering.with(none, at(6_701)), none);
        assert_eq!(lingering.ends(), None);

        let manager = AtWork {
            koord_manager: true,
            ..none
        };
        assert_eq!(lingering.with(manager, at(7_000)), manager);
        assert_eq!(lingering.with(none, at(7_001)), manager);
        assert_eq!(lingering.ends(), None);
        assert_eq!(lingering.with(none, at(7_301)), none);
    }
}
