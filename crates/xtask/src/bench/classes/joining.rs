//! How soon a class has its guarantee when it begins, and what the line carries meanwhile.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use netqos_traffic::{Flow, TcpTest};
use serde::{Deserialize, Serialize};

use super::stage::{Sent, Stage, Way};
use super::ways;
use crate::bench::median;
use crate::bench::rules::on_a_node;

/// The system's class begins while best effort has the line.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Joining {
    pub line: u64,
    pub flow: Flow,
    /// Milliseconds from its first packets until it has its guarantee: the median, and the worst.
    pub after: [f64; 2],
    /// The most that the line carried in a tenth of a second, as a part of what it may: the same.
    pub most: [f64; 2],
    /// That of the second before it began.
    pub before: [f64; 2],
}

/// How long one look takes.
const LOOK: Duration = Duration::from_millis(10);
/// Looks in which what the line carries is added up.
const WINDOW: usize = 10;

pub fn measure(lines: &[u64], repeats: usize) -> Result<Vec<Joining>> {
    let mut found = Vec::new();
    for (line, flow) in ways(lines) {
        eprintln!("joining: {line} Mbit/s, {flow:?}");
        let runs = on_a_node(|node| {
            let mut stage = Stage::new(node)?;
            stage.divide(Way::Kernel, line)?;
            (0..repeats)
                .map(|_| join(&stage, line, flow))
                .collect::<Result<Vec<_>>>()
        })?;
        let both = |pick: fn(&Run) -> f64| {
            let all: Vec<f64> = runs.iter().map(pick).collect();
            let worst = all.iter().copied().fold(0.0, f64::max);
            [median(all), worst]
        };
        found.push(Joining {
            line,
            flow,
            after: both(|run| run.after),
            most: both(|run| run.most),
            before: both(|run| run.before),
        });
    }
    Ok(found)
}

/// One time that it begins.
struct Run {
    after: f64,
    most: f64,
    before: f64,
}

/// What the line has carried at a moment.
type Look = (Instant, Sent);

/// Looks for a second.
fn look(stage: &Stage, flow: Flow) -> Result<Vec<Look>> {
    let start = Instant::now();
    let mut looks = Vec::new();
    while start.elapsed() < Duration::from_secs(1) {
        looks.push((Instant::now(), stage.sent(flow)?));
        thread::sleep(LOOK);
    }
    Ok(looks)
}

fn join(stage: &Stage, line: u64, flow: Flow) -> Result<Run> {
    let (before, looks) = stage.while_loaded(flow, &["be"], 3.0, || {
        let before = look(stage, flow)?;
        let test = TcpTest {
            flow,
            streams: 2,
            omit: Duration::ZERO,
            duration: Duration::from_millis(1200),
            ..TcpTest::new(stage.server()?)
        };
        let pod = &stage.pods["sys"];
        thread::scope(|scope| {
            let joins = scope.spawn(|| pod.inside(|| test.run(|_| ())));
            let looks = look(stage, flow);
            joins
                .join()
                .map_err(|_| anyhow!("who joins panicked"))???;
            Ok((before, looks?))
        })
    })?;
    let megabits = |from: &Look, to: &Look, pick: fn(&Sent) -> u64| {
        let time = to.0 - from.0;
        (pick(&to.1) - pick(&from.1)) as f64 * 8.0 / time.as_secs_f64() / 1e6
    };
    let system = |sent: &Sent| sent.classes[0];
    // Its first packets are a connection's, which are small.
    let begin = looks
        .windows(2)
        .position(|pair| system(&pair[1].1) > system(&pair[0].1) + 3000);
    let begin = begin.ok_or_else(|| anyhow!("who joins sent nothing"))?;
    let guarantee = line as f64 * 0.4;
    let has_it = looks[begin..]
        .windows(2)
        .find(|pair| megabits(&pair[0], &pair[1], system) >= guarantee * 0.95);
    let after = has_it.map_or(f64::INFINITY, |pair| {
        (pair[1].0 - looks[begin].0).as_secs_f64() * 1e3
    });
    let most = |looks: &[Look]| {
        looks
            .windows(WINDOW + 1)
            .map(|some| megabits(&some[0], &some[WINDOW], |sent| sent.line) / line as f64)
            .fold(0.0, f64::max)
    };
    Ok(Run {
        after,
        most: most(&looks),
        before: most(&before),
    })
}
