//! All that was sent during a measurement on one axis of time, with the moments of changes.

use std::time::Duration;

use netqos_core::{BitRate, Direction};

use super::escape;
use crate::manifest::Place;
use crate::report::{FlowReport, LineReport, MeasurementReport, Report, rounded};

const WIDTH: f64 = 880.0;
/// Left of it are the rates.
const LEFT: f64 = 78.0;
/// Right of it is what dashed lines mean.
const RIGHT: f64 = 730.0;
/// Above it are the moments, in rows.
const TOP: f64 = 40.0;
const BOTTOM: f64 = 240.0;
const HEIGHT: f64 = 264.0;
/// So many rows of moments; the next goes into the first again.
const ROWS: usize = 2;
/// Two lines of text are at least so far from each other.
const LINE: f64 = 14.0;
/// How many colours there are.
const COLOURS: usize = 4;
/// What begins so soon, or ends so late, is there from the beginning, or to the end.
const MOMENT: Duration = Duration::from_millis(250);

/// From times and rates to places in the drawing.
struct Scale {
    seconds: f64,
    top: f64,
}

/// The drawing of a measurement, and what its colours mean.
pub(super) fn drawing(report: &Report, row: &MeasurementReport) -> String {
    let Some(end) = row.flows.iter().filter_map(FlowReport::end).max() else {
        return "<p class=\"caption\">nothing arrived</p>".to_owned();
    };
    let dashed = dashed(report, row);
    let scale = Scale::of(row, end, &dashed);
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"rates over time\">"
    );
    scale.axes(&mut svg);
    // What is said beside the lines, from above; never one over the other.
    let mut beside: Vec<_> = dashed.iter().collect();
    beside.sort_by_key(|it| std::cmp::Reverse(it.rate));
    let mut free = 0.0_f64;
    let mut front = String::new();
    for line in beside {
        let (from, to) = line
            .time
            .map_or((LEFT, RIGHT), |(from, to)| (scale.x(from), scale.x(to)));
        let y = scale.y(line.rate);
        let text_y = (y + 4.0).max(free);
        free = text_y + LINE;
        let (class, dashes) = match line.time {
            None => ("promise", ""),
            Some(_) => ("limit", " stroke-dasharray=\"6 4\""),
        };
        let drawn = format!(
            "<line class=\"{class}\" x1=\"{from:.1}\" x2=\"{to:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"{dashes}/>\
             <text class=\"soft\" x=\"{:.0}\" y=\"{text_y:.1}\">{}</text>",
            RIGHT + 8.0,
            escape(&line.text)
        );
        // What is expected is seen in front of what was measured.
        match line.time {
            None => svg.push_str(&drawn),
            Some(_) => front.push_str(&drawn),
        }
    }
    for (index, (at, text)) in moments(row, end).into_iter().enumerate() {
        let (x, y) = (scale.x(at), TOP - 10.0 - LINE * (index % ROWS) as f64);
        let (anchor, text_x) = match x > (LEFT + RIGHT) / 2.0 + 120.0 {
            true => ("end", x - 5.0),
            false => ("start", x + 5.0),
        };
        svg.push_str(&format!(
            "<line class=\"moment\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.0}\" y2=\"{BOTTOM}\"/>\
             <text x=\"{text_x:.1}\" y=\"{y:.0}\" text-anchor=\"{anchor}\">{}</text>",
            y - 10.0,
            escape(&text)
        ));
    }
    for flow in &row.flows {
        let points: Vec<_> = flow
            .samples
            .iter()
            .map(|sample| {
                let at = scale.x(flow.began + sample.at);
                format!("{at:.1},{:.1}", scale.y(sample.rate()))
            })
            .collect();
        svg.push_str(&format!(
            "<polyline class=\"flow f{}\" points=\"{}\"/>",
            colour(report, flow),
            points.join(" ")
        ));
    }
    key(report, row) + &svg + &front + "</svg>"
}

/// Who is drawn in which colour.
fn key(report: &Report, row: &MeasurementReport) -> String {
    let entries: String = row
        .flows
        .iter()
        .map(|flow| {
            let pod = of(report, flow).map(|(pod, _)| pod);
            let class = pod.and_then(|pod| report.pod(pod)?.class.clone());
            let class = class.map_or(String::new(), |class| format!(", {class}"));
            format!(
                "<span><i class=\"f{}\"></i>{} → {}{}</span>",
                colour(report, flow),
                escape(&flow.from.to_string()),
                escape(&flow.to.to_string()),
                escape(&class)
            )
        })
        .collect();
    format!("<p class=\"key\">{entries}</p>")
}

/// The pod whose flow it is, and which way it goes.
fn of<'f>(report: &Report, flow: &'f FlowReport) -> Option<(&'f str, Direction)> {
    match (&flow.from, &flow.to) {
        (Place::Pod(pod), _) => Some((pod.as_str(), Direction::Egress)),
        (_, Place::Pod(pod)) => Some((pod.as_str(), Direction::Ingress)),
        _ => None,
    }
    .filter(|(pod, _)| report.pod(pod).is_some())
}

/// A pod has one colour on the whole page.
fn colour(report: &Report, flow: &FlowReport) -> usize {
    let pod = of(report, flow).map(|(pod, _)| pod);
    let place = pod.and_then(|pod| report.pods.iter().position(|it| it.name == pod));
    place.unwrap_or_default() % COLOURS
}

/// A rate that is promised.
struct Dashed {
    rate: BitRate,
    text: String,
    /// Where it was measured; `None`: it is promised all the time.
    time: Option<(Duration, Duration)>,
}

/// What is expected of what is measured, what classes are guaranteed, and the line itself.
fn dashed(report: &Report, row: &MeasurementReport) -> Vec<Dashed> {
    let mut all = Vec::new();
    let configured = row.configured.as_ref();
    let counted = row.flows.iter().find_map(FlowReport::counted);
    if let (Some(configured), Some(counted)) = (configured, counted) {
        all.push(Dashed {
            rate: configured.payload,
            text: format!("expected: {}", rounded(configured.payload)),
            time: Some((counted.start, counted.end)),
        });
    }
    // Frames are promised, and payload is drawn.
    let payload = |rate: BitRate| match configured {
        Some(part) if part.rate.bits_per_second() > 0 => {
            let bits = u128::from(rate.bits_per_second());
            let bits = bits * u128::from(part.payload.bits_per_second());
            let bits = bits / u128::from(part.rate.bits_per_second());
            BitRate::from_bits_per_second(u64::try_from(bits).unwrap_or(u64::MAX))
        }
        _ => rate,
    };
    let mut promise = |rate: BitRate, what: &str| {
        let rate = payload(rate);
        if all
            .iter()
            .all(|it: &Dashed| it.time.is_some() || it.rate != rate)
        {
            all.push(Dashed {
                rate,
                text: format!("{what}: {}", rounded(rate)),
                time: None,
            });
        }
    };
    for flow in row.flows.iter().filter(|flow| passes_a_line(flow)) {
        let Some((pod, direction)) = of(report, flow) else {
            continue;
        };
        let Some((line, class)) = share(report, pod) else {
            continue;
        };
        if let Some(rate) = line.guarantee(class, direction) {
            promise(rate, "guaranteed");
        }
        if let Some(rate) = line.most(direction) {
            promise(rate, "the line");
        }
    }
    all
}

/// Only what leaves the node does, or comes to it.
fn passes_a_line(flow: &FlowReport) -> bool {
    [&flow.from, &flow.to]
        .iter()
        .any(|place| matches!(place, Place::Outside(_)))
}

/// The line that a pod has a part of, and its class there.
fn share<'r>(report: &'r Report, pod: &str) -> Option<(&'r LineReport, &'r str)> {
    let pod = report.pod(pod)?;
    let line = report.lines.iter().find(|line| line.node == pod.node)?;
    Some((line, pod.class.as_deref()?))
}

/// When somebody joins or leaves, and when something is changed, in the order of time.
fn moments(row: &MeasurementReport, end: Duration) -> Vec<(Duration, String)> {
    let mut moments = Vec::new();
    for flow in &row.flows {
        let who = match (&flow.from, &flow.to) {
            (Place::Pod(pod), _) | (_, Place::Pod(pod)) => pod.clone(),
            (from, _) => from.to_string(),
        };
        if flow.began > MOMENT {
            moments.push((flow.began, format!("{who} begins")));
        }
        if let Some(last) = flow.end().filter(|last| *last + MOMENT < end) {
            moments.push((last, format!("{who} ends")));
        }
    }
    let changes = row.changes.iter();
    moments.extend(changes.map(|change| (change.at, change.title.clone())));
    moments.sort_by_key(|(at, _)| *at);
    moments
}

impl Scale {
    /// High enough for what is promised, and for nearly all that arrived: a first burst may be many
    /// times that, and is cut off.
    fn of(row: &MeasurementReport, end: Duration, dashed: &[Dashed]) -> Self {
        let samples = row.flows.iter().flat_map(|flow| &flow.samples);
        let mut rates: Vec<_> = samples.map(|sample| sample.rate()).collect();
        rates.sort_unstable();
        let usual = rates.get(rates.len() * 19 / 20).copied();
        let promised = dashed.iter().map(|it| it.rate);
        let most = promised.chain(usual).max();
        let most = most.map_or(0, BitRate::bits_per_second).max(1);
        Self {
            seconds: end.as_secs_f64().max(0.1),
            top: most as f64 * 1.15,
        }
    }

    fn x(&self, at: Duration) -> f64 {
        LEFT + (at.as_secs_f64() / self.seconds).min(1.0) * (RIGHT - LEFT)
    }

    fn y(&self, rate: BitRate) -> f64 {
        let part = (rate.bits_per_second() as f64 / self.top).min(1.0);
        BOTTOM - part * (BOTTOM - TOP)
    }

    /// Lines at round rates, and the seconds.
    fn axes(&self, svg: &mut String) {
        let step = round_step(self.top / 4.0);
        let mut rate = 0;
        while (rate as f64) < self.top {
            let y = self.y(BitRate::from_bits_per_second(rate));
            svg.push_str(&format!(
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
                 <text class=\"soft\" x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 8.0,
                y + 4.0,
                BitRate::from_bits_per_second(rate)
            ));
            rate += step;
        }
        let every = (self.seconds / 12.0).ceil().max(1.0) as u64;
        let mut second = 0;
        while second as f64 <= self.seconds {
            let x = self.x(Duration::from_secs(second));
            svg.push_str(&format!(
                "<text class=\"soft\" x=\"{x:.1}\" y=\"{:.0}\" text-anchor=\"middle\">{second} s</text>",
                BOTTOM + 20.0
            ));
            second += every;
        }
    }
}

/// The greatest of 1, 2 and 5 times a power of ten that is not above this; at least 1.
fn round_step(most: f64) -> u64 {
    let decade = 10_f64.powf(most.max(1.0).log10().floor());
    let factor = [5.0, 2.0, 1.0]
        .into_iter()
        .find(|factor| factor * decade <= most)
        .unwrap_or(1.0);
    (factor * decade) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_of_the_axis_are_round() {
        for (most, step) in [
            (27.5e6, 20_000_000),
            (5e6, 5_000_000),
            (4.9e6, 2_000_000),
            (1.0, 1),
            (0.0, 1),
            (1.99e9, 1_000_000_000),
        ] {
            assert_eq!(round_step(most), step, "{most}");
        }
    }
}
