//! What is marked, and what is not.

use super::case::Case;
use super::stage::{Family, MARK, Stage};

/// Creates the object, looks, deletes it, and looks again.
pub(crate) fn check(stage: &Stage, family: Family, case: &Case) {
    let says = format!("{family:?}: {}", case.says);
    let (to, packet) = case.met[0];
    assert_eq!(stage.mark(to, packet, family), 0, "{says}: before");
    stage.create(&format!(
        "{{dscp: {MARK}, classifier: {{{}}}}}",
        case.classifier
    ));
    stage.wait_for_mark(MARK, to, packet, family);
    for (to, packet) in case.met {
        let mark = stage.mark(to, *packet, family);
        assert_eq!(mark, MARK, "{says}: {packet:?} to {to}");
    }
    for (to, packet) in case.unmet {
        let mark = stage.mark(to, *packet, family);
        assert_eq!(mark, 0, "{says}: {packet:?} to {to}");
    }
    stage.delete();
    stage.wait_for_mark(0, to, packet, family);
    for (to, packet) in case.met {
        assert_eq!(stage.mark(to, *packet, family), 0, "{says}: deleted");
    }
}
