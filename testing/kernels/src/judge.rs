//! Judgements of what tests print.

mod leaf;
mod plugin;
mod uplink;

use std::collections::BTreeSet;

use anyhow::{Context, ensure};
use serde_json::Value;

use crate::cell::{Outcome, Verdict};
use crate::machine::Output;

/// A judgement of the output of a test.
#[derive(Clone, Copy, Debug)]
pub enum Judge {
    Programs,
    ProgramsWithoutConntrack,
    NoRules,
    Scenario,
    Tests,
    Netkit,
    Plugin,
    Uplink,
    Restored,
    RestoredByDefault,
    Tunnel,
    Leaf,
}

/// The code of all judges, on which each verdict depends.
pub const SOURCES: [&str; 6] = [
    include_str!("judge.rs"),
    include_str!("judge/leaf.rs"),
    include_str!("judge/plugin.rs"),
    include_str!("judge/uplink.rs"),
    // The output that they read, and the verdict.
    include_str!("machine.rs"),
    include_str!("cell.rs"),
];

/// The feature that needs nf_conntrack loaded.
const BACKENDS: &str = "backends of Services";
const TCX: &str = "tcx hooks";
/// Of 6.1 since 6.1.120, which Debian has.
const COUNTERS: &str = "counters of redirected packets";
/// Features that a kernel may lack whatever is loaded, with the kernel that has it.
const LATER: [(&str, (u32, u32)); 3] = [(BACKENDS, (5, 18)), (TCX, (6, 6)), (COUNTERS, (6, 1))];

impl Judge {
    /// Returns the verdict on a test.
    ///
    /// # Errors
    /// Returns an error if the output shows a defect, of netqos or of the test.
    pub fn judge(self, output: &Output) -> anyhow::Result<Verdict> {
        match self {
            Self::Programs => programs(output),
            Self::ProgramsWithoutConntrack => programs_without_conntrack(output),
            Self::NoRules => no_rules(output),
            Self::Scenario => scenario(output),
            Self::Tests => tests(output),
            Self::Netkit => netkit(output),
            Self::Plugin => plugin::plugin(output),
            Self::Uplink => uplink::uplink(output),
            Self::Restored => uplink::restored(output),
            Self::RestoredByDefault => uplink::restored_by_default(output),
            Self::Tunnel => uplink::tunnel(output),
            Self::Leaf => leaf::leaf(output),
        }
    }
}

/// All that a kernel of its version can have works, and `check` says the rest.
fn programs(output: &Output) -> anyhow::Result<Verdict> {
    loaded(output, &[])
}

/// The same where nf_conntrack is not loaded.
fn programs_without_conntrack(output: &Output) -> anyhow::Result<Verdict> {
    loaded(output, &[BACKENDS])
}

fn loaded(output: &Output, absent: &[&str]) -> anyhow::Result<Verdict> {
    ensure!(output.code == 0, "netqos check ended with {}", output.code);
    let report: Value = serde_json::from_str(&output.text).context("what netqos check printed")?;
    let release = report["kernel"].as_str().context("no kernel")?;
    let version = version(release).with_context(|| format!("the kernel's version: {release}"))?;
    let missing = missing(&report);
    let is_later = |feature: &str| {
        LATER
            .iter()
            .any(|(of, since)| *of == feature && version < *since)
    };
    let unknown: Vec<_> = missing
        .iter()
        .filter(|(feature, _)| !is_later(feature) && !absent.contains(&feature.as_str()))
        .collect();
    ensure!(unknown.is_empty(), "{release}: {unknown:?}");
    ensure!(report["rules"] == true, "no rules: {report}");
    let mode = report["mode"].as_str().unwrap_or_default();
    let backends = &report["classBackends"];
    ensure!(backends[0] == "kernel", "classes only by {backends}");
    let without: Vec<_> = missing
        .iter()
        .map(|(feature, _)| feature.as_str())
        .collect();
    let shown = match without.is_empty() {
        true => format!("rules, classes, {mode}"),
        false => format!(
            "rules, classes, {mode}; `check` prints: missing {}",
            without.join(", ")
        ),
    };
    Ok(match without.is_empty() {
        true => works(shown),
        false => otherwise(shown),
    })
}

/// `check` says that rules cannot be enforced, and why.
fn no_rules(output: &Output) -> anyhow::Result<Verdict> {
    let report: Value = serde_json::from_str(&output.text).context("what netqos check printed")?;
    let is_told = output.code == 1 && report["rules"] == false;
    ensure!(is_told, "netqos check ended with {}: {report}", output.code);
    let missing = missing(&report).into_iter();
    let missing = missing.filter(|(_, why)| !why.starts_with("it needs "));
    let missing: Vec<String> = missing.map(|(feature, _)| feature).collect();
    ensure!(
        !missing.is_empty(),
        "netqos check names no feature: {report}"
    );
    Ok(lacks(format!(
        "`check` ends with 1 and prints: rules cannot be enforced on this kernel; missing {}",
        missing.join(", ")
    )))
}

/// The features that `netqos check` reported as missing because of a module or, where it is tested, a hook, with its
/// exit code.
fn printed(output: &Output) -> anyhow::Result<String> {
    let Some(check) = output.value("check") else {
        return Ok(String::new());
    };
    let check: Value = serde_json::from_str(check).context("netqos check")?;
    let exit_code = output.required("check_code")?;
    let is_tested = |feature: &str| match feature {
        TCX => output.value("hook") == Some("tcx"),
        BACKENDS | COUNTERS => false,
        _ => true,
    };
    // A feature that only needs another one is not listed.
    let by_module = missing(&check)
        .into_iter()
        .filter(|(feature, why)| is_tested(feature) && !why.starts_with("it needs "));
    let missing: Vec<String> = by_module.map(|(feature, _)| feature).collect();
    Ok(match missing.is_empty() {
        true => String::new(),
        false => format!(
            "; `check` ends with {exit_code} and prints: missing {}",
            missing.join(", ")
        ),
    })
}

/// The scenario held.
fn scenario(output: &Output) -> anyhow::Result<Verdict> {
    ensure!(output.code == 0, "ended with {}", output.code);
    let held = output.text.matches('✓').count();
    ensure!(held > 0, "nothing was measured");
    Ok(works(format!("{held} held")))
}

/// Tests of the workspace pass, and what they cannot test on this kernel they say.
fn tests(output: &Output) -> anyhow::Result<Verdict> {
    let lines = || output.text.lines();
    let result = lines().find(|line| line.starts_with("test result: "));
    ensure!(output.code == 0, "ended with {}: {result:?}", output.code);
    let passed = lines().filter(|line| line.starts_with("test ") && line.ends_with(" ok"));
    let passed = passed.count();
    ensure!(passed > 0, "no test passed");
    let skips: BTreeSet<&str> = lines()
        .filter_map(|line| line.strip_prefix("skipped: "))
        .collect();
    let passed = format!("{passed} tests passed");
    Ok(match skips.is_empty() {
        true => works(passed),
        false => {
            let skips: Vec<&str> = skips.into_iter().collect();
            let report: Value = serde_json::from_str(output.required("check")?)?;
            let missing: Vec<String> = missing(&report).into_iter().map(|(it, _)| it).collect();
            otherwise(format!(
                "{passed}; skipped: {}; `check` prints: missing {}",
                skips.join("; "),
                missing.join(", ")
            ))
        }
    })
}

/// The payload of 4 Mbit/s, less what TCP leaves unused.
const RULE_GOODPUT: (f64, f64) = (3.4, 4.0);

/// A netkit pair is limited at both ends, and a rule's rate has a queue; beside a program of the pair's own, a policer.
fn netkit(output: &Output) -> anyhow::Result<Verdict> {
    ensure!(
        output.value("no_netkit").is_none(),
        "the kernel makes no netkit pair"
    );
    ensure!(output.code == 0, "ended with {}", output.code);
    let (queued, policed) = (megabits(output, "queued")?, megabits(output, "policed")?);
    for rate in [queued, policed] {
        let is_held = rate > RULE_GOODPUT.0 && rate < RULE_GOODPUT.1;
        ensure!(is_held, "{queued:.2} and {policed:.2} Mbit/s, of 4");
    }
    Ok(works(format!(
        "a rule of 4 Mbit/s: {queued:.2}, beside a program of the pair's own {policed:.2}"
    )))
}

/// The features that `netqos check` found missing, with the kernel's words.
fn missing(report: &Value) -> Vec<(String, String)> {
    let features = report["features"].as_array().into_iter().flatten();
    let missing = features.filter(|feature| feature["works"] != true);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    missing
        .map(|it| (text(&it["feature"]), text(&it["why"])))
        .collect()
}

/// `6.1.0-56-cloud-amd64` is 6.1.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|it: char| !it.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// Mbit/s that a test observed.
fn megabits(output: &Output, name: &str) -> anyhow::Result<f64> {
    let value = output.required(name)?;
    let rate: f64 = value
        .parse()
        .with_context(|| format!("{name}: no rate: {value:?}"))?;
    Ok(rate / 1e6)
}

fn works(shown: String) -> Verdict {
    Verdict {
        outcome: Outcome::Works,
        shown,
    }
}

fn otherwise(shown: String) -> Verdict {
    Verdict {
        outcome: Outcome::WorksOtherwise,
        shown,
    }
}

fn lacks(shown: String) -> Verdict {
    Verdict {
        outcome: Outcome::Missing,
        shown,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn judge_sources_include_every_judge_module() {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/judge");
        for file in fs::read_dir(source).unwrap() {
            let path = file.unwrap().path();
            let text = fs::read_to_string(&path).unwrap();
            assert!(SOURCES.contains(&text.as_str()), "{}", path.display());
        }
    }
}
