//! CPU and time of a pod's ADD and DEL.

use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};
use netqos_testkit::Pod;
use serde::{Deserialize, Serialize};

use super::Who;
use super::testbed::{BenchPod, KINDS, Spent, Testbed};
use crate::bench::median;

/// The time for agent or daemon to finish their part: the annotation `network-status`.
const SETTLES: Duration = Duration::from_millis(300);

/// The time for the agent to do what it does once after its start: it finds out what the kernel has.
const STARTS: Duration = Duration::from_secs(5);

/// All who attach pods, in turn.
const ALL: [Who; 5] = [
    Who::Direct,
    Who::Multinet,
    Who::MultinetOnDisk,
    Who::Thin,
    Who::Thick,
];

/// The costs of pods of one kind.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Costs {
    /// The kind: `none`, `bridge` or `macvlan`.
    pub kind: String,
    pub of: Vec<Cost>,
}

/// The cost of one pod. Medians; milliseconds.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cost {
    pub who: Who,
    /// CPU of ADD and DEL, that of agent or daemon included, which is a mean.
    pub cpu: f64,
    /// That of agent or daemon.
    pub cpu_of_daemon: f64,
    /// The tenth and ninth decile of the CPU without agent and daemon.
    pub cpu_between: (f64, f64),
    /// The time of ADD.
    pub add: f64,
    /// The time of DEL.
    pub del: f64,
    /// The most memory of a call's process, in bytes.
    pub peak: u64,
}

impl Costs {
    /// The cost by one of them.
    pub fn by(&self, who: Who) -> Option<&Cost> {
        self.of.iter().find(|it| it.who == who)
    }
}

/// Measures pods without and with one network beside the default one.
pub fn measure(testbed: &Testbed, calls: usize) -> Result<Vec<Costs>> {
    thread::sleep(STARTS);
    let mut all = Vec::new();
    for (kind, _) in &KINDS[..3] {
        let pod = &testbed.pods[*kind];
        let mut samples: Vec<Vec<(Spent, Spent, f64)>> = vec![Vec::new(); ALL.len()];
        for round in 0..calls {
            eprint!("\r{kind}: {} of {calls}", round + 1);
            for (index, samples) in samples.iter_mut().enumerate() {
                let who = ALL[index];
                // A name that had no sandbox before: host-local gives nothing to one whose address was not released.
                let sandbox = testbed.node.empty_pod(&format!("{kind}-{index}-{round}"))?;
                let sample = sample(testbed, who, &sandbox, pod);
                testbed.node.remove_pod(sandbox)?;
                samples.push(sample?);
            }
        }
        eprintln!();
        let of = ALL.into_iter().zip(&samples);
        all.push(Costs {
            kind: (*kind).to_owned(),
            of: of.map(|(who, samples)| cost(who, samples)).collect(),
        });
    }
    Ok(all)
}

fn cost(who: Who, samples: &[(Spent, Spent, f64)]) -> Cost {
    let of =
        |get: fn(&(Spent, Spent, f64)) -> f64| -> Vec<f64> { samples.iter().map(get).collect() };
    let mut cpu = of(|(add, del, _)| add.cpu + del.cpu);
    cpu.sort_by(f64::total_cmp);
    let decile = |part: usize| cpu.get(cpu.len() * part / 10).copied().unwrap_or(f64::NAN);
    let cpu_of_daemon = of(|it| it.2).iter().sum::<f64>() / samples.len().max(1) as f64;
    Cost {
        who,
        cpu: median(cpu.clone()) + cpu_of_daemon,
        cpu_of_daemon,
        cpu_between: (decile(1), decile(9)),
        add: median(of(|it| it.0.wall)),
        del: median(of(|it| it.1.wall)),
        peak: samples
            .iter()
            .map(|it| it.0.peak.max(it.1.peak))
            .max()
            .unwrap_or_default(),
    }
}

/// One ADD and DEL, with the milliseconds of CPU of agent or daemon.
fn sample(
    testbed: &Testbed,
    who: Who,
    sandbox: &Pod,
    pod: &BenchPod,
) -> Result<(Spent, Spent, f64)> {
    let resident = || match who {
        Who::Multinet | Who::MultinetOnDisk => testbed.agent.run_time(),
        // Nothing of them outlives a call.
        Who::Direct | Who::Thin => Ok(Duration::ZERO),
        // The daemon executes the plugins.
        Who::Thick => testbed.daemon.run_time_with_children(),
    };
    let before = resident()?;
    let add = testbed.call(who, "ADD", sandbox, pod)?;
    thread::sleep(SETTLES);
    let del = testbed.call(who, "DEL", sandbox, pod)?;
    thread::sleep(SETTLES);
    let of_daemon = resident()?.saturating_sub(before).as_secs_f64() * 1e3;
    Ok((add, del, of_daemon))
}

/// Counts the calls of fsync during an ADD of a pod with one network beside the default one.
pub fn fsyncs(testbed: &Testbed) -> Result<usize> {
    let (sandbox, pod) = (testbed.node.empty_pod("counted")?, &testbed.pods["bridge"]);
    let add = testbed.prepared(Who::Multinet, "ADD", &sandbox, pod)?;
    let counted = add.count_fsyncs()?;
    let checked = testbed
        .prepared(Who::Multinet, "CHECK", &sandbox, pod)?
        .run()?;
    testbed.call(Who::Multinet, "DEL", &sandbox, pod)?;
    testbed.node.remove_pod(sandbox)?;
    ensure!(
        checked.code == Some(0),
        "the counted ADD failed: {checked:?}"
    );
    Ok(counted)
}
