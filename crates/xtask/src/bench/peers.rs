//! How fast the controller finds out who is a peer, and how much it writes.
//!
//! The made-up cluster of `cargo xtask bench-index`, all of whose policies count here, and Deployments
//! that are rolled out without an end: a pod goes, and another one with another address comes. What
//! is to be written is asked for twice a second, as a controller does that collects changes for half
//! a second.

use std::collections::{BTreeMap, BTreeSet};
use std::hint::black_box;
use std::time::{Duration, Instant};

use netqos_core::ObjectName;
use netqos_core::plan::SetId;
use netqos_index::{Change, PeerChange, PeerIndex, SliceWrite, Slicer};
use netqos_k8s::NetworkQoSPeerSlice;

use super::index::{PODS_PER_NAMESPACE, move_away, namespace, pod, policy, resident};
use super::rules::Quantiles;

/// What is measured.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Pods in the cluster.
    #[arg(long, default_value_t = 100_000)]
    pods: u32,
    /// Policies in the cluster.
    #[arg(long, default_value_t = 10_000)]
    policies: u32,
    /// Pods that change in a second.
    #[arg(long, default_value_t = 500)]
    rate: u32,
    /// Seconds of the cluster's life.
    #[arg(long, default_value_t = 60)]
    seconds: u32,
}

/// Batches in a second.
const BATCHES: u32 = 2;

/// Measures, and prints the figures.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let Arguments {
        pods,
        policies,
        rate,
        seconds,
    } = *arguments;
    let before = resident()?;
    let namespaces = (pods / PODS_PER_NAMESPACE).max(1);
    let mut peers = PeerIndex::default();
    let mut slicer = Slicer::new("netqos");
    let mut spent = Duration::ZERO;
    let mut feed = |peers: &mut PeerIndex, change: Change| {
        let start = Instant::now();
        peers.apply(change);
        spent += start.elapsed();
    };
    for number in 0..namespaces {
        feed(&mut peers, Change::Namespace(namespace(number)));
    }
    for number in 0..policies {
        feed(&mut peers, Change::Policy(policy(number, namespaces)));
    }
    for number in 0..pods {
        feed(&mut peers, Change::Pod(pod(number, false)));
    }
    let start = Instant::now();
    slicer.change(peers.take_changes());
    let first = slicer.take_writes();
    spent += start.elapsed();
    let bytes: usize = first.iter().map(size).sum();
    println!("| what, with {pods} pods and {policies} policies | measured |\n|---|---|");
    println!("| first sets and slices | {:.2} s |", spent.as_secs_f64());
    println!(
        "| they are | {} sets, {} slices of {} bytes each |",
        peers.sets(),
        first.len(),
        bytes / first.len().max(1)
    );

    drop(first);
    println!("| memory with them | {} MB |", (resident()? - before) >> 10);

    let mut rolled = Rolled::default();
    let mut times = Vec::new();
    for batch in 0..seconds * BATCHES {
        let numbers = (0..rate / BATCHES).map(|step| batch * (rate / BATCHES) + step);
        let changes: Vec<Change> = numbers.map(|step| rolled.next(step, pods)).collect();
        let start = Instant::now();
        for change in changes {
            peers.apply(change);
        }
        let changes = peers.take_changes();
        let changed: Vec<SetId> = changes.iter().map(|change| change.id).collect();
        let moved: usize = changes.iter().map(addresses).sum();
        slicer.change(changes);
        let writes = black_box(slicer.take_writes());
        times.push(start.elapsed().as_secs_f64() * 1e3);
        rolled.note(batch / BATCHES, changed, moved, &writes);
    }
    let busy: f64 = times.iter().sum();
    let took = Quantiles::of(times);
    println!(
        "| {rate} pods changed a second | {:.2} % of a core; a batch {:.1} ms p50, {:.1} ms p99 |",
        busy / f64::from(seconds) / 10.0,
        took.p50,
        took.p99
    );
    println!("{}", rolled.said(seconds));
    println!(
        "| memory at the end | {} MB |",
        (resident()? - before) >> 10
    );
    Ok(())
}

/// What became of pods, and was written.
#[derive(Default)]
struct Rolled {
    /// Those that have gone, each followed by another one.
    gone: BTreeSet<u32>,
    writes: usize,
    bytes: usize,
    addresses: usize,
    /// Writes for each set in each second.
    per_set: BTreeMap<(u32, SetId), usize>,
    changed: BTreeSet<(u32, SetId)>,
}

impl Rolled {
    /// A pod goes, or the one comes that takes its place.
    fn next(&mut self, step: u32, pods: u32) -> Change {
        let number = (step / 2).wrapping_mul(7919) % pods;
        let mut pod = self::pod(number, false);
        let moved = self.gone.contains(&number);
        if moved {
            move_away(&mut pod);
            rename(&mut pod);
        }
        if step.is_multiple_of(2) {
            return Change::PodGone(pod.id);
        }
        if moved {
            self.gone.remove(&number);
            return Change::Pod(self::pod(number, false));
        }
        self.gone.insert(number);
        move_away(&mut pod);
        rename(&mut pod);
        Change::Pod(pod)
    }

    fn note(&mut self, second: u32, changed: Vec<SetId>, addresses: usize, writes: &[SliceWrite]) {
        self.addresses += addresses;
        self.changed
            .extend(changed.into_iter().map(|set| (second, set)));
        self.writes += writes.len();
        for write in writes {
            self.bytes += size(write);
            if let SliceWrite::Put(slice) = write {
                *self.per_set.entry((second, slice.set)).or_default() += 1;
            }
        }
    }

    fn said(&self, seconds: u32) -> String {
        let seconds = seconds as usize;
        let most = self.per_set.values().max().copied().unwrap_or_default();
        let above = self.per_set.values().filter(|writes| **writes > 2).count();
        format!(
            "| addresses in and out of sets | {} a second |\n\
             | slices written | {} a second, {} KB a second; {:.2} for each changed set and second, \
             at most {most}; more than 2 for {above} of {} |",
            self.addresses / seconds,
            self.writes / seconds,
            self.bytes / seconds / 1000,
            self.writes as f64 / self.changed.len().max(1) as f64,
            self.changed.len()
        )
    }
}

/// The pod that follows one has another name and uid.
fn rename(pod: &mut netqos_core::objects::Pod) {
    let name = format!("{}-next", pod.id.name.name);
    pod.id.uid = format!("{}-next", pod.id.uid).into();
    pod.id.name = ObjectName::new(&pod.id.name.namespace, &name);
}

fn addresses(change: &PeerChange) -> usize {
    change.gone.len() + change.new.len()
}

/// What the controller sends.
fn size(write: &SliceWrite) -> usize {
    match write {
        SliceWrite::Put(slice) => {
            let object = serde_json::to_vec(&NetworkQoSPeerSlice::of(slice));
            object.map_or(0, |object| object.len())
        }
        SliceWrite::Delete(_) => 0,
    }
}
