//! From a change of an object on the API server to what is in force on a node.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use netqos_testkit::{Node, Pod};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::server::{PODS, Server};
use super::stage::{self, NAMESPACE};
use crate::bench::rules::{Flow, Quantiles, on_a_node};

const POLICIES: (&str, &str, &str) = ("k8s.ovn.org/v1alpha1", "NetworkQoS", "networkqoses");
/// What takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(30);
/// After how long nothing is left to be written of a start.
const SETTLED: Duration = Duration::from_secs(5);

/// How long one kind of change takes, in milliseconds.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    pub what: String,
    pub changes: usize,
    pub took: Quantiles,
    pub slowest: f64,
}

impl Change {
    fn of(what: &str, took: Vec<f64>) -> Self {
        let change = Self {
            what: what.to_owned(),
            changes: took.len(),
            slowest: took.iter().copied().fold(0.0, f64::max),
            took: Quantiles::of(took),
        };
        eprintln!("{change:?}");
        change
    }
}

/// Measures so many changes of each kind, one after the other, beside a controller that tells of peers.
pub fn measure(agent: &Path, controller: &Path, changes: u32) -> Result<Vec<Change>> {
    on_a_node(|node| {
        let server = stage::server()?;
        let (from, to) = (node.pod("sender")?, node.pod("receiver")?);
        stage::remember(&from)?;
        server.put("pods", stage::pod_object(&from, "sender"))?;
        server.put("pods", peer(&to, changes))?;
        server.put("networkqoses", stage::policy("p", 1, "app", "receiver"))?;
        let _controller = stage::controller(controller, &server)?;
        let _agent = stage::agent(agent, &server)?;
        let flow = Flow::begin(&from, &to)?;
        flow.wait_for(1)?;
        thread::sleep(SETTLED);
        let policy = Policy {
            server: &server,
            flow: &flow,
        };
        let marks = each(changes, |round| policy.change(round, "app", "receiver"))?;
        let peers = each(changes, |round| policy.change(round, &label(round), "yes"))?;
        flow.end();
        let rates = each(changes, |round| limit(&server, &node, &from, round))?;
        Ok(vec![
            Change::of("the mark of a NetworkQoS, until a packet has it", marks),
            Change::of(
                "the peers of a NetworkQoS, to some that nobody named before, until a packet to them is \
                 marked",
                peers,
            ),
            Change::of("a pod's annotation, until `tc` shows its rate", rates),
        ])
    })
}

/// Each so long after the one before that it is not in step with anything.
fn each(changes: u32, change: impl Fn(u32) -> Result<Duration>) -> Result<Vec<f64>> {
    let took = (0..changes).map(|round| {
        thread::sleep(Duration::from_millis(u64::from(20 + round * 7919 % 200)));
        Ok(change(round)?.as_secs_f64() * 1e3)
    });
    took.collect()
}

/// A label of the peer that is named in one round alone.
fn label(round: u32) -> String {
    format!("round-{round}")
}

/// A pod of the node that rules go to, with a label for each round.
fn peer(pod: &Pod, rounds: u32) -> Value {
    let mut object = stage::pod_object(pod, "receiver");
    for round in 0..rounds {
        object["metadata"]["labels"][label(round)] = "yes".into();
    }
    object
}

/// The policy whose packets are on their way.
struct Policy<'a> {
    server: &'a Server,
    flow: &'a Flow,
}

impl Policy<'_> {
    /// Gives it another mark, for packets to pods of this label; from before the request to the first packet
    /// that has it.
    fn change(&self, round: u32, key: &str, value: &str) -> Result<Duration> {
        let mark = (2 + round % 60) as u8;
        let egress = json!([{
            "dscp": mark, "classifier": {"to": [{"podSelector": {"matchLabels": {key: value}}}]}
        }]);
        let began = Instant::now();
        let patch = json!({"spec": {"egress": egress}});
        self.server.merge(POLICIES, (NAMESPACE, "p"), &patch)?;
        let seen = self.flow.wait_for(mark)?;
        Ok(seen.saturating_duration_since(began))
    }
}

/// Gives a pod another rate; from before the request until the kernel shows it, which a look of some
/// milliseconds is in.
fn limit(server: &Server, node: &Node, pod: &Pod, round: u32) -> Result<Duration> {
    let rate = ["20M", "10M"][(round % 2) as usize];
    let annotations = json!({"kubernetes.io/egress-bandwidth": rate});
    let patch = json!({"metadata": {"annotations": annotations}});
    let began = Instant::now();
    server.merge(PODS, (NAMESPACE, pod.name()), &patch)?;
    let shown = format!("rate {rate}bit");
    while !{ pod }
        .run(node, "tc", &["qdisc", "show", "dev", "eth0"])?
        .contains(&shown)
    {
        ensure!(began.elapsed() < PATIENCE, "{rate} does not come");
    }
    Ok(began.elapsed())
}
