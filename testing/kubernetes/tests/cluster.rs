//! A cluster with real nodes ends with the process that started it.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use netqos_kubernetes::cluster::Cluster;

/// The time until a node runs, and until nothing of it is left. An idle machine needs 5 s.
const PATIENCE: Duration = Duration::from_secs(120);

/// The cgroups of a cluster.
fn cgroups(cluster: &Child) -> Vec<PathBuf> {
    let name = format!("netqos-cluster-{}", cluster.id());
    let hierarchies = fs::read_dir("/sys/fs/cgroup").into_iter().flatten();
    hierarchies
        .flatten()
        .map(|it| it.path().join(&name))
        .filter(|it| it.is_dir())
        .collect()
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "{what}");
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn killed_cluster_leaves_nothing() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: not root, cannot make namespaces");
        return;
    }
    // What takes minutes is not waited for below.
    Cluster::build().unwrap();
    let mut cluster = Command::new(env!("CARGO_BIN_EXE_test-cluster"))
        .args(["--only", "start", "--", "sleep", "infinity"])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let node = |cluster: &Child| {
        let mut processes = cgroups(cluster).into_iter();
        processes.any(|it| {
            let processes = fs::read_to_string(it.join("node1/cgroup.procs"));
            processes.is_ok_and(|it| it.lines().count() > 2)
        })
    };
    wait_until("no node runs", || {
        assert_eq!(cluster.try_wait().unwrap(), None, "the cluster has ended");
        node(&cluster)
    });
    cluster.kill().unwrap();
    cluster.wait().unwrap();
    // The cgroups can be removed once no process is in them.
    wait_until("cgroups of the cluster are left", || {
        cgroups(&cluster).is_empty()
    });
}
