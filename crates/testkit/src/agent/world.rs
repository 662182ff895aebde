//! A node of a cluster, with two pods.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use netqos_agent::client;
use netqos_cluster::Kind;
use netqos_faults::{Account, Cluster, Front, Request, without_rules};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::stage::{self, Agent, Flow, RUN};
use crate::{Node, Pod};

pub const KUBECONFIG: &str = "/run/kubeconfig";
/// What the agent is recorded as.
pub const AGENT: &str = "agent";

/// The kind of peer slices.
pub const SLICE: &str = "NetworkQoSPeerSlice";

/// A cluster with the node `node1`, and on it the pods `a` and `b`.
pub struct World {
    // Ended before what it talks to.
    agent: Option<Agent>,
    /// With what the agent is started besides.
    pub flags: Vec<&'static str>,
    pub a: Pod,
    pub b: Pod,
    /// The namespace of all objects.
    pub namespace: String,
    /// By which the agent reaches the cluster.
    pub front: Front,
    pub cluster: Cluster,
    runtime: Runtime,
    pub node: Node,
}

impl World {
    /// `None`: skipped.
    pub fn new() -> Option<Self> {
        let node = stage::node()?;
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build().unwrap();
        let cluster = runtime.block_on(Cluster::start()).unwrap();
        // That of the pods that the stage remembers.
        let namespace = "games".to_owned();
        let front = runtime.block_on(cluster.front()).unwrap();
        fs::write(KUBECONFIG, front.kubeconfig(AGENT)).unwrap();
        let (a, b) = (node.pod("a").unwrap(), node.pod("b").unwrap());
        let world = Self {
            agent: None,
            flags: Vec::new(),
            a,
            b,
            namespace,
            front,
            cluster,
            runtime,
            node,
        };
        world.create(
            "v1",
            "Namespace",
            "",
            json!({"metadata": {"name": "games"}}),
        );
        world.create("v1", "Node", "", json!({"metadata": {"name": "node1"}}));
        world.identify(AGENT, Account::Agent { node: "node1" });
        for pod in [&world.a, &world.b] {
            world.create_pod(pod, json!({}));
        }
        Some(world)
    }

    /// Starts the agent on a policy `p` that marks what `a` sends, and sends to `b`, from the first
    /// marked datagram on.
    pub fn marked(&mut self, dscp: u8) -> Flow {
        self.create_policy("p", dscp);
        self.started_where(dscp, &[])
    }

    /// Starts the agent with these variables in its environment, and sends to `b` from the first datagram
    /// with this mark on.
    pub fn started_where(&mut self, dscp: u8, variables: &[(&str, &str)]) -> Flow {
        self.start_agent_where(variables);
        let flow = self.flow();
        flow.wait_for(dscp);
        flow
    }

    /// What the agent has asked for, in the order in which it did.
    pub fn asked(&self) -> Vec<Request> {
        let requests = self.front.requests().into_iter();
        requests.filter(|it| it.client == AGENT).collect()
    }

    /// Datagrams from `a` to `b`, one in a millisecond.
    pub fn flow(&self) -> Flow {
        Flow::begin(&self.a, &self.b, Duration::from_millis(1))
    }

    /// Starts the agent, and waits until it is ready.
    pub fn start_agent(&mut self) {
        self.start_agent_where(&[]);
    }

    /// The same with these variables in its environment.
    pub fn start_agent_where(&mut self, variables: &[(&str, &str)]) {
        self.spawn_agent_with("node1", variables);
        self.agent.as_ref().unwrap().wait_until_ready();
    }

    /// Starts the agent, and waits until it answers.
    pub fn spawn_agent(&mut self) {
        self.spawn_agent_of("node1");
    }

    /// As the node of this name.
    pub fn spawn_agent_of(&mut self, node: &str) {
        self.spawn_agent_with(node, &[]);
    }

    /// With these variables in its environment.
    pub fn spawn_agent_with(&mut self, node: &str, variables: &[(&str, &str)]) {
        self.stop_agent();
        let objects = ["--node", node, "--kubeconfig", KUBECONFIG];
        self.agent = Some(Agent::spawn_on(&objects, &self.flags, variables));
        let answers = || client::request(Path::new(RUN), "GET", "/livez", "").is_ok();
        assert!(stage::eventually(answers), "{}", stage::log());
    }

    /// Starts it by a command that becomes it, and waits until it is ready.
    pub fn start_agent_by(&mut self, command: &mut Command) {
        self.stop_agent();
        let agent = Agent::spawn_by(command);
        agent.wait_until_ready();
        self.agent = Some(agent);
    }

    /// Lets a client of the front act as this account.
    pub fn identify(&self, client: &str, account: Account<'_>) {
        let identified = self.cluster.identify(&self.front, client, account);
        self.runtime.block_on(identified).unwrap();
    }

    /// Another agent for the same node, which is recorded under this name.
    pub fn spawn_another(&self, client: &str) -> Agent {
        self.identify(client, Account::Agent { node: "node1" });
        let kubeconfig = "/run/another-kubeconfig";
        fs::write(kubeconfig, self.front.kubeconfig(client)).unwrap();
        let objects = ["--node", "node1", "--kubeconfig", kubeconfig];
        Agent::spawn_on(&objects, &self.flags, &[])
    }

    pub fn agent_pid(&self) -> u32 {
        self.agent.as_ref().unwrap().pid()
    }

    /// Kills it; what it put in force stays.
    pub fn stop_agent(&mut self) {
        if let Some(agent) = self.agent.take() {
            agent.kill();
        }
    }

    pub fn client(&self) -> Client {
        self.runtime.block_on(self.cluster.client()).unwrap()
    }

    fn api(&self, api_version: &str, kind: &str, namespace: &str) -> Api<DynamicObject> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let kind_of = GroupVersionKind::gvk(group, version, kind);
        let resource = match kind {
            "NetworkQoS" => ApiResource::from_gvk_with_plural(&kind_of, "networkqoses"),
            "NetworkAttachmentDefinition" => {
                ApiResource::from_gvk_with_plural(&kind_of, "network-attachment-definitions")
            }
            SLICE => ApiResource::from_gvk_with_plural(&kind_of, "networkqospeerslices"),
            _ => ApiResource::from_gvk(&kind_of),
        };
        match namespace {
            "" => Api::all_with(self.client(), &resource),
            namespace => Api::namespaced_with(self.client(), namespace, &resource),
        }
    }

    pub fn create(&self, api_version: &str, kind: &str, namespace: &str, object: Value) {
        self.create_all(api_version, kind, namespace, [object]);
    }

    pub fn create_all(
        &self,
        api_version: &str,
        kind: &str,
        namespace: &str,
        objects: impl IntoIterator<Item = Value>,
    ) {
        let api = self.api(api_version, kind, namespace);
        for mut object in objects {
            object["apiVersion"] = api_version.into();
            object["kind"] = kind.into();
            let object: DynamicObject = serde_json::from_value(object).unwrap();
            let parameters = PostParams::default();
            let created = api.create(&parameters, &object);
            self.runtime.block_on(created).unwrap();
        }
    }

    pub fn patch(&self, api_version: &str, kind: &str, name: &str, patch: &Value) {
        let api = self.api(api_version, kind, &self.namespace);
        let parameters = PatchParams::default();
        let patch = Patch::Merge(patch);
        let patched = api.patch(name, &parameters, &patch);
        self.runtime.block_on(patched).unwrap();
    }

    pub fn patch_status(&self, pod: &str, status: &Value) {
        self.patch_status_in(&self.namespace, pod, status);
    }

    pub fn patch_status_in(&self, namespace: &str, pod: &str, status: &Value) {
        let pods = self.api("v1", "Pod", namespace);
        let parameters = PatchParams::default();
        let patch = Patch::Merge(status);
        let written = pods.patch_status(pod, &parameters, &patch);
        self.runtime.block_on(written).unwrap();
    }

    pub fn delete(&self, api_version: &str, kind: &str, name: &str) {
        let api = self.api(api_version, kind, &self.namespace);
        let parameters = DeleteParams::default().grace_period(0);
        let deleted = api.delete(name, &parameters);
        drop(self.runtime.block_on(deleted).unwrap());
    }

    /// All objects of a kind.
    pub fn list(&self, api_version: &str, kind: &str) -> Vec<Value> {
        let api = self.api(api_version, kind, "");
        let list = self.runtime.block_on(api.list(&ListParams::default()));
        let objects = list.unwrap().items.into_iter().map(|object| {
            let mut object = serde_json::to_value(object).unwrap();
            object["apiVersion"] = api_version.into();
            object["kind"] = kind.into();
            object
        });
        objects.collect()
    }

    /// Puts an object there as it is, whatever is there of its name.
    pub fn apply(&self, api_version: &str, kind: &str, object: &Value) {
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
        let api = self.api(api_version, kind, namespace);
        let parameters = PatchParams::apply("test").force();
        let name = object["metadata"]["name"].as_str().unwrap();
        let patch = Patch::Apply(object);
        let applied = api.patch(name, &parameters, &patch);
        self.runtime.block_on(applied).unwrap();
    }

    /// Puts a definition there, in place of one of its name.
    pub fn define(&self, definition: &Value) {
        let definition = serde_json::from_value(definition.clone()).unwrap();
        let defined = self.cluster.define(&definition);
        self.runtime.block_on(defined).unwrap();
    }

    /// Policies may be of any shape from now on, as an older definition has it, or another project's.
    pub fn define_policies_of_any_shape(&self) {
        let any = without_rules(&netqos_k8s::crd().unwrap());
        self.define(&serde_json::to_value(any).unwrap());
        // A real server goes by it a moment later.
        let policies = self.api("k8s.ovn.org/v1alpha1", "NetworkQoS", &self.namespace);
        let object = json!({
            "apiVersion": "k8s.ovn.org/v1alpha1", "kind": "NetworkQoS",
            "metadata": {"name": "any"}, "spec": "any"
        });
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        let parameters = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        let is_taken = || {
            let created = policies.create(&parameters, &object);
            self.runtime.block_on(created).is_ok()
        };
        assert!(stage::eventually(is_taken));
    }

    /// Somebody else gives a policy a condition.
    pub fn apply_status(&self, name: &str, manager: &str, type_: &str) {
        let (api_version, kind) = ("k8s.ovn.org/v1alpha1", "NetworkQoS");
        let object = json!({
            "apiVersion": api_version, "kind": kind,
            "metadata": {"name": name, "namespace": self.namespace},
            "status": {"conditions": [{
                "type": type_, "status": "True", "reason": "Success", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z"
            }]}
        });
        let api = self.api(api_version, kind, &self.namespace);
        let (parameters, patch) = (PatchParams::apply(manager), Patch::Apply(&object));
        let applied = api.patch_status(name, &parameters, &patch);
        self.runtime.block_on(applied).unwrap();
    }

    pub fn delete_in(&self, namespace: &str, api_version: &str, kind: &str, name: &str) {
        let api = self.api(api_version, kind, namespace);
        let parameters = DeleteParams::default().grace_period(0);
        drop(
            self.runtime
                .block_on(api.delete(name, &parameters))
                .unwrap(),
        );
    }

    /// A pod of the node, which the runtime has added by this uid.
    pub fn create_pod(&self, pod: &Pod, annotations: Value) {
        let mut object: Value = serde_json::from_str(&stage::manifest(pod, annotations)).unwrap();
        let status = object.as_object_mut().unwrap().remove("status").unwrap();
        object["spec"]["containers"] = json!([{"name": "c", "image": "none"}]);
        self.create("v1", "Pod", &self.namespace, object);
        let pods = self.api("v1", "Pod", &self.namespace);
        let parameters = PatchParams::default();
        let status = json!({"status": status});
        let patch = Patch::Merge(&status);
        let written = pods.patch_status(pod.name(), &parameters, &patch);
        let written = self.runtime.block_on(written).unwrap();
        stage::remember_as(pod, &written.metadata.uid.unwrap(), json!({}));
    }

    /// A pod of the node that is made, and runs as soon as the runtime has added it.
    pub fn start_pod(&self, pod: &Pod, app: &str) {
        let object = json!({
            "metadata": {"name": pod.name(), "namespace": self.namespace, "labels": {"app": app}},
            "spec": {"nodeName": "node1", "containers": [{"name": "c", "image": "none"}]}
        });
        self.create("v1", "Pod", &self.namespace, object);
        std::thread::sleep(Duration::from_millis(300));
        let pods = self.api("v1", "Pod", &self.namespace);
        let made = self.runtime.block_on(pods.get(pod.name())).unwrap();
        stage::remember_as(pod, &made.metadata.uid.unwrap(), json!({}));
        let address = pod.address();
        let status = json!({
            "phase": "Running", "podIP": address, "podIPs": [{"ip": address}]
        });
        self.patch_status(pod.name(), &json!({"status": status}));
    }

    /// A policy for the pods of app `a` that marks all they send.
    pub fn create_policy(&self, name: &str, dscp: u8) {
        let object = json!({
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {
                "priority": 1,
                "podSelector": {"matchLabels": {"app": "a"}},
                "egress": [{"dscp": dscp}]
            }
        });
        self.create(
            "k8s.ovn.org/v1alpha1",
            "NetworkQoS",
            &self.namespace,
            object,
        );
    }

    /// Another mark.
    pub fn mark(&self, name: &str, dscp: u8) {
        let patch = json!({"spec": {"egress": [{"dscp": dscp}]}});
        self.patch("k8s.ovn.org/v1alpha1", "NetworkQoS", name, &patch);
    }

    /// What is wrong, by its reason.
    pub fn problems(&self) -> Vec<(String, String)> {
        let problems = stage::status().problems.into_iter();
        problems.map(|it| (it.reason, it.message)).collect()
    }
}

/// The definition of this name, as this version has it.
pub fn definition(name: &str) -> Value {
    let definitions = netqos_k8s::definitions();
    let crds = definitions.iter().map(|it| it.crd().unwrap());
    let mut crds = crds.map(|crd| serde_json::to_value(crd).unwrap());
    crds.find(|crd| crd["metadata"]["name"] == name).unwrap()
}

/// What `/readyz` says of the cluster's objects.
pub fn readiness() -> String {
    let answer = client::request(Path::new(RUN), "GET", "/readyz?verbose", "");
    answer.map_or_else(|why| why.to_string(), |(_, text)| text)
}

/// True when the agent has written down a list of this kind with these words, and all that it writes
/// down with it: killed in the midst of that, it would leave too little to begin from.
pub fn has_written(plural: &str, words: &str) -> bool {
    let folder = Path::new("/var/lib/netqos/objects");
    let last = Kind::ALL.last().map_or("", |kind| kind.plural());
    let text = fs::read_to_string(folder.join(format!("{plural}.json")));
    text.is_ok_and(|text| text.contains(words)) && folder.join(format!("{last}.json")).exists()
}
