//! Latency as a range from the median to the 99th percentile, on a logarithmic axis.

use netqos_traffic::Quantiles;

use super::{escape, label};
use crate::report::table::time;
use crate::report::{MeasurementReport, Outcome, Report, rounded};

const WIDTH: f64 = 680.0;
/// Where the axis ends; what is right of it is for numbers.
const AXIS: f64 = 470.0;
/// From one line of a row to the next.
const STEP: f64 = 26.0;

/// The decades that all of a report's ranges are in.
struct Axis {
    first: i32,
    last: i32,
}

/// A row for each measurement of latency, with and without netqos.
pub(super) fn ranges(report: &Report) -> String {
    let rows: Vec<_> = report
        .measurements
        .iter()
        .filter(|measurement| !measurement.has_rate())
        .collect();
    let both = |row: &&MeasurementReport| [times(row), report.compared(&row.name).and_then(times)];
    let all: Vec<_> = rows.iter().flat_map(both).flatten().collect();
    let Some(axis) = Axis::of(&all) else {
        return rows
            .iter()
            .map(|row| format!("<div class=\"row\">{}</div>\n", label(row)))
            .collect();
    };
    let mut html: String = rows
        .iter()
        .map(|row| {
            let drawing = axis.range(row, report.compared(&row.name));
            format!("<div class=\"row\">{}{drawing}</div>\n", labelled(row))
        })
        .collect();
    html.push_str(
        "<p class=\"key\"><span><i class=\"k-ours\"></i>round trip, median to 99th percentile</span>",
    );
    if report.comparison.is_some() {
        html.push_str("<span><i class=\"k-theirs\"></i>without netqos</span>");
    }
    html.push_str("<span>logarithmic scale</span></p>\n");
    html
}

fn labelled(row: &MeasurementReport) -> String {
    let load = match &row.load {
        None => return label(row),
        Some(load) => match load.goodput {
            Some(rate) => format!("while {} carries {}", load.kind, rounded(rate)),
            None => format!("while {} was to fill the path, and failed", load.kind),
        },
    };
    let label = label(row);
    let inside = label.trim_end_matches("</div>");
    format!("{inside}<br><span>{}</span></div>", escape(&load))
}

impl Axis {
    fn of(all: &[Quantiles]) -> Option<Self> {
        let least = all.iter().map(|q| q.p50).min()?;
        let most = all.iter().map(|q| q.p99).max()?;
        let decade =
            |duration: std::time::Duration| (duration.as_secs_f64() * 1000.0).max(0.001).log10();
        let first = decade(least).floor() as i32;
        Some(Self {
            first,
            last: (decade(most).ceil() as i32).max(first + 1),
        })
    }

    fn x(&self, duration: std::time::Duration) -> f64 {
        let decade = (duration.as_secs_f64() * 1000.0).max(0.000_1).log10();
        let part = (decade - f64::from(self.first)) / f64::from(self.last - self.first);
        part.clamp(0.0, 1.0) * AXIS
    }

    fn range(&self, row: &MeasurementReport, compared: Option<&MeasurementReport>) -> String {
        let lines = [(times(row), "ours"), (compared.and_then(times), "theirs")];
        let lines: Vec<_> = lines
            .into_iter()
            .filter_map(|(times, class)| Some((times?, class)))
            .collect();
        if lines.is_empty() {
            return "<p class=\"caption\">no response</p>".to_owned();
        }
        let bottom = lines.len() as f64 * STEP;
        let mut svg = format!(
            "<svg viewBox=\"0 0 {WIDTH} {:.0}\" role=\"img\" aria-label=\"latency\">",
            bottom + 18.0
        );
        for decade in self.first..=self.last {
            let x = f64::from(decade - self.first) / f64::from(self.last - self.first) * AXIS;
            let anchor = if decade == self.first {
                "start"
            } else {
                "middle"
            };
            svg.push_str(&format!(
                "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"0\" y2=\"{bottom:.0}\"/>\
                 <text class=\"soft\" x=\"{x:.1}\" y=\"{:.0}\" text-anchor=\"{anchor}\">{}</text>",
                bottom + 14.0,
                decade_name(decade)
            ));
        }
        for (index, (times, class)) in lines.iter().enumerate() {
            let y = (index as f64 + 0.5) * STEP;
            let (from, to) = (self.x(times.p50), self.x(times.p99));
            svg.push_str(&format!(
                "<line class=\"span {class}\" x1=\"{from:.1}\" x2=\"{to:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
                 <circle class=\"dot {class}\" cx=\"{from:.1}\" cy=\"{y:.1}\" r=\"5\"/>\
                 <circle class=\"dot {class}\" cx=\"{to:.1}\" cy=\"{y:.1}\" r=\"3.5\"/>\
                 <text class=\"{}\" x=\"{:.0}\" y=\"{:.1}\">p50 {} · p99 {}</text>",
                if *class == "ours" { "strong" } else { "soft" },
                AXIS + 24.0,
                y + 4.0,
                time(times.p50),
                time(times.p99)
            ));
        }
        svg + "</svg>"
    }
}

fn decade_name(decade: i32) -> String {
    match decade {
        3.. => format!("{} s", 10_f64.powi(decade - 3)),
        0..=2 => format!("{} ms", 10_f64.powi(decade)),
        _ => format!("{} µs", (10_f64.powi(decade + 3) * 1000.0).round() / 1000.0),
    }
}

fn times(row: &MeasurementReport) -> Option<Quantiles> {
    row.result.as_ref().and_then(Outcome::times)
}
