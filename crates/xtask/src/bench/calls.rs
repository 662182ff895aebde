//! What a call costs: processor time, wall time, memory.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use netqos_testkit::{Node, Pod};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Arguments, Who, median};

/// The cost of one kind of call, medians over all of them.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cost {
    /// Processor time, in milliseconds.
    pub cpu: f64,
    /// From start to end, in milliseconds.
    pub wall: f64,
    /// The fastest, in milliseconds.
    pub wall_best: f64,
    /// The most memory that any of them held, in bytes.
    pub peak: u64,
}

/// The costs of one plugin's calls.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Costs {
    /// The first ADD since the node started.
    pub first_add: Cost,
    /// The others.
    pub add: Cost,
    /// CHECK after ADD.
    pub check: Cost,
    /// DEL after ADD, the interface alive.
    pub del: Cost,
    /// VERSION.
    pub version: Cost,
    /// The executable, in bytes.
    pub size: u64,
}

/// Both plugins' costs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Calls {
    pub ours: Costs,
    pub theirs: Costs,
}

/// What `measure` says of one call.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct One {
    pub code: i32,
    pub wall_nanos: u64,
    pub cpu_nanos: u64,
    pub peak_bytes: u64,
}

/// All calls of one plugin.
#[derive(Default)]
struct Collected {
    first_add: Vec<One>,
    add: Vec<One>,
    check: Vec<One>,
    del: Vec<One>,
    version: Vec<One>,
}

/// Makes the calls in turn: ours, theirs, ours, …
pub fn measure(node: &Node, arguments: &Arguments) -> Result<Calls> {
    let mut collected = [Collected::default(), Collected::default()];
    let everybody = [Who::Ours, Who::Theirs];
    for (who, costs) in everybody.into_iter().zip(&mut collected) {
        // A pod that stays: a node that has none yet also pays for what the kernel switches on
        // with the first filter.
        let resident = node.pod(resident_name(who))?;
        costs
            .first_add
            .push(call(arguments, who, "ADD", &resident)?);
    }
    for round in 0..arguments.calls {
        eprint!("\rcalls: {} of {}", round + 1, arguments.calls);
        for (who, costs) in everybody.into_iter().zip(&mut collected) {
            let name = format!("p{round}{}", if who == Who::Ours { "o" } else { "t" });
            let pod = node.pod(&name)?;
            costs.version.push(call(arguments, who, "VERSION", &pod)?);
            costs.add.push(call(arguments, who, "ADD", &pod)?);
            costs.check.push(call(arguments, who, "CHECK", &pod)?);
            costs.del.push(call(arguments, who, "DEL", &pod)?);
            node.remove_pod(pod)?;
        }
    }
    eprintln!();
    let [ours, theirs] = collected;
    Ok(Calls {
        ours: summary(&ours, arguments.plugin(Who::Ours))?,
        theirs: summary(&theirs, arguments.plugin(Who::Theirs))?,
    })
}

fn resident_name(who: Who) -> &'static str {
    match who {
        Who::Ours => "reso",
        Who::Theirs => "rest",
    }
}

fn summary(all: &Collected, plugin: &Path) -> Result<Costs> {
    Ok(Costs {
        first_add: cost(&all.first_add),
        add: cost(&all.add),
        check: cost(&all.check),
        del: cost(&all.del),
        version: cost(&all.version),
        size: fs::metadata(plugin)?.len(),
    })
}

fn cost(all: &[One]) -> Cost {
    let milliseconds = |of: fn(&One) -> u64| all.iter().map(|one| of(one) as f64 / 1e6).collect();
    let wall: Vec<f64> = milliseconds(|one| one.wall_nanos);
    Cost {
        cpu: median(milliseconds(|one| one.cpu_nanos)),
        wall_best: wall.iter().copied().fold(f64::INFINITY, f64::min),
        wall: median(wall),
        peak: all
            .iter()
            .map(|one| one.peak_bytes)
            .max()
            .unwrap_or_default(),
    }
}

/// The configuration that containerd sends for this rate both ways, in bit/s, with this burst.
pub fn configuration(pod: &Pod, rate: u64, burst: u64) -> Value {
    json!({
        "cniVersion": "1.0.0",
        "name": "bench",
        "type": "bandwidth",
        "capabilities": {"bandwidth": true},
        "runtimeConfig": {"bandwidth": {
            "ingressRate": rate, "ingressBurst": burst,
            "egressRate": rate, "egressBurst": burst,
        }},
        "prevResult": {
            "cniVersion": "1.0.0",
            "interfaces": [
                {"name": pod.host_link()},
                {"name": "eth0", "sandbox": pod.netns().display().to_string()},
            ],
        },
    })
}

fn call(arguments: &Arguments, who: Who, command: &str, pod: &Pod) -> Result<One> {
    let netns = pod.netns().display().to_string();
    let environment = [
        ("CNI_COMMAND", command),
        ("CNI_CONTAINERID", pod.name()),
        ("CNI_NETNS", &netns),
        ("CNI_IFNAME", "eth0"),
        ("CNI_PATH", "/opt/cni/bin"),
    ];
    let config = configuration(pod, 10_000_000, 4_294_967_295).to_string();
    let one = one(
        &arguments.measure,
        arguments.plugin(who),
        &environment,
        &config,
    )?;
    ensure!(
        one.code == 0,
        "{command} of {who:?} failed with {}",
        one.code
    );
    Ok(one)
}

/// Has `measure` make one call with this environment and standard input.
pub(super) fn one(
    measure: &Path,
    plugin: &Path,
    environment: &[(&str, &str)],
    config: &str,
) -> Result<One> {
    let mut child = Command::new(measure)
        .arg(plugin)
        .env_clear()
        .envs(environment.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("run measure")?;
    if let Some(mut stdin) = child.stdin.take() {
        // VERSION reads nothing, and may be over before this is written.
        let _ = stdin.write_all(config.as_bytes());
    }
    let output = child.wait_with_output()?;
    serde_json::from_slice(&output.stdout).context("what measure printed")
}
