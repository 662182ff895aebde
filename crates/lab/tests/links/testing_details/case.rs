//! A rule, and what it is for.

use super::eyes::Packet;
use super::stage::{FAMILIES, Family, Stage};

/// A packet from the pod `source` to a place.
pub(crate) type To = (&'static str, Packet);

/// What tells most comes first in each list.
pub(crate) struct Case {
    pub(crate) says: &'static str,
    /// Of the rule, beside what it does, in YAML.
    pub(crate) classifier: String,
    /// What it is for. The first of it shows when the rule is there, and gone.
    pub(crate) met: &'static [To],
    /// What it is not for.
    pub(crate) unmet: &'static [To],
}

/// Checks all cases of both families.
pub(crate) fn check_all(cases: fn(Family) -> [Case; 3], check: fn(&Stage, Family, &Case)) {
    let Some(stage) = Stage::new() else { return };
    for family in FAMILIES {
        for case in cases(family) {
            check(&stage, family, &case);
        }
    }
}
