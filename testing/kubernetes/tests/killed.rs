//! A cluster with real nodes ends with the process that started it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use std::{fs, thread};

use netqos_kubernetes::cluster::Cluster;

/// The time until a node runs, and until nothing of it is left. An idle machine needs 5 s.
const PATIENCE: Duration = Duration::from_secs(120);

fn is_soon(mut holds: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        if Instant::now() > end {
            return false;
        }
        thread::sleep(Duration::from_millis(50));
    }
    true
}

#[test]
fn killed_cluster_leaves_nothing() {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root && std::env::var_os("NETQOS_REQUIRE_ROOT").is_none() {
        eprintln!("skipped: not root, cannot make namespaces");
        return;
    }
    if Path::new("/sys/fs/cgroup/cgroup.controllers").exists() {
        eprintln!("skipped: this machine has cgroup v2 alone; nodes need v1 hierarchies");
        return;
    }
    // Building takes minutes, and is not waited for below.
    Cluster::build(&[]).unwrap();
    let mut cluster = Command::new(env!("CARGO_BIN_EXE_test-cluster"))
        .args(["--only", "start", "--", "sleep", "infinity"])
        .spawn()
        .unwrap();
    let name = format!("netqos-cluster-{}", cluster.id());
    let cgroups = || {
        let hierarchies = fs::read_dir("/sys/fs/cgroup").unwrap().flatten();
        let cgroups = hierarchies.map(|it| it.path().join(&name));
        cgroups.filter(|it| it.is_dir()).collect::<Vec<PathBuf>>()
    };
    let runs = is_soon(|| {
        let has_node = cgroups().iter().any(|it| {
            let processes = fs::read_to_string(it.join("node1/cgroup.procs"));
            processes.is_ok_and(|it| it.lines().count() > 2)
        });
        has_node || cluster.try_wait().unwrap().is_some()
    });
    cluster.kill().unwrap();
    let ended = cluster.wait().unwrap();
    assert!(runs && ended.code().is_none(), "{ended}");
    // They can be removed once no process is in them.
    assert!(is_soon(|| cgroups().is_empty()), "{:?}", cgroups());
}
