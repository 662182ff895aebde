//! The tables of what a line's classes give and cost.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Result;
use netqos_traffic::Flow;

use super::{mark, publish};
use crate::bench::classes::{Measured, Way};

const NOTES: &str = include_str!("classes/notes.md");

/// Writes the tables, and prints them.
pub fn write_classes(file: &Path, measured: &Measured) -> Result<()> {
    publish(file, &tables(measured)?)
}

fn tables(measured: &Measured) -> Result<String> {
    let mut text = String::from(
        "# Benchmarks of classes\n\n<!-- Written by `cargo xtask bench-classes`; the notes below the \
         tables are crates/xtask/src/bench/report/classes/notes.md. -->\n\n",
    );
    writeln!(
        text,
        "What the kernel backend gives the classes of a line of 100 Mbit/s and of one of 1 Gbit/s, \
         divided 40 / 30 / 30, and what it costs, beside the proposal's tc (HTB, ipsets, iptables); on \
         kernel {}, {} cores, medians of {} runs. ✓ reaches what was to be reached, ✗ falls short of \
         it.\n",
        measured.kernel, measured.cores, measured.repeats,
    )?;
    shares(&mut text, measured)?;
    joining(&mut text, measured)?;
    latency(&mut text, measured)?;
    throughput(&mut text, measured)?;
    cost(&mut text, measured)?;
    text.push_str(NOTES);
    Ok(text)
}

const fn arrow(flow: Flow) -> &'static str {
    match flow {
        Flow::Upload => "from the node",
        Flow::Download => "to the node",
    }
}

const fn name(way: Way) -> &'static str {
    match way {
        Way::Nothing => "undivided",
        Way::Htb => "HTB alone",
        Way::Kernel => "netqos",
        Way::KernelBusy => "netqos, every packet divided",
        Way::Tc => "HTB, ipsets and iptables",
    }
}

/// What each class has of a hundred when these want all.
fn expected(who: &[String]) -> [f64; 3] {
    let names: Vec<&str> = who.iter().map(String::as_str).collect();
    match names[..] {
        ["sys", "ls", "be"] => [40.0, 30.0, 30.0],
        ["ls", "be"] => [0.0, 70.0, 30.0],
        ["sys"] => [100.0, 0.0, 0.0],
        ["ls"] => [0.0, 100.0, 0.0],
        _ => [0.0, 0.0, 100.0],
    }
}

fn shares(text: &mut String, measured: &Measured) -> Result<()> {
    text.push_str(
        "## Shares, in Mbit/s on the wire\n\nTwo TCP connections (CUBIC) of a pod of each class that \
         takes part.\n\n| line | direction | who wants all | system | latency-sensitive | best-effort | \
         together | to reach | |\n|---|---|---|---|---|---|---|---|---|\n",
    );
    for of in &measured.shared {
        let hundredth = of.line as f64 / 100.0;
        let expected = expected(&of.who).map(|part| part * hundredth);
        let is_alone = of.who.len() == 1;
        // Of what each is guaranteed or left, within two percent of it.
        let near = of.classes.iter().zip(expected).all(|(found, expected)| {
            is_alone || expected == 0.0 || (found - expected).abs() <= 0.02 * expected
        });
        let is_full = of.total >= 95.0 * hundredth;
        writeln!(
            text,
            "| {} | {} | {} | {:.1} | {:.1} | {:.1} | {:.1} | {} | {} |",
            of.line,
            arrow(of.flow),
            of.who.join(", "),
            of.classes[0],
            of.classes[1],
            of.classes[2],
            of.total,
            match is_alone {
                true => format!("≥ {:.0} together", 95.0 * hundredth),
                false => format!(
                    "{:.0} / {:.0} / {:.0} ± 2 %, ≥ {:.0} together",
                    expected[0],
                    expected[1],
                    expected[2],
                    95.0 * hundredth
                ),
            },
            mark(near && is_full),
        )?;
    }
    Ok(())
}

fn joining(text: &mut String, measured: &Measured) -> Result<()> {
    text.push_str(
        "\n## The system's class begins while best effort has the line\n\n| line | direction \
         | until it has its 40 %: median, worst | to reach | | most that the line carried in 100 ms, of \
         what it may: median, worst | the same of the second before | to reach | \
         |\n|---|---|---|---|---|---|---|---|---|\n",
    );
    for of in &measured.joining {
        writeln!(
            text,
            "| {} | {} | {:.0}, {:.0} ms | ≤ 100 ms | {} | {:.1}, {:.1} % | {:.1}, {:.1} % | no more than before | {} |",
            of.line,
            arrow(of.flow),
            of.after[0],
            of.after[1],
            mark(of.after[1] <= 100.0),
            of.most[0] * 100.0,
            of.most[1] * 100.0,
            of.before[0] * 100.0,
            of.before[1] * 100.0,
            mark(is_no_more(of.most, of.before)),
        )?;
    }
    Ok(())
}

/// True where neither the median nor the worst is more than it was before, by the two hundredths that the
/// notes allow.
fn is_no_more(now: [f64; 2], before: [f64; 2]) -> bool {
    let [median, worst] = [0, 1].map(|nth| now[nth] <= before[nth] + 0.02);
    median && worst
}

fn latency(text: &mut String, measured: &Measured) -> Result<()> {
    text.push_str(
        "\n## Questions of a pod of the system's class\n\n128 bytes and an answer, every 1.5 ms.\n\n| \
         line | direction | who wants all | divided by | p50 | p99 | to reach | \
         |\n|---|---|---|---|---|---|---|---|\n",
    );
    for of in &measured.latency {
        let trip = of.round_trip;
        let is_ours = matches!(of.way, Way::Kernel | Way::KernelBusy);
        writeln!(
            text,
            "| {} | {} | {} | {} | {:.3} ms | {:.2} ms | {} | {} |",
            of.line,
            arrow(of.flow),
            of.who.join(", "),
            name(of.way),
            trip.p50,
            trip.p99,
            if is_ours { "≤ 0.1, ≤ 1 ms" } else { "" },
            match is_ours {
                true => mark(trip.p50 <= 0.1 && trip.p99 <= 1.0),
                false => "",
            },
        )?;
    }
    Ok(())
}

fn throughput(text: &mut String, measured: &Measured) -> Result<()> {
    text.push_str(
        "\n## Forwarded packets of 200 bytes\n\n| flows | line | thousands a second | of the undivided \
         one | to reach | |\n|---|---|---|---|---|---|\n",
    );
    for of in &measured.throughput {
        let is_ours = matches!(of.way, Way::Kernel | Way::KernelBusy);
        writeln!(
            text,
            "| {} | {} | {:.0} | {:.2} | {} | {} |",
            of.flows,
            name(of.way),
            of.per_second / 1e3,
            of.part,
            if is_ours { "≥ 0.88" } else { "" },
            if is_ours { mark(of.part >= 0.88) } else { "" },
        )?;
    }
    Ok(())
}

fn cost(text: &mut String, measured: &Measured) -> Result<()> {
    let htb = measured.cost.iter().find(|of| of.way == Way::Htb);
    let htb = htb.map_or(f64::NAN, |of| of.nanos);
    text.push_str(
        "\n## Processor time of a forwarded packet of 200 bytes\n\nThe quietest tenth of bursts of 100, \
         in turn.\n\n| line | pods | ns | beyond HTB alone | to reach | |\n|---|---|---|---|---|---|\n",
    );
    for of in &measured.cost {
        let is_ours = matches!(of.way, Way::Kernel | Way::KernelBusy);
        let beyond = of.nanos - htb;
        writeln!(
            text,
            "| {} | {} | {:.0} | {} | {} | {} |",
            name(of.way),
            of.pods,
            of.nanos,
            match of.way {
                Way::Nothing | Way::Htb => String::new(),
                _ => format!("{beyond:.0}"),
            },
            if is_ours { "≤ 300" } else { "" },
            if is_ours { mark(beyond <= 300.0) } else { "" },
        )?;
    }
    Ok(())
}
