//! The table, and the figures for machines.

use std::fmt::Write;
use std::fs;

use anyhow::Result;
use netqos_traffic::Flow;
use serde_json::json;

use super::calls::Calls;
use super::traffic::{Given, Traffic};
use super::{Arguments, Who};

/// What stands below the table comes from this file, and is written by hand.
const NOTES: &str = include_str!("notes.md");

/// Writes both files, and prints the table.
pub fn write(arguments: &Arguments, calls: &Calls, traffic: &Traffic) -> Result<()> {
    let text = table(arguments, calls, traffic)?;
    print!("{text}");
    for file in [&arguments.table, &arguments.json] {
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder)?;
        }
    }
    fs::write(&arguments.table, text)?;
    let json = json!({"calls": calls, "traffic": traffic});
    fs::write(&arguments.json, serde_json::to_string_pretty(&json)?)?;
    Ok(())
}

fn table(arguments: &Arguments, calls: &Calls, traffic: &Traffic) -> Result<String> {
    let mut text = String::from(
        "# Benchmarks\n\n<!-- Written by `make bench`; the notes below the tables are \
         crates/xtask/src/bench/notes.md. -->\n\n",
    );
    writeln!(
        text,
        "The `bandwidth` plugin of netqos beside the one of containernetworking/plugins (Debian's \
         package), measured in turn in one run of `make bench` on kernel {}, {} cores: {} calls of \
         each kind, {} repeats of each measurement of traffic. Medians, unless said.\n",
        fs::read_to_string("/proc/sys/kernel/osrelease")?.trim(),
        std::thread::available_parallelism()?,
        arguments.calls,
        arguments.repeats,
    )?;

    let (ours, theirs) = (&calls.ours, &calls.theirs);
    let kilobytes = |bytes: u64| format!("{:.1} kB", bytes as f64 / 1000.0);
    let ms = |value: f64| format!("{value:.2} ms");
    let best =
        |cost: super::calls::Cost| format!("{:.2} ms (best {:.2})", cost.wall, cost.wall_best);
    text.push_str("## What a call costs\n\n| what | the well-known plugin | netqos | to reach |\n|---|---|---|---|\n");
    for (what, theirs, ours, goal) in [
        (
            "ADD, CPU",
            ms(theirs.add.cpu),
            ms(ours.add.cpu),
            "≤ 1.5 ms".to_owned(),
        ),
        (
            "the first ADD of a boot, CPU",
            ms(theirs.first_add.cpu),
            ms(ours.first_add.cpu),
            "≤ 50 ms".to_owned(),
        ),
        (
            "ADD, wall",
            best(theirs.add),
            best(ours.add),
            format!("≤ {:.2} ms (half)", theirs.add.wall / 2.0),
        ),
        (
            "CHECK, wall",
            best(theirs.check),
            best(ours.check),
            String::new(),
        ),
        (
            "DEL, wall, the interface alive",
            best(theirs.del),
            best(ours.del),
            "≤ 3 ms".to_owned(),
        ),
        (
            "VERSION, CPU",
            ms(theirs.version.cpu),
            ms(ours.version.cpu),
            "≤ 0.6 ms".to_owned(),
        ),
        (
            "peak memory of an ADD, the largest",
            kilobytes(theirs.add.peak),
            kilobytes(ours.add.peak),
            "≤ 2 MB".to_owned(),
        ),
        (
            "peak memory of the first ADD",
            kilobytes(theirs.first_add.peak),
            kilobytes(ours.first_add.peak),
            String::new(),
        ),
        (
            "the executable",
            kilobytes(theirs.size),
            kilobytes(ours.size),
            "≤ 1.5 MB".to_owned(),
        ),
    ] {
        writeln!(text, "| {what} | {theirs} | {ours} | {goal} |")?;
    }

    text.push_str(
        "\n## What a limit gives\n\nOne TCP flow (cubic), as a share of what the limit can carry \
         (1,448 of 1,514 bytes); then, in a second run, round trips of small datagrams of the same \
         pod beside it, every 2 ms (25 ms at 1 Mbit/s). The well-known plugin has a burst chosen \
         with care (10 ms, at least 32 kB), netqos the one that containerd makes up.\n\n\
         | limit | direction | goodput, theirs | netqos | p50 / p99, theirs | netqos |\n|---|---|---|---|---|---|\n",
    );
    for ours in traffic.given.iter().filter(|given| given.who == Who::Ours) {
        let is_same = |given: &&Given| {
            given.who == Who::Theirs && given.limit == ours.limit && given.flow == ours.flow
        };
        let Some(theirs) = traffic.given.iter().find(is_same) else {
            continue;
        };
        let percent = |given: &Given| format!("{:.1} %", given.goodput * 100.0);
        let wait = |given: &Given| format!("{:.2} / {:.2} ms", given.p50, given.p99);
        writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} |",
            ours.limit,
            direction(ours.flow),
            percent(theirs),
            percent(ours),
            wait(theirs),
            wait(ours),
        )?;
    }
    text.push_str(
        "\nTo reach: 98 to 102 % (95 to 105 % at 1 Mbit/s); 0.1 / 1 ms at 100 Mbit/s and 1 Gbit/s.\n\n\
         ## The first second\n\nA pod of 10 Mbit/s under containerd's burst, goodput of the first \
         second. To reach: 11 Mbit/s at most.\n\n| direction | theirs | netqos |\n|---|---|---|\n",
    );
    for flow in [Flow::Download, Flow::Upload] {
        let of = |who| {
            let is_it =
                |first: &&super::traffic::FirstSecond| first.who == who && first.flow == flow;
            traffic
                .first_second
                .iter()
                .find(is_it)
                .map(|first| first.rate.to_string())
        };
        let text_of = |who| of(who).unwrap_or_default();
        writeln!(
            text,
            "| {} | {} | {} |",
            direction(flow),
            text_of(Who::Theirs),
            text_of(Who::Ours)
        )?;
    }

    text.push_str(
        "\n## Processor time of bulk\n\nSeconds of one core for 10^9 bits, the whole machine's, \
         one TCP flow. To reach: 1.3 times theirs at 1 Gbit/s, 1.15 times at 5 Gbit/s.\n\n\
         | limit | direction | theirs | netqos | ratio |\n|---|---|---|---|---|\n",
    );
    for cost in &traffic.processor {
        writeln!(
            text,
            "| {} | {} | {:.4} | {:.4} | {:.2} |",
            cost.limit,
            direction(cost.flow),
            cost.theirs,
            cost.ours,
            cost.ours / cost.theirs,
        )?;
    }
    text.push('\n');
    text.push_str(NOTES);
    Ok(text)
}

/// A download is what comes to the pod.
fn direction(flow: Flow) -> &'static str {
    match flow {
        Flow::Download => "ingress",
        Flow::Upload => "egress",
    }
}
