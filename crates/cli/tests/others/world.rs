//! A cluster for the command: a real API server, and a kubeconfig for it.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::Client;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams,
};
use netqos_faults::{Cluster, Front};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::{netqos, stdout};

/// The API versions of what is made here, by kind.
const API_VERSIONS: [(&str, &str); 21] = [
    ("ServiceAccount", "v1"),
    ("ClusterRole", "rbac.authorization.k8s.io/v1"),
    ("ClusterRoleBinding", "rbac.authorization.k8s.io/v1"),
    ("Namespace", "v1"),
    ("Node", "v1"),
    ("Pod", "v1"),
    ("Service", "v1"),
    ("Lease", "coordination.k8s.io/v1"),
    ("DaemonSet", "apps/v1"),
    ("Deployment", "apps/v1"),
    ("ConfigMap", "v1"),
    ("EndpointSlice", "discovery.k8s.io/v1"),
    ("NodeSLO", "slo.koordinator.sh/v1alpha1"),
    ("NetworkQoS", "k8s.ovn.org/v1alpha1"),
    ("NetworkQoSQuota", "netqos.io/v1alpha1"),
    ("NetworkAttachmentDefinition", "k8s.cni.cncf.io/v1"),
    ("BandwidthProfile", "netqos.io/v1alpha1"),
    ("NetworkQoSNodeReport", "netqos.io/v1alpha1"),
    ("CustomResourceDefinition", "apiextensions.k8s.io/v1"),
    (
        "ValidatingWebhookConfiguration",
        "admissionregistration.k8s.io/v1",
    ),
    (
        "MutatingWebhookConfiguration",
        "admissionregistration.k8s.io/v1",
    ),
];

fn api_version(kind: &str) -> &'static str {
    let known = API_VERSIONS.iter().find(|(it, _)| *it == kind);
    known.unwrap().1
}

pub struct World {
    pub cluster: Cluster,
    client: Client,
    runtime: Runtime,
    folder: TempDir,
    /// The namespace of the test's own.
    pub games: String,
}

impl World {
    /// A cluster with our kinds.
    pub fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let cluster = runtime.block_on(Cluster::start()).unwrap();
        let client = runtime.block_on(cluster.client()).unwrap();
        let games = runtime.block_on(cluster.namespace("games")).unwrap();
        let world = Self {
            cluster,
            client,
            runtime,
            folder: tempfile::tempdir().unwrap(),
            games,
        };
        fs::write(world.kubeconfig(), world.cluster.kubeconfig()).unwrap();
        world
    }

    /// A cluster that has never heard of netqos.
    pub fn empty() -> Self {
        let world = Self::new();
        world.runtime.block_on(world.cluster.remove_crds()).unwrap();
        world
    }

    /// Has the command act as a service account with these rules from now on, in all namespaces.
    pub fn act_as(&self, rules: &[Value]) {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("account-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        // The API server follows roles with a delay: once this right is there, all are.
        let path = format!("/roles-are-known/{name}");
        let mut rules = rules.to_vec();
        rules.push(json!({"nonResourceURLs": ["/version", "/api", "/api/*", "/apis", "/apis/*", path], "verbs": ["get"]}));
        let games = &self.games;
        self.put("ServiceAccount", &format!("{games}/{name}"), json!({}));
        self.put("ClusterRole", &name, json!({"rules": rules}));
        let role =
            json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name});
        let subject = json!({"kind": "ServiceAccount", "name": name, "namespace": games});
        self.put(
            "ClusterRoleBinding",
            &name,
            json!({"roleRef": role, "subjects": [subject]}),
        );
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), games);
        let (parameters, request) = (PostParams::default(), TokenRequest::default());
        let token = accounts.create_token_request(&name, &parameters, &request);
        let token = self.runtime.block_on(token).unwrap().status.unwrap().token;
        let mut kubeconfig: Value = serde_json::from_str(&self.cluster.kubeconfig()).unwrap();
        kubeconfig["users"][0]["user"] = json!({"token": token});
        fs::write(self.kubeconfig(), kubeconfig.to_string()).unwrap();
        let review = json!({"spec": {
            "user": format!("system:serviceaccount:{games}:{name}"),
            "nonResourceAttributes": {"path": path, "verb": "get"},
        }});
        let reviews: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let review = serde_json::from_value(review).unwrap();
        let end = Instant::now() + Duration::from_secs(30);
        loop {
            let answer = reviews.create(&parameters, &review);
            let answer = self.runtime.block_on(answer).unwrap();
            if answer.status.is_some_and(|it| it.allowed) {
                return;
            }
            assert!(Instant::now() < end, "the role has no effect");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Puts a proxy before the API server, by which the command reaches it from now on.
    pub fn front(&self) -> Front {
        let front = self.runtime.block_on(self.cluster.front()).unwrap();
        fs::write(self.kubeconfig(), front.kubeconfig("netqos")).unwrap();
        front
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("config")
    }

    /// A file of the test's own.
    pub fn file(&self, name: &str, text: &str) -> String {
        let path = self.folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    /// The command, for which the kubeconfig is the environment's.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = netqos();
        command.env("KUBECONFIG", self.kubeconfig()).args(arguments);
        command
    }

    /// The command about this cluster.
    pub fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// What it says as JSON, and its exit code.
    pub fn json(&self, arguments: &[&str]) -> (Value, Option<i32>) {
        let output = self.run(&[arguments, &["-o", "json"]].concat());
        let value = serde_json::from_str(&stdout(&output));
        (
            value.unwrap_or_else(|why| panic!("{why}: {output:?}")),
            output.status.code(),
        )
    }

    fn api(&self, kind: &str, namespace: &str) -> Api<DynamicObject> {
        let api_version = api_version(kind);
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let mut resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        if kind == "NetworkAttachmentDefinition" {
            resource.plural = "network-attachment-definitions".to_owned();
        }
        match namespace {
            "" => Api::all_with(self.client.clone(), &resource),
            namespace => Api::namespaced_with(self.client.clone(), namespace, &resource),
        }
    }

    /// Makes an object, or applies it to what is there. A status is written, too.
    pub fn put(&self, kind: &str, name: &str, object: Value) {
        let (namespace, name) = name.split_once('/').unwrap_or(("", name));
        let mut object = object;
        object["apiVersion"] = api_version(kind).into();
        object["kind"] = kind.into();
        object["metadata"]["name"] = name.into();
        let api = self.api(kind, namespace);
        let parameters = PatchParams::apply("test").force();
        let status = object.get("status").cloned();
        let patch = Patch::Apply(&object);
        let applied = api.patch(name, &parameters, &patch);
        self.runtime.block_on(applied).unwrap();
        if let Some(status) = status.filter(|_| kind != "NetworkQoSNodeReport") {
            let (parameters, status) = (PatchParams::default(), json!({"status": status}));
            let patch = Patch::Merge(&status);
            let patched = api.patch_status(name, &parameters, &patch);
            self.runtime.block_on(patched).unwrap();
        }
    }

    /// Has the server know NodeSLO, by a definition that takes what ours refuses, as Koordinator's does.
    pub fn define_node_slo(&self) {
        let ours = netqos_k8s::node_slo_definition().crd().unwrap();
        let definition = netqos_faults::without_rules(&ours);
        let defined = self.cluster.define(&definition);
        self.runtime.block_on(defined).unwrap();
    }

    /// Has the server know NetworkAttachmentDefinitions.
    pub fn define_nads(&self) {
        self.runtime.block_on(self.cluster.define_nads()).unwrap();
    }

    /// A name in the namespace of the test's own.
    pub fn name(&self, name: &str) -> String {
        format!("{}/{name}", self.games)
    }

    /// A pod that runs on node1.
    pub fn pod(&self, name: &str, app: &str, address: &str, annotations: &Value) {
        self.put(
            "Pod",
            &self.name(name),
            json!({
                "metadata": {"labels": {"app": app}, "annotations": annotations},
                "spec": {"nodeName": "node1", "containers": [{"name": "c", "image": "i"}]},
                "status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}
            }),
        );
    }

    pub fn node(&self, name: &str) {
        let info = json!({
            "architecture": "amd64", "operatingSystem": "linux", "kernelVersion": "6.18.1",
            "containerRuntimeVersion": "containerd://2.1.0", "kubeletVersion": "v1.33.0",
            "osImage": "Debian", "bootID": "", "machineID": "", "systemUUID": "",
            "kubeProxyVersion": ""
        });
        let labels = json!({"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"});
        let of = json!({"metadata": {"labels": labels}, "status": {"nodeInfo": info}});
        self.put("Node", name, of);
    }

    /// The agents' DaemonSet, as the cluster says of it; a selector beside that of the manifests.
    pub fn agents(&self, desired: u32, ready: u32, selector: &Value) {
        let status = json!({
            "observedGeneration": 1_000, "currentNumberScheduled": desired, "numberMisscheduled": 0,
            "desiredNumberScheduled": desired, "updatedNumberScheduled": desired,
            "numberReady": ready
        });
        let mut selector = selector.clone();
        selector["kubernetes.io/os"] = "linux".into();
        self.workload(
            "DaemonSet",
            "agent",
            env!("CARGO_PKG_VERSION"),
            &selector,
            &status,
        );
    }

    /// The report of a node is gone.
    pub fn no_report(&self, node: &str) {
        let api = self.api("NetworkQoSNodeReport", "");
        let parameters = DeleteParams::default();
        let deleted = api.delete(node, &parameters);
        drop(self.runtime.block_on(deleted).unwrap());
    }

    /// The agents' DaemonSet takes everything away, and is through with so many of the nodes.
    pub fn leaving(&self, desired: u32, through: u32) {
        self.agents(desired, through, &json!({}));
        let label = json!({"netqos.io/leaving": "true"});
        let patch = json!({"spec": {"template": {"metadata": {"labels": label}}}});
        let api = self.api("DaemonSet", "netqos-system");
        let (parameters, patch) = (PatchParams::default(), Patch::Merge(&patch));
        let patched = api.patch("netqos-agent", &parameters, &patch);
        self.runtime.block_on(patched).unwrap();
    }

    /// The controllers' Deployment, which wants two.
    pub fn controllers(&self, version: &str, ready: u32) {
        let status = json!({
            "observedGeneration": 1_000, "replicas": 2, "updatedReplicas": 2, "readyReplicas": ready
        });
        self.workload("Deployment", "controller", version, &json!({}), &status);
    }

    fn workload(&self, kind: &str, of: &str, version: &str, selector: &Value, status: &Value) {
        let own = json!({
            "app.kubernetes.io/name": "netqos", "app.kubernetes.io/component": of
        });
        let mut labels = own.clone();
        labels["app.kubernetes.io/version"] = version.into();
        let pod = json!({
            "nodeSelector": selector, "containers": [{"name": "c", "image": "i"}]
        });
        let template = json!({"metadata": {"labels": own}, "spec": pod});
        let mut spec = json!({"selector": {"matchLabels": own}, "template": template});
        if kind == "Deployment" {
            spec["replicas"] = 2.into();
        }
        self.put(
            kind,
            &format!("netqos-system/netqos-{of}"),
            json!({"metadata": {"labels": labels}, "spec": spec, "status": status}),
        );
    }

    /// Who leads; the Lease was renewed so many seconds from now.
    pub fn leader(&self, renewed: i64) {
        let renewed = Timestamp::now() + SignedDuration::from_secs(renewed);
        self.put(
            "Lease",
            "netqos-system/netqos-controller",
            json!({"spec": {
                "holderIdentity": "one", "leaseDurationSeconds": 15,
                "renewTime": format!("{renewed:.6}")
            }}),
        );
    }

    /// A policy for the pods of an app.
    pub fn policy(&self, name: &str, app: &str, priority: u8, egress: &Value) {
        let spec = json!({
            "priority": priority, "podSelector": {"matchLabels": {"app": app}}, "egress": egress
        });
        self.put("NetworkQoS", &self.name(name), json!({"spec": spec}));
    }

    /// What the agent of a node says.
    pub fn report(&self, node: &str, policies: &[(&str, i64)], problems: &Value) {
        let policies = policies.iter().map(|(name, generation)| {
            json!({"namespace": self.games, "name": name, "generation": generation})
        });
        let policies: Vec<Value> = policies.collect();
        self.put(
            "NetworkQoSNodeReport",
            node,
            json!({
                "agentVersion": env!("CARGO_PKG_VERSION"),
                "policies": policies, "problems": problems
            }),
        );
    }

    /// What the controller says of a policy, as of a generation.
    pub fn said(&self, name: &str, generation: i64, ready: bool, reason: &str, message: &str) {
        let condition = |type_: &str, holds: bool, reason: &str| {
            json!({
                "type": type_, "status": if holds { "True" } else { "False" }, "reason": reason,
                "message": message, "observedGeneration": generation,
                "lastTransitionTime": "2026-01-01T00:00:00Z"
            })
        };
        let status = json!({"status": {"nodes": "1/1", "selectedPods": 1, "conditions": [
            condition("Accepted", true, "Accepted"),
            condition("Programmed", ready, reason),
            condition("Ready", ready, reason),
        ]}});
        let api = self.api("NetworkQoS", &self.games);
        let (parameters, patch) = (PatchParams::default(), Patch::Merge(&status));
        let patched = api.patch_status(name, &parameters, &patch);
        self.runtime.block_on(patched).unwrap();
    }
}
