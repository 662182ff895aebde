use std::fs;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use super::stage;
use super::world::World;

const DAY: i64 = 24 * 60 * 60;
/// Where it is said how much later it is.
const LATER: &str = "/run/clock";

/// What is done at once is done at once, what is waited for comes when it should, and the agent is
/// well, whatever a clock on the wall says.
#[test]
fn in_either_direction_while_it_works() {
    if std::env::var_os("NETQOS_TEST_AGENT").is_some() {
        eprintln!("skipped: a static executable has no clock of the test's");
        return;
    }
    let Some((mut world, mut controller)) = World::with_controller() else {
        return;
    };
    let clock = clock();
    world.mark_by(&mut controller, 1);
    let flow = world.started_where(1, &[("LD_PRELOAD", &clock), ("NETQOS_TEST_CLOCK", LATER)]);
    for (dscp, later) in (2_u8..).zip([DAY, -DAY, 10_000 * DAY, -10_000 * DAY]) {
        turn(later);
        world.mark_by(&mut controller, dscp);
        let began = Instant::now();
        flow.wait_for_after(dscp - 1, dscp);
        let took = began.elapsed();
        assert!(took < Duration::from_secs(5), "{later} s later: {took:?}");
        assert_eq!(stage::ask("/livez"), "ok\n");
        // Not before the last change was written down, some seconds later.
        let written = || written_at().is_some_and(|at| (at - now() - later).abs() < 30);
        assert!(stage::eventually(written), "{:?}", written_at());
    }
    // What fails is tried again as soon as ever.
    turn(10_000 * DAY);
    world.front.go_away().unwrap();
    let away = || !world.problems().is_empty();
    assert!(stage::eventually(away));
    turn(-10_000 * DAY);
    world.front.come_back().unwrap();
    // Half a minute may pass until a watch is tried again.
    let is_well = || world.problems().is_empty();
    assert!(stage::eventually(is_well) || stage::eventually(is_well));
    world.mark_by(&mut controller, 10);
    flow.wait_for(10);
    // What others take away is put back.
    let restored = || stage::status().reconciled.restored;
    assert_eq!(restored(), 0);
    let programs = ["/sys/fs/bpf/netqos", "-name", "*:rules", "-delete"];
    world.node.run("find", &programs).unwrap();
    assert!(stage::eventually(|| restored() > 0));
    flow.wait_for(10);
    drop(flow.end());
}

/// Makes it so much later for the agent.
fn turn(later: i64) {
    let file = fs::File::options().write(true).open(LATER).unwrap();
    file.write_all_at(&later.to_ne_bytes(), 0).unwrap();
}

/// The library that makes it so.
fn clock() -> String {
    fs::File::create(LATER).unwrap().write_all(&[0; 8]).unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/others/cluster/clock.c");
    let library = "/run/clock.so";
    let made = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o", library])
        .arg(source)
        .status();
    assert!(made.unwrap().success());
    library.to_owned()
}

#[allow(
    clippy::disallowed_methods,
    reason = "what is asked is what a clock says"
)]
fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    now.as_secs() as i64
}

/// When the agent says that it has written down what it knows.
fn written_at() -> Option<i64> {
    let text = fs::read_to_string("/var/lib/netqos/objects/networkqoses.json").ok()?;
    let list: Value = serde_json::from_str(&text).ok()?;
    list["metadata"]["writtenAt"].as_i64()
}
