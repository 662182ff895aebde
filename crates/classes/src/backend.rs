//! What every backend keeps to.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use netqos_api::koordinator::BackendKind;
use netqos_core::classes::{ClassPlan, PartId, TrafficClass};
use netqos_core::{BitRate, Direction};
use serde::Serialize;

use crate::{Result, Traffic};

/// Divides lines among classes.
///
/// # The contract
///
/// 1. **All or as before, by line and direction.** After [`apply`](Self::apply) each line holds in each
///    direction what the plan says, or what it held before, and then the outcome says why. One line or
///    pod that cannot be done stops no other.
/// 2. **Again is nothing.** A second `apply` of the same plan changes nothing in the kernel and writes
///    no file.
/// 3. **Killed anywhere.** Whatever ended an earlier call, the next `apply` or `teardown` of this
///    process or another one ends in the state that it would have ended in.
/// 4. **A change is a change.** Other rates are written over the old ones: no packet is dropped, and no
///    packet meets a line without classes, while both the old and the new plan have the line.
/// 5. **What is not ours stays.** What somebody configured by hand is never replaced: the line is
///    refused, and the outcome names what is in the way. What the kernel puts there by itself is
///    replaced, and back after `teardown`.
/// 6. **A line that is gone is not an error of the others**, and is taken up again by the next `apply`
///    after it came back.
/// 7. **Reading is not changing**: [`standing`](Self::standing) says what is in force as the kernel, or
///    the file, has it, and not what was asked for.
/// 8. **Teardown leaves nothing**, and may be repeated, also without any `apply` before.
/// 9. **What it counts it has seen**: [`traffic`](Self::traffic) is of packets that went through the
///    classes of a line, and nothing is said of a direction, or of a line, whose packets others handle.
pub trait ClassBackend: fmt::Debug + Send {
    /// Which one it is.
    fn kind(&self) -> BackendKind;

    /// Puts a plan in force, as far as this backend can; the outcome says what it cannot.
    ///
    /// # Errors
    /// Nothing could be done at all. What concerns single lines or pods is in the outcome.
    fn apply(&mut self, plan: &ClassPlan) -> Result<Outcome>;

    /// What is in force, as it is found.
    ///
    /// # Errors
    /// It cannot be read.
    fn standing(&mut self) -> Result<BTreeMap<Arc<str>, Standing>>;

    /// What went through the classes of this line; nothing where it has none of this backend's.
    ///
    /// # Errors
    /// It cannot be read.
    fn traffic(&mut self, line: &str) -> Result<Traffic>;

    /// Removes everything that this backend ever made on this node.
    ///
    /// # Errors
    /// Something could not be removed; everything else is.
    fn teardown(&mut self) -> Result<()>;
}

/// What became of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The lines that are as the plan says.
    pub lines: Vec<Arc<str>>,
    /// How many changes were made; zero when all was right before.
    pub changes: usize,
    /// What is not as the plan says, or not quite. (What a plan itself cannot keep of what was asked for,
    /// [`Part::asked`](netqos_core::classes::Part::asked), is whoever made it to tell.)
    pub troubles: Vec<Trouble>,
    /// The queues that had stopped sending, and that it emptied.
    pub stalled: Vec<StalledQueue>,
    /// The indexes of pods' links that have a filter of this backend.
    pub filtered: BTreeSet<u32>,
}

/// A queue that had stopped sending, and was emptied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StalledQueue {
    /// The link that has the queue: the uplink, or its ifb.
    pub link: Arc<str>,
    /// The direction of its packets.
    pub direction: Direction,
    /// The HTB class that it is of.
    pub htb_class: String,
    /// The number of packets that it lost.
    pub dropped: u32,
}

impl fmt::Display for StalledQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            link,
            direction,
            htb_class,
            dropped,
        } = self;
        write!(
            f,
            "the {direction} queue of HTB class {htb_class} of {link} stopped sending; netqos dropped the {dropped} \
             packets in it"
        )
    }
}

/// What is not as a plan says, for the user.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Trouble {
    /// Which line, unless it is none of a single one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<Arc<str>>,
    /// Which part, unless it is none of a single one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<PartId>,
    /// What, and what to do.
    pub what: String,
}

/// What a line holds, as it is found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Standing {
    /// What each class is guaranteed, and may have, in each direction that is divided.
    pub classes: BTreeMap<(Direction, TrafficClass), (BitRate, BitRate)>,
    /// The same of the parts of pods and flows, as far as the backend has such.
    pub parts: BTreeMap<(Direction, PartId), (BitRate, BitRate)>,
}
