//! From the rename of a manifest in an agent's folder to the first packet that is marked by it.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use netqos_agent::client;
use netqos_testkit::Pod;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Quantiles;
use super::flow::Flow;
use super::stage::{NAMESPACE, NODE, on_a_node};

const MANIFESTS: &str = "/run/objects";
const RUN: &str = "/run/netqos";
const CACHE: &str = "/var/lib/cni/results";
const PODS: u32 = 5_000;
const POLICIES: u32 = 1_000;
/// What takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(30);

/// The figures, in milliseconds.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EndToEnd {
    pub pods: u32,
    pub policies: u32,
    pub changes: usize,
    pub seen: Quantiles,
}

/// Changes the mark of a rule so often, with 5,000 pods and 1,000 policies in the folder.
pub fn measure(agent: &Path, changes: u32) -> Result<EndToEnd> {
    ensure!(
        agent.exists(),
        "{} is missing; `make build` makes it",
        agent.display()
    );
    on_a_node(|node| {
        fs::create_dir_all(MANIFESTS)?;
        fs::create_dir_all(CACHE)?;
        let (from, to) = (node.pod("sender")?, node.pod("receiver")?);
        remember(&from)?;
        let pods = (0..PODS).map(|number| {
            let [_, _, a, b] = number.to_be_bytes();
            pod(
                &format!("far-{number}"),
                "peer",
                "elsewhere",
                &format!("10.128.{a}.{b}"),
            )
        });
        let here = [
            pod("sender", "sender", NODE, &from.address()),
            pod("receiver", "peer", NODE, &to.address()),
        ];
        put("pods.json", &list(here.into_iter().chain(pods)))?;
        let policies = (0..POLICIES - 1).map(|number| {
            let namespace = match number % 10 {
                0 => NAMESPACE.to_owned(),
                _ => format!("team-{}", number % 100),
            };
            policy(&namespace, &format!("p{number}"), "nobody", 1)
        });
        put("policies.json", &list(policies))?;
        let _agent = Agent::start(agent)?;
        let flow = Flow::begin(&from, &to)?;
        let mut took = Vec::new();
        // The first brings the peers with it, and is no change.
        for round in 0..=changes {
            let mark = (round % 62 + 1) as u8;
            let manifest = policy(NAMESPACE, "measured", "sender", mark).to_string();
            let begin = put("measured.json", &manifest)?;
            let seen = flow.wait_for(mark)?;
            if round > 0 {
                took.push(seen.saturating_duration_since(begin).as_secs_f64() * 1e3);
            }
            // Not in step with anything.
            thread::sleep(Duration::from_micros(u64::from(
                20_000 + round * 7919 % 20_000,
            )));
        }
        flow.end();
        Ok(EndToEnd {
            pods: PODS,
            policies: POLICIES,
            changes: took.len(),
            seen: Quantiles::of(took),
        })
    })
}

/// Puts a file into the folder at once; the moment before the rename.
fn put(file: &str, text: &str) -> Result<Instant> {
    let fresh = Path::new(MANIFESTS).join(".new");
    fs::write(&fresh, text)?;
    let before = Instant::now();
    fs::rename(fresh, Path::new(MANIFESTS).join(file))?;
    Ok(before)
}

fn list(items: impl Iterator<Item = Value>) -> String {
    let items: Vec<Value> = items.collect();
    json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
}

fn pod(name: &str, kind: &str, node: &str, address: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"kind": kind}},
        "spec": {"nodeName": node},
        "status": {"podIP": address, "podIPs": [{"ip": address}]},
    })
}

/// Marks what pods of this kind send to the peers.
fn policy(namespace: &str, name: &str, kind: &str, mark: u8) -> Value {
    json!({
        "apiVersion": "k8s.ovn.org/v1alpha1",
        "kind": "NetworkQoS",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "priority": 1,
            "podSelector": {"matchLabels": {"kind": kind}},
            "egress": [{
                "dscp": mark,
                "classifier": {"to": [{"podSelector": {"matchLabels": {"kind": "peer"}}}]},
            }],
        },
    })
}

/// What a runtime remembers of a pod that it has added.
fn remember(pod: &Pod) -> Result<()> {
    let text = json!({
        "kind": "cniCacheV1", "containerId": pod.name(), "config": "", "ifName": "eth0",
        "networkName": "net", "netns": pod.netns(),
        "cniArgs": [["K8S_POD_NAMESPACE", NAMESPACE], ["K8S_POD_NAME", pod.name()]],
        "capabilityArgs": {},
        "result": {"cniVersion": "1.1.0", "ips": [{"address": format!("{}/32", pod.address())}]},
    });
    let file = Path::new(CACHE).join(format!("net-{}-eth0", pod.name()));
    Ok(fs::write(file, text.to_string())?)
}

/// An agent, which is killed when it is let go.
struct Agent(Child);

impl Agent {
    /// Starts it, and waits until the folder is in force.
    fn start(program: &Path) -> Result<Self> {
        let child = Command::new(program)
            .args([
                "--manifests",
                MANIFESTS,
                "--node",
                NODE,
                "--log-level",
                "warn",
            ])
            .stderr(Stdio::inherit())
            .spawn()
            .context("start the agent")?;
        let agent = Self(child);
        let begin = Instant::now();
        loop {
            let ready = client::request(Path::new(RUN), "GET", "/readyz", "");
            if matches!(ready, Ok((200, _))) {
                return Ok(agent);
            }
            ensure!(
                begin.elapsed() < PATIENCE,
                "the agent does not become ready"
            );
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
