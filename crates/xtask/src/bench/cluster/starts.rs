//! What agent and controller ask of the API server when a pod starts.

use std::collections::BTreeMap;
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::Result;
use netqos_faults::Request;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::server::{Server, is_write};
use super::stage::{self, AGENT, CONTROLLER, NODE};
use crate::bench::rules::on_a_node;

const PODS: usize = 20;
/// From one pod to the next: so far apart that nothing is asked for two of them together.
const APART: Duration = Duration::from_secs(3);
/// After how long without a write nothing is left to be written that a pod's start has to pay for: counts
/// have what pods leave over after a minute. Where that is nothing, they are written ten minutes later.
const QUIET: Duration = Duration::from_secs(65);

/// The figures.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Starts {
    pub pods: usize,
    /// Of all of them, by who wrote what.
    pub writes: BTreeMap<String, usize>,
    pub reads: BTreeMap<String, usize>,
}

impl Starts {
    /// For each pod.
    pub fn of_each(&self, requests: &BTreeMap<String, usize>) -> f64 {
        requests.values().sum::<usize>() as f64 / self.pods.max(1) as f64
    }
}

/// Measures: pods that a policy is for, and whom it is about.
pub fn measure(agent: &Path, controller: &Path) -> Result<Starts> {
    on_a_node(|node| {
        let server = stage::server()?;
        server.put("networkqoses", stage::policy("p", 1, "app", "a"))?;
        let first = node.pod("first")?;
        stage::remember(&first)?;
        server.put("pods", stage::pod_object(&first, "a"))?;
        let _controller = stage::controller(controller, &server)?;
        let _agent = stage::agent(agent, &server)?;
        stage::wait_for("the first pod", |status| status.pods.len() == 1)?;
        for who in [AGENT, CONTROLLER] {
            server.wait_until_quiet(who, QUIET / 3, 4 * QUIET)?;
        }
        server.forget_requests();
        let mut pods = vec![first];
        for number in 0..PODS {
            let pod = node.pod(&format!("p{number}"))?;
            come(&server, &pod)?;
            pods.push(pod);
            stage::wait_for("a pod", |status| status.pods.len() == pods.len())?;
            thread::sleep(APART);
        }
        server.wait_until_quiet(CONTROLLER, QUIET, 4 * QUIET)?;
        let mut starts = Starts {
            pods: PODS,
            ..Starts::default()
        };
        for who in [AGENT, CONTROLLER] {
            for request in server.requests(who) {
                let counted = match is_write(&request) {
                    true => &mut starts.writes,
                    false if is_read(&request) => &mut starts.reads,
                    false => continue,
                };
                let what = request.qualified_resource();
                let what = format!("{who} {} {what}", request.verb);
                *counted.entry(what).or_default() += 1;
            }
        }
        eprintln!("{starts:?}");
        Ok(starts)
    })
}

/// A pod is made, gets a node, and runs.
fn come(server: &Server, pod: &netqos_testkit::Pod) -> Result<()> {
    let running = stage::pod_object(pod, "a");
    let mut made = running.clone();
    made["status"] = serde_json::json!({"phase": "Pending"});
    made["spec"]["nodeName"] = Value::Null;
    server.put("pods", made.clone())?;
    thread::sleep(Duration::from_millis(50));
    made["spec"]["nodeName"] = NODE.into();
    server.put("pods", made)?;
    thread::sleep(Duration::from_millis(300));
    stage::remember(pod)?;
    server.put("pods", running)
}

/// What is asked beside watches, which go on; the Lease, which is held; and kinds that there are not.
fn is_read(request: &Request) -> bool {
    matches!(request.verb, "get" | "list") && request.resource != "leases" && request.status != 404
}
