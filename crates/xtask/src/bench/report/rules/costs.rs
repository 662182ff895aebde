//! What peers, indexing and changes cost.

use std::fmt::Write as _;

use anyhow::Result;

use super::mark;
use crate::bench::index::Figures;
use crate::bench::rules::{Changes, EndToEnd, ManyPeers, Quantiles, RuleChange};

/// Very many peers.
pub fn many_peers(text: &mut String, many: &ManyPeers) -> Result<()> {
    let (comes, goes) = many.writes;
    writeln!(
        text,
        "\n## {} peers in a hundred rules\n\n| what | measured | to reach | |\n|---|---|---|---|\n\
         | memory in the kernel for each | {:.0} bytes | ≤ 100 bytes | {} |\n\
         | writes when one comes; when one goes | {comes}; {goes} | 1 | {} |\n\
         | program with a hundred of them, with all | {:.0} ns, {:.0} ns | unchanged | {} |",
        many.peers,
        many.bytes_each,
        mark(many.bytes_each <= 100.0),
        mark((comes, goes) == (1, 1)),
        many.lookup_before,
        many.lookup_after,
        mark(many.lookup_after <= many.lookup_before * 1.25)
    )?;
    Ok(())
}

/// The index alone.
pub fn index(text: &mut String, figures: &Figures) -> Result<()> {
    let megabytes = figures.memory as f64 / 1e6;
    writeln!(
        text,
        "\n## The index alone: {} pods, {} policies, {} pods on the node\n\n| what | measured | to \
         reach | |\n|---|---|---|---|\n\
         | first index | {:.2} s | ≤ 5 s | {} |\n\
         | memory | {megabytes:.0} MB | ≤ 600 MB | {} |",
        figures.pods,
        figures.policies,
        figures.local,
        figures.first,
        mark(figures.first <= 5.0),
        mark(megabytes <= 600.0),
    )?;
    text.push_str(
        "\n| event, with the change of the plan | addresses that change in it | p50 | p99 |\n\
         |---|---|---|---|\n",
    );
    for event in &figures.events {
        let Quantiles { p50, p99 } = event.took;
        writeln!(
            text,
            "| {} | {:.0} | {p50:.1} µs | {p99:.1} µs |",
            event.what, event.peers
        )?;
    }
    Ok(())
}

/// A change, in the index and to the kernel.
pub fn changes(text: &mut String, changes: &Changes) -> Result<()> {
    writeln!(
        text,
        "\n## A change, with {} pods and {} policies\n\n\
         | event of a pod | index, p50 | p99 | ≤ 50 µs | to the kernel, p50 | p99 | ≤ 2 ms | the same at once, p50 | p99 |\n\
         |---|---|---|---|---|---|---|---|---|",
        changes.pods, changes.policies
    )?;
    for event in &changes.events {
        let (index, kernel, at_once) = (event.index, event.kernel, event.kernel_at_once);
        writeln!(
            text,
            "| {} | {:.1} µs | {:.1} µs | {} | {:.1} µs | {:.1} µs | {} | {:.1} µs | {:.1} µs |",
            event.what,
            index.p50,
            index.p99,
            mark(index.p50 <= 50.0),
            kernel.p50,
            kernel.p99,
            mark(kernel.p50 <= 2_000.0),
            at_once.p50,
            at_once.p99,
        )?;
    }
    text.push_str(
        "\n| change of a rule, index and kernel | p50 | p99 | to reach | | at once, p50 | p99 |\n\
         |---|---|---|---|---|---|---|\n",
    );
    for RuleChange {
        what,
        apart: Quantiles { p50, p99 },
        at_once,
    } in &changes.rules
    {
        let verdict = mark(*p99 <= 10_000.0);
        writeln!(
            text,
            "| {what} | {p50:.1} µs | {p99:.1} µs | ≤ 10 ms p99 | {verdict} | {:.1} µs | {:.1} µs |",
            at_once.p50, at_once.p99
        )?;
    }
    Ok(())
}

/// From the folder to the packet.
pub fn end_to_end(text: &mut String, measured: &EndToEnd) -> Result<()> {
    let Quantiles { p50, p99 } = measured.seen;
    writeln!(
        text,
        "\n## From the rename of a manifest to the first packet that is marked by it\n\n\
         | {} changes, {} pods and {} policies in the folder | p50 | p99 | to reach | |\n\
         |---|---|---|---|---|\n\
         | `netqos-agent` | {p50:.2} ms | {p99:.2} ms | ≤ 10 ms p99 | {} |",
        measured.changes,
        measured.pods,
        measured.policies,
        mark(p99 <= 10.0),
    )?;
    Ok(())
}
