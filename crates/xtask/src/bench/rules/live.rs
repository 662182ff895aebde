//! What rules add to a packet on its way, ours and others'.
//!
//! ```text
//!   pod ── socket ─► eth0 ─► veth on the node ─► rules ─► route ─► the node's own address: full socket
//!          all of it by one thread, on one processor, in one system call
//! ```
//!
//! A veth hands a packet to the other end on the processor that sends it, before `send` returns, so
//! that the sender's own processor time is what a packet costs as far as the rules' hooks and
//! beyond. Each kind of rules stands on a node of its own and is sent through for some
//! milliseconds, all of them in turn; what counts is how much more it takes than through a node
//! without anything, just before.

mod clock;
mod nodes;
mod others;

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use aya::programs::loaded_programs;
use aya::sys::{Stats, enable_stats};
use serde::{Deserialize, Serialize};

use super::Spread;
use clock::Clock;
use nodes::Way;

pub use others::Other;

/// How thoroughly it is measured.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Thoroughness {
    /// How often all nodes are made anew: where the kernel puts things makes some difference.
    pub setups: usize,
    /// How often everything is sent through in each of them.
    pub rounds: usize,
    /// For how long, in milliseconds.
    pub milliseconds: u64,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Case {
    /// A pod without anything, on a node without anything: what the others are compared with.
    Nothing,
    /// The same once more: what differs by itself.
    NothingAgain,
    /// A pod without rules beside those that have some.
    Unruled,
    /// So many rules of netqos.
    Rules(usize),
    /// So many rules of others.
    Of(Other, usize),
}

/// What it costs.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cost {
    pub case: Case,
    /// Nanoseconds that a packet takes longer than without anything.
    pub added: Spread,
    /// Nanoseconds of the program by the kernel's own count.
    pub program: Option<Spread>,
}

/// The figures.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Live {
    /// Nanoseconds of a packet without anything.
    pub base: Spread,
    pub costs: Vec<Cost>,
    /// Who was not there to be measured.
    pub absent: Vec<String>,
}

/// Measures chains of these lengths.
pub fn measure(counts: &[usize], how: Thoroughness) -> Result<Live> {
    let (others, absent) = others::present();
    for name in &absent {
        eprintln!("live: {name} is not there, and left out");
    }
    let mut base = Vec::new();
    let mut added: BTreeMap<Case, Vec<f64>> = BTreeMap::new();
    let mut program: BTreeMap<Case, Vec<f64>> = BTreeMap::new();
    for setup in 0..how.setups {
        eprintln!("live: setup {} of {}", setup + 1, how.setups);
        let nodes = nodes::build(counts, &others)?;
        let ways: Vec<&Way> = nodes.iter().flat_map(|node| &node.ways).collect();
        // Of its own, since it stays on its processor.
        thread::scope(|scope| {
            let sender = scope.spawn(|| -> Result<()> {
                let clock = Clock::pinned()?;
                let length = Duration::from_millis(how.milliseconds);
                for way in &ways {
                    clock.per_packet(&way.socket, length)?;
                }
                for round in 0..how.rounds {
                    for (case, nanos) in one_round(&clock, &ways, round, length)? {
                        match case {
                            Case::Nothing => base.push(nanos),
                            case => added.entry(case).or_default().push(nanos),
                        }
                    }
                }
                for (case, nanos) in counted(&clock, &ways, how.rounds.div_ceil(4), length)? {
                    program.entry(case).or_default().push(nanos);
                }
                Ok(())
            });
            sender.join().map_err(|_| anyhow!("the sender panicked"))?
        })?;
    }
    let costs = added.into_iter().map(|(case, nanos)| Cost {
        case,
        added: Spread::of(nanos),
        program: program.remove(&case).map(Spread::of),
    });
    Ok(Live {
        costs: costs.collect(),
        base: Spread::of(base),
        absent,
    })
}

/// Sends through each once, and begins with another each round: nanoseconds of a packet without
/// anything, and for the others how many more those are.
fn one_round(
    clock: &Clock,
    ways: &[&Way],
    round: usize,
    length: Duration,
) -> Result<Vec<(Case, f64)>> {
    let mut found = Vec::new();
    for step in 0..ways.len() {
        let way = ways[(round + step) % ways.len()];
        found.push((way.case, clock.per_packet(&way.socket, length)?));
    }
    let base = found.iter().find(|(case, _)| *case == Case::Nothing);
    let base = base.map(|(_, nanos)| *nanos).context("no base")?;
    let more = found.into_iter().map(|(case, nanos)| match case {
        Case::Nothing => (case, base),
        case => (case, nanos - base),
    });
    Ok(more.collect())
}

/// Nanoseconds of a run of our program, as the kernel counts them. Counting itself costs time, so
/// nothing else is measured meanwhile.
fn counted(
    clock: &Clock,
    ways: &[&Way],
    rounds: usize,
    length: Duration,
) -> Result<Vec<(Case, f64)>> {
    let _counting = enable_stats(Stats::RunTime).context("have programs' runs counted")?;
    let mut found = Vec::new();
    for _ in 0..rounds {
        for way in ways {
            let Some(program) = way.program else {
                continue;
            };
            let before = runs(program)?;
            clock.per_packet(&way.socket, length)?;
            let after = runs(program)?;
            let count = after.1 - before.1;
            if count > 0 {
                let took = after.0.saturating_sub(before.0);
                found.push((way.case, took.as_nanos() as f64 / count as f64));
            }
        }
    }
    Ok(found)
}

/// What the program of this id took until now, and how often it ran.
fn runs(program: u32) -> Result<(Duration, u64)> {
    for one in loaded_programs() {
        // Another may have gone meanwhile.
        let Ok(info) = one else { continue };
        if info.id() == program {
            return Ok((info.run_time(), info.run_count()));
        }
    }
    anyhow::bail!("the program of rules is gone")
}
