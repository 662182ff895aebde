use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use netqos_datapath::Paths;
use netqos_datapath::rules::remove_all;

use super::stage;
use super::world::{World, has_written, readiness};

const STATE: &str = "/var/lib/netqos";

fn is_away(world: &World) -> bool {
    let problems = world.problems();
    problems
        .iter()
        .any(|(reason, _)| reason == "ApiUnavailable")
}

/// Away while the agent runs, and back again: every datagram carries the mark of before, and then that of
/// which nothing could be heard.
#[test]
fn and_what_it_missed_is_made_up_for() {
    let Some((mut world, mut controller)) = World::with_controller() else {
        return;
    };
    world.mark_by(&mut controller, 10);
    let flow = world.started_where(10, &[]);
    world.front.go_away().unwrap();
    assert!(stage::eventually(|| is_away(&world)));
    let ready = stage::ask("/readyz");
    assert!(!ready.is_empty(), "it goes on with what it knows");
    // Others reach the server.
    world.mark_by(&mut controller, 20);
    // It is asked for again and again meanwhile.
    sleep(Duration::from_secs(4));
    world.front.come_back().unwrap();
    let mut seen = flow.seen_until(20);
    assert!(stage::eventually(|| !is_away(&world)));
    seen.extend(flow.end());
    assert_eq!(stage::marks(&seen), [10, 20]);
    stage::assert_no_loss(&seen);
}

/// Away when the agent starts: it waits, says for what, and touches nothing.
#[test]
fn also_where_an_agent_starts_that_knows_nothing() {
    let Some(mut world) = World::new() else {
        return;
    };
    let flow = world.marked(10);
    world.stop_agent();
    let _ = fs::remove_dir_all("/var/lib/netqos");
    world.front.go_away().unwrap();
    world.spawn_agent();
    let waits = "cannot be listed";
    assert!(
        stage::eventually(|| readiness().contains(waits)),
        "{}",
        readiness()
    );
    // Longer than it waits before it goes by what it remembers.
    let seen = flow.end_after(4_000);
    assert!(seen.iter().all(|seen| seen.dscp == 10));
    stage::assert_no_loss(&seen);

    let flow = world.flow();
    world.front.come_back().unwrap();
    world.mark("p", 20);
    flow.wait_for_after(10, 20);
    drop(flow.end());
}

/// The node was started anew, and the server is not there yet: what was seen last is in force, and
/// what has become of it since is made up for.
#[test]
fn also_after_a_reboot() {
    let Some(mut world) = World::new() else {
        return;
    };
    world.create_policy("p", 10);
    world.start_agent();
    assert!(stage::eventually(|| has_written(
        "networkqoses",
        "\"dscp\":10"
    )));
    world.stop_agent();
    // What a reboot leaves of programs, maps and records.
    remove_all(&Paths::from_variables(|_| None)).unwrap();
    fs::remove_dir_all("/run/netqos").unwrap();
    world.mark("p", 20);
    world.front.go_away().unwrap();
    let flow = world.flow();
    flow.wait_for(0);

    world.spawn_agent();
    flow.wait_for_after(0, 10);
    let problems = world.problems();
    let told = problems.iter().any(|(reason, message)| {
        reason == "ApiUnavailable" && message.contains("an agent before this one knew")
    });
    assert!(told, "{problems:?}");
    world.front.come_back().unwrap();
    flow.wait_for_after(10, 20);
    drop(flow.end());
    assert!(stage::eventually(|| !is_away(&world)));
}

/// What cannot be written down is no reason to stop, and no reason to lose what was.
#[test]
fn a_full_disk_stops_nothing() {
    let Some(mut world) = World::new() else {
        return;
    };
    // In the test's own mount namespace.
    fs::create_dir_all(STATE).unwrap();
    let size = ["-t", "tmpfs", "-o", "size=256k", "tmpfs", STATE];
    assert!(Command::new("mount").args(size).status().unwrap().success());
    let list = Path::new(STATE).join("objects/networkqoses.json");
    let flow = world.marked(10);
    // All lists: an agent waits for the server where it lacks one.
    let written = || has_written("networkqoses", "\"dscp\":10");
    assert!(stage::eventually(written));
    let before = fs::read(&list).unwrap();

    let filler = Path::new(STATE).join("filler");
    let full = fs::write(&filler, vec![1; 1 << 20]).unwrap_err();
    assert_eq!(full.kind(), ErrorKind::StorageFull);
    world.mark("p", 20);
    flow.wait_for_after(10, 20);
    drop(flow.end());
    let told = || stage::has_logged(&["cannot be written down", "os error 28"]);
    assert!(stage::eventually(told), "{}", stage::log());
    // Whole, as it was: nothing half written stands in its place.
    assert_eq!(fs::read(&list).unwrap(), before);
    world.mark("p", 30);
    let flow = world.flow();
    flow.wait_for_after(20, 30);

    // An agent goes by it that finds the disk full and the server away.
    world.front.go_away().unwrap();
    world.spawn_agent();
    flow.wait_for_after(30, 10);
    drop(flow.end());
}
