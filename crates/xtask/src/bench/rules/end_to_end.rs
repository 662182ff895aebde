//! From the rename of a manifest in an agent's folder to the first packet that is marked by it.

use std::fs;
use std::io::Read as _;
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use netqos_agent::client;
use netqos_testkit::Pod;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use socket2::{Domain, Protocol, Socket, Type};

use super::Quantiles;
use super::stage::{NAMESPACE, NODE, on_a_node};

const MANIFESTS: &str = "/run/objects";
const RUN: &str = "/run/netqos";
const CACHE: &str = "/var/lib/cni/results";
const PODS: u32 = 5_000;
const POLICIES: u32 = 1_000;
const PORT: u16 = 5000;
/// Between two packets: what the figures are wrong by, at most.
const EVERY: Duration = Duration::from_micros(100);
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

/// Packets on their way, and the moments at which their mark became another.
struct Flow {
    stop: Arc<AtomicBool>,
    marks: Receiver<(Instant, u8)>,
    threads: Vec<JoinHandle<()>>,
}

impl Flow {
    fn begin(from: &Pod, to: &Pod) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let (sender, marks) = channel();
        let (mut raw, port) = to.inside(|| -> Result<(Socket, UdpSocket)> {
            // A raw socket shows the header, with the mark; the other has the port, so that nothing
            // is answered.
            let raw = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::UDP))?;
            raw.set_read_timeout(Some(Duration::from_millis(50)))?;
            Ok((raw, UdpSocket::bind(("0.0.0.0", PORT))?))
        })??;
        let mouth = from.inside(|| UdpSocket::bind("0.0.0.0:0"))??;
        mouth.connect(format!("{}:{PORT}", to.address()))?;
        let (watched, talked) = (stop.clone(), stop.clone());
        let watches = thread::spawn(move || {
            let _port = port;
            let mut packet = [0_u8; 2048];
            let mut last = None;
            while !watched.load(Ordering::Relaxed) {
                if raw.read(&mut packet).is_ok_and(|length| length >= 20) {
                    let mark = packet[1] >> 2;
                    if last.replace(mark) != Some(mark) {
                        let _ = sender.send((Instant::now(), mark));
                    }
                }
            }
        });
        let talks = thread::spawn(move || {
            while !talked.load(Ordering::Relaxed) {
                let _ = mouth.send(&[0; 64]);
                thread::sleep(EVERY);
            }
        });
        Ok(Self {
            stop,
            marks,
            threads: vec![watches, talks],
        })
    }

    /// When the first packet of this mark arrived.
    fn wait_for(&self, wanted: u8) -> Result<Instant> {
        loop {
            match self.marks.recv_timeout(PATIENCE) {
                Ok((at, mark)) if mark == wanted => return Ok(at),
                Ok(_) => {}
                Err(why) => bail!(anyhow!(why).context(format!("no packet is marked {wanted}"))),
            }
        }
    }

    fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            let _ = thread.join();
        }
    }
}
