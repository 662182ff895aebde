use netqos_testkit::classes::{World, shares};
use netqos_traffic::Flow;

use super::shares_take_effect::{load, share_of};

/// Makes a link of this kind the line, with the one that was it and another as its ports.
fn bundle(world: &mut World, kind: &str) -> Result<(), String> {
    let (node, outside) = (&world.node, &world.outside);
    let run = |command: String| {
        let words: Vec<&str> = command.split(' ').collect();
        let ran = node.run("ip", &words);
        ran.map(drop).map_err(|why| why.to_string())
    };
    let mode = match kind {
        "bond" => " mode active-backup miimon 100",
        _ => "",
    };
    run(format!("link add bundle type {kind}{mode}"))?;
    let second = outside.another_veth(node, "eth1").unwrap();
    for port in [outside.host_link(), &second] {
        run(format!("link set {port} down"))?;
        run(format!("addr flush dev {port}"))?;
        run(format!("link set {port} master bundle"))?;
        run(format!("link set {port} up"))?;
    }
    run("link set bundle up".to_owned())?;
    let (gateway, gateway6) = (outside.gateway(), outside.gateway6());
    run(format!("addr add {gateway}/32 dev bundle"))?;
    run(format!("-6 addr add {gateway6}/128 dev bundle nodad"))?;
    run(format!("route add {} dev bundle", outside.address()))?;
    run(format!("-6 route add {} dev bundle", outside.address6()))?;
    world.master = Some("bundle");
    Ok(())
}

/// What several links are ports of is one line. A bridge stands for all that hands packets on to a port
/// of its own choice.
fn is_divided_as_one(kind: &str) {
    let Some(mut world) = World::new() else {
        return;
    };
    if let Err(why) = bundle(&mut world, kind) {
        assert!(kind != "bridge", "{why}");
        eprintln!("skipped: this kernel has no links of the kind {kind}: {why}");
        return;
    }
    world.divide(shares(20));
    for (flow, v6) in [(Flow::Upload, false), (Flow::Download, true)] {
        let found = load(&world, flow, v6, &["ls", "be"], 20);
        let share = share_of(&found, 0);
        assert!((0.6..0.8).contains(&share), "{kind}, {flow:?}: {found:?}");
    }
    assert_eq!(world.divide(shares(20)).changes, 0);
}

#[test]
fn a_bond_is_divided_as_one() {
    is_divided_as_one("bond");
}

#[test]
fn a_bridge_is_divided_as_one() {
    is_divided_as_one("bridge");
}
