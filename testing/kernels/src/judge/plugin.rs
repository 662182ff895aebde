//! Judgement of `guest/plugin.sh`.

use anyhow::ensure;

use super::{lacks, megabits, otherwise, printed, works};
use crate::cell::Verdict;
use crate::machine::Output;

/// The payload of 10 Mbit/s of frames of 1514 bytes: 9.56 Mbit/s (IPv4) and 9.43 (IPv6), less what TCP leaves unused.
const GOODPUT: (f64, f64) = (9.0, 9.7);

/// The pod has its limit in both directions, or ADD is refused with a reason; nothing is left after DEL.
pub fn plugin(output: &Output) -> anyhow::Result<Verdict> {
    let printed = printed(output)?;
    let left = output.required("left")?;
    ensure!(left.trim().is_empty(), "left after DEL: {left}");
    let said = shorten(output.required("said")?);
    if output.required("add_code")? != "0" {
        ensure!(!said.is_empty(), "ADD failed and did not say why");
        return Ok(lacks(format!("ADD refused, nothing left: {said}{printed}")));
    }
    let checked = output.required("check_works")?.trim();
    ensure!(checked == "0", "CHECK after ADD: {checked}");
    let deleted = output.required("del")?.trim();
    ensure!(deleted == "0", "DEL: {deleted}");
    let (to, from) = (megabits(output, "to_pod")?, megabits(output, "from_pod")?);
    for (rate, direction) in [(to, "to"), (from, "from")] {
        let in_range = rate > GOODPUT.0 && rate < GOODPUT.1;
        ensure!(
            in_range,
            "{rate:.2} Mbit/s {direction} the pod, of 10; ADD said: {said}"
        );
    }
    let rates = format!("{to:.2} / {from:.2} Mbit/s");
    Ok(match said.is_empty() && printed.is_empty() {
        true => works(rates),
        false if said.is_empty() => otherwise(format!("{rates}{printed}")),
        false => otherwise(format!("{rates}; ADD said: {said}{printed}")),
    })
}

/// The beginning of a message.
fn shorten(text: &str) -> String {
    const MOST: usize = 300;
    let text = text.trim();
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
