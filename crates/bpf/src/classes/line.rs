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

    /// With what another has counted. What it carries now begins anew of a line without room, of which that is not
    /// counted, and of one that was held for busy for less long than what waits in its tree takes from now on.
    #[must_use]
    pub fn going_on(self, before: &Self) -> Self {
        let state = match before.room > 0 && self.hold <= before.hold {
            true => before.state,
            false => Self::default().state,
        };
        Self {
            state,
            passed: before.passed,
            ..self
        }
    }

    /// What is right as well of the line that it was before: what is little is so of both, for as long as both have
    /// it.
    #[must_use]
    pub fn also_right_of(self, before: &Self) -> Self {
        match self.room.min(before.room) {
            0 => Self::default(),
            room => Self {
                room,
                hold: self.hold.max(before.hold),
                ..self
            },
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

plain! {
    Passed: 16,
    Line: 88,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::{Header, layout};

    #[test]
    fn the_programs_have_the_same() {
        let header = Header(include_str!("../../bpf/classes.h"));
        let line = layout!(Line, shift, hold, passed);
        assert_eq!(header.layout("class_line"), line);
        assert_eq!(header.layout("class_passed"), layout!(Passed, bytes));
    }

    #[test]
    fn what_goes_on_is_what_was_counted() {
        let before = Line {
            state: [1, 2, 3],
            ..Line::new(1_000, 1, 60)
        };
        let after = Line::new(2_000, 1, 60);
        assert_eq!(after.going_on(&before).state, [1, 2, 3]);
        assert!(before.is_same(&Line::new(1_000, 1, 60)) && !before.is_same(&after));
        // A line that was divided always begins anew, and is what it was all the same.
        let always = Line {
            state: [1, 2, 3],
            ..Line::default()
        };
        assert_eq!(after.going_on(&always), after);
        assert!(always.is_same(&Line::default()));
        // What waits in a slower one takes longer than it was to be held for, and less long in a faster one.
        for (hold, state) in [(61, [0; 3]), (59, [1, 2, 3])] {
            let other = Line::new(1_000, 1, hold);
            assert_eq!(other.going_on(&before).state, state, "{hold}");
        }
    }

    #[test]
    fn what_comes_to_be_slower_is_so_at_once_and_what_comes_to_be_faster_is_not() {
        let [slow, fast] = [Line::new(1_000, 1, 80), Line::new(2_000, 1, 60)];
        let always = Line::default();
        for (before, after, meanwhile) in [
            (fast, slow, slow),
            (slow, fast, slow),
            (fast, always, always),
            (always, fast, always),
            // Of the same speed, with longer queues.
            (
                Line::new(2_000, 1, 60),
                Line::new(2_000, 1, 70),
                Line::new(2_000, 1, 70),
            ),
        ] {
            assert_eq!(after.also_right_of(&before), meanwhile);
        }
    }
}
