//! A cluster with real nodes ends with the process that started it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};
use std::{fs, thread};

use netqos_kubernetes::cluster;

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

/// Returns true if the hierarchy net_cls, which few machines have mounted, has the cgroup of a cluster.
fn is_in_net_cls(cluster: &Child) -> bool {
    let look = format!(
        "mount -t cgroup -o net_cls net_cls /mnt && [ -d /mnt/netqos-cluster-{} ]",
        cluster.id()
    );
    let mut command = Command::new("unshare");
    let status = command.args(["--mount", "sh", "-c", &look]).status();
    status.is_ok_and(|it| it.success())
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "{what}");
        thread::sleep(Duration::from_millis(50));
    }
}

/// A cluster that ends with the test.
struct Cluster(Child);

impl Drop for Cluster {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
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
    cluster::Cluster::build(&[]).unwrap();
    let log = tempfile::NamedTempFile::new().unwrap();
    let child = Command::new(env!("CARGO_BIN_EXE_test-cluster"))
        .args(["--only", "start", "--", "sleep", "infinity"])
        .stderr(log.reopen().unwrap())
        .spawn()
        .unwrap();
    let mut cluster = Cluster(child);
    let runs = |cluster: &Child| {
        let mut processes = cgroups(cluster).into_iter();
        processes.any(|it| {
            let processes = fs::read_to_string(it.join("node1/cgroup.procs"));
            processes.is_ok_and(|it| it.lines().count() > 2)
        })
    };
    wait_until("no node runs", || {
        let ended = cluster.0.try_wait().unwrap();
        let log = fs::read_to_string(log.path()).unwrap();
        assert_eq!(ended, None, "the cluster has ended:\n{log}");
        runs(&cluster.0)
    });
    let kernel = fs::read_to_string("/proc/cgroups").unwrap();
    assert_eq!(kernel.contains("net_cls"), is_in_net_cls(&cluster.0));
    cluster.0.kill().unwrap();
    cluster.0.wait().unwrap();
    // The cgroups can be removed once no process is in them.
    wait_until("cgroups of the cluster are left", || {
        cgroups(&cluster.0).is_empty() && !is_in_net_cls(&cluster.0)
    });
}
