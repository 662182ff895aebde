//! The report as one HTML page: inline style and drawings, nothing loaded from anywhere, light and
//! dark.

mod goodput;
mod latency;
mod tables;
mod together;

use super::{MeasurementReport, Report, Verdict};

const STYLE: &str = include_str!("html/style.css");

/// A text as HTML shows it.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}

/// The page.
pub(super) fn render(report: &Report) -> String {
    let name = escape(&report.scenario);
    let (class, verdict) = verdict(report);
    let description = report.description.as_deref().map_or(String::new(), |text| {
        format!("<p class=\"lead\">{}</p>", escape(text))
    });
    let sections = [
        section("Marks", &tables::marks(report)),
        section("Configured against measured", &goodput::bars(report)),
        section("Rate over time", &goodput::courses(report)),
        section("Latency", &latency::ranges(report)),
        section("Rules", &tables::rules(report)),
        section("Lines", &tables::lines(&report.lines)),
        section("Pods", &tables::pods(report)),
        section("Environment", &tables::environment(report)),
        section("Good to know", &tables::notes(report)),
    ];
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{name} – netqos lab</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n\
         <header><p class=\"over\">netqos lab</p>\n<h1>{name} <span class=\"badge {class}\">{verdict}</span></h1>\n\
         {description}<p class=\"when\">{} · Linux {} · netqos {}</p></header>\n{}</main>\n</body>\n</html>\n",
        escape(&report.started),
        escape(&report.environment.kernel),
        escape(&report.environment.netqos),
        sections.concat()
    )
}

fn verdict(report: &Report) -> (&'static str, String) {
    let count = |wanted| {
        report
            .measurements
            .iter()
            .filter(|measurement| measurement.verdict == wanted)
            .count()
    };
    let (held, failed) = (count(Verdict::Held), count(Verdict::Failed));
    match (held, failed) {
        (0, 0) => ("none", "nothing was expected".to_owned()),
        (held, 0) => (
            "held",
            format!("all {held} expectations held{}", again(report)),
        ),
        (held, failed) => ("failed", format!("{failed} of {} failed", held + failed)),
    }
}

/// Says it where something held only when it was measured again.
fn again(report: &Report) -> String {
    let measured = report.measurements.iter();
    match measured.filter(|one| one.attempts > 1).count() {
        0 => String::new(),
        again => format!(", {again} of them when measured again"),
    }
}

/// A section, unless there is nothing in it.
fn section(title: &str, body: &str) -> String {
    if body.is_empty() {
        return String::new();
    }
    format!("<section>\n<h2>{title}</h2>\n{body}</section>\n")
}

/// What is said of a measurement beside its drawing.
fn label(measurement: &MeasurementReport) -> String {
    let (class, sign) = match measurement.verdict {
        Verdict::Held => ("held", "✓"),
        Verdict::Failed => ("failed", "✗"),
        Verdict::Informational => ("none", "·"),
    };
    let earlier = measurement.told_attempts().map(|text| ("caption", text));
    let failures = measurement.failures.iter();
    let failures: String = earlier
        .chain(failures.map(|text| ("failure", text.clone())))
        .map(|(class, text)| format!("<p class=\"{class}\">{}</p>", escape(&text)))
        .collect();
    format!(
        "<div class=\"label\"><b><span class=\"sign {class}\">{sign}</span> {}</b>\
         <span>{}</span>{failures}</div>",
        escape(&measurement.name),
        escape(&measurement.way())
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn nothing_escapes(text in ".{0,60}") {
            let escaped = escape(&text);
            prop_assert!(!escaped.contains(['<', '>', '"', '\'']));
            let back = escaped.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"");
            prop_assert_eq!(back.replace("&#39;", "'").replace("&amp;", "&"), text);
        }
    }
}
