//! A node with real pods, beside an API server that knows of them.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use netqos_agent::{Status, client};
use netqos_faults::Account;
use netqos_testkit::Pod;
use serde_json::{Value, json};

use super::process::Process;
use super::server::{HOME, Server};

pub const NODE: &str = "node1";
/// The namespace of the node's pods.
pub const NAMESPACE: &str = "bench";
/// What the agent is recorded as.
pub const AGENT: &str = "agent";
/// And the controller.
pub const CONTROLLER: &str = "controller";
const RUN: &str = "/run/netqos";
const CACHE: &str = "/var/lib/cni/results";
/// What takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(120);

/// A server that knows the node and the namespace. To be started on the node.
pub fn server() -> Result<Server> {
    fs::create_dir_all(CACHE)?;
    let server = Server::start()?;
    server.put(
        "namespaces",
        json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": NAMESPACE, "labels": {"kubernetes.io/metadata.name": NAMESPACE}}
        }),
    )?;
    let node = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE, "uid": "uid-node"}
    });
    server.put("nodes", node)?;
    Ok(server)
}

/// The allocator's settings of the agent's DaemonSet.
const OF_ALLOCATOR: [(&str, &str); 2] =
    [("MIMALLOC_ALLOW_THP", "0"), ("MIMALLOC_PURGE_DELAY", "0")];

/// An agent.
pub fn agent(program: &Path, server: &Server) -> Result<Process> {
    let kubeconfig = server.kubeconfig(AGENT, Account::Agent { node: NODE })?;
    Process::start(
        program,
        &[
            "--node",
            NODE,
            "--kubeconfig",
            &kubeconfig,
            "--controller-namespace",
            HOME,
        ],
        &OF_ALLOCATOR,
    )
}

/// A controller, the only one.
pub fn controller(program: &Path, server: &Server) -> Result<Process> {
    let kubeconfig = server.kubeconfig(CONTROLLER, Account::Controller)?;
    Process::start(
        program,
        &[
            "--kubeconfig",
            &kubeconfig,
            "--namespace",
            HOME,
            "--identity",
            CONTROLLER,
            "--listen",
            "off",
            "--webhook",
            "off",
        ],
        &[],
    )
}

/// What an agent says once it is so.
pub fn wait_for(what: &str, is_so: impl Fn(&Status) -> bool) -> Result<()> {
    let began = Instant::now();
    loop {
        let status = client::status(Path::new(RUN));
        if status.as_ref().is_ok_and(&is_so) {
            return Ok(());
        }
        let said = status.map(|it| it.checks);
        ensure!(began.elapsed() < PATIENCE, "{what} does not come: {said:?}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Asks for all metrics.
pub fn scrape() -> Result<()> {
    let (code, text) = client::request(Path::new(RUN), "GET", "/metrics", "")?;
    ensure!(
        code == 200 && text.ends_with("# EOF\n"),
        "{code}: metrics that break off"
    );
    Ok(())
}

/// The object of a pod of the node.
pub fn pod_object(pod: &Pod, app: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": pod.name(), "namespace": NAMESPACE, "uid": uid(pod),
            "labels": {"app": app},
            "annotations": {"kubernetes.io/egress-bandwidth": "10M"}
        },
        "spec": {"nodeName": NODE, "containers": [{"name": "c", "image": "none"}]},
        "status": {
            "phase": "Running", "podIP": pod.address(), "podIPs": [{"ip": pod.address()}]
        }
    })
}

/// What a runtime remembers of a pod that it has added.
pub fn remember(pod: &Pod) -> Result<()> {
    let text = json!({
        "kind": "cniCacheV1", "containerId": pod.name(), "config": "", "ifName": "eth0",
        "networkName": "net", "netns": pod.netns(),
        "cniArgs": [
            ["K8S_POD_NAMESPACE", NAMESPACE], ["K8S_POD_NAME", pod.name()],
            ["K8S_POD_UID", uid(pod)]
        ],
        "capabilityArgs": {},
        "result": {"cniVersion": "1.1.0", "ips": [{"address": format!("{}/32", pod.address())}]},
    });
    let file = Path::new(CACHE).join(format!("net-{}-eth0", pod.name()));
    Ok(fs::write(file, text.to_string())?)
}

/// A policy for all pods of the namespace that marks what goes to those of some label.
pub fn policy(name: &str, priority: usize, key: &str, value: &str) -> Value {
    json!({
        "apiVersion": "k8s.ovn.org/v1alpha1", "kind": "NetworkQoS",
        "metadata": {
            "name": name, "namespace": NAMESPACE, "uid": format!("uid-{name}"), "generation": 1
        },
        "spec": {
            "priority": priority, "podSelector": {},
            "egress": [{
                "dscp": 1, "classifier": {"to": [{"podSelector": {"matchLabels": {key: value}}}]}
            }]
        }
    })
}

fn uid(pod: &Pod) -> String {
    format!("uid-{}", pod.name())
}
