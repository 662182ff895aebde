//! Pods, environment and notes as tables.

use super::escape;
use crate::report::{Comparison, Report};

/// Who was there, and what each was promised.
pub(super) fn pods(report: &Report) -> String {
    let rows: String = report
        .pods
        .iter()
        .map(|pod| {
            let limit = |limit: Option<netqos_core::Limit>| {
                limit.map_or("unlimited".to_owned(), |limit| limit.rate.to_string())
            };
            let enforced: Vec<_> = pod.enforced.iter().map(|text| escape(text)).collect();
            format!(
                "<tr><td><b>{}</b></td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
                escape(&pod.name),
                pod.address,
                limit(pod.limits.ingress),
                limit(pod.limits.egress),
                enforced.join("<br>")
            )
        })
        .collect();
    format!(
        "<table>\n<tr><th>pod</th><th>address</th><th>ingress</th><th>egress</th>\
         <th>how it is held</th></tr>\n{rows}</table>\n"
    )
}

/// On what it ran.
pub(super) fn environment(report: &Report) -> String {
    let environment = &report.environment;
    let mut rows = vec![
        ("started", escape(&report.started)),
        (
            "machine",
            format!(
                "Linux {}, {}, {} processors",
                escape(&environment.kernel),
                escape(&environment.machine),
                environment.processors
            ),
        ),
        (
            "network",
            escape(&format!(
                "{}: {}",
                environment.network,
                environment.plugins.join(" → ")
            )),
        ),
    ];
    if let Some(mode) = &environment.mode {
        rows.push(("mode in force", escape(mode)));
    }
    if let Some(shaper) = &environment.shaper {
        rows.push(("bandwidth plugin", described(shaper)));
    }
    if let Some(Comparison {
        shaper: Some(shaper),
        ..
    }) = &report.comparison
    {
        rows.push(("without netqos", described(shaper)));
    }
    let rows: String = rows
        .iter()
        .map(|(name, value)| format!("<tr><th>{name}</th><td>{value}</td></tr>\n"))
        .collect();
    format!("<table>\n{rows}</table>\n")
}

fn described(shaper: &crate::report::ShaperReport) -> String {
    format!(
        "{} <code>{}</code>",
        escape(&shaper.about),
        escape(&shaper.path.display().to_string())
    )
}

/// Warnings, and what was left out.
pub(super) fn notes(report: &Report) -> String {
    let left_out = report
        .comparison
        .as_ref()
        .and_then(|comparison| comparison.left_out_because.as_ref())
        .map(|why| format!("Not measured without netqos: {why}."));
    let notes: String = report
        .warnings
        .iter()
        .cloned()
        .chain(left_out)
        .map(|note| format!("<li>{}</li>\n", escape(&note)))
        .collect();
    if notes.is_empty() {
        return notes;
    }
    format!("<ul>\n{notes}</ul>\n")
}
