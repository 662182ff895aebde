//! Processors for who sends and for who changes.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Keeps the calling thread off the processor of threads that were started with it, until it is dropped.
///
/// What runs before the kernel stops a link would otherwise hold up a sender on the same processor, which then sends all
/// that it is late with into the link that is stopped.
#[derive(Debug)]
pub struct Apart(Option<CpuSet>);

impl Apart {
    /// Starts threads on the first processor, and leaves the others to the calling thread and its processes. With one
    /// processor all share it.
    pub fn start<T>(start: impl FnOnce() -> T) -> (T, Self) {
        let all = sched_getaffinity(None).ok();
        let first = all.and_then(|all| (0..CpuSet::MAX_CPU).find(|cpu| all.is_set(*cpu)));
        let (Some(all), Some(first)) = (all.filter(|all| all.count() > 1), first) else {
            return (start(), Self(None));
        };
        let mut one = CpuSet::new();
        one.set(first);
        let _ = sched_setaffinity(None, &one);
        let started = start();
        let mut others = all;
        others.unset(first);
        let _ = sched_setaffinity(None, &others);
        (started, Self(Some(all)))
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        if let Some(all) = &self.0 {
            let _ = sched_setaffinity(None, all);
        }
    }
}
