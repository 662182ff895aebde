//! The queries are held to what is served, and the alerts to their runbooks.

mod promtool;

use std::collections::BTreeSet;

use netqos_core::Reason;

use super::alerts::ALERTS;
use super::{Registry, query};
use crate::generated::read;

fn registry() -> Registry {
    Registry::of_all().unwrap()
}

#[test]
fn a_query_that_asks_for_what_nobody_serves_is_refused() {
    let registry = registry();
    let refused = |text: &str| query::check(&registry, text).unwrap_err().to_string();
    for (text, why) in [
        ("netqos_pod_bytes", "nobody serves netqos_pod_bytes"),
        (
            "rate(netqos_pods_total[5m])",
            "nobody serves netqos_pods_total",
        ),
        ("netqos_reconcile_duration_seconds", "nobody serves"),
        (r#"netqos_problems{resaon="Invalid"}"#, "no label resaon"),
        (
            "sum by (rule) (netqos_problems)",
            "nothing in it has the label rule",
        ),
        // Gone with the sum inside.
        (
            "sum by (reason) (sum by (node) (netqos_problems))",
            "the label reason",
        ),
        (r#"{reason="Invalid"}"#, "without a metric"),
    ] {
        assert!(refused(text).contains(why), "{text}: {}", refused(text));
    }
    for text in [
        "rate(netqos_pod_bytes_total[5m]) > 0",
        "histogram_quantile(0.9, sum by (le) (rate(netqos_reconcile_duration_seconds_bucket[5m])))",
        r#"sum by (node, reason) (netqos_problems{job="netqos-agent"})"#,
        "rate(netqos_reconcile_duration_seconds_sum[5m])",
    ] {
        query::check(&registry, text).unwrap();
    }
}

#[test]
fn every_alert_has_its_part_in_the_runbook_and_no_part_is_of_none() {
    let text = read("docs/operate.md").unwrap();
    let headings = text
        .lines()
        .filter_map(|line| line.strip_prefix("### Netqos"));
    let headings: BTreeSet<String> = headings.map(|rest| format!("Netqos{rest}")).collect();
    let alerts: BTreeSet<String> = ALERTS.iter().map(|alert| alert.name.to_owned()).collect();
    assert_eq!(headings, alerts);
}

/// To which a remedy of `netqos analyze` and `kubectl netqos check` leads.
#[test]
fn every_reason_of_a_problem_has_its_part_in_the_runbook() {
    let text = read("docs/operate.md").unwrap();
    let headings = text.lines().filter_map(|line| line.strip_prefix("### "));
    let headings: BTreeSet<&str> = headings.collect();
    let reasons = Reason::ALL.iter().map(|reason| reason.to_string());
    // The one that is said of a policy alone.
    let reasons = reasons.chain(["TooManyProblems".to_owned()]);
    let without: Vec<String> = reasons.filter(|it| !headings.contains(&**it)).collect();
    assert!(without.is_empty(), "{without:?}");
}

#[test]
fn a_metric_without_a_sample_is_refused_since_its_labels_are_not_known() {
    let mut registry = Registry::default();
    let served = "# HELP a b.\n# TYPE a gauge\n# HELP c d.\n# TYPE c gauge\nc 1\n# EOF\n";
    let refused = registry.add("x", served).unwrap_err();
    assert!(format!("{refused:#}").contains("no sample"), "{refused:#}");
}
