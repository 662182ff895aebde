//! What agent and controller take in a large cluster.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Result;

use super::{mark, publish};
use crate::bench::cluster::{Change, Controlled, Measured, Resident, Starts};

/// What stands below the tables comes from this file, and is written by hand.
const NOTES: &str = include_str!("cluster/notes.md");

/// Writes the tables, and prints them.
pub fn write_cluster(file: &Path, measured: &Measured) -> Result<()> {
    publish(file, &table(measured)?)
}

fn table(measured: &Measured) -> Result<String> {
    let mut text = String::from(
        "# Benchmarks of a large cluster\n\n<!-- Written by `cargo xtask bench-cluster`; the notes \
         below the tables are crates/xtask/src/bench/report/cluster/notes.md. -->\n\n",
    );
    writeln!(
        text,
        "What agent and controller take, the static executables of `make build`, beside etcd and \
         kube-apiserver {} on the same machine, on kernel {}, {} cores. ✓ reaches what was to be \
         reached, ✗ falls short of it.",
        measured.kubernetes, measured.kernel, measured.cores
    )?;
    if let Some(controlled) = &measured.controller {
        controller(&mut text, controlled)?;
    }
    if !measured.agents.is_empty() {
        agents(&mut text, &measured.agents)?;
    }
    if let Some(figures) = &measured.starts {
        starts(&mut text, figures)?;
    }
    if !measured.changes.is_empty() {
        changes(&mut text, &measured.changes)?;
    }
    text.push_str(NOTES);
    Ok(text)
}

fn controller(text: &mut String, it: &Controlled) -> Result<()> {
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    let size = it.size;
    writeln!(
        text,
        "\n## The controller: {} pods, written into etcd, {} policies, {} nodes\n\n| what | measured | to reach | \
         |\n|---|---|---|---|\n\
         | pods that came or went in a second, for {} s | {:.0}, told of by {:.0} events | {}, within 1 % | {} \
         |\n\
         | processor meanwhile | {:.2} of a core | ≤ 1 | {} |\n\
         | memory meanwhile; the most since the start | {:.0} MB; {:.0} MB | ≤ 1000 MB | {} |\n\
         | writes of a set's slices in a second in which it changed | {:.2}, at most {}; more than 2 \
         in {:.2} % | ≤ 2, in 99.9 % | {} |\n\
         | slices and statuses written in a second | {:.0}, {:.0} | | |\n\
         | reads | {} | 0 | {} |\n\
         | from the last change until all was written, but events | {:.1} s | | |\n\
         | from its start until all was written, but events | {:.0} s with {:.0} s of a core, {} writes, \
         and {} events | | |",
        size.pods,
        size.policies,
        size.nodes,
        size.seconds,
        it.changes,
        it.events,
        size.rate,
        mark(it.changes >= f64::from(size.rate) * 0.99),
        it.busy,
        mark(it.busy <= 1.0),
        megabytes(it.resident),
        megabytes(it.peak),
        mark(megabytes(it.peak) <= 1_000.0),
        it.per_set,
        it.per_set_most,
        it.above_two * 100.0,
        mark(it.above_two <= 0.001),
        it.slice_writes,
        it.status_writes,
        it.reads,
        mark(it.reads == 0),
        it.behind,
        it.first,
        it.first_busy,
        it.first_writes,
        it.first_events,
    )?;
    Ok(())
}

fn agents(text: &mut String, all: &[Resident]) -> Result<()> {
    text.push_str(
        "\n## An agent\n\n| node | memory; the most since the start | to reach | | processor when \
         idle | to reach | |\n|---|---|---|---|---|---|---|\n",
    );
    for it in all {
        let node = it.node;
        let most = if node.peers == 0 { 25.0 } else { 60.0 };
        let resident = it.resident as f64 / 1e6;
        writeln!(
            text,
            "| {} pods, {} policies, {} peers elsewhere | {resident:.1} MB; {:.1} MB | ≤ {most} MB \
             | {} | {:.2} % in {} s | ≤ 0.2 % | {} |",
            node.pods,
            node.policies,
            node.peers,
            it.peak as f64 / 1e6,
            mark(resident <= most),
            it.idle * 100.0,
            it.seconds,
            mark(it.idle <= 0.002),
        )?;
    }
    Ok(())
}

fn starts(text: &mut String, it: &Starts) -> Result<()> {
    let listed = |requests: &std::collections::BTreeMap<String, usize>| {
        let each = requests
            .iter()
            .map(|(what, many)| format!("{what}: {many}"));
        each.collect::<Vec<_>>().join(", ")
    };
    let (writes, reads) = (it.of_each(&it.writes), it.of_each(&it.reads));
    writeln!(
        text,
        "\n## A pod starts\n\n| what, of {} pods one after the other, until a minute after the last | for each | to reach | |\n\
         |---|---|---|---|\n\
         | writes ({}) | {writes:.2} | ≤ 1 | {} |\n\
         | reads ({}) | {reads:.2} | 0 | {} |",
        it.pods,
        listed(&it.writes),
        // Counts, of all pods together, have what pods leave over.
        mark(writes <= 1.0),
        listed(&it.reads),
        mark(it.reads.is_empty()),
    )?;
    Ok(())
}

fn changes(text: &mut String, all: &[Change]) -> Result<()> {
    text.push_str(
        "\n## A change on the API server\n\n| what | changes | half of them | 99 in a hundred | to reach | | the \
         slowest |\n|---|---|---|---|---|---|---|\n",
    );
    for it in all {
        writeln!(
            text,
            "| {} | {} | {:.1} ms | {:.1} ms | ≤ 100 ms | {} | {:.1} ms |",
            it.what,
            it.changes,
            it.took.p50,
            it.took.p99,
            mark(it.took.p99 <= 100.0),
            it.slowest,
        )?;
    }
    Ok(())
}
