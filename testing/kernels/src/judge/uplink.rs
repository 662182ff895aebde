//! Judgements of `guest/uplink.sh` and `guest/tunnel.sh`.

use anyhow::{Context, bail, ensure};
use serde_json::Value;

use super::{lacks, megabits, printed, works};
use crate::cell::Verdict;
use crate::machine::Output;

/// The payload of 14 and of 6 Mbit/s: 13.4 and 5.7 Mbit/s. Each begins at another time than the other.
const LATENCY_SENSITIVE: (f64, f64) = (12.0, 14.2);
const BEST_EFFORT: (f64, f64) = (4.9, 7.0);

/// Both classes have their shares, and afterwards the uplink has the qdisc that it had.
pub fn uplink(output: &Output) -> anyhow::Result<Verdict> {
    let restored = restored_qdisc(output)?;
    let Some(by) = programmed(output)? else {
        let why = unprogrammed(output)?;
        ensure!(why.contains("netqos check"), "no remedy: {why}");
        return Ok(lacks(why + &printed(output)?));
    };
    let mut shown = Vec::new();
    // The backend tc has no ingress, on any kernel.
    let directions: &[&str] = if by == "tc" {
        &["egress"]
    } else {
        &["egress", "ingress"]
    };
    for direction in directions {
        let ls = megabits(output, &format!("{direction}_ls"))?;
        let be = megabits(output, &format!("{direction}_be"))?;
        let is_held = is_in(ls, LATENCY_SENSITIVE) && is_in(be, BEST_EFFORT);
        ensure!(
            is_held,
            "{direction}: LS {ls:.2}, BE {be:.2} Mbit/s, not 13.4 and 5.7 of 20"
        );
        let overtaken = output.required(&format!("{direction}_overtaken"))?;
        let is_in_order = overtaken.split_whitespace().all(|count| count == "0");
        ensure!(
            is_in_order,
            "{direction}: packets were overtaken: {overtaken}"
        );
        shown.push(format!("{direction} LS {ls:.2}, BE {be:.2}"));
    }
    let on = output.required("programmed")?.trim();
    let shown = format!(
        "on {on}: {} of 20 Mbit/s; {restored}{}",
        shown.join("; "),
        printed(output)?
    );
    Ok(works(shown))
}

/// The uplink has afterwards the qdisc that it had, whether netqos took its place or left it, as it does on any kernel.
pub fn restored(output: &Output) -> anyhow::Result<Verdict> {
    let restored = restored_qdisc(output)?;
    Ok(match programmed(output)? {
        Some(_) => works(restored),
        None => works(format!("left untouched: {}", unprogrammed(output)?)),
    })
}

/// The kernel puts back its own root qdisc, and below it the `default_qdisc` of that moment.
pub fn restored_by_default(output: &Output) -> anyhow::Result<Verdict> {
    let root = left_root(output)?;
    let changed = output.required("qdiscs")?;
    ensure!(!changed.contains(" root "), "the root differs: {changed}");
    Ok(works(match changed.trim().is_empty() {
        true => root,
        false => format!("{root}, with the `default_qdisc` of that moment below it"),
    }))
}

/// The packets of a pod that the uplink carries in a tunnel are counted as those of its class.
pub fn tunnel(output: &Output) -> anyhow::Result<Verdict> {
    if output.value("no_tunnel").is_some() {
        bail!("the kernel does not make such a tunnel");
    }
    ensure!(programmed(output)?.is_some(), "{}", unprogrammed(output)?);
    let mut shown = Vec::new();
    let mut is_told_apart = true;
    for (direction, from, to) in [
        ("egress", "before", "between"),
        ("ingress", "between", "after"),
    ] {
        let bytes = |at: &str, class: &str| -> anyhow::Result<u64> {
            let status: Value = serde_json::from_str(output.required(at)?)?;
            Ok(counted(&status, direction, class))
        };
        let of = |class: &str| {
            Ok::<_, anyhow::Error>(bytes(to, class)?.saturating_sub(bytes(from, class)?))
        };
        let (pod, system) = (of("latency-sensitive")?, of("system")?);
        ensure!(
            pod + system > 100_000,
            "{direction}: {pod} and {system} bytes only"
        );
        // TCP's acknowledgements in the other direction are the pod's as well.
        is_told_apart &= pod > 9 * system;
        let percent = 100 * pod / (pod + system);
        shown.push(format!(
            "{direction}: {percent} % counted as the pod's class"
        ));
    }
    let shown = shown.join("; ");
    restored_qdisc(output)?;
    Ok(match is_told_apart {
        true => works(shown),
        false => lacks(format!("{shown}, the rest as the system's")),
    })
}

/// The bytes of a class on the first uplink.
fn counted(status: &Value, direction: &str, class: &str) -> u64 {
    let shares = status["lines"][0]["shares"]
        .as_array()
        .into_iter()
        .flatten();
    let of_class = shares.filter(|it| it["direction"] == direction && it["class"] == class);
    of_class
        .filter_map(|it| it["counts"]["bytes"].as_u64())
        .sum()
}

/// The backend that shares the uplink.
fn programmed(output: &Output) -> anyhow::Result<Option<String>> {
    let status = status(output)?;
    let by = status["lines"][0]["dividedBy"].as_str().unwrap_or_default();
    Ok(Some(by.to_owned()).filter(|by| !by.is_empty()))
}

/// The reason that the status gives for an uplink that is not shared.
fn unprogrammed(output: &Output) -> anyhow::Result<String> {
    let status = status(output)?;
    let why = status["lines"][0]["failing"].as_str().unwrap_or_default();
    ensure!(!why.is_empty(), "not programmed, and no reason: {status}");
    Ok(format!("status says: {why}"))
}

fn status(output: &Output) -> anyhow::Result<Value> {
    let text = output.required("status")?;
    serde_json::from_str(text).with_context(|| format!("netqos status: {text}"))
}

/// Nothing is left, and the qdiscs are those that were found.
fn restored_qdisc(output: &Output) -> anyhow::Result<String> {
    let root = left_root(output)?;
    let changed = output.required("qdiscs")?.trim();
    ensure!(changed.is_empty(), "qdiscs differ after cleanup: {changed}");
    Ok(root)
}

/// Nothing of netqos is left; the root qdisc that the uplink had before.
fn left_root(output: &Output) -> anyhow::Result<String> {
    let cleanup = output.required("cleanup")?;
    ensure!(cleanup.starts_with("0 "), "netqos cleanup: {cleanup}");
    let left = output.required("left")?.trim();
    ensure!(left.is_empty(), "left after cleanup: {left}");
    let root = output.required("root")?;
    let words: Vec<&str> = root.split_whitespace().skip(1).take(2).collect();
    Ok(format!("restored {}", words.join(" ")))
}

fn is_in(rate: f64, range: (f64, f64)) -> bool {
    rate > range.0 && rate < range.1
}
