//! What an agent has in memory, and what it takes when nothing happens.

use std::net::Ipv4Addr;
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use netqos_core::{Labels, ObjectName};
use netqos_index::{Change, PeerIndex, SliceWrite, Slicer};
use netqos_k8s::{NetworkQoSPeerSlice, Object, object_from_value};
use netqos_testkit::mk_pod;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::server::{HOME, Server};
use super::stage::{self, NAMESPACE};
use crate::bench::rules::on_a_node;

/// How often Prometheus asks before it is looked at.
const SCRAPES: u32 = 3;
/// Sets that the peers are in.
const SETS: usize = 100;

/// What is on the node.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Node {
    pub pods: usize,
    pub policies: usize,
    /// Pods elsewhere that its rules go to.
    pub peers: u32,
}

/// The figures.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Resident {
    pub node: Node,
    /// Bytes: when all is in force, and the most since its start.
    pub resident: u64,
    pub peak: u64,
    /// Of a core, when nothing happens.
    pub idle: f64,
    pub seconds: u64,
}

impl Node {
    /// Those that are measured.
    pub fn all(peers: u32) -> [Self; 2] {
        let full = Self {
            pods: 110,
            policies: 200,
            peers: 0,
        };
        [full, Self { peers, ..full }]
    }
}

/// Measures.
pub fn measure(program: &Path, node: Node, quick: bool) -> Result<Resident> {
    let (settled, idle) = match quick {
        true => (Duration::from_secs(1), Duration::from_secs(2)),
        false => (Duration::from_secs(15), Duration::from_secs(60)),
    };
    on_a_node(|its| {
        let server = stage::server()?;
        let mut peers = Peers::new();
        let mut pods = Vec::new();
        for number in 0..node.pods {
            let pod = its.pod(&format!("p{number}"))?;
            stage::remember(&pod)?;
            let object = stage::pod_object(&pod, &format!("p{number}"));
            peers.apply(&object)?;
            server.put("pods", object)?;
            pods.push(pod);
        }
        for number in 0..node.policies {
            let (key, value) = match node.peers {
                0 => ("app", format!("p{}", number % node.pods)),
                _ => ("kind", format!("kind-{}", number % SETS)),
            };
            let policy = stage::policy(&format!("n{number}"), number % 101, key, &value);
            peers.apply(&policy)?;
            server.put("networkqoses", policy)?;
        }
        peers.come(node.peers);
        peers.publish(&server)?;
        let agent = stage::agent(program, &server)?;
        stage::wait_for("what is to be in force", |status| {
            let mut all = status.pods.iter();
            status.pods.len() == node.pods
                && all.all(|pod| pod.failing.is_empty() && pod.rules.len() == node.policies)
        })?;
        // What is urgent is done, what was seen is written down, and Prometheus has come by.
        for _ in 0..SCRAPES {
            thread::sleep(settled / SCRAPES);
            stage::scrape()?;
        }
        let before = agent.processor_time()?;
        thread::sleep(idle);
        let busy = (agent.processor_time()? - before).as_secs_f64();
        let figures = Resident {
            node,
            resident: agent.resident()?,
            peak: agent.peak()?,
            idle: busy / idle.as_secs_f64(),
            seconds: idle.as_secs(),
        };
        eprintln!("{figures:?}");
        drop(agent);
        drop(pods);
        Ok(figures)
    })
}

/// What a controller would publish, by the library that it is made of.
struct Peers {
    index: PeerIndex,
    slicer: Slicer,
}

impl Peers {
    fn new() -> Self {
        Self {
            index: PeerIndex::default(),
            slicer: Slicer::new(HOME),
        }
    }

    fn apply(&mut self, object: &Value) -> Result<()> {
        let read = object_from_value(object);
        self.index.apply(match read {
            Ok(Object::Pod(pod, ..)) => Change::Pod(*pod),
            Ok(Object::Policy(policy)) => Change::Policy(policy),
            other => anyhow::bail!("{other:?}"),
        });
        Ok(())
    }

    /// So many pods elsewhere, each in one of the sets.
    fn come(&mut self, many: u32) {
        for number in 0..many {
            let kind = format!("kind-{}", number as usize % SETS);
            let labels = Labels::from([("kind".into(), kind.into())]);
            let name = ObjectName::new(NAMESPACE, &format!("far-{number}"));
            let address = Ipv4Addr::from(0x0A80_0000 + number).into();
            let pod = mk_pod(name, labels, "elsewhere", [address]);
            self.index.apply(Change::Pod(pod));
        }
    }

    fn publish(&mut self, server: &Server) -> Result<()> {
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": NAMESPACE, "labels": {"kubernetes.io/metadata.name": NAMESPACE}}
        });
        let namespace = object_from_value(&namespace).ok();
        let Some(Object::Namespace(namespace)) = namespace else {
            anyhow::bail!("the namespace cannot be read");
        };
        self.index.apply(Change::Namespace(namespace));
        self.slicer.change(self.index.take_changes());
        let writes = self.slicer.take_writes();
        ensure!(!writes.is_empty(), "nobody is a peer");
        for write in writes {
            let SliceWrite::Put(slice) = write else {
                continue;
            };
            let object = serde_json::to_value(NetworkQoSPeerSlice::of(&slice));
            let object = object.context("write a slice")?;
            server.put("networkqospeerslices", object)?;
        }
        Ok(())
    }
}
