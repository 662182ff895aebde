//! A cluster, replicas of the controller, and what there is in the cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, ResourceExt as _};
use netqos_apiserver::{ApiServer, Cluster};
use netqos_k8s::PEER_SET_LABEL;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// How long anything may take that is waited for.
const PATIENCE: Duration = Duration::from_secs(30);
/// The namespace of the controller.
pub(crate) const HOME: &str = "netqos-system";

pub(crate) struct World {
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
        let client = runtime.block_on(cluster.client("test")).unwrap();
        for definition in netqos_k8s::definitions() {
            let crd = definition.crd().unwrap();
            runtime.block_on(cluster.define(&crd)).unwrap();
        }
        let namespace = runtime.block_on(cluster.namespace("games")).unwrap();
        let world = Self {
            cluster,
            client,
            runtime,
            folder: tempfile::tempdir().unwrap(),
            namespace,
        };
        world.create("v1", "Namespace", "", json!({"metadata": {"name": HOME}}));
        world.create("v1", "Node", "", json!({"metadata": {"name": "node1"}}));
        world
    }

    /// `None`, said aloud, where the server has no faults on demand.
    pub(crate) fn with_fixture() -> Option<Self> {
        let world = Self::new();
        if world.cluster.as_fixture().is_none() {
            eprintln!("skipped: a real API server has no faults on demand, and no record");
            return None;
        }
        Some(world)
    }

    pub(crate) fn fixture(&self) -> &ApiServer {
        self.cluster.as_fixture().unwrap()
    }

    /// Starts a replica of this name.
    pub(crate) fn replica(&self, name: &str) -> Replica {
        self.replica_with(name, &[])
    }

    pub(crate) fn replica_with(&self, name: &str, more: &[&str]) -> Replica {
        let kubeconfig = self.folder.path().join(name);
        fs::write(&kubeconfig, self.cluster.kubeconfig(name)).unwrap();
        let log = fs::File::create(self.folder.path().join(format!("{name}.log"))).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_netqos-controller"))
            .args(["--namespace", HOME, "--identity", name, "--listen", "off"])
            .args(if more.contains(&"--webhook") {
                &[][..]
            } else {
                &["--webhook", "off"]
            })
            .args(["--log-level", "info,netqos_controller=debug"])
            .arg("--kubeconfig")
            .arg(&kubeconfig)
            .args(more)
            .stderr(Stdio::from(log))
            .spawn()
            .unwrap();
        Replica {
            child,
            name: name.to_owned(),
        }
    }

    pub(crate) fn log(&self, replica: &Replica) -> String {
        let path = self.folder.path().join(format!("{}.log", replica.name));
        fs::read_to_string(path).unwrap()
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

    fn api(&self, api_version: &str, kind: &str, namespace: &str) -> Api<DynamicObject> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let mut resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        if kind == "NetworkQoS" {
            resource.plural = "networkqoses".to_owned();
        }
        match namespace {
            "" => Api::all_with(self.client.clone(), &resource),
            namespace => Api::namespaced_with(self.client.clone(), namespace, &resource),
        }
    }

    pub(crate) fn create(&self, api_version: &str, kind: &str, namespace: &str, object: Value) {
        let api = self.api(api_version, kind, namespace);
        let mut object = object;
        object["apiVersion"] = api_version.into();
        object["kind"] = kind.into();
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        let created = self
            .runtime
            .block_on(api.create(&PostParams::default(), &object));
        match created {
            // Of a cluster that was there before.
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            other => drop(other.unwrap()),
        }
    }

    pub(crate) fn merge(&self, of: (&str, &str, &str), name: &str, patch: &Value) {
        let api = self.api(of.0, of.1, of.2);
        let (parameters, patch) = (PatchParams::default(), Patch::Merge(patch));
        let patched = api.patch(name, &parameters, &patch);
        self.runtime.block_on(patched).unwrap();
    }

    pub(crate) fn delete(&self, of: (&str, &str, &str), name: &str) {
        let api = self.api(of.0, of.1, of.2);
        let parameters = DeleteParams::default().grace_period(0);
        let deleted = api.delete(name, &parameters);
        self.runtime.block_on(deleted).unwrap();
    }

    pub(crate) fn get(&self, of: (&str, &str, &str), name: &str) -> Option<Value> {
        let api = self.api(of.0, of.1, of.2);
        let got = self.runtime.block_on(api.get_opt(name)).unwrap();
        got.map(|object| serde_json::to_value(object).unwrap())
    }

    pub(crate) fn list(&self, of: (&str, &str, &str)) -> Vec<DynamicObject> {
        let api = self.api(of.0, of.1, of.2);
        let listed = self.runtime.block_on(api.list(&ListParams::default()));
        listed.unwrap().items
    }

    /// A pod that runs on a node and has this address.
    pub(crate) fn create_pod(&self, name: &str, app: &str, node: &str, address: &str) {
        let namespace = self.namespace.clone();
        self.create(
            "v1",
            "Pod",
            &namespace,
            json!({
                "metadata": {"name": name, "labels": {"app": app}},
                "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}
            }),
        );
        let api = self.api("v1", "Pod", &namespace);
        let status = json!({"status": {
            "phase": "Running", "podIP": address, "podIPs": [{"ip": address}]
        }});
        let (parameters, patch) = (PatchParams::default(), Patch::Merge(&status));
        let patched = api.patch_status(name, &parameters, &patch);
        self.runtime.block_on(patched).unwrap();
    }

    pub(crate) fn delete_pod(&self, name: &str) {
        self.delete(("v1", "Pod", &self.namespace.clone()), name);
    }

    pub(crate) fn policies(&self) -> (&'static str, &'static str, &str) {
        ("k8s.ovn.org/v1alpha1", "NetworkQoS", &self.namespace)
    }

    /// A policy for the pods of the app `from`, about what they send to those of `to`.
    pub(crate) fn create_policy(&self, name: &str, from: &str, to: &str) {
        let (api_version, kind, namespace) = self.policies();
        self.create(
            api_version,
            kind,
            namespace,
            json!({
                "metadata": {"name": name},
                "spec": {
                    "priority": 10,
                    "podSelector": {"matchLabels": {"app": from}},
                    "egress": [{
                        "dscp": 10,
                        "classifier": {"to": [{"podSelector": {"matchLabels": {"app": to}}}]}
                    }]
                }
            }),
        );
    }

    /// The addresses of the sets that are published, by the slice's namespace and set.
    pub(crate) fn published(&self) -> BTreeMap<(String, String), BTreeSet<String>> {
        let mut sets: BTreeMap<_, BTreeSet<String>> = BTreeMap::new();
        for slice in self.slices() {
            let labels = slice.labels();
            let set = labels.get(PEER_SET_LABEL).cloned().unwrap_or_default();
            let addresses = slice.data["addresses"].as_array().unwrap().iter();
            let addresses = addresses.map(|it| it.as_str().unwrap().to_owned());
            let key = (slice.namespace().unwrap_or_default(), set);
            sets.entry(key).or_default().extend(addresses);
        }
        sets
    }

    pub(crate) fn slices(&self) -> Vec<DynamicObject> {
        let of = ("netqos.io/v1alpha1", "NetworkQoSPeerSlice", "");
        let mine = [self.namespace.as_str(), HOME];
        let slices = self.list(of).into_iter();
        slices
            .filter(|it| mine.contains(&it.namespace().unwrap_or_default().as_str()))
            .collect()
    }

    /// Waits until the sets that are published have these addresses.
    pub(crate) fn wait_for_peers(&self, sets: &[&[&str]]) {
        let mut right: Vec<BTreeSet<String>> = sets
            .iter()
            .map(|set| set.iter().map(|it| (*it).to_owned()).collect())
            .collect();
        right.sort();
        let mut last = Vec::new();
        self.eventually(&format!("{right:?} are not published"), || {
            let published = self.published();
            last = published.into_values().collect();
            last.sort();
            last == right
        });
    }

    /// A node says what is in force on it.
    pub(crate) fn report(&self, node: &str, policies: &[(&str, i64)], problems: &Value) {
        let policies: Vec<Value> = policies
            .iter()
            .map(|(name, generation)| {
                json!({"namespace": self.namespace, "name": name, "generation": generation})
            })
            .collect();
        let report = json!({
            "apiVersion": "netqos.io/v1alpha1",
            "kind": "NetworkQoSNodeReport",
            "metadata": {"name": node},
            "agentVersion": "0.1.0",
            "policies": policies,
            "problems": problems,
        });
        let api = self.api("netqos.io/v1alpha1", "NetworkQoSNodeReport", "");
        let parameters = PatchParams::apply("agent").force();
        let patch = Patch::Apply(&report);
        let applied = api.patch(node, &parameters, &patch);
        self.runtime.block_on(applied).unwrap();
    }

    /// Somebody else gives a policy a condition.
    pub(crate) fn apply_condition(&self, name: &str, manager: &str, type_: &str) {
        let (api_version, kind, namespace) = self.policies();
        let api = self.api(api_version, kind, namespace);
        let status = json!({
            "apiVersion": api_version, "kind": kind,
            "metadata": {"name": name, "namespace": namespace},
            "status": {"conditions": [{
                "type": type_, "status": "True", "reason": "Because", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z"
            }]}
        });
        let parameters = PatchParams::apply(manager);
        let patch = Patch::Apply(&status);
        let applied = api.patch_status(name, &parameters, &patch);
        self.runtime.block_on(applied).unwrap();
    }

    /// A condition of a policy: status, reason and message.
    pub(crate) fn condition(&self, name: &str, type_: &str) -> Option<(String, String, String)> {
        let policy = self.get(self.policies(), name)?;
        let conditions = policy["status"]["conditions"].as_array()?.clone();
        let found = conditions.into_iter().find(|it| it["type"] == type_)?;
        let text = |field: &str| found[field].as_str().unwrap().to_owned();
        Some((text("status"), text("reason"), text("message")))
    }

    /// Waits until a condition has this status and reason. Gives back its message.
    pub(crate) fn wait_for(&self, name: &str, type_: &str, status: &str, reason: &str) -> String {
        let mut message = String::new();
        let mut is = None;
        self.eventually(&format!("{name} is not {type_}={status} {reason}"), || {
            is = self.condition(name, type_);
            is.as_ref().is_some_and(|(is_status, is_reason, said)| {
                message.clone_from(said);
                is_status == status && is_reason == reason
            })
        });
        message
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

    /// What a replica has asked for: verb and resource.
    pub(crate) fn requests(&self, of: &str) -> Vec<(String, String)> {
        let requests = self.fixture().requests().into_iter();
        requests
            .filter(|it| it.client == of)
            .map(|it| (it.verb.to_owned(), it.resource))
            .collect()
    }

    /// How often a replica has written anything but the lease.
    pub(crate) fn writes(&self, of: &str) -> usize {
        let reading = ["get", "list", "watch"];
        let requests = self.requests(of).into_iter();
        requests
            .filter(|(verb, resource)| !reading.contains(&verb.as_str()) && resource != "leases")
            .count()
    }
}

impl Replica {
    pub(crate) fn signal(&self, signal: i32) {
        let status = Command::new("kill")
            .args([format!("-{signal}"), self.child.id().to_string()])
            .status();
        assert!(status.unwrap().success());
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
