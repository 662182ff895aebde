//! The table of what rules cost.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Result;

use super::{mark, write};
use crate::bench::rules::Measured;

const NOTES: &str = include_str!("rules.md");

/// Writes the table, and prints it.
pub fn write_rules(file: &Path, measured: &Measured) -> Result<()> {
    let text = table(measured)?;
    print!("{text}");
    write(file, &text)
}

fn table(measured: &Measured) -> Result<String> {
    let Measured {
        packets,
        many_peers,
        changes,
        ..
    } = measured;
    let mut text = String::from(
        "# Benchmarks of rules\n\n<!-- Written by `cargo xtask bench-rules`; the notes below the tables are \
         crates/xtask/src/bench/report/rules.md. -->\n\n",
    );
    writeln!(
        text,
        "What rules per destination cost, on kernel {}, {} cores, {} repeats of each measurement \
         of traffic. ✓ reaches what was to be reached, ✗ falls short of it.\n\n\
         ## A packet\n\n| rules in the pod's chain | program, one destination | a thousand \
         destinations in turn | busier for each packet, live | to reach | |\n\
         |---|---|---|---|---|---|",
        measured.kernel, measured.cores, measured.repeats,
    )?;
    for one in packets {
        writeln!(
            text,
            "| {} | {:.0} ns | {:.0} ns | {:.0} ns | ≤ 500 ns live | {} |",
            one.rules,
            one.program,
            one.program_scattered,
            one.live,
            mark(one.live <= 500.0)
        )?;
    }
    if let (Some(first), Some(last)) = (packets.first(), packets.last()) {
        let ratio = last.program / first.program;
        writeln!(
            text,
            "\nThe program at {} rules takes {ratio:.2} times what it takes at {} (to reach: twice \
             at most) {}.",
            last.rules,
            first.rules,
            mark(ratio <= 2.0)
        )?;
    }
    writeln!(
        text,
        "\n## {} peers in a hundred rules\n\n| what | measured | to reach | |\n|---|---|---|---|\n\
         | memory in the kernel for each | {:.0} bytes | ≤ 100 bytes | {} |\n\
         | writes when one comes | {} | 1 | {} |\n\
         | program with a hundred of them, with all | {:.0} ns, {:.0} ns | unchanged | {} |",
        many_peers.peers,
        many_peers.bytes_each,
        mark(many_peers.bytes_each <= 100.0),
        many_peers.writes,
        mark(many_peers.writes == 1),
        many_peers.lookup_before,
        many_peers.lookup_after,
        mark(many_peers.lookup_after <= many_peers.lookup_before * 1.25)
    )?;
    writeln!(
        text,
        "\n## A change, with {} pods and {} policies\n\n| what | p50 | p99 | to reach | |\n\
         |---|---|---|---|---|",
        changes.pods, changes.policies
    )?;
    let peer = changes.peer_index;
    let kernel = changes.peer_kernel;
    for (what, (p50, p99), goal, said) in [
        ("a pod event in the index", peer, 50.0, "≤ 50 µs"),
        ("the same, to the kernel", kernel, 2_000.0, "≤ 2 ms"),
        (
            "a rule change, to enforcement",
            changes.rule,
            10_000.0,
            "≤ 10 ms p99",
        ),
        (
            "the same, of a rule with a rate",
            changes.rule_with_rate,
            10_000.0,
            "≤ 10 ms p99",
        ),
    ] {
        let reached = if said.ends_with("p99") { p99 } else { p50 };
        writeln!(
            text,
            "| {what} | {p50:.1} µs | {p99:.1} µs | {said} | {} |",
            mark(reached <= goal)
        )?;
    }
    text.push_str(NOTES);
    Ok(text)
}
