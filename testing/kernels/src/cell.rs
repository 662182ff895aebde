//! The tests on each kernel, and how what they print is judged.

use std::fmt;
use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::Value;

use crate::kernel::Kernel;
use crate::machine::Output;

/// A test on one kernel.
#[derive(Debug)]
pub struct Cell {
    pub kernel: Kernel,
    /// A function of `guest/init`.
    pub test: &'static str,
    /// The most time that it takes here, by far.
    pub patience: Duration,
    /// Says in a line what it showed.
    pub judge: fn(&Output) -> anyhow::Result<String>,
}

/// All of them.
pub const CELLS: [Cell; 14] = [
    programs(Kernel::V5_10),
    programs(Kernel::V6_1),
    programs(Kernel::V6_12),
    programs(Kernel::Newest),
    scenario(Kernel::V5_10, "rules"),
    scenario(Kernel::V6_1, "rules"),
    scenario(Kernel::V6_12, "rules"),
    scenario(Kernel::Newest, "rules"),
    scenario(Kernel::V5_10, "classes"),
    scenario(Kernel::V6_1, "classes"),
    scenario(Kernel::V6_12, "classes"),
    scenario(Kernel::Newest, "classes"),
    netkit(Kernel::V6_12),
    netkit(Kernel::Newest),
];

const fn programs(kernel: Kernel) -> Cell {
    Cell {
        kernel,
        test: "programs",
        patience: Duration::from_secs(180),
        judge: judge_programs,
    }
}

/// Rules that mark, and classes that share a line: what `make demo` shows.
const fn scenario(kernel: Kernel, test: &'static str) -> Cell {
    Cell {
        kernel,
        test,
        patience: Duration::from_secs(900),
        judge: judge_scenario,
    }
}

/// A pod with an end of a netkit pair (Linux 6.7).
const fn netkit(kernel: Kernel) -> Cell {
    Cell {
        kernel,
        test: "netkit",
        patience: Duration::from_secs(300),
        judge: judge_netkit,
    }
}

/// The name of a cell, as `--only` takes it.
pub fn parse(name: &str) -> Result<&'static Cell, String> {
    let found = CELLS.iter().find(|cell| cell.to_string() == name);
    found.ok_or_else(|| "no such cell; --list prints them".to_owned())
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kernel, self.test)
    }
}

/// What `netqos check` looks for and a kernel may lack, whatever is loaded, with the kernel that has it.
const LATER: [(&str, (u32, u32)); 2] = [("backends of Services", (5, 18)), ("tcx hooks", (6, 6))];

/// All that a kernel of its version can have works, and `check` says the rest.
fn judge_programs(output: &Output) -> anyhow::Result<String> {
    ensure!(output.code == 0, "netqos check ended with {}", output.code);
    let report: Value = serde_json::from_str(&output.text).context("what netqos check printed")?;
    let release = report["kernel"].as_str().context("no kernel")?;
    let version = version(release).with_context(|| format!("the kernel's version: {release}"))?;
    let features = report["features"].as_array().context("no features")?;
    let name = |feature: &Value| feature["feature"].as_str().unwrap_or_default().to_owned();
    let lacking = features.iter().filter(|it| it["works"] != true);
    let (mut known, mut unknown) = (Vec::new(), Vec::new());
    for feature in lacking {
        let later = LATER.iter().find(|(later, _)| *later == name(feature));
        match later.is_some_and(|(_, since)| version < *since) {
            true => known.push(name(feature)),
            false => unknown.push(format!("{}: {}", name(feature), feature["why"])),
        }
    }
    ensure!(unknown.is_empty(), "{release}: {}", unknown.join("; "));
    ensure!(report["rules"] == true, "no rules: {report}");
    let mode = report["mode"].as_str().unwrap_or_default();
    let backends = &report["classBackends"];
    ensure!(backends[0] == "kernel", "classes only by {backends}");
    let without = match known.is_empty() {
        true => String::new(),
        false => format!("; not {}", known.join(", ")),
    };
    Ok(format!("{release}: rules, classes, {mode}{without}"))
}

/// The scenario held.
fn judge_scenario(output: &Output) -> anyhow::Result<String> {
    ensure!(
        output.code == 0,
        "ended with {}:\n{}",
        output.code,
        output.text
    );
    let held = output.text.matches('✓').count();
    ensure!(held > 0, "nothing was measured:\n{}", output.text);
    Ok(format!("{held} held"))
}

/// A netkit pair is limited at its host's end, and a rule's rate has a queue.
fn judge_netkit(output: &Output) -> anyhow::Result<String> {
    if output.text.contains("skipped: no netkit") {
        return Ok("not run: this kernel has no netkit".to_owned());
    }
    ensure!(
        output.code == 0,
        "ended with {}:\n{}",
        output.code,
        output.text
    );
    Ok("limits and a rule's queue at the host's end".to_owned())
}

/// `6.1.0-56-cloud-amd64` is 6.1.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|it: char| !it.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}
