use netqos_traffic::Flow;

use crate::world::{World, shares};

/// What several links are ports of is one line. A bridge stands for all that hands packets on to a port
/// of its own choice.
fn is_divided_as_one(kind: &'static str) {
    let Some(mut world) = World::new() else {
        return;
    };
    if let Err(why) = world.bundle(kind) {
        assert!(kind != "bridge", "{why}");
        eprintln!("skipped: this kernel has no links of the kind {kind}: {why}");
        return;
    }
    world.divide(shares(60));
    for (flow, v6) in [(Flow::Upload, false), (Flow::Download, true)] {
        let mut tries = Vec::new();
        let is_right = (0..3).any(|_| {
            let found = world.together(flow, v6, &["ls", "be"], 3.0);
            let payload = if v6 { 1428.0 } else { 1448.0 } / 1514.0;
            let mut pairs = found.iter().zip([42.0, 18.0]);
            let is_right = pairs.all(|(is, should)| (is / payload - should).abs() < 2.0);
            tries.push(found);
            is_right
        });
        assert!(is_right, "{kind}, {flow:?}: {tries:?}");
    }
    assert_eq!(world.divide(shares(60)).changes, 0);
}

#[test]
fn a_bond_is_divided_as_one() {
    is_divided_as_one("bond");
}

#[test]
fn a_bridge_is_divided_as_one() {
    is_divided_as_one("bridge");
}
