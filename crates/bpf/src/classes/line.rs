//! When packets pass beside a tree, and what has, as `bpf/classes.h` has it for the programs.

use netqos_core::classes::TrafficClass;

use super::layout::Slot;
use crate::rules::{Plain, plain};

/// What has passed beside a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Passed {
    /// Packets, those of a GSO packet each.
    pub packets: u64,
    /// Their bytes at layer 2.
    pub bytes: u64,
}

/// When a line carries so little that packets pass beside its tree, and what did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Line {
    room: u64,
    shift: u32,
    hold: u32,
    state: [u64; 3],
    passed: [Passed; 3],
}

impl Line {
    /// A line that carries little while it carries no more than `room` bytes in each window of `2^shift`
    /// jiffies, for as long as `hold` jiffies; without room it never does.
    pub fn new(room: u64, shift: u32, hold: u32) -> Self {
        Self {
            room,
            shift,
            hold,
            ..Self::default()
        }
    }

    /// With what another has counted. Of a line without room it is not counted what it carries now.
    #[must_use]
    pub fn going_on(self, before: &Self) -> Self {
        let is_counted = before.room > 0;
        Self {
            state: is_counted.then_some(before.state).unwrap_or_default(),
            passed: before.passed,
            ..self
        }
    }

    /// True when both say the same, whatever the programs have counted.
    pub fn is_same(&self, other: &Self) -> bool {
        let says = |line: &Self| (line.room, line.shift, line.hold);
        says(self) == says(other)
    }

    /// What has passed of a class.
    pub fn passed(&self, class: TrafficClass) -> Passed {
        self.passed[usize::from(Slot::of(class).0)]
    }
}

// bpf/classes.h asserts the same numbers.
plain! {
    Passed: 16,
    Line: 88,
}
