//! Goodput as bars beside its limit, and as a course over time.

use netqos_core::BitRate;
use netqos_traffic::Sample;

use super::{escape, label, together};
use crate::report::{MeasurementReport, Outcome, Report, rounded};

/// The drawing's width, in its own units.
const WIDTH: f64 = 680.0;
/// How far a bar may go; what is right of it is for its number.
const BAR: f64 = 500.0;
/// A limit stands here, so that what is beyond can be seen.
const LIMIT_AT: f64 = 0.8 * BAR;

const COURSE_WIDTH: f64 = 420.0;
const COURSE_HEIGHT: f64 = 120.0;

/// A row for each measurement of a rate: the measured bar and its limit, and the bar without netqos.
pub(super) fn bars(report: &Report) -> String {
    let rows: Vec<_> = report
        .measurements
        .iter()
        .filter(|m| m.has_rate())
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    let most = rows
        .iter()
        .filter(|row| row.configured.is_none())
        .filter_map(|row| rate(row))
        .max();
    let mut html: String = rows
        .iter()
        .map(|row| {
            let drawing = bar(row, report.compared(&row.name), most);
            format!("<div class=\"row\">{}{drawing}</div>\n", label(row))
        })
        .collect();
    html.push_str(
        "<p class=\"key\"><span><i class=\"k-ours\"></i>measured payload</span>\
         <span><i class=\"k-limit\"></i>what the limit leaves for payload</span>",
    );
    if report.comparison.is_some() {
        html.push_str("<span><i class=\"k-theirs\"></i>without netqos</span>");
    }
    html.push_str("</p>\n");
    html
}

fn bar(
    row: &MeasurementReport,
    compared: Option<&MeasurementReport>,
    most: Option<BitRate>,
) -> String {
    let compared = compared.and_then(|row| Some((row, rate(row)?)));
    let height = if compared.is_some() { 58.0 } else { 40.0 };
    // Each limit is at the same place; what is not limited is drawn beside the fastest of its kind.
    let full = row
        .configured
        .as_ref()
        .map(|configured| configured.payload.bits_per_second() as f64 / LIMIT_AT)
        .or_else(|| most.map(|most| most.bits_per_second() as f64 / BAR));
    let length = |rate: BitRate| {
        let bits = rate.bits_per_second() as f64;
        full.filter(|full| *full > 0.0)
            .map_or(0.0, |full| (bits / full).min(BAR))
    };
    let Some(measured) = rate(row) else {
        return "<p class=\"caption\">no result</p>".to_owned();
    };
    let beside = match (row.percent_of_payload(), &row.configured) {
        (Some(percent), Some(_)) => format!(" · {percent:.1} %"),
        _ => " · not limited".to_owned(),
    };
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{measured}{beside}\">\
         <rect class=\"track\" x=\"0\" y=\"4\" width=\"{BAR}\" height=\"18\" rx=\"3\"/>\
         <rect class=\"ours\" x=\"0\" y=\"4\" width=\"{:.1}\" height=\"18\" rx=\"3\"/>\
         <text class=\"strong\" x=\"{:.1}\" y=\"17.5\">{}<tspan class=\"soft\">{beside}</tspan></text>",
        length(measured),
        BAR + 12.0,
        rounded(measured),
    );
    if let Some((_, theirs)) = compared {
        svg.push_str(&format!(
            "<rect class=\"theirs\" x=\"0\" y=\"26\" width=\"{:.1}\" height=\"10\" rx=\"3\"/>\
             <text class=\"soft\" x=\"{:.1}\" y=\"35.5\">{}</text>",
            length(theirs),
            BAR + 12.0,
            rounded(theirs),
        ));
    }
    if let Some(configured) = &row.configured {
        svg.push_str(&format!(
            "<line class=\"limit\" x1=\"{LIMIT_AT}\" x2=\"{LIMIT_AT}\" y1=\"0\" y2=\"{:.1}\"/>\
             <text class=\"soft\" x=\"{LIMIT_AT}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            height - 16.0,
            height - 3.0,
            escape(&configured.limit()),
        ));
    }
    svg + "</svg>"
}

/// A small drawing for each limited measurement: its rate in every interval. Where there were several
/// senders, or changes, all of them in a wide one.
pub(super) fn courses(report: &Report) -> String {
    let drawings: String = report
        .measurements
        .iter()
        .filter(|row| row.has_rate())
        .filter_map(|row| {
            let configured = row.configured.as_ref();
            if !row.flows.is_empty() {
                let (name, drawing) = (escape(&row.name), together::drawing(report, row));
                return Some(format!(
                    "<div class=\"wide\"><h3>{name}</h3>{drawing}</div>\n"
                ));
            }
            let configured = configured?;
            let ours = samples(row)?;
            let theirs = report.compared(&row.name).and_then(samples);
            let drawing = course(ours, theirs, configured.payload);
            let (name, limit) = (escape(&row.name), rounded(configured.payload));
            Some(format!(
                "<div><h3>{name} <span class=\"soft\">{limit}</span></h3>{drawing}</div>\n"
            ))
        })
        .collect();
    if drawings.is_empty() {
        return drawings;
    }
    format!(
        "<div class=\"courses\">\n{drawings}</div>\n<p class=\"caption\">Payload that arrived in \
         each 100 ms, from the first byte on; the dashed line is what the limit leaves for it, where it \
         was measured.</p>\n"
    )
}

fn course(ours: &[Sample], theirs: Option<&[Sample]>, limit: BitRate) -> String {
    let seconds = |samples: &[Sample]| samples.last().map_or(0.0, |s| s.at.as_secs_f64());
    let length = seconds(ours).max(theirs.map_or(0.0, seconds)).max(0.1);
    // Twice the limit: a first burst may be many times that, and is cut off.
    let top = limit.bits_per_second() as f64 * 2.0;
    let y = |rate: BitRate| COURSE_HEIGHT * (1.0 - (rate.bits_per_second() as f64 / top).min(1.0));
    let line = |samples: &[Sample], class: &str| {
        let points: Vec<_> = samples
            .iter()
            .map(|sample| {
                let x = sample.at.as_secs_f64() / length * COURSE_WIDTH;
                format!("{x:.1},{:.1}", y(sample.rate()))
            })
            .collect();
        format!(
            "<polyline class=\"{class}\" points=\"{}\"/>",
            points.join(" ")
        )
    };
    let limit_y = y(limit);
    let mut svg = format!(
        "<svg viewBox=\"0 -4 {COURSE_WIDTH} {:.0}\" role=\"img\" aria-label=\"rate over time\">\
         <line class=\"grid\" x1=\"0\" x2=\"{COURSE_WIDTH}\" y1=\"{COURSE_HEIGHT}\" y2=\"{COURSE_HEIGHT}\"/>",
        COURSE_HEIGHT + 22.0
    );
    for second in 0..=length as u32 {
        let x = f64::from(second) / length * COURSE_WIDTH;
        let anchor = if second == 0 { "start" } else { "middle" };
        svg.push_str(&format!(
            "<text class=\"soft\" x=\"{x:.1}\" y=\"{:.0}\" text-anchor=\"{anchor}\">{second} s</text>",
            COURSE_HEIGHT + 16.0
        ));
    }
    svg.push_str(&format!(
        "<line class=\"limit\" x1=\"0\" x2=\"{COURSE_WIDTH}\" y1=\"{limit_y:.1}\" \
         y2=\"{limit_y:.1}\" stroke-dasharray=\"4 4\"/>"
    ));
    if let Some(theirs) = theirs {
        svg.push_str(&line(theirs, "course other"));
    }
    svg.push_str(&line(ours, "course"));
    svg + "</svg>"
}

fn rate(row: &MeasurementReport) -> Option<BitRate> {
    row.result.as_ref()?.rate()
}

fn samples(row: &MeasurementReport) -> Option<&[Sample]> {
    let goodput = row.result.as_ref().and_then(Outcome::goodput)?;
    Some(&goodput.samples)
}
