//! A cluster, replicas of the controller, and what there is in the cluster.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use kube::Client;
use netqos_faults::{Account, Cluster, Front};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;

mod asked;
mod http;
mod objects;
mod peers;
mod slos;
mod told;
mod webhook;

pub(crate) use http::{free_address, http};

/// How long anything may take that is waited for: longer than a write that fails time and again waits
/// before it is tried once more.
const PATIENCE: Duration = Duration::from_secs(90);
/// The namespace of the controller.
pub(crate) const HOME: &str = "netqos-system";

pub(crate) struct World {
    /// By which replicas reach the cluster.
    pub(crate) front: Front,
    pub(crate) cluster: Cluster,
    client: Client,
    runtime: Runtime,
    folder: TempDir,
    /// The namespace of all other objects.
    pub(crate) namespace: String,
}

/// A replica; killed when it is dropped.
pub(crate) struct Replica {
    child: Child,
    pub(crate) name: String,
}

impl World {
    pub(crate) fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let cluster = runtime.block_on(Cluster::start()).unwrap();
        let client = runtime.block_on(cluster.client()).unwrap();
        let front = runtime.block_on(cluster.front()).unwrap();
        let namespace = runtime.block_on(cluster.namespace("games")).unwrap();
        let world = Self {
            front,
            cluster,
            client,
            runtime,
            folder: tempfile::tempdir().unwrap(),
            namespace,
        };
        world.create("v1", "Node", "", json!({"metadata": {"name": "node1"}}));
        world
    }

    /// Puts a definition in place of the one of its name.
    pub(crate) fn define(&self, definition: &Value) {
        let definition = serde_json::from_value(definition.clone()).unwrap();
        self.runtime
            .block_on(self.cluster.define(&definition))
            .unwrap();
    }

    /// Starts a replica of this name.
    pub(crate) fn replica(&self, name: &str) -> Replica {
        self.replica_with(name, &[])
    }

    pub(crate) fn replica_with(&self, name: &str, more: &[&str]) -> Replica {
        self.replica_where(name, more, &[])
    }

    /// A replica with more arguments, and variables.
    pub(crate) fn replica_where(
        &self,
        name: &str,
        more: &[&str],
        variables: &[(&str, &Path)],
    ) -> Replica {
        let kubeconfig = self.folder.path().join(name);
        let identified = self
            .cluster
            .identify(&self.front, name, Account::Controller);
        self.runtime.block_on(identified).unwrap();
        fs::write(&kubeconfig, self.front.kubeconfig(name)).unwrap();
        let log = fs::File::create(self.folder.path().join(format!("{name}.log"))).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_netqos-controller"))
            .args(["--namespace", HOME, "--identity", name])
            .args(off("--listen", more))
            .args(off("--webhook", more))
            .args(["--log-level", "info,netqos_controller=debug"])
            .arg("--kubeconfig")
            .arg(&kubeconfig)
            .args(more)
            .envs(variables.iter().copied())
            .stderr(Stdio::from(log))
            .spawn()
            .unwrap();
        Replica {
            child,
            name: name.to_owned(),
        }
    }

    pub(crate) fn log(&self, replica: &Replica) -> String {
        self.log_of(&replica.name)
    }

    pub(crate) fn log_of(&self, name: &str) -> String {
        let path = self.folder.path().join(format!("{name}.log"));
        fs::read_to_string(path).unwrap()
    }

    /// A policy whose set has one address, and the replica `one`, which leads and has published it.
    pub(crate) fn published_by_one(&self) -> Replica {
        self.create_policy("p", "web", "db");
        self.create_pod("b", "db", "node1", "10.0.0.2");
        let one = self.replica("one");
        self.wait_for_leader("one");
        self.wait_for_peers(&[&["10.0.0.2"]]);
        one
    }

    /// A replica that knows everything.
    pub(crate) fn standby(&self, name: &str) -> Replica {
        let replica = self.replica(name);
        self.eventually("it knows nothing", || {
            self.log(&replica).contains("everything is known")
        });
        replica
    }

    /// Waits for something.
    pub(crate) fn eventually(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        let end = Instant::now() + PATIENCE;
        while !is_so() {
            assert!(Instant::now() < end, "{what}\n{}", self.logs());
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn logs(&self) -> String {
        let entries = fs::read_dir(self.folder.path()).unwrap().flatten();
        let logs = entries.filter(|it| it.path().extension().is_some_and(|it| it == "log"));
        let texts = logs.map(|it| fs::read_to_string(it.path()).unwrap());
        texts.collect()
    }

    /// Who leads.
    pub(crate) fn leader(&self) -> String {
        let lease = self.get(
            ("coordination.k8s.io/v1", "Lease", HOME),
            "netqos-controller",
        );
        let holder = lease.and_then(|it| it["spec"]["holderIdentity"].as_str().map(str::to_owned));
        holder.unwrap_or_default()
    }

    pub(crate) fn wait_for_leader(&self, name: &str) {
        self.eventually(&format!("{name} does not lead"), || self.leader() == name);
    }
}

/// What turns a server off that a test says nothing of.
fn off(flag: &'static str, more: &[&str]) -> Vec<&'static str> {
    match more.contains(&flag) {
        true => Vec::new(),
        false => vec![flag, "off"],
    }
}

impl Replica {
    pub(crate) fn signal(&self, signal: i32) {
        let status = Command::new("kill")
            .args([format!("-{signal}"), self.child.id().to_string()])
            .status();
        assert!(status.unwrap().success());
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Ends it in an instant.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Tells it to stop, and waits for that.
    pub(crate) fn stop(mut self) -> Option<i32> {
        self.signal(15);
        self.child.wait().unwrap().code()
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
