//! The table, and the figures for machines.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use netqos_traffic::Flow;

use super::calls::{Calls, Cost, Costs};
use super::traffic::{FirstSecond, Given, Traffic};
use super::{Measured, Who};

mod classes;
mod cluster;
mod multinet;
mod rules;

pub use classes::write_classes;
pub use cluster::write_cluster;
pub use multinet::write_multinet;
pub use rules::write_rules;

/// What stands below the table comes from this file, and is written by hand.
const NOTES: &str = include_str!("notes.md");

/// Writes the table, and prints it.
pub fn write_table(file: &Path, measured: &Measured) -> Result<()> {
    publish(file, &table(measured)?)
}

/// Prints a page, and writes it.
fn publish(file: &Path, page: &str) -> Result<()> {
    print!("{page}");
    write(file, page)
}

/// Writes the figures.
pub fn write_json(file: &Path, measured: &impl serde::Serialize) -> Result<()> {
    write(file, &serde_json::to_string_pretty(measured)?)
}

/// Reads figures that were written before.
pub fn read_json<T: serde::de::DeserializeOwned>(file: &Path) -> Result<T> {
    let figures = fs::read(file).with_context(|| format!("read {}", file.display()))?;
    serde_json::from_slice(&figures).with_context(|| format!("figures in {}", file.display()))
}

fn write(file: &Path, text: &str) -> Result<()> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(file, text).with_context(|| format!("write {}", file.display()))
}

/// Whether a goal is reached.
fn mark(is_reached: bool) -> &'static str {
    if is_reached { "✓" } else { "✗" }
}

fn table(measured: &Measured) -> Result<String> {
    let mut text = String::from(
        "# Benchmarks\n\n<!-- Written by `make bench`; the notes below the tables are \
         crates/xtask/src/bench/notes.md. -->\n\n",
    );
    writeln!(
        text,
        "The `bandwidth` plugin of netqos beside the one of containernetworking/plugins (Debian's \
         package), measured in turn in one run of `make bench` on kernel {}, {} cores: {} calls of \
         each kind, {} repeats of each measurement of traffic. Medians, unless said. ✓ reaches \
         what was to be reached, ✗ falls short of it.\n",
        measured.kernel, measured.cores, measured.calls_of_each, measured.repeats,
    )?;
    call_costs(&mut text, &measured.calls)?;
    limits(&mut text, &measured.traffic.given)?;
    first_second(&mut text, &measured.traffic.first_second)?;
    processor(&mut text, &measured.traffic)?;
    text.push_str(NOTES);
    Ok(text)
}

fn call_costs(text: &mut String, Calls { ours, theirs }: &Calls) -> Result<()> {
    let bytes = |bytes: u64| {
        let kilobytes = bytes as f64 / 1000.0;
        (kilobytes, format!("{kilobytes:.1} kB"))
    };
    let cpu = |cost: Cost| (cost.cpu, format!("{:.2} ms", cost.cpu));
    let wall = |cost: Cost| {
        let said = format!("{:.2} ms (best {:.2})", cost.wall, cost.wall_best);
        (cost.wall, said)
    };
    let both = |of: &dyn Fn(&Costs) -> (f64, String)| [theirs, ours].map(of);
    let half = theirs.add.wall / 2.0;
    let at_most = |most: f64, said: &str| Some((most, format!("≤ {said}")));
    text.push_str(
        "## What a call costs\n\n| what | the well-known plugin | netqos | to reach | |\n\
         |---|---|---|---|---|\n",
    );
    for (what, [theirs, ours], goal) in [
        ("ADD, CPU", both(&|it| cpu(it.add)), at_most(1.5, "1.5 ms")),
        (
            "the first ADD of a boot, CPU",
            both(&|it| cpu(it.first_add)),
            at_most(50.0, "50 ms"),
        ),
        (
            "ADD, wall",
            both(&|it| wall(it.add)),
            at_most(half, &format!("{half:.2} ms (half)")),
        ),
        ("CHECK, wall", both(&|it| wall(it.check)), None),
        (
            "DEL, wall, the interface alive",
            both(&|it| wall(it.del)),
            at_most(3.0, "3 ms"),
        ),
        (
            "VERSION, CPU",
            both(&|it| cpu(it.version)),
            at_most(0.6, "0.6 ms"),
        ),
        (
            "peak memory of an ADD, the largest",
            both(&|it| bytes(it.add.peak)),
            at_most(2000.0, "2 MB"),
        ),
        (
            "peak memory of the first ADD",
            both(&|it| bytes(it.first_add.peak)),
            None,
        ),
        (
            "the executable",
            both(&|it| bytes(it.size)),
            at_most(1500.0, "1.5 MB"),
        ),
    ] {
        text.push_str(&row(what, &theirs.1, &ours, goal.as_ref()));
    }
    Ok(())
}

/// A cost of each plugin, what ours is to reach, and whether it does.
fn row(what: &str, theirs: &str, ours: &(f64, String), goal: Option<&(f64, String)>) -> String {
    let (number, said) = ours;
    let (goal, verdict) = match goal {
        Some((most, text)) => (text.as_str(), mark(number <= most)),
        None => ("", ""),
    };
    format!("| {what} | {theirs} | {said} | {goal} | {verdict} |\n")
}

fn limits(text: &mut String, given: &[Given]) -> Result<()> {
    text.push_str(
        "\n## What a limit gives\n\nOne TCP flow (cubic), as a share of what the limit can carry \
         (1,448 of 1,514 bytes); then, in a second run, round trips of small datagrams of the same \
         pod beside it, every 2 ms (25 ms at 1 Mbit/s). The well-known plugin has a burst chosen \
         with care (10 ms, at least 32 kB), netqos the one that containerd makes up.\n\n\
         | limit | direction | goodput, theirs | netqos | p50 / p99, theirs | netqos | |\n\
         |---|---|---|---|---|---|---|\n",
    );
    for ours in given.iter().filter(|given| given.who == Who::Ours) {
        let is_same = |given: &&Given| {
            given.who == Who::Theirs && given.limit == ours.limit && given.flow == ours.flow
        };
        let Some(theirs) = given.iter().find(is_same) else {
            continue;
        };
        let percent = |given: &Given| format!("{:.1} %", given.goodput * 100.0);
        let wait = |given: &Given| format!("{:.2} / {:.2} ms", given.p50, given.p99);
        writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} |",
            ours.limit,
            direction(ours.flow),
            percent(theirs),
            percent(ours),
            wait(theirs),
            wait(ours),
            mark(gives_what_was_promised(ours)),
        )?;
    }
    text.push_str(
        "\nTo reach: 98 to 102 % (95 to 105 % at 1 Mbit/s); 0.1 / 1 ms at 100 Mbit/s and 1 Gbit/s.\n\n",
    );
    Ok(())
}

fn gives_what_was_promised(given: &Given) -> bool {
    let megabits = given.limit.bits_per_second() / 1_000_000;
    let off = if megabits <= 1 { 0.05 } else { 0.02 };
    // As printed: to a tenth of a percent, and a hundredth of a millisecond.
    let rounded = |number: f64, digits: f64| (number * digits).round() / digits;
    let goodput = rounded(given.goodput, 1000.0);
    let is_prompt = rounded(given.p50, 100.0) <= 0.1 && rounded(given.p99, 100.0) <= 1.0;
    (1.0 - off..=1.0 + off).contains(&goodput) && (megabits < 100 || is_prompt)
}

fn first_second(text: &mut String, all: &[FirstSecond]) -> Result<()> {
    text.push_str(
        "## The first second\n\nA pod of 10 Mbit/s under containerd's burst, goodput of the first \
         second. To reach: 11 Mbit/s at most.\n\n| direction | theirs | netqos | |\n\
         |---|---|---|---|\n",
    );
    for flow in [Flow::Download, Flow::Upload] {
        let of = |who| {
            let is_it = |first: &&FirstSecond| first.who == who && first.flow == flow;
            all.iter().find(is_it).map(|first| first.rate)
        };
        let (Some(theirs), Some(ours)) = (of(Who::Theirs), of(Who::Ours)) else {
            continue;
        };
        let verdict = mark(ours.bits_per_second() <= 11_000_000);
        writeln!(
            text,
            "| {} | {theirs} | {ours} | {verdict} |",
            direction(flow)
        )?;
    }
    Ok(())
}

fn processor(text: &mut String, traffic: &Traffic) -> Result<()> {
    text.push_str(
        "\n## Processor time of bulk\n\nSeconds of one core for 10^9 bits, the whole machine's, \
         one TCP flow. To reach: 1.3 times theirs at 1 Gbit/s, 1.15 times at 5 Gbit/s.\n\n\
         | limit | direction | theirs | netqos | ratio | |\n|---|---|---|---|---|---|\n",
    );
    for cost in &traffic.processor {
        let ratio = cost.ours / cost.theirs;
        let most = if cost.limit.bits_per_second() > 1_000_000_000 {
            1.15
        } else {
            1.3
        };
        writeln!(
            text,
            "| {} | {} | {:.4} | {:.4} | {ratio:.2} | {} |",
            cost.limit,
            direction(cost.flow),
            cost.theirs,
            cost.ours,
            mark(ratio <= most),
        )?;
    }
    text.push('\n');
    Ok(())
}

/// A download is what comes to the pod.
fn direction(flow: Flow) -> &'static str {
    match flow {
        Flow::Download => "ingress",
        Flow::Upload => "egress",
    }
}
