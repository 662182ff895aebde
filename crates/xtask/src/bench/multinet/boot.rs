//! Pods on three networks beside the default one that start at once, as after a boot.

use std::fs;
use std::net::IpAddr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use netqos_testkit::{Pod, Running};
use serde::{Deserialize, Serialize};

use super::Who;
use super::testbed::{BenchPod, Testbed};

/// The calls of a pod that a runtime makes at most. The kubelet would go on.
const ATTEMPTS: usize = 5;
/// The time for all annotations.
const PATIENCE: Duration = Duration::from_secs(120);
const RECORDS: &str = "/var/lib/netqos/multinet/pods";
/// The directory in which host-local keeps the addresses that it has given out.
const ADDRESSES: &str = "/var/lib/cni/networks";

/// The start of many pods at once.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Boot {
    pub who: Who,
    pub pods: usize,
    /// Calls of ADD that failed, and were made again.
    pub failed: usize,
    /// Pods without one of their interfaces, or with none at all.
    pub lost: usize,
    /// Pods whose `network-status` has all networks.
    pub annotated: usize,
    /// The time until all ADDs have ended.
    pub seconds: f64,
    /// The most memory of agent or daemon, and its memory afterwards; bytes.
    pub peak: u64,
    pub resident: u64,
    /// Records of netqos and addresses of networks that are left after DEL.
    pub left: usize,
}

/// Starts the pods by each, all of them at once, and takes them away.
pub fn measure(testbed: &Testbed, pods: usize) -> Result<Vec<Boot>> {
    let boots = [Who::Multinet, Who::Thin, Who::Thick].map(|who| boot(testbed, who, pods));
    boots.into_iter().collect()
}

fn boot(testbed: &Testbed, who: Who, number: usize) -> Result<Boot> {
    eprintln!("{number} pods at once: {who:?}");
    let before = left()?;
    let mut pods: Vec<(Pod, &BenchPod)> = Vec::new();
    for index in 0..number {
        let pod = &testbed.pods[&format!("boot-{index}")];
        pods.push((testbed.node.empty_pod(&pod.name)?, pod));
    }
    let began = Instant::now();
    let mut waiting: Vec<usize> = (0..number).collect();
    let mut failed = 0;
    for _ in 0..ATTEMPTS {
        let again = at_once(testbed, who, "ADD", &pods, &waiting)?;
        failed += again.len();
        // As the kubelet does with a sandbox that failed.
        at_once(testbed, who, "DEL", &pods, &again)?;
        waiting = again;
        if waiting.is_empty() {
            break;
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    let mut lost = 0;
    for (sandbox, _) in &pods {
        let shown = testbed
            .node
            .run("ip", &["-n", sandbox.name(), "-o", "link"])?;
        let has = |name: &str| shown.contains(&format!(": {name}@"));
        lost += usize::from(!["eth0", "net1", "net2", "net3"].into_iter().all(has));
    }
    let annotated = annotated(testbed, number)?;
    let resident = match who {
        Who::Thick => &testbed.daemon,
        _ => &testbed.agent,
    };
    let (peak, resident) = match who {
        Who::Thin => (0, 0),
        _ => (resident.peak()?, resident.resident()?),
    };
    let all: Vec<usize> = (0..number).collect();
    let undeleted = at_once(testbed, who, "DEL", &pods, &all)?;
    ensure!(
        undeleted.is_empty(),
        "{} DELs of {who:?} failed",
        undeleted.len()
    );
    let left = left()?.saturating_sub(before);
    for (sandbox, _) in pods {
        testbed.node.remove_pod(sandbox)?;
    }
    Ok(Boot {
        who,
        pods: number,
        failed,
        lost,
        annotated,
        seconds,
        peak,
        resident,
        left,
    })
}

/// Counts records and addresses.
fn left() -> Result<usize> {
    let records = fs::read_dir(RECORDS).context("read the records")?;
    let mut left = records.count();
    for network in fs::read_dir(ADDRESSES).context("read the networks of host-local")? {
        let addresses = fs::read_dir(network?.path())?.flatten();
        let is_address = |name: &str| name.parse::<IpAddr>().is_ok();
        left += addresses
            .filter(|it| it.file_name().to_str().is_some_and(is_address))
            .count();
    }
    Ok(left)
}

/// Makes a call for each of these pods, all at once, and returns those whose call failed.
pub fn at_once(
    testbed: &Testbed,
    who: Who,
    command: &str,
    pods: &[(Pod, &BenchPod)],
    chosen: &[usize],
) -> Result<Vec<usize>> {
    let mut running: Vec<(usize, Running)> = Vec::new();
    for index in chosen {
        let (sandbox, pod) = &pods[*index];
        let call = testbed.prepared(who, command, sandbox, pod)?;
        running.push((*index, call.start()?));
    }
    let mut failed = Vec::new();
    for (index, call) in running {
        let outcome = call.finish()?;
        if outcome.code != Some(0) {
            if failed.is_empty() {
                eprintln!(
                    "{command} of {who:?} for pod {}: {outcome:?}",
                    pods[index].1.name
                );
            }
            failed.push(index);
        }
    }
    Ok(failed)
}

/// The number of pods whose annotation has all four networks, once that no longer rises.
fn annotated(testbed: &Testbed, pods: usize) -> Result<usize> {
    let end = Instant::now() + PATIENCE;
    loop {
        let statuses = testbed.statuses()?;
        let of_boot = statuses.iter().filter(|it| it.0.starts_with("boot-"));
        let whole = of_boot.filter(|(_, entries)| **entries == 4).count();
        if whole == pods || Instant::now() > end {
            return Ok(whole);
        }
        thread::sleep(Duration::from_millis(500));
    }
}
