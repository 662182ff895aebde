//! The report as tables, for a terminal.

use std::time::Duration;

use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};

use super::{Comparison, MeasurementReport, Report, Verdict, rounded};

/// What stands where there is nothing to say.
const NOTHING: &str = "–";

/// A line below the header, and one at the end.
const STYLE: TableStyle = TableStyle::new()
    .header_separator(LineStyle::none().fill('─').junction('─'))
    .bottom_border(LineStyle::none().fill('─').junction('─'));

/// All of it.
pub(super) fn render(report: &Report) -> String {
    let mut text = String::new();
    let rates: Vec<_> = report
        .measurements
        .iter()
        .filter(|m| m.has_rate())
        .collect();
    if !rates.is_empty() {
        text.push_str(&rate_table(report, &rates));
        text.push('\n');
    }
    let times: Vec<_> = report
        .measurements
        .iter()
        .filter(|m| m.kind == "latency")
        .collect();
    if !times.is_empty() {
        if !rates.is_empty() {
            text.push('\n');
        }
        text.push_str(&time_table(report, &times));
        text.push('\n');
    }
    for measurement in &report.measurements {
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
            limit = configured.rate.to_string();
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
        self.kind != "latency"
    }

    /// Where the traffic went.
    pub(super) fn way(&self) -> String {
        format!("{} → {}", self.from, self.to)
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
