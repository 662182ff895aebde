use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use netqos_agent::{
    CgroupOptions, Event, Locator, NetworkCatalog, watch_attachments, watch_cgroups,
    watch_manifests,
};
use netqos_datapath::Paths;
use serde_json::json;
use tempfile::TempDir;

/// Said to the process that is in a user namespace of its own.
const LIMIT: &str = "NETQOS_TEST_INOTIFY_LIMIT";
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn where_there_are_no_more_instances() {
    in_a_user_namespace("where_there_are_no_more_instances", "instances");
}

#[test]
fn where_there_are_no_more_watches() {
    in_a_user_namespace("where_there_are_no_more_watches", "watches");
}

/// What a user has is counted for each user namespace, too: in one of its own a process can be given
/// less, and nobody else is.
fn in_a_user_namespace(test: &str, limit: &str) {
    if std::env::var_os(LIMIT).is_some() {
        return looks_and_listens_again(limit);
    }
    let name = format!(
        "{}::{test}",
        module_path!().split_once("::").map_or("", |it| it.1)
    );
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", &name, "--nocapture", "--test-threads=1"])
        .env(LIMIT, limit)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// All three that listen: the folder of manifests, the runtime's cache, and cgroups.
fn looks_and_listens_again(limit: &str) {
    allow(limit, 0);
    let node = Folders::new();
    let (sender, events) = channel();
    node.put_pod("a");
    watch_manifests(
        node.at("objects").into(),
        NetworkCatalog::new("node1"),
        sender.clone(),
    )
    .unwrap();
    watch_attachments(
        Locator::new(vec![node.at("cni").into()]),
        Default::default(),
        sender.clone(),
    )
    .unwrap();
    let cgroups = CgroupOptions {
        root: node.at("cgroup").into(),
        proc: node.at("proc").into(),
        paths: Paths::new(node.at("run"), node.at("bpf")),
    };
    watch_cgroups(cgroups, sender).unwrap();
    let mut heard = Heard::of(events);
    heard.wait_until("all say so", |it| {
        let deaf = |source: &str| it.problems.get(source).is_some_and(|it| it.len() == 1);
        deaf("manifests") && deaf("attachments") && deaf("cgroups")
    });
    let text = heard.problems["cgroups"][0].clone();
    assert!(
        text.contains(&format!("raise fs.inotify.max_user_{limit}")),
        "{text}"
    );

    // What changes is found all the same.
    node.put_pod("b");
    node.remember("b");
    node.put_cgroup("b");
    heard.wait_until("what changes is found", |it| it.know("b"));

    // And heard of at once, when there is more of it.
    allow(limit, 1_000);
    heard.wait_until("it is no problem any more", |it| {
        it.problems.values().all(Vec::is_empty)
    });
    std::thread::sleep(Duration::from_millis(300));
    let began = Instant::now();
    node.put_pod("c");
    node.remember("c");
    node.put_cgroup("c");
    heard.wait_until("what changes is heard of", |it| it.know("c"));
    // By looking it would be ten seconds, or fifteen.
    let took = began.elapsed();
    assert!(took < Duration::from_secs(5), "{took:?}");
}

fn allow(limit: &str, many: u32) {
    let file = format!("/proc/sys/user/max_inotify_{limit}");
    fs::write(file, many.to_string()).unwrap();
}

/// The folders of a node.
struct Folders(TempDir);

impl Folders {
    fn new() -> Self {
        let folders = Self(tempfile::tempdir().unwrap());
        for folder in ["objects", "cni/results", "cgroup/kubepods", "proc"] {
            fs::create_dir_all(folders.at(folder)).unwrap();
        }
        for folder in ["cgroup", "cgroup/kubepods"] {
            fs::write(folders.at(folder) + "/cgroup.procs", "").unwrap();
        }
        folders
    }

    fn at(&self, path: &str) -> String {
        self.0.path().join(path).to_str().unwrap().to_owned()
    }

    fn put_pod(&self, name: &str) {
        let object = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "games"}
        });
        let fresh = self.at("objects/.new");
        fs::write(&fresh, object.to_string()).unwrap();
        fs::rename(fresh, self.at(&format!("objects/{name}.json"))).unwrap();
    }

    /// Something among what a runtime remembers, which the agent tells of since it makes no sense of it.
    fn remember(&self, name: &str) {
        fs::write(self.at("cni/results") + "/" + name, "no result").unwrap();
    }

    /// A cgroup in which there are processes that are not to be seen.
    fn put_cgroup(&self, uid: &str) {
        let folder = self.at(&format!("cgroup/kubepods/pod{uid}"));
        fs::create_dir(&folder).unwrap();
        fs::write(folder + "/cgroup.procs", "0\n").unwrap();
    }
}

/// What the sources have said.
struct Heard {
    events: Receiver<Event>,
    said: Said,
}

#[derive(Debug, Default)]
struct Said {
    problems: BTreeMap<&'static str, Vec<String>>,
    pods: BTreeSet<String>,
    remembered: BTreeSet<String>,
    in_cgroups: BTreeSet<String>,
}

impl Said {
    fn know(&self, pod: &str) -> bool {
        let known = [&self.pods, &self.remembered, &self.in_cgroups];
        known.iter().all(|names| names.contains(pod))
    }
}

impl std::ops::Deref for Heard {
    type Target = Said;

    fn deref(&self) -> &Said {
        &self.said
    }
}

impl Heard {
    fn of(events: Receiver<Event>) -> Self {
        Self {
            events,
            said: Said::default(),
        }
    }

    fn wait_until(&mut self, what: &str, is_so: impl Fn(&Said) -> bool) {
        let end = Instant::now() + PATIENCE;
        while !is_so(&self.said) {
            let left = end.saturating_duration_since(Instant::now());
            let event = self.events.recv_timeout(left);
            let event = event.unwrap_or_else(|why| panic!("{what}: {why}: {:?}", self.said));
            self.said.note(event);
        }
    }
}

impl Said {
    fn note(&mut self, event: Event) {
        match event {
            Event::Batch(batch) => {
                for change in batch.changes {
                    if let netqos_index::Change::Pod(pod) = change {
                        self.pods.insert(pod.id.name.name.to_string());
                    }
                }
                for problem in &batch.problems {
                    if let netqos_core::ObjectRef::File(path) = &problem.object
                        && problem.reason == netqos_core::Reason::Invalid
                        && let Some((_, name)) = path.rsplit_once('/')
                    {
                        self.remembered.insert(name.to_owned());
                    }
                }
                let deaf = batch.problems.into_iter();
                let deaf = deaf.filter(|it| it.reason == netqos_core::Reason::InotifyExhausted);
                let texts = deaf.map(|it| it.message).collect();
                self.problems.insert(batch.source, texts);
            }
            Event::InCgroups(found) => {
                self.in_cgroups = found.keys().map(ToString::to_string).collect();
            }
            Event::Cgroups(_) => {}
            other => panic!("{other:?}"),
        }
    }
}
