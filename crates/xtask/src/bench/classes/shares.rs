//! What each class gets of a full line, and how long questions wait.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use netqos_traffic::{Flow, LatencyTest};
use serde::{Deserialize, Serialize};

use super::stage::{Stage, Way};
use super::ways;
use crate::bench::median;
use crate::bench::rules::{Quantiles, on_a_node};

/// What classes got while these pods wanted all of the line, in Mbit/s on the wire.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Shared {
    pub line: u64,
    pub flow: Flow,
    pub who: Vec<String>,
    pub classes: [f64; 3],
    /// All of it.
    pub total: f64,
}

/// How long questions of a pod of the system's class took, in milliseconds.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Latency {
    pub line: u64,
    /// Which way the line was full.
    pub flow: Flow,
    pub way: Way,
    /// Who wanted all of it meanwhile.
    pub who: Vec<String>,
    /// The medians of all runs.
    pub round_trip: Quantiles,
}

const LOADS: [&[&str]; 5] = [
    &["sys", "ls", "be"],
    &["ls", "be"],
    &["sys"],
    &["ls"],
    &["be"],
];

pub fn measure(lines: &[u64], repeats: usize, seconds: f64) -> Result<Vec<Shared>> {
    let mut found = Vec::new();
    for (line, flow) in ways(lines) {
        for who in LOADS {
            eprintln!("shares: {line} Mbit/s, {flow:?}, {who:?}");
            let runs = on_a_node(|node| {
                let mut stage = Stage::new(node)?;
                stage.divide(Way::Kernel, line)?;
                let run = |_| rates(&stage, flow, who, seconds);
                (0..repeats).map(run).collect::<Result<Vec<_>>>()
            })?;
            let of = |class: usize| median(runs.iter().map(|run| run.1[class]).collect());
            found.push(Shared {
                line,
                flow,
                who: who.iter().map(ToString::to_string).collect(),
                classes: [of(0), of(1), of(2)],
                total: median(runs.iter().map(|run| run.0).collect()),
            });
        }
    }
    Ok(found)
}

/// Of the line and of each class.
fn rates(stage: &Stage, flow: Flow, who: &[&str], seconds: f64) -> Result<(f64, [f64; 3])> {
    stage.while_loaded(flow, who, seconds, || {
        let (before, start) = (stage.sent(flow)?, Instant::now());
        thread::sleep(Duration::from_secs_f64(seconds));
        let (after, time) = (stage.sent(flow)?, start.elapsed());
        let rate = |from: u64, to: u64| (to - from) as f64 * 8.0 / time.as_secs_f64() / 1e6;
        let mut classes = [0.0; 3];
        for (class, rates) in classes.iter_mut().enumerate() {
            *rates = rate(before.classes[class], after.classes[class]);
        }
        Ok((rate(before.line, after.line), classes))
    })
}

pub fn latency(lines: &[u64], repeats: usize, seconds: f64) -> Result<Vec<Latency>> {
    let mut found = Vec::new();
    for (line, flow) in ways(lines) {
        // The proposal's tc leaves what comes as it is.
        let by = match flow {
            Flow::Upload => &[Way::Kernel, Way::Tc][..],
            Flow::Download => &[Way::Kernel],
        };
        for who in [&["be"][..], &["sys", "ls", "be"]] {
            eprintln!("latency: {line} Mbit/s, {flow:?}, {who:?}");
            let mut of = vec![Vec::new(); by.len()];
            for _ in 0..repeats {
                for (&way, runs) in by.iter().zip(&mut of) {
                    runs.push(on_a_node(|node| {
                        let mut stage = Stage::new(node)?;
                        stage.divide(way, line)?;
                        round_trips(&stage, flow, who, seconds)
                    })?);
                }
            }
            for (&way, runs) in by.iter().zip(of) {
                let of = |pick: fn(&Quantiles) -> f64| median(runs.iter().map(pick).collect());
                found.push(Latency {
                    line,
                    flow,
                    way,
                    who: who.iter().map(ToString::to_string).collect(),
                    round_trip: Quantiles {
                        p50: of(|run| run.p50),
                        p99: of(|run| run.p99),
                    },
                });
            }
        }
    }
    Ok(found)
}

fn round_trips(stage: &Stage, flow: Flow, who: &[&str], seconds: f64) -> Result<Quantiles> {
    let test = LatencyTest {
        size: 128,
        interval: Duration::from_micros(1500),
        duration: Duration::from_secs_f64(seconds),
        ..LatencyTest::new(stage.server()?)
    };
    stage.while_loaded(flow, who, seconds, || {
        let mut times = Vec::new();
        stage.pods["sys"]
            .inside(|| test.run(|echo| times.push(echo.round_trip.as_secs_f64() * 1e3)))??;
        Ok(Quantiles::of(times))
    })
}
