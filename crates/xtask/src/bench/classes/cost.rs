//! What a forwarded packet costs, and how many pass.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use serde::{Deserialize, Serialize};

use super::stage::{Stage, Way};
use crate::bench::median;
use crate::bench::rules::on_a_node;

/// Nanoseconds from the sender's call to the other end of the line, for one packet of 200 bytes.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cost {
    pub way: Way,
    /// Pods that the node has.
    pub pods: u16,
    pub nanos: f64,
}

/// Packets of 200 bytes that pass in a second, as a part of those that pass an undivided line.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Throughput {
    pub way: Way,
    pub flows: usize,
    pub part: f64,
    pub per_second: f64,
}

/// A line that holds nothing back.
const WIDE: u64 = 100_000;
/// Payload of a packet of 200 bytes.
const PAYLOAD: [u8; 158] = [0; 158];
const BURST: u32 = 100;
/// Of what a burst took, this part took less: the rest met something else on the machine.
const QUIETEST: usize = 10;
const WAYS: [(Way, u16); 8] = [
    (Way::Nothing, 0),
    (Way::Htb, 0),
    (Way::Kernel, 0),
    (Way::Kernel, 107),
    (Way::KernelBusy, 0),
    (Way::KernelBusy, 107),
    (Way::Tc, 0),
    (Way::Tc, 107),
];

/// Bursts of each way, in turn.
pub fn measure(bursts: usize) -> Result<Vec<Cost>> {
    eprintln!("cost of a packet");
    const ROUNDS: usize = 10;
    let mut times = vec![Vec::new(); WAYS.len()];
    on_a_node(|node| {
        let mut stage = Stage::new(node)?;
        used_by_iptables(&mut stage)?;
        for _ in 0..ROUNDS {
            for ((way, others), times) in WAYS.iter().zip(&mut times) {
                stage.others = *others;
                stage.divide(*way, WIDE)?;
                times.extend(burst_times(&stage, bursts / ROUNDS)?);
            }
        }
        stage.divide(Way::Nothing, WIDE)
    })?;
    let cost = |((way, others), mut times): (&(Way, u16), Vec<f64>)| {
        times.sort_by(f64::total_cmp);
        Cost {
            way: *way,
            pods: others + 3,
            nanos: times[times.len() / QUIETEST],
        }
    };
    Ok(WAYS.iter().zip(times).map(cost).collect())
}

/// The kernel asks iptables' tables about each packet from the first rule on, also when that is gone. So that
/// the first round is none of its own, they are there from the beginning.
fn used_by_iptables(stage: &mut Stage) -> Result<()> {
    stage.divide(Way::Tc, WIDE)
}

fn burst_times(stage: &Stage, bursts: usize) -> Result<Vec<f64>> {
    let server = stage.server()?;
    stage.pods["be"].inside(|| {
        let socket = UdpSocket::bind("0.0.0.0:0")?;
        socket.connect(server)?;
        let burst = |_| {
            let start = Instant::now();
            for _ in 0..BURST {
                socket.send(&PAYLOAD)?;
            }
            let nanos = start.elapsed().as_nanos() as f64 / f64::from(BURST);
            thread::sleep(Duration::from_micros(200));
            Ok(nanos)
        };
        (0..bursts).map(burst).collect()
    })?
}

/// As many as pass, by 1, 4 and 16 flows, in turn.
pub fn throughput(repeats: usize) -> Result<Vec<Throughput>> {
    const WAYS: [Way; 5] = [
        Way::Nothing,
        Way::Htb,
        Way::Kernel,
        Way::KernelBusy,
        Way::Tc,
    ];
    let mut found = Vec::new();
    for flows in [1, 4, 16] {
        eprintln!("packets a second: {flows} flows");
        let mut counts = vec![Vec::new(); WAYS.len()];
        on_a_node(|node| {
            let mut stage = Stage::new(node)?;
            used_by_iptables(&mut stage)?;
            for _ in 0..repeats * 2 {
                for (way, counts) in WAYS.iter().zip(&mut counts) {
                    stage.divide(*way, WIDE)?;
                    counts.push(count(&stage, flows)?);
                }
            }
            stage.divide(Way::Nothing, WIDE)
        })?;
        // Each against the undivided line of its own round.
        let part = |of: &[f64]| {
            let parts = of.iter().zip(&counts[0]).map(|(ours, none)| ours / none);
            median(parts.collect())
        };
        for (way, of) in WAYS.iter().zip(&counts) {
            found.push(Throughput {
                way: *way,
                flows,
                part: part(of),
                per_second: median(of.clone()),
            });
        }
    }
    Ok(found)
}

fn count(stage: &Stage, flows: usize) -> Result<f64> {
    const TIME: Duration = Duration::from_millis(700);
    let server = stage.server()?;
    let is_over = AtomicBool::new(false);
    let names: Vec<_> = stage.pods.keys().copied().collect();
    let before = stage.packets_out()?;
    let start = Instant::now();
    thread::scope(|scope| {
        let is_over = &is_over;
        let send = |flow: usize| {
            let pod = &stage.pods[names[flow % names.len()]];
            scope.spawn(move || {
                pod.inside(|| -> Result<()> {
                    let socket = UdpSocket::bind("0.0.0.0:0")?;
                    socket.connect(server)?;
                    while !is_over.load(Ordering::Relaxed) {
                        socket.send(&PAYLOAD)?;
                    }
                    Ok(())
                })
            })
        };
        let running: Vec<_> = (0..flows).map(send).collect();
        thread::sleep(TIME);
        is_over.store(true, Ordering::Relaxed);
        for sender in running {
            sender
                .join()
                .map_err(|_| anyhow!("a sender panicked"))???;
        }
        anyhow::Ok(())
    })?;
    Ok((stage.packets_out()? - before) as f64 / start.elapsed().as_secs_f64())
}
