//! A node with an agent, Multus' daemon and an API server, all of which know the same pods and networks.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams, PostParams};
use netqos_faults::{Account, Cluster, Front, Request};
use netqos_testkit::{Call, Node, Pod};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::{Who, multus};
use crate::bench::calls;
use crate::bench::cluster::process::Process;

/// The version that testing/kubernetes/go/multus pins.
pub const MULTUS: &str = "4.3.0";
const NAMESPACE: &str = "bench";
pub const NODE: &str = "node1";
const AGENT: &str = "agent";
const THIN: &str = "multus";
/// The lists of a runtime. Multus' daemon writes one of its own beside that of the default network.
pub const LISTS: &str = "/run/cni";
const DEFAULT: &str = "/run/cni/10-pods.conflist";
pub const OF_DAEMON: &str = "/run/cni/00-multus.conf";
const NETWORKS: &str = "k8s.v1.cni.cncf.io/networks";
const STATUS: &str = "k8s.v1.cni.cncf.io/network-status";
/// The time for agent and daemon to know all objects.
const PATIENCE: Duration = Duration::from_secs(60);
/// The kinds of pods by the networks that they select.
pub const KINDS: [(&str, &[&str]); 5] = [
    ("none", &[]),
    ("bridge", &["lan"]),
    ("macvlan", &["wire"]),
    ("two", &["lan", "wire"]),
    ("three", &["lan", "wire", "more"]),
];

/// Executables and directories.
pub struct Programs {
    pub multinet: PathBuf,
    pub agent: PathBuf,
    pub measure: PathBuf,
    pub plugins: PathBuf,
    pub multus: PathBuf,
    pub shim: PathBuf,
    pub daemon: PathBuf,
    /// A directory on a disk.
    pub disk: PathBuf,
}

/// A pod of the API server.
#[derive(Clone, Debug)]
pub struct BenchPod {
    pub name: String,
    uid: String,
    /// The networks beside the default one.
    networks: Vec<String>,
}

/// One call of one executable.
struct Invocation {
    program: PathBuf,
    environment: Vec<(&'static str, String)>,
    config: String,
}

/// The cost of a command: milliseconds, and bytes of the largest process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spent {
    pub cpu: f64,
    pub wall: f64,
    pub peak: u64,
}

pub struct Testbed<'a> {
    // Both end before the server.
    pub agent: Process,
    pub daemon: Process,
    pub front: Front,
    /// Pods by their names.
    pub pods: BTreeMap<String, BenchPod>,
    programs: &'a Programs,
    client: Client,
    runtime: Runtime,
    cluster: Cluster,
    pub node: Node,
}

impl<'a> Testbed<'a> {
    /// With a pod of each kind, and this many pods `boot-N` on three networks.
    pub fn start(node: Node, programs: &'a Programs, pods: usize) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let cluster = runtime.block_on(Cluster::start())?;
        let front = runtime.block_on(cluster.front())?;
        let client = runtime.block_on(cluster.client())?;
        runtime.block_on(cluster.define(&serde_json::from_value(nad_crd())?))?;
        let mut objects = vec![
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}),
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}}),
            json!({"apiVersion": "netqos.io/v1alpha1", "kind": "NetworkAttachmentPolicy",
                "metadata": {"name": NAMESPACE}, "spec": {"pluginTypes": ["*"], "masters": ["*"]}}),
        ];
        objects.extend(networks().into_iter().map(|(name, config)| {
            json!({"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
                "metadata": {"namespace": NAMESPACE, "name": name}, "spec": {"config": config.to_string()}})
        }));
        for object in objects {
            runtime.block_on(create(&client, object))?;
        }
        let boot = (0..pods).map(|number| (format!("boot-{number}"), KINDS[4].1));
        let kinds = KINDS
            .iter()
            .map(|(name, networks)| ((*name).to_owned(), *networks));
        let mut known = BTreeMap::new();
        for (name, networks) in kinds.chain(boot) {
            let object = json!({"apiVersion": "v1", "kind": "Pod",
                "metadata": {"namespace": NAMESPACE, "name": name, "annotations": {NETWORKS: networks.join(",")}},
                "spec": {"nodeName": NODE, "containers": [{"name": "c", "image": "none"}]}});
            let created = runtime.block_on(create(&client, object))?;
            let pod = BenchPod {
                name: name.clone(),
                uid: created.metadata.uid.unwrap_or_default(),
                networks: networks.iter().map(ToString::to_string).collect(),
            };
            known.insert(name, pod);
        }
        node.parent_link("parent")?;
        fs::create_dir_all(LISTS)?;
        fs::write(DEFAULT, default_list().to_string())?;
        fs::write("/run/multus.kubeconfig", front.kubeconfig(THIN))?;
        let token = runtime.block_on(multus::account(&client))?;
        front.identify(THIN, &token)?;
        fs::write("/run/kubeconfig", front.kubeconfig(AGENT))?;
        runtime.block_on(cluster.identify(&front, AGENT, Account::Agent { node: NODE }))?;
        let objects = ["--node", NODE, "--kubeconfig", "/run/kubeconfig"];
        let agent = Process::start(&programs.agent, &objects, &[])?;
        let daemon = multus::daemon(&cluster, programs, &token)?;
        let testbed = Self {
            agent,
            daemon,
            front,
            pods: known,
            programs,
            client,
            runtime,
            cluster,
            node,
        };
        testbed.wait_until_ready()?;
        Ok(testbed)
    }

    /// The version of the API server.
    pub fn kubernetes(&self) -> String {
        self.cluster.version().to_owned()
    }

    /// Attaches a pod by each, until that succeeds.
    fn wait_until_ready(&self) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        for who in [
            Who::Direct,
            Who::Multinet,
            Who::MultinetOnDisk,
            Who::Thin,
            Who::Thick,
        ] {
            loop {
                let sandbox = self.node.empty_pod("first")?;
                let pod = &self.pods["three"];
                let added = self.call(who, "ADD", &sandbox, pod);
                let deleted = self.call(who, "DEL", &sandbox, pod);
                self.node.remove_pod(sandbox)?;
                match added.and(deleted) {
                    Ok(_) => break,
                    Err(error) if Instant::now() > end => return Err(error),
                    Err(_) => thread::sleep(Duration::from_millis(200)),
                }
            }
        }
        Ok(())
    }

    /// Makes a call for a pod, and returns its cost. That of agent and daemon is not in it.
    pub fn call(&self, who: Who, command: &str, sandbox: &Pod, pod: &BenchPod) -> Result<Spent> {
        let mut spent = Spent::default();
        for invocation in self.invocations(who, command, sandbox, pod)? {
            let environment: Vec<(&str, &str)> = (invocation.environment.iter())
                .map(|(name, value)| (*name, value.as_str()))
                .collect();
            let one = calls::one(
                &self.programs.measure,
                &invocation.program,
                &environment,
                &invocation.config,
            )?;
            if one.code != 0 {
                // Once more, for the error.
                let outcome = invocation.call().run()?;
                bail!(
                    "{command} of {who:?} for pod {} failed: {outcome:?}",
                    pod.name
                );
            }
            spent.cpu += one.cpu_nanos as f64 / 1e6;
            spent.wall += one.wall_nanos as f64 / 1e6;
            spent.peak = spent.peak.max(one.peak_bytes);
        }
        Ok(spent)
    }

    /// The only call of a meta plugin, not yet made.
    pub fn prepared(&self, who: Who, command: &str, sandbox: &Pod, pod: &BenchPod) -> Result<Call> {
        let mut invocations = self.invocations(who, command, sandbox, pod)?;
        ensure!(invocations.len() == 1, "{who:?} makes several calls");
        Ok(invocations.remove(0).call())
    }

    fn invocations(
        &self,
        who: Who,
        command: &str,
        sandbox: &Pod,
        pod: &BenchPod,
    ) -> Result<Vec<Invocation>> {
        let programs = self.programs;
        let invocation = |program: &Path, interface: &str, config: String| Invocation {
            program: program.to_owned(),
            environment: vec![
                ("CNI_COMMAND", command.to_owned()),
                ("CNI_CONTAINERID", sandbox.name().to_owned()),
                ("CNI_NETNS", sandbox.netns().display().to_string()),
                ("CNI_IFNAME", interface.to_owned()),
                ("CNI_PATH", programs.plugins.display().to_string()),
                (
                    "CNI_ARGS",
                    format!(
                        "IgnoreUnknown=1;K8S_POD_NAMESPACE={NAMESPACE};K8S_POD_NAME={};K8S_POD_UID={};\
                         K8S_POD_INFRA_CONTAINER_ID={}",
                        pod.name,
                        pod.uid,
                        sandbox.name()
                    ),
                ),
                ("PATH", std::env::var("PATH").unwrap_or_default()),
            ],
            config,
        };
        let annotations = match pod.networks.is_empty() {
            true => json!({}),
            false => json!({NETWORKS: pod.networks.join(",")}),
        };
        let multinet = json!({
            "cniVersion": "1.0.0", "name": "netqos-multinet", "type": "netqos-multinet",
            "defaultNetwork": DEFAULT,
            "runtimeConfig": {"io.kubernetes.cri.pod-annotations": annotations},
        });
        Ok(match who {
            Who::Direct => {
                let of_default = default_list()["plugins"][0].clone();
                let of_pod = networks().into_iter();
                let of_pod = of_pod.filter(|(name, _)| pod.networks.iter().any(|it| it == name));
                let mut all = vec![("eth0".to_owned(), named("pods", of_default))];
                for (index, (_, config)) in of_pod.enumerate() {
                    all.push((format!("net{}", index + 1), config));
                }
                if command == "DEL" {
                    all.reverse();
                }
                let calls = all.iter().map(|(interface, config)| {
                    let program = programs.plugins.join(config["type"].as_str().unwrap_or(""));
                    invocation(&program, interface, config.to_string())
                });
                calls.collect()
            }
            Who::Multinet => vec![invocation(&programs.multinet, "eth0", multinet.to_string())],
            Who::MultinetOnDisk => {
                let mut config = multinet;
                config["stateDir"] = programs.disk.display().to_string().into();
                vec![invocation(&programs.multinet, "eth0", config.to_string())]
            }
            Who::Thin => {
                let config = json!({
                    "cniVersion": "1.0.0", "name": "multus-cni-network", "type": "multus",
                    "kubeconfig": "/run/multus.kubeconfig", "binDir": programs.plugins,
                    "delegates": [default_list()],
                });
                vec![invocation(&programs.multus, "eth0", config.to_string())]
            }
            Who::Thick => {
                let config =
                    fs::read_to_string(OF_DAEMON).context("Multus' daemon wrote no list")?;
                vec![invocation(&programs.shim, "eth0", config)]
            }
        })
    }

    /// The requests that a client has made since the start.
    pub fn requests(&self, client: &str) -> Vec<Request> {
        let requests = self.front.requests().into_iter();
        requests.filter(|it| it.client == client).collect()
    }

    /// The client whose requests are those of an ADD.
    pub fn client_of(&self, who: Who) -> &'static str {
        match who {
            Who::Thin => THIN,
            _ => AGENT,
        }
    }

    /// The number of entries of `network-status` of each pod.
    pub fn statuses(&self) -> Result<BTreeMap<String, usize>> {
        let pods = Api::namespaced_with(self.client.clone(), NAMESPACE, &resource("v1", "Pod"));
        let pods: Api<DynamicObject> = pods;
        let list = self.runtime.block_on(pods.list(&ListParams::default()))?;
        let entries = |pod: &DynamicObject| {
            let status = pod.metadata.annotations.as_ref()?.get(STATUS)?;
            serde_json::from_str::<Vec<Value>>(status)
                .ok()
                .map(|it| it.len())
        };
        let of_pods = list.items.iter().map(|pod| {
            let name = pod.metadata.name.clone().unwrap_or_default();
            (name, entries(pod).unwrap_or(0))
        });
        Ok(of_pods.collect())
    }
}

impl Invocation {
    fn call(&self) -> Call {
        let call = Call::bare(&self.program, "").stdin(&self.config);
        let variables = self.environment.iter();
        variables.fold(call, |call, (name, value)| call.variable(name, value))
    }
}

fn default_list() -> Value {
    json!({"cniVersion": "1.0.0", "name": "pods", "plugins": [
        {"type": "bridge", "bridge": "pods0", "isGateway": true, "ipam": ipam("10.87.0.0/16")},
    ]})
}

/// The networks beside the default one, each with its only plugin.
fn networks() -> [(&'static str, Value); 3] {
    let bridge =
        |bridge: &str, subnet| json!({"type": "bridge", "bridge": bridge, "ipam": ipam(subnet)});
    let macvlan = json!({"type": "macvlan", "master": "parent", "mode": "bridge", "ipam": ipam("10.89.0.0/16")});
    [
        ("lan", named("lan", bridge("lan0", "10.88.0.0/16"))),
        ("wire", named("wire", macvlan)),
        ("more", named("more", bridge("more0", "10.90.0.0/16"))),
    ]
}

fn ipam(subnet: &str) -> Value {
    json!({"type": "host-local", "ranges": [[{"subnet": subnet}]]})
}

fn named(name: &str, mut plugin: Value) -> Value {
    plugin["cniVersion"] = "1.0.0".into();
    plugin["name"] = name.into();
    plugin
}

fn nad_crd() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "network-attachment-definitions.k8s.cni.cncf.io"},
        "spec": {
            "group": "k8s.cni.cncf.io", "scope": "Namespaced",
            "names": {"plural": "network-attachment-definitions", "singular": "network-attachment-definition",
                "kind": "NetworkAttachmentDefinition"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object",
                "properties": {"spec": {"type": "object", "properties": {"config": {"type": "string"}}}},
            }}}],
        },
    })
}

pub fn resource(api_version: &str, kind: &str) -> ApiResource {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let of_kind = GroupVersionKind::gvk(group, version, kind);
    match kind {
        "NetworkAttachmentDefinition" => {
            ApiResource::from_gvk_with_plural(&of_kind, "network-attachment-definitions")
        }
        _ => ApiResource::from_gvk(&of_kind),
    }
}

pub async fn create(client: &Client, object: Value) -> Result<DynamicObject> {
    let text = |key: &str| object[key].as_str().unwrap_or_default();
    let resource = resource(text("apiVersion"), text("kind"));
    let api: Api<DynamicObject> = match object["metadata"]["namespace"].as_str() {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let object: DynamicObject = serde_json::from_value(object)?;
    Ok(api.create(&PostParams::default(), &object).await?)
}
