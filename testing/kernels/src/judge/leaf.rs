//! Judgement of `guest/leaf.sh`: figures, for docs/classes.md.

use anyhow::{bail, ensure};

use super::works;
use crate::cell::Verdict;
use crate::machine::Output;

/// The leaves, as the test names them, and as the table does.
const LEAVES: [(&str, &str); 2] = [("fair", "netqos' leaf"), ("fifo", "without its fq_codel")];
/// The most that one of two flows may have of what the other has.
const MOST: f64 = 1.2;
/// Milliseconds by which the p99 of a sparse flow may be longer than without fq_codel: less than one frame takes.
const P99_NOISE: f64 = 0.1;

/// A round: Mbit/s of both flows, milliseconds of the 99th percentile.
type Round = [f64; 3];

/// The rates of two flows and the p99 round trip of a sparse one, by leaf and by congestion control of the later flow:
/// the median round by the ratio of the rates, and the median p99.
pub fn leaf(output: &Output) -> anyhow::Result<Verdict> {
    let leaf = output.required("leaf")?;
    ensure!(leaf.contains("fq_codel"), "the leaf is {leaf:?}");
    let mut shown = Vec::new();
    let mut medians = Vec::new();
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
            medians.push([first, second, p99]);
        }
        shown.push(format!("{title}: {}", of_leaf.join("; ")));
    }
    let shown = shown.join(". ");
    let (fair, fifo) = medians.split_at(2);
    for (fair, fifo) in fair.iter().zip(fifo) {
        let ratio = fair[0] / fair[1];
        ensure!(ratio.max(1.0 / ratio) <= MOST, "not fair: {shown}");
        ensure!(fair[2] <= fifo[2] + P99_NOISE, "slower: {shown}");
    }
    Ok(works(shown))
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
