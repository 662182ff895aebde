//! Judgement of `guest/leaf.sh`: figures, for docs/classes.md.

use anyhow::bail;

use super::works;
use crate::cell::Verdict;
use crate::machine::Output;

/// The leaves, as the test names them, and as the table does.
const LEAVES: [(&str, &str); 3] = [
    ("today", "netqos' leaf"),
    ("below-tbf", "fq_codel below its tbf"),
    ("alone", "fq_codel alone"),
];

/// A round: Mbit/s of both flows, milliseconds of the 99th percentile.
type Round = [f64; 3];

/// The rates of two flows and the p99 round trip of a sparse one, by leaf and by congestion control of the later flow:
/// the median round by the ratio of the rates, and the median p99.
pub fn leaf(output: &Output) -> anyhow::Result<Verdict> {
    let mut shown = Vec::new();
    for (name, title) in LEAVES {
        let mut of_leaf = Vec::new();
        for control in ["cubic", "bbr"] {
            let rounds = (1..=3).map(|round| read(output, &format!("{name}-{control}-{round}")));
            let mut rounds = rounds.collect::<anyhow::Result<Vec<Round>>>()?;
            rounds.sort_by(|a, b| (a[0] / a[1]).total_cmp(&(b[0] / b[1])));
            let [first, second, _] = rounds[1];
            rounds.sort_by(|a, b| a[2].total_cmp(&b[2]));
            let p99 = rounds[1][2];
            of_leaf.push(format!(
                "cubic {first:.2} and {control} {second:.2} Mbit/s, p99 {p99:.3} ms"
            ));
        }
        shown.push(format!("{title}: {}", of_leaf.join("; ")));
    }
    Ok(works(shown.join(". ")))
}

fn read(output: &Output, name: &str) -> anyhow::Result<Round> {
    let text = output.required(name)?;
    let figures = text.split_whitespace().filter_map(|it| it.parse().ok());
    let figures: Vec<f64> = figures.collect();
    let [first, second, p99] = figures[..] else {
        bail!("{name}: {text:?}");
    };
    Ok([first / 1e6, second / 1e6, p99 / 1e6])
}
