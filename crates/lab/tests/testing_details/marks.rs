//! What is marked, and what is not.

use crate::eyes::Packet;
use crate::stage::{Family, MARK, Stage};

/// A rule, and what becomes of packets.
pub(crate) struct Case {
    pub(crate) says: &'static str,
    /// Of the rule, beside its mark, in YAML.
    pub(crate) classifier: String,
    /// The first of them shows when the rule is there, and gone.
    pub(crate) marked: &'static [(&'static str, Packet)],
    pub(crate) unmarked: &'static [(&'static str, Packet)],
}

/// Creates the object, looks, deletes it, and looks again.
pub(crate) fn check(stage: &Stage, family: Family, case: &Case) {
    let says = format!("{family:?}: {}", case.says);
    let (to, packet) = case.marked[0];
    assert_eq!(stage.mark(to, packet, family), 0, "{says}: before");
    stage.create(&format!(
        "{{dscp: {MARK}, classifier: {{{}}}}}",
        case.classifier
    ));
    stage.wait_for_mark(MARK, to, packet, family);
    for (to, packet) in case.marked {
        let mark = stage.mark(to, *packet, family);
        assert_eq!(mark, MARK, "{says}: {packet:?} to {to}");
    }
    for (to, packet) in case.unmarked {
        let mark = stage.mark(to, *packet, family);
        assert_eq!(mark, 0, "{says}: {packet:?} to {to}");
    }
    stage.delete();
    stage.wait_for_mark(0, to, packet, family);
    for (to, packet) in case.marked {
        assert_eq!(stage.mark(to, *packet, family), 0, "{says}: deleted");
    }
}
