use crate::changing::{assert_no_change_stops, scenes};

/// `long_changes` goes on for an hour.
const TIMES: usize = 12;

#[test]
fn whatever_it_changes_and_whatever_is_sent() {
    let mut waited = 0;
    // Each hook with each congestion control and each GSO once.
    for scene in scenes().iter().step_by(3) {
        match assert_no_change_stops(scene, TIMES) {
            Some(times) => waited += times,
            None => return,
        }
    }
    // Else nothing was tested.
    assert!(waited > TIMES, "{waited}");
}
