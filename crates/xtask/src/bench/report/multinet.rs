//! The page of `netqos-multinet` beside Multus.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use anyhow::Result;

use super::{mark, publish};
use crate::bench::multinet::{Boot, Cost, Costs, Measured, Requests, Who};

/// The notes below the tables, written by hand.
const NOTES: &str = include_str!("multinet/notes.md");

/// The most milliseconds that netqos may add.
const CPU: f64 = 5.0;
const ADD: f64 = 10.0;
/// The most memory of the agent, in bytes.
const RESIDENT: u64 = 40_000_000;

/// Writes the page, and prints it.
pub fn write_multinet(file: &Path, measured: &Measured) -> Result<()> {
    publish(file, &page(measured)?)
}

fn page(measured: &Measured) -> Result<String> {
    let mut text = String::from(
        "# Benchmarks of pods on several networks\n\n<!-- Written by `cargo xtask bench-multinet`; the notes below the \
         tables are crates/xtask/src/bench/report/multinet/notes.md. -->\n\n",
    );
    writeln!(
        text,
        "`netqos-multinet` and the agent beside Multus {}, measured in turn in one run on kernel {}, {} cores, with \
         Kubernetes {}: {} pods of each kind. ✓ reaches the target, ✗ does not.",
        measured.multus, measured.kernel, measured.cores, measured.kubernetes, measured.calls
    )?;
    added(&mut text, measured)?;
    for costs in &measured.costs {
        of_kind(&mut text, costs)?;
    }
    requests(&mut text, &measured.requests)?;
    boots(&mut text, &measured.boots)?;
    text.push_str(NOTES);
    Ok(text)
}

/// The costs beyond those of the plugins called directly.
fn added(text: &mut String, measured: &Measured) -> Result<()> {
    text.push_str(
        "\n## Added to the plugins called directly\n\n\
         | what | Multus, thick | Multus, thin | netqos | target | |\n|---|---|---|---|---|---|\n",
    );
    for (kind, network) in [
        ("none", "no network beside the default one"),
        ("bridge", "one bridge network"),
        ("macvlan", "one macvlan network"),
    ] {
        let Some(costs) = measured.costs.iter().find(|it| it.kind == kind) else {
            continue;
        };
        let cpu = |who| over_direct(costs, who, |it| it.cpu);
        let add = |who| over_direct(costs, who, |it| it.add);
        for (what, get, most) in [
            ("CPU of ADD and DEL", &cpu as &dyn Fn(Who) -> f64, CPU),
            ("time of ADD", &add as &dyn Fn(Who) -> f64, ADD),
        ] {
            let ours = get(Who::Multinet);
            writeln!(
                text,
                "| {what}, {network} | {:+.1} ms | {:+.1} ms | {ours:+.1} ms | ≤ {most} ms | {} |",
                get(Who::Thick),
                get(Who::Thin),
                mark(ours <= most),
            )?;
        }
        let fsyncs = match kind {
            "bridge" => format!(", {} fsyncs", measured.fsyncs),
            _ => String::new(),
        };
        let disk = add(Who::MultinetOnDisk);
        writeln!(
            text,
            "| time of ADD, {network}, records on a disk | | | {disk:+.1} ms{fsyncs} | | |"
        )?;
    }
    Ok(())
}

/// The difference between one of them and the plugins called directly.
fn over_direct(costs: &Costs, who: Who, get: fn(&Cost) -> f64) -> f64 {
    match (costs.by(who), costs.by(Who::Direct)) {
        (Some(it), Some(direct)) => get(it) - get(direct),
        _ => f64::NAN,
    }
}

fn of_kind(text: &mut String, costs: &Costs) -> Result<()> {
    writeln!(
        text,
        "\n## Pods of kind {}\n\n| by | CPU of ADD and DEL | of it agent or daemon | tenth to ninth decile without these | ADD \
         | DEL | memory of the largest process |\n|---|---|---|---|---|---|---|",
        costs.kind
    )?;
    for it in &costs.of {
        writeln!(
            text,
            "| {} | {:.1} ms | {:.1} ms | {:.1} to {:.1} ms | {:.1} ms | {:.1} ms | {:.1} MB |",
            name(it.who),
            it.cpu,
            it.cpu_of_daemon,
            it.cpu_between.0,
            it.cpu_between.1,
            it.add,
            it.del,
            it.peak as f64 / 1e6,
        )?;
    }
    Ok(())
}

fn name(who: Who) -> &'static str {
    match who {
        Who::Direct => "the plugins alone",
        Who::Multinet => "netqos",
        Who::MultinetOnDisk => "netqos, records on a disk",
        Who::Thin => "Multus, thin",
        Who::Thick => "Multus, thick",
    }
}

fn requests(text: &mut String, all: &[Requests]) -> Result<()> {
    text.push_str(
        "\n## Requests to the API server\n\n| networks beside the default one | Multus, thin: ADD | DEL | netqos: ADD, by the \
         agent | target | |\n|---|---|---|---|---|---|\n",
    );
    for it in all {
        let reaches = it.multinet == BTreeMap::from([("patch pods/status".to_owned(), 1)]);
        writeln!(
            text,
            "| {} | {} | {} | {} | 1 patch, 0 get | {} |",
            it.networks,
            listed(&it.thin),
            listed(&it.thin_del),
            listed(&it.multinet),
            mark(reaches),
        )?;
    }
    Ok(())
}

fn listed(requests: &BTreeMap<String, usize>) -> String {
    let each = requests
        .iter()
        .map(|(what, count)| format!("{count} {what}"));
    match requests.is_empty() {
        true => "none".to_owned(),
        false => each.collect::<Vec<_>>().join(", "),
    }
}

fn boots(text: &mut String, all: &[Boot]) -> Result<()> {
    text.push_str(
        "\n## Many pods at once\n\nPods on three networks beside the default one, all calls at once; a call that fails is \
         made again.\n\n| by | pods | lost | failed calls | until all are attached | left after DEL: records, addresses | agent or \
         daemon: most memory; afterwards | target | |\n|---|---|---|---|---|---|---|---|---|\n",
    );
    for it in all {
        let (target, verdict) = match it.who {
            Who::Multinet => {
                let annotated = it.annotated == it.pods && it.left == 0;
                let reaches = it.lost == 0 && annotated && it.peak <= RESIDENT;
                (
                    "0 lost, 0 left, ≤ 40 MB, all with network-status",
                    mark(reaches),
                )
            }
            _ => ("", ""),
        };
        let memory = match it.who {
            Who::Thin => String::new(),
            _ => format!(
                "{:.1} MB; {:.1} MB",
                it.peak as f64 / 1e6,
                it.resident as f64 / 1e6
            ),
        };
        writeln!(
            text,
            "| {} | {} | {} | {} | {:.1} s | {} | {memory} | {target} | {verdict} |",
            name(it.who),
            it.pods,
            it.lost,
            it.failed,
            it.seconds,
            it.left,
        )?;
    }
    Ok(())
}
