//! Pods of the thick Multus are released by netqos-multinet, and those of netqos by Multus' shim and daemon.
//!
//! `NETQOS_TEST_MULTUS` names Multus; shim and daemon are beside it. The daemon needs an API server, which this benchmark
//! starts: so these tests are here, and not beside those of the thin Multus.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use netqos_testkit::{Node, Pod, executable};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::Who;
use super::boot::at_once;
use super::testbed::{BenchPod, LISTS, OF_DAEMON, Programs, Testbed};

const PODS: usize = 50;
/// The pods whose network namespaces go before DEL: every so many.
const GONE: usize = 7;
const PLUGINS: &str = "/usr/lib/cni";
/// The runtime's directory of plugins.
const BIN: &str = "/run/bin";
/// A file for each pod, and a directory of results.
const OF_MULTUS: &str = "/var/lib/cni/multus";
const RECORDS: &str = "/var/lib/netqos/multinet/pods";

/// `None` when the test has to be skipped.
fn programs(disk: &TempDir) -> Option<Programs> {
    let Some(multus) = env::var_os("NETQOS_TEST_MULTUS").map(PathBuf::from) else {
        eprintln!("skipped: NETQOS_TEST_MULTUS names no Multus");
        return None;
    };
    Some(Programs {
        multinet: executable("netqos-plugins", "netqos-multinet").unwrap(),
        agent: executable("netqos-agent", "netqos-agent").unwrap(),
        measure: executable("netqos-xtask", "measure").unwrap(),
        plugins: PLUGINS.into(),
        shim: multus.with_file_name("multus-shim"),
        daemon: multus.with_file_name("multus-daemon"),
        multus,
        disk: disk.path().to_owned(),
    })
}

/// Calls the test with a node on which the daemon of Multus runs, unless it has to be skipped.
fn beside_daemon(test: impl FnOnce(&Programs, &Testbed<'_>)) {
    let disk = tempfile::tempdir().unwrap();
    let Some(programs) = programs(&disk) else {
        return;
    };
    let Some(node) = Node::new().unwrap() else {
        return;
    };
    test(&programs, &Testbed::start(node, &programs, PODS).unwrap());
}

/// The testbed's pods on three networks, and what was on the node before them.
struct Pods<'a> {
    testbed: &'a Testbed<'a>,
    pods: Vec<(Pod, &'a BenchPod)>,
    before: Vec<String>,
    began: Instant,
}

impl<'a> Pods<'a> {
    fn of(testbed: &'a Testbed<'a>) -> Self {
        let before = inventory(&testbed.node);
        let pods = (0..PODS).map(|index| {
            let pod = &testbed.pods[&format!("boot-{index}")];
            (testbed.node.empty_pod(&pod.name).unwrap(), pod)
        });
        Self {
            testbed,
            pods: pods.collect(),
            before,
            began: Instant::now(),
        }
    }

    /// Makes this number of calls for each, ten pods at once.
    fn call(&self, who: Who, command: &str, times: usize) {
        let all: Vec<usize> = (0..PODS).collect();
        for some in all.chunks(10) {
            let chosen: Vec<usize> = some.iter().flat_map(|it| vec![*it; times]).collect();
            let failed = at_once(self.testbed, who, command, &self.pods, &chosen).unwrap();
            assert_eq!(failed, [0; 0], "{command}");
        }
        eprintln!(
            "{command} of {PODS} pods by {who:?}: after {:?}",
            self.began.elapsed()
        );
    }

    fn links(&self, index: usize) -> String {
        let pod = self.pods[index].0.name();
        let arguments = ["-n", pod, "-o", "link"];
        self.testbed.node.run("ip", &arguments).unwrap()
    }

    fn assert_attached(&self) {
        for index in 0..PODS {
            let links = self.links(index);
            // And lo.
            assert_eq!(links.lines().count(), 5, "{links}");
        }
    }

    fn remove_some_namespaces(&self) {
        for (pod, _) in self.pods.iter().step_by(GONE) {
            pod.remove(&self.testbed.node).unwrap();
        }
    }

    fn assert_nothing_left(&self) {
        let node = &self.testbed.node;
        // The kernel removes the links of a namespace some time after it.
        let end = Instant::now() + Duration::from_secs(10);
        while inventory(node) != self.before && Instant::now() < end {
            thread::sleep(Duration::from_millis(50));
        }
        assert_eq!(inventory(node), self.before);
        for index in (0..PODS).filter(|it| it % GONE != 0) {
            let links = self.links(index);
            assert_eq!(links.lines().count(), 1, "{links}");
        }
    }

    fn end(self) {
        for (index, (pod, _)) in self.pods.into_iter().enumerate() {
            if index % GONE != 0 {
                self.testbed.node.remove_pod(pod).unwrap();
            }
        }
        assert_eq!(inventory(&self.testbed.node), self.before);
        assert_eq!(self.testbed.node.files("/run/netns"), [""; 0]);
    }
}

/// Without the configuration that the command keeps for its next call, and the objects that the agent knows.
fn inventory(node: &Node) -> Vec<String> {
    let others = ["/removed.conflist", "/multinet-pods/", "/netqos/objects/"];
    let mut found = node.inventory().unwrap();
    found.retain(|path| !others.iter().any(|it| path.contains(it)));
    found
}

fn netqos(words: &[&str]) -> Output {
    let mut command = Command::new(executable("netqos-cli", "netqos").unwrap());
    command.args(["install-plugin", "--multinet", "--to", BIN]);
    command.args(["--conf-dir", LISTS]).args(words);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    output
}

/// The daemon ends, and with it its list, before any pod does. GC releases what it has left itself.
#[test]
fn fifty_pods_of_thick_multus_are_released_by_netqos() {
    beside_daemon(|_, testbed| {
        let pods = Pods::of(testbed);
        pods.call(Who::Thick, "ADD", 1);
        pods.assert_attached();
        for (pod, _) in &pods.pods {
            let text = fs::read(Path::new(OF_MULTUS).join(pod.name())).unwrap();
            let delegates: Vec<Value> = serde_json::from_slice(&text).unwrap();
            assert_eq!(delegates.len(), 4);
        }
        testbed.daemon.end().unwrap();
        assert!(!Path::new(OF_DAEMON).exists());
        pods.remove_some_namespaces();
        // Two calls for each pod at a time, and one afterwards.
        pods.call(Who::Multinet, "DEL", 2);
        pods.assert_nothing_left();
        pods.call(Who::Multinet, "DEL", 1);
        // DEL of the daemon leaves the default address of the testbed's first pod, and its result.
        let files = || {
            inventory(&testbed.node)
                .into_iter()
                .filter(|it| it.contains("/cni/"))
        };
        assert_eq!(files().count(), 2);
        let (pod, of_server) = &pods.pods[1];
        let gc = testbed.prepared(Who::Multinet, "GC", pod, of_server);
        let config = json!({"cniVersion": "1.1.0", "name": "netqos-multinet", "type": "netqos-multinet",
                        "defaultNetwork": format!("{LISTS}/10-pods.conflist"), "cni.dev/valid-attachments": []});
        gc.unwrap().config(&config).succeed().unwrap();
        let left: Vec<String> = files().collect();
        assert_eq!(left, [""; 0]);
        let before = pods.before.iter().filter(|it| !it.contains("/cni/"));
        let before = before.cloned().collect();
        Pods { before, ..pods }.end();
    });
}

#[test]
fn fifty_pods_of_netqos_are_released_by_thick_multus() {
    beside_daemon(|programs, testbed| {
        // Nodes have plugins and lists in one directory each.
        fs::create_dir_all(BIN).unwrap();
        for plugin in ["bridge", "macvlan", "host-local"] {
            symlink(Path::new(PLUGINS).join(plugin), Path::new(BIN).join(plugin)).unwrap();
        }
        // It is installed on a node without Multus, whose daemon comes later.
        let aside = "/run/00-multus.conf";
        fs::rename(OF_DAEMON, aside).unwrap();
        netqos(&["--from", programs.multinet.to_str().unwrap()]);
        let pods = Pods::of(testbed);
        pods.call(Who::Multinet, "ADD", 1);
        pods.assert_attached();
        fs::rename(aside, OF_DAEMON).unwrap();
        let said = String::from_utf8(netqos(&["--remove"]).stdout).unwrap();
        assert!(said.contains("50 pods are handed over to Multus"), "{said}");
        assert_eq!(testbed.node.files(RECORDS), [""; 0]);
        assert!(!Path::new(BIN).join("netqos-multinet").exists());
        eprintln!("handed over after {:?}", pods.began.elapsed());
        pods.remove_some_namespaces();
        pods.call(Who::Thick, "DEL", 1);
        pods.assert_nothing_left();
        // A runtime may repeat it.
        pods.call(Who::Thick, "DEL", 1);
        pods.end();
    });
}
