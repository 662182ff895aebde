//! The controller of a large cluster whose pods come and go.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use netqos_faults::Request;
use serde::{Deserialize, Serialize};

use super::objects;
use super::replay::{Replay, WARM};
use super::server::{Server, is_event, is_write, second};
use super::stage::{self, CONTROLLER};
use crate::bench::index::PODS_PER_NAMESPACE;

/// What takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(900);
/// After how long without a write nothing is left to be written.
const QUIET: Duration = Duration::from_secs(4);

/// How large the cluster is, and what happens in it.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Size {
    pub pods: u32,
    pub policies: u32,
    pub nodes: u32,
    /// Pods that come or go in a second.
    pub rate: u32,
    pub seconds: u32,
}

/// The figures.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Controlled {
    pub size: Size,
    /// Seconds from its start until all slices and statuses were written, the processor's of these, and how
    /// many writes.
    pub first: f64,
    pub first_busy: f64,
    pub first_writes: usize,
    /// Events that were written by then. The others go on, a few in a second.
    #[serde(default)]
    pub first_events: usize,
    /// Pods that really came or went in a second, and what was told of them.
    pub changes: f64,
    pub events: f64,
    /// Of a core.
    pub busy: f64,
    /// Bytes: the most that were seen in the time, and the most since its start.
    pub resident: u64,
    pub peak: u64,
    /// In a second.
    pub slice_writes: f64,
    pub status_writes: f64,
    /// Writes of a set's slices in a second in which it was written at all.
    pub per_set: f64,
    pub per_set_most: usize,
    /// The share of such seconds in which there were more than two.
    pub above_two: f64,
    /// Reads: none.
    pub reads: usize,
    /// Seconds from the last change until nothing was left to be written.
    pub behind: f64,
}

/// Measures.
pub fn measure(program: &Path, size: Size) -> Result<Controlled> {
    let server = Server::start()?;
    fill(&server, size)?;
    let process = stage::controller(program, &server)?;
    let began = Instant::now();
    server.wait_until_writing(CONTROLLER, PATIENCE)?;
    let read = began.elapsed();
    let first = read + server.wait_until_quiet(CONTROLLER, 3 * QUIET, PATIENCE)?;
    let first_busy = process.processor_time()?.as_secs_f64();
    let requests = server.requests(CONTROLLER).into_iter().filter(is_write);
    let (told, writes): (Vec<Request>, Vec<Request>) = requests.partition(is_event);
    eprintln!(
        "{} writes, and {} events, after {first:.1?}; {} s of replay",
        writes.len(),
        told.len(),
        size.seconds
    );

    let mut replay = Replay::new(size.pods, size.nodes);
    replay.step(&server, size.rate, WARM)?;
    replay.count_anew();
    server.forget_requests();
    let before = process.processor_time()?;
    let began = Instant::now();
    let mut resident = 0;
    // Step by step, to look at the memory between.
    for _ in 0..size.seconds {
        replay.step(&server, size.rate, Duration::from_secs(1))?;
        resident = resident.max(process.resident()?);
    }
    let took = began.elapsed().as_secs_f64();
    let busy = (process.processor_time()? - before).as_secs_f64() / took;
    let (changes, events) = (replay.changes as f64 / took, replay.events as f64 / took);
    let during = server.requests(CONTROLLER);
    replay.finish(&server)?;
    let behind = server.wait_until_quiet(CONTROLLER, QUIET, PATIENCE)?;

    let slices = |it: &&Request| it.resource == "networkqospeerslices" && is_write(it);
    let written: Vec<&Request> = during.iter().filter(slices).collect();
    let mut per_set: BTreeMap<(u64, &str), usize> = BTreeMap::new();
    for write in &written {
        if let Some(set) = set_of(write) {
            *per_set.entry((second(write), set)).or_default() += 1;
        }
    }
    let statuses = during.iter().filter(|it| it.subresource == "status");
    let above = per_set.values().filter(|writes| **writes > 2).count();
    Ok(Controlled {
        size,
        first: first.as_secs_f64(),
        first_busy,
        first_writes: writes.len(),
        first_events: told.len(),
        changes,
        events,
        busy,
        resident,
        peak: process.peak()?,
        slice_writes: written.len() as f64 / took,
        status_writes: statuses.count() as f64 / took,
        per_set: written.len() as f64 / per_set.len().max(1) as f64,
        per_set_most: per_set.values().max().copied().unwrap_or_default(),
        above_two: above as f64 / per_set.len().max(1) as f64,
        reads: during.iter().filter(|it| is_read(it)).count(),
        behind: behind.as_secs_f64(),
    })
}

/// The cluster as it is before anything happens.
fn fill(server: &Server, size: Size) -> Result<()> {
    let began = Instant::now();
    let namespaces = (size.pods / PODS_PER_NAMESPACE).max(1);
    server.put_all("namespaces", (0..namespaces).map(objects::namespace))?;
    server.put_all("nodes", (0..size.nodes).map(objects::node))?;
    let report = |number| objects::report(number, size.nodes, size.pods, size.policies);
    server.put_all("networkqosnodereports", (0..size.nodes).map(report))?;
    let policy = |number| objects::policy_object(number, namespaces);
    server.put_all("networkqoses", (0..size.policies).map(policy))?;
    let pod = |number| objects::nth_pod(number, 0, size.nodes);
    let running = |number| objects::pod_object(&pod(number), objects::Age::Running);
    server.put_all("pods", (0..size.pods).map(running))?;
    let last = pod(size.pods - 1).id.name;
    server.wait_for_pod(&last.namespace, &last.name, PATIENCE)?;
    eprintln!("{} pods are there after {:.1?}", size.pods, began.elapsed());
    Ok(())
}

/// The set of a slice that was written: its name is the set's, and a number.
fn set_of(request: &Request) -> Option<&str> {
    // A new one is named in what is sent, which is not recorded.
    let name = request.name.as_deref()?;
    name.rsplit_once('-').map(|(set, _)| set)
}

/// What is asked for beside watches, which go on, and kinds that there are not.
fn is_read(request: &Request) -> bool {
    matches!(request.verb, "get" | "list") && request.status != 404 && request.resource != "leases"
}
