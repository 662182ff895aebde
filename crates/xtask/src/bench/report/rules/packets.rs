//! What a packet costs.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use anyhow::Result;

use super::mark;
use crate::bench::rules::live::{Case, Other};
use crate::bench::rules::{Hooks, Measured, ProgramRun, Spread};

/// Nanoseconds.
const MOST: f64 = 500.0;
const MOST_WITHOUT_RULES: f64 = 100.0;

/// What rules add to a packet on its way.
pub fn live(text: &mut String, measured: &Measured) -> Result<()> {
    let (live, how) = (&measured.live, &measured.how_live);
    let of = |case: Case| live.costs.iter().find(|cost| cost.case == case);
    writeln!(
        text,
        "## A packet on its way\n\nNanoseconds of processor time that a datagram of 64 bytes takes \
         longer from its pod to its node than without anything, which is {}: the median of {} \
         measurements of {} ms, on {} nodes one after the other, and between the quartiles.\n",
        spread(&live.base),
        how.setups * how.rounds,
        how.milliseconds,
        how.setups,
    )?;
    let kinds: BTreeSet<Other> = live
        .costs
        .iter()
        .filter_map(|cost| match cost.case {
            Case::Of(other, _) => Some(other),
            _ => None,
        })
        .collect();
    let mut header = String::from("| rules in the pod's chain | netqos | of this its program |");
    for kind in &kinds {
        write!(header, " {} |", kind.name())?;
    }
    let columns = header.matches('|').count() + 1;
    writeln!(text, "{header} to reach | |\n|{}", "---|".repeat(columns))?;
    let dashes = " – |".repeat(kinds.len());
    for (case, what) in [
        (Case::NothingAgain, "a second node without anything"),
        (Case::Unruled, "none, beside pods that have some"),
    ] {
        if let Some(cost) = of(case) {
            let (goal, verdict) = match case {
                Case::Unruled => ("≤ 100", mark(cost.added.median <= MOST_WITHOUT_RULES)),
                _ => ("", ""),
            };
            let added = spread(&cost.added);
            writeln!(
                text,
                "| {what} | {added} | – |{dashes} {goal} | {verdict} |"
            )?;
        }
    }
    for cost in &live.costs {
        let Case::Rules(rules) = cost.case else {
            continue;
        };
        let program = cost.program.as_ref().map(spread).unwrap_or_default();
        write!(text, "| {rules} | {} | {program} |", spread(&cost.added))?;
        for kind in &kinds {
            let theirs = of(Case::Of(*kind, rules)).map(|cost| spread(&cost.added));
            write!(text, " {} |", theirs.unwrap_or_default())?;
        }
        writeln!(text, " ≤ 500 | {} |", mark(cost.added.median <= MOST))?;
    }
    for name in &live.absent {
        writeln!(text, "\n`{name}` was not there, and is left out.")?;
    }
    Ok(())
}

/// The program by itself.
pub fn program(text: &mut String, runs: &[ProgramRun]) -> Result<()> {
    text.push_str(
        "\n## The program by itself\n\n| rules in the pod's chain | one destination | a thousand \
         destinations in turn |\n|---|---|---|\n",
    );
    for run in runs {
        writeln!(
            text,
            "| {} | {:.0} ns | {:.0} ns |",
            run.rules, run.same, run.scattered
        )?;
    }
    if let (Some(first), Some(last)) = (runs.first(), runs.last()) {
        let ratio = last.same / first.same;
        writeln!(
            text,
            "\nThe program at {} rules takes {ratio:.2} times what it takes at {} (to reach: twice \
             at most) {}.",
            last.rules,
            first.rules,
            mark(ratio <= 2.0)
        )?;
    }
    Ok(())
}

/// What stands at the interfaces of a pod.
pub fn hooks(text: &mut String, hooks: Hooks) -> Result<()> {
    let Hooks {
        without_rules,
        with_rules,
        afterwards,
    } = hooks;
    writeln!(
        text,
        "\n## What stands at a pod's interface\n\n| pod, without a limit | programs and filters at \
         all hooks of its veth | to reach | |\n|---|---|---|---|\n\
         | without rules, beside one that has some | {without_rules} | none | {} |\n\
         | the same, after it had rules and lost them | {afterwards} | none | {} |\n\
         | with rules | {with_rules} | | |",
        mark(without_rules == 0),
        mark(afterwards == 0),
    )?;
    Ok(())
}

/// `312 (298–330)`, in nanoseconds; thousands of them as such from ten thousand on.
fn spread(spread: &Spread) -> String {
    let Spread { low, median, high } = *spread;
    if median >= 10_000.0 {
        let [low, median, high] = [low, median, high].map(|nanos| nanos / 1000.0);
        return format!("{median:.1} µs ({low:.1}–{high:.1})");
    }
    format!("{median:.0} ({low:.0}–{high:.0})")
}
