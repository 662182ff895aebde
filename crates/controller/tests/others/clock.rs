//! A clock on the wall that jumps.

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::world::{HOME, World};

pub(crate) const DAY: i64 = 24 * 60 * 60;
/// What the documents promise.
const REPLACED_WITHIN: Duration = Duration::from_secs(15);

/// Who leads goes on doing so and works, who waits waits, and takes over when it should.
#[test]
fn in_either_direction_it_changes_nothing() {
    let world = World::new();
    world.create_policy("p", "web", "db");
    let folder = tempfile::tempdir().unwrap();
    let (mine, others) = (folder.path().join("one"), folder.path().join("two"));
    let library = library(folder.path());
    let start = |name: &str, clock: &Path| {
        turn(clock, 0);
        world.replica_where(
            name,
            &[],
            &[("LD_PRELOAD", &library), ("NETQOS_TEST_CLOCK", clock)],
        )
    };
    let one = start("one", &mine);
    world.wait_for_leader("one");
    let two = start("two", &others);
    world.eventually("two knows nothing", || {
        world.log(&two).contains("everything is known")
    });
    let lease = || {
        let of = ("coordination.k8s.io/v1", "Lease", HOME);
        world.get(of, "netqos-controller").unwrap()["spec"].clone()
    };
    let mut right = Vec::new();
    for (number, later) in (2..).zip([DAY, -DAY, 10_000 * DAY, -10_000 * DAY]) {
        turn(&mine, later);
        turn(&others, -later);
        let address = format!("10.0.0.{number}");
        world.create_pod(&format!("b{number}"), "db", "node1", &address);
        right.push(address);
        let right: Vec<&str> = right.iter().map(String::as_str).collect();
        world.wait_for_peers(&[&right]);
        // It says when it has renewed the lease by its own clock.
        let day = day(later);
        world.eventually("the lease is not renewed", || {
            lease()["renewTime"].as_str().unwrap().starts_with(&day)
        });
        // Some renewals, all of them together longer than a lease counts.
        thread::sleep(Duration::from_secs(4));
        assert_eq!(lease()["leaseTransitions"], 0);
        assert_eq!(world.leader(), "one");
    }
    assert!(!world.log(&one).contains("leads no longer"));
    assert!(!world.log(&two).contains("leads: it holds"));
    let killed = Instant::now();
    one.kill();
    world.wait_for_leader("two");
    assert!(killed.elapsed() < REPLACED_WITHIN);
    world.delete_pod("b2");
    let right: Vec<&str> = right.iter().skip(1).map(String::as_str).collect();
    world.wait_for_peers(&[&right]);
}

/// Makes it so much later for who has this clock.
pub(crate) fn turn(clock: &Path, later: i64) {
    let mut options = fs::File::options();
    let file = options.write(true).create(true).truncate(false).open(clock);
    file.unwrap().write_all_at(&later.to_ne_bytes(), 0).unwrap();
}

/// The library that makes it so.
pub(crate) fn library(folder: &Path) -> PathBuf {
    let source =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../agent/tests/others/cluster/clock.c");
    let library = folder.join("clock.so");
    let made = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .arg(&library)
        .arg(source)
        .status();
    assert!(made.unwrap().success());
    library
}

/// The day that it is so many seconds later.
#[allow(
    clippy::disallowed_methods,
    reason = "what is asked is what a clock says"
)]
fn day(later: i64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let then = now.as_secs() as i64 + later;
    let then = k8s_openapi::jiff::Timestamp::from_second(then).unwrap();
    then.to_string()[..10].to_owned()
}
