//! promtool evaluates the alerts, and parses every query.
//!
//! The unit tests of an alert are in `metrics/alerts/NAME.yaml`, in the form of `promtool test rules`.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use super::super::alerts::ALERTS;
use super::super::{dashboard, query};
use super::registry;
use crate::generated::{read, root};

const UNIT_TESTS: &str = "crates/xtask/src/metrics/alerts";

/// Runs promtool on these files.
#[track_caller]
fn promtool(arguments: [&str; 2], files: &[PathBuf]) {
    let output = Command::new("promtool")
        .args(arguments)
        .args(files)
        .output();
    let output = output.unwrap_or_else(|error| {
        panic!("cannot execute promtool: {error}; run scripts/install-dependencies")
    });
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{stdout}{stderr}");
}

#[test]
fn rule_file_is_valid() {
    promtool(
        ["check", "rules"],
        &[root().join("deploy/monitoring/alerts.yaml")],
    );
}

#[test]
fn dashboard_queries_are_valid() {
    let queries = dashboard::queries().into_iter().enumerate();
    let rules = queries.map(|(number, (_, query))| {
        let record = format!("query:{number}");
        json!({"record": record, "expr": query})
    });
    let rules: Vec<Value> = rules.collect();
    assert!(rules.len() > 10, "{rules:?}");
    let groups = json!({"groups": [{"name": "dashboard", "rules": rules}]});
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("queries.yaml");
    // JSON is YAML.
    fs::write(&file, groups.to_string()).unwrap();
    promtool(["check", "rules"], &[file]);
}

#[test]
fn alerts_fire_and_stay_silent_as_their_unit_tests_expect() {
    let files = ALERTS.map(|alert| root().join(format!("{UNIT_TESTS}/{}.yaml", alert.name)));
    promtool(["test", "rules"], &files);
}

/// Input series name metrics and labels that the processes serve.
#[test]
fn every_alert_has_a_test_that_it_fires_and_one_that_it_stays_silent() {
    let registry = registry();
    let mut files = BTreeSet::new();
    for alert in &ALERTS {
        let name = format!("{}.yaml", alert.name);
        let text = read(&format!("{UNIT_TESTS}/{name}")).unwrap();
        let file: Value = serde_saphyr::from_str(&text).unwrap();
        files.insert(name);
        let fires = list(&file["tests"]).iter().map(|test| {
            let checks = list(&test["alert_rule_test"]);
            assert!(checks.iter().all(|it| it["alertname"] == alert.name));
            for series in list(&test["input_series"]) {
                let series = series["series"].as_str().unwrap();
                query::check(&registry, series)
                    .unwrap_or_else(|error| panic!("{}: {error}", alert.name));
            }
            assert!(!checks.is_empty(), "{}", alert.name);
            checks.iter().any(|it| it["exp_alerts"].is_array())
        });
        let fires: BTreeSet<bool> = fires.collect();
        assert_eq!(fires, BTreeSet::from([false, true]), "{}", alert.name);
    }
    let found = fs::read_dir(root().join(UNIT_TESTS)).unwrap();
    let found = found.map(|it| it.unwrap().file_name().into_string().unwrap());
    assert_eq!(found.collect::<BTreeSet<_>>(), files);
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap()
}
