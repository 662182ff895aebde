//! The report as tables, for a terminal.

use std::time::Duration;

use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};
use netqos_core::BitRate;

use super::{Comparison, LineReport, MeasurementReport, Outcome, Part, Report, Verdict, rounded};

/// What stands where there is nothing to say.
const NOTHING: &str = "–";

/// A line below the header, and one at the end.
const STYLE: TableStyle = TableStyle::new()
    .header_separator(LineStyle::none().fill('─').junction('─'))
    .bottom_border(LineStyle::none().fill('─').junction('─'));

/// All of it.
pub(super) fn render(report: &Report) -> String {
    let mut text = String::new();
    let marks: Vec<_> = report
        .measurements
        .iter()
        .filter(|m| m.kind == "dscp")
        .collect();
    if !marks.is_empty() {
        text.push_str(&mark_table(&marks));
        text.push('\n');
    }
    let rates: Vec<_> = report
        .measurements
        .iter()
        .filter(|m| m.has_rate())
        .collect();
    if !rates.is_empty() {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&rate_table(report, &rates));
        text.push('\n');
    }
    let times: Vec<_> = report
        .measurements
        .iter()
        .filter(|m| m.kind == "latency")
        .collect();
    if !times.is_empty() {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&time_table(report, &times));
        text.push('\n');
    }
    if !report.rules.is_empty() {
        text.push('\n');
        text.push_str(&rule_table(report));
        text.push('\n');
    }
    for line in &report.lines {
        text.push_str(&format!("\n· {}", of_line(line)));
    }
    for measurement in report.measurements.iter().filter(|m| !m.parts.is_empty()) {
        let parts: Vec<_> = measurement.parts.iter().map(part).collect();
        text.push_str(&format!("\n· {}: {}", measurement.name, parts.join(", ")));
    }
    for measurement in &report.measurements {
        for failed in measurement.told_attempts() {
            text.push_str(&format!("\n↻ {}: {failed}", measurement.name));
        }
        for failure in &measurement.failures {
            text.push_str(&format!("\n✗ {}: {failure}", measurement.name));
        }
    }
    if let Some(Comparison {
        left_out_because: Some(why),
        ..
    }) = &report.comparison
    {
        text.push_str(&format!("\n! without netqos: {why}"));
    }
    for warning in &report.warnings {
        text.push_str(&format!("\n! {warning}"));
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

/// How a line is shared.
fn of_line(line: &LineReport) -> String {
    let classes: Vec<_> = line.by_class().filter_map(class).collect();
    format!(
        "{} of {}, divided by {}: {}",
        line.line.name,
        line.node,
        line.divided_by(),
        classes.join(", ")
    )
}

/// What a class has of what a line sends; what it gets where that is something else.
fn class((name, shares): (&str, [Option<(BitRate, BitRate)>; 2])) -> Option<String> {
    let said = |(min, max): (BitRate, BitRate)| format!("{min} to {max}");
    let [sends, gets] = shares.map(|share| share.map(said));
    let (sends, gets) = (sends?, gets?);
    Some(match sends == gets {
        true => format!("{name} {sends}"),
        false => format!("{name} {sends}, and gets {gets}"),
    })
}

fn part(part: &Part) -> String {
    let goodput = part
        .goodput
        .map_or(NOTHING.to_owned(), |rate| rounded(rate).to_string());
    format!("{} {goodput}", part.from)
}

fn mark_table(rows: &[&MeasurementReport]) -> String {
    let mut table = table(&["mark", "way", "expected DSCP", "seen DSCP", ""]);
    for row in rows {
        let expected = row.expected_dscp.map(|dscp| dscp.value().to_string());
        table.add_row(vec![
            row.name.clone(),
            row.way(),
            expected.unwrap_or(NOTHING.to_owned()),
            row.marks_seen(),
            row.sign().to_owned(),
        ]);
    }
    align_numbers(&mut table, 2);
    table.to_string()
}

fn rule_table(report: &Report) -> String {
    let mut table = table(&[
        "rule", "pod", "DSCP", "rate", "packets", "marked", "dropped",
    ]);
    for rule in &report.rules {
        let pod = match rule.interface.as_str() {
            "" | "eth0" => rule.pod.clone(),
            interface => format!("{} {interface}", rule.pod),
        };
        table.add_row(vec![
            rule.rule.clone(),
            pod,
            rule.dscp
                .map_or(NOTHING.to_owned(), |dscp| dscp.to_string()),
            rule.rate
                .map_or(NOTHING.to_owned(), |rate| rate.to_string()),
            rule.packets.to_string(),
            rule.marked_packets.to_string(),
            rule.dropped_packets.to_string(),
        ]);
    }
    align_numbers(&mut table, 2);
    table.to_string()
}

fn rate_table(report: &Report, rows: &[&MeasurementReport]) -> String {
    let compared = rows.iter().any(|row| report.compared(&row.name).is_some());
    let mut header = vec![
        "measurement",
        "way",
        "configured",
        "payload",
        "measured",
        "of payload",
    ];
    if compared {
        header.push("without netqos");
    }
    header.push("");
    let mut table = table(&header);
    for row in rows {
        let (mut limit, mut payload, mut part) = (
            "unlimited".to_owned(),
            NOTHING.to_owned(),
            NOTHING.to_owned(),
        );
        if let Some(configured) = &row.configured {
            limit = match &configured.rule {
                Some(rule) => format!("{rule} {}", configured.rate),
                None => configured.rate.to_string(),
            };
            payload = rounded(configured.payload).to_string();
            if let Some(percent) = row.percent_of_payload() {
                part = format!("{percent:.1} %");
            }
        }
        let mut cells = vec![
            row.name.clone(),
            row.way(),
            limit,
            payload,
            row.measured_rate(),
            part,
        ];
        if compared {
            cells.push(
                report
                    .compared(&row.name)
                    .map_or(NOTHING.to_owned(), MeasurementReport::measured_rate),
            );
        }
        cells.push(row.sign().to_owned());
        table.add_row(cells);
    }
    align_numbers(&mut table, 2);
    table.to_string()
}

fn time_table(report: &Report, rows: &[&MeasurementReport]) -> String {
    let mut table = table(&[
        "latency",
        "way",
        "under load",
        "p50",
        "p90",
        "p99",
        "max",
        "lost",
        "",
    ]);
    for row in rows {
        table.add_row(time_cells(row, row.name.clone(), row.sign()));
        if let Some(compared) = report.compared(&row.name) {
            table.add_row(time_cells(compared, "  without netqos".to_owned(), ""));
        }
    }
    align_numbers(&mut table, 3);
    table.to_string()
}

fn time_cells(row: &MeasurementReport, name: String, sign: &str) -> Vec<String> {
    let load = match &row.load {
        None => NOTHING.to_owned(),
        Some(load) => match load.goodput {
            Some(rate) => format!("{} {}", load.kind, rounded(rate)),
            None => format!("{} failed", load.kind),
        },
    };
    let mut cells = vec![name, row.way(), load];
    match row.result.as_ref().and_then(super::Outcome::times) {
        Some(times) => cells.extend([times.p50, times.p90, times.p99, times.max].map(time)),
        None => cells.extend([NOTHING; 4].map(str::to_owned)),
    }
    let loss = row.result.as_ref().and_then(super::Outcome::loss_percent);
    cells.push(loss.map_or(NOTHING.to_owned(), |loss| format!("{loss:.1} %")));
    cells.push(sign.to_owned());
    cells
}

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table
        .load_style(STYLE)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(header.iter().copied());
    table
}

/// Numbers stand under each other by their ends.
fn align_numbers(table: &mut Table, from: usize) {
    for column in table.column_iter_mut().skip(from) {
        column.set_cell_alignment(CellAlignment::Right);
    }
}

/// A duration in milliseconds, with digits that mean something.
pub(super) fn time(duration: Duration) -> String {
    let millis = duration.as_secs_f64() * 1000.0;
    match millis {
        0.0..10.0 => format!("{millis:.2} ms"),
        10.0..100.0 => format!("{millis:.1} ms"),
        _ => format!("{millis:.0} ms"),
    }
}

impl MeasurementReport {
    pub(super) fn has_rate(&self) -> bool {
        !matches!(self.kind.as_str(), "latency" | "dscp")
    }

    /// The marks that arrived.
    pub(crate) fn marks_seen(&self) -> String {
        let Some(Outcome::Udp(report)) = &self.result else {
            return NOTHING.to_owned();
        };
        let seen: Vec<_> = report
            .dscp_seen
            .iter()
            .map(|seen| seen.dscp.value().to_string())
            .collect();
        match seen.is_empty() {
            true => "nothing arrived".to_owned(),
            false => seen.join(", "),
        }
    }

    /// Where the traffic went.
    pub(super) fn way(&self) -> String {
        let mut way = self.from.to_string();
        for from in &self.beside {
            way.push_str(&format!(" + {from}"));
        }
        way.push_str(&format!(" → {}", self.to));
        if let Some(family) = self.family {
            way.push_str(&format!(" {family}"));
        }
        if let Some(interface) = &self.interface {
            way.push_str(&format!(" {interface}"));
        }
        way
    }

    fn measured_rate(&self) -> String {
        let rate = self.result.as_ref().and_then(super::Outcome::rate);
        rate.map_or(NOTHING.to_owned(), |rate| rounded(rate).to_string())
    }

    pub(super) fn percent_of_payload(&self) -> Option<f64> {
        let payload = self.configured.as_ref()?.payload.bits_per_second();
        let rate = self.result.as_ref()?.rate()?.bits_per_second();
        (payload > 0).then(|| rate as f64 * 100.0 / payload as f64)
    }

    pub(super) fn sign(&self) -> &'static str {
        match self.verdict {
            Verdict::Held => "✓",
            Verdict::Failed => "✗",
            Verdict::Informational => "",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::lines::tests::line;

    #[test]
    fn a_line_is_divided_by_who_divides_it() {
        for (by, said) in [("tc", "divided by tc: "), ("", "divided by nobody: ")] {
            assert!(of_line(&line(by)).contains(said), "{by}");
        }
    }
}
