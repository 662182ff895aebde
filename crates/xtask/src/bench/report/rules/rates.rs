//! What of a rule's rate is reached.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use anyhow::Result;

use super::mark;
use crate::bench::rules::Spread;
use crate::bench::rules::rates::{Rates, Reached};

const UDP: &str = "udp";

/// Both tables, and UDP's.
pub fn rates(text: &mut String, rates: &Rates) -> Result<()> {
    writeln!(
        text,
        "\n## What of a rule's rate is reached\n\nIn %: TCP goodput of one stream, of 1,448 bytes \
         in each frame of 1,514, by round-trip time; UDP goodput at one and a half times the rate, \
         of 1,400 bytes in 1,442. The median of {} runs, from the lowest to the highest. To reach: \
         TCP 92, UDP 97 to 103, by the median, through a queue.\n\n### Through its queue\n",
        rates.repeats
    )?;
    table(text, &rates.queued, true)?;
    text.push_str("\n### Where it drops, for want of a queue\n\n");
    table(text, &rates.policed, false)
}

/// A row for each rate, a column for each way and congestion control, and one for UDP.
fn table(text: &mut String, all: &[Reached], has_goal: bool) -> Result<()> {
    let megabits: BTreeSet<u64> = all.iter().map(|one| one.stream.megabits).collect();
    let is_tcp = |one: &&Reached| one.stream.control != UDP;
    let mut columns: Vec<(u64, &str)> = all
        .iter()
        .filter(is_tcp)
        .map(|one| (one.stream.way, one.stream.control.as_str()))
        .collect();
    columns.sort_unstable_by_key(|(way, control)| (*way, std::cmp::Reverse(*control)));
    columns.dedup();
    columns.push((0, UDP));
    text.push_str("| rate, Mbit/s |");
    for (way, control) in &columns {
        match (*way, *control) {
            (_, UDP) => text.push_str(" UDP |"),
            (0, control) => write!(text, " 0.05 ms, {} |", control.to_uppercase())?,
            (way, control) => write!(text, " {way} ms, {} |", control.to_uppercase())?,
        }
    }
    writeln!(text, " |\n|{}", "---|".repeat(columns.len() + 2))?;
    for megabits in megabits {
        write!(text, "| {megabits} |")?;
        let mut reaches = true;
        for (way, control) in &columns {
            let is_it = |one: &&Reached| {
                let stream = &one.stream;
                (stream.megabits, stream.way, stream.control.as_str()) == (megabits, *way, control)
            };
            let Some(reached) = all.iter().find(is_it) else {
                text.push_str(" – |");
                continue;
            };
            let Spread { low, median, high } = reached.share;
            reaches &= match *control {
                UDP => (0.97..=1.03).contains(&median),
                _ => median >= 0.92,
            };
            let [low, median, high] = [low, median, high].map(|share| share * 100.0);
            write!(text, " {median:.1} ({low:.1}–{high:.1}) |")?;
        }
        writeln!(text, " {} |", if has_goal { mark(reaches) } else { "" })?;
    }
    Ok(())
}
