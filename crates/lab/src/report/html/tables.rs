//! Pods, environment and notes as tables.

use super::{escape, label};
use crate::report::{Comparison, LineReport, Report};

/// Who was there, and what each was promised.
pub(super) fn pods(report: &Report) -> String {
    let several = report.nodes().count();
    let rows: String = report
        .pods
        .iter()
        .map(|pod| {
            let limit = |limit: Option<netqos_core::Limit>| {
                limit.map_or("unlimited".to_owned(), |limit| limit.rate.to_string())
            };
            let class = pod.class.iter().map(String::as_str);
            let node = pod.node.as_str();
            let of: String = class
                .chain((several > 1).then_some(node))
                .map(|text| format!("<br>{}", escape(text)))
                .collect();
            let enforced: Vec<_> = pod.enforced.iter().map(|text| escape(text)).collect();
            format!(
                "<tr><td><b>{}</b>{of}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
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

/// How the nodes' lines were shared.
pub(super) fn lines(lines: &[LineReport]) -> String {
    let mut rows = String::new();
    for line in lines {
        for (class, shares) in line.by_class() {
            let [sends, gets] = shares.map(|share| match share {
                Some((min, max)) => format!("<td>{min}</td><td>{max}</td>"),
                None => "<td></td><td></td>".to_owned(),
            });
            rows.push_str(&format!(
                "<tr><td><b>{}</b> {}</td><td>{}</td><td>{}</td>{sends}{gets}</tr>\n",
                escape(&line.node),
                escape(&line.line.name),
                escape(line.divided_by()),
                escape(class)
            ));
        }
    }
    match rows.is_empty() {
        true => rows,
        false => format!(
            "<table>\n<tr><th>node, line</th><th>divided by</th><th>class</th><th>sends at least</th>\
             <th>at most</th><th>gets at least</th><th>at most</th></tr>\n{rows}</table>\n"
        ),
    }
}

/// Marks that were expected, and those that arrived.
pub(super) fn marks(report: &Report) -> String {
    let rows: String = report
        .measurements
        .iter()
        .filter(|row| row.kind == "dscp")
        .map(|row| {
            let expected = row.expected_dscp.map(|dscp| dscp.value().to_string());
            format!(
                "<tr><td>{}</td><td>{}</td><td>{}</td></tr>\n",
                label(row),
                expected.unwrap_or_default(),
                escape(&row.marks_seen())
            )
        })
        .collect();
    match rows.is_empty() {
        true => rows,
        false => format!(
            "<table>\n<tr><th>measurement</th><th>expected DSCP</th><th>seen DSCP</th></tr>\n\
             {rows}</table>\n"
        ),
    }
}

/// The rules in force, and what they did.
pub(super) fn rules(report: &Report) -> String {
    let rows: String = report
        .rules
        .iter()
        .map(|rule| {
            let rate = rule.rate.map(|rate| rate.to_string());
            let dscp = rule.dscp.map(|dscp| dscp.to_string());
            format!(
                "<tr><td><b>{}</b></td><td>{} {}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>\
                 <td>{}</td></tr>\n",
                escape(&rule.rule),
                escape(&rule.pod),
                escape(&rule.interface),
                dscp.unwrap_or_default(),
                rate.unwrap_or_default(),
                rule.packets,
                rule.marked_packets,
                rule.dropped_packets
            )
        })
        .collect();
    match rows.is_empty() {
        true => rows,
        false => format!(
            "<table>\n<tr><th>rule</th><th>pod</th><th>DSCP</th><th>rate</th><th>packets</th>\
             <th>marked</th><th>dropped</th></tr>\n{rows}</table>\n"
        ),
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::lines::tests::line;

    #[test]
    fn a_line_is_divided_by_who_divides_it() {
        for (by, said) in [("tc", "<td>tc</td>"), ("", "<td>nobody</td>")] {
            assert!(lines(&[line(by)]).contains(said), "{by}");
        }
    }
}
