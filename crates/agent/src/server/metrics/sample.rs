//! docs/metrics.md names what is served, all of it and nothing else, in its own words.

use std::collections::{BTreeMap, BTreeSet};

use prometheus_client::encoding::text::encode;

use super::registry;
use crate::engine::Durations;
use crate::status::{Counts, LimitStatus, PodStatus, ProblemStatus, RuleStatus, Status};

const REFERENCE: &str = include_str!("../../../../../docs/metrics.md");

/// What is said of a metric.
#[derive(Debug, Default, PartialEq, Eq)]
struct Said {
    kind: String,
    labels: BTreeSet<String>,
    help: String,
}

/// A pod with a limit and a rule, and a problem: each metric has a sample.
fn status() -> Status {
    let pod = PodStatus {
        limits: vec![LimitStatus {
            direction: "egress".to_owned(),
            counts: Some(Counts::default()),
            ..LimitStatus::default()
        }],
        rules: vec![RuleStatus {
            rate: Some(8),
            ..RuleStatus::default()
        }],
        ..PodStatus::default()
    };
    let problem = ProblemStatus {
        kind: "Pod".to_owned(),
        name: "games/a".to_owned(),
        reason: "UpdateFailed".to_owned(),
        message: String::new(),
    };
    Status {
        objects: BTreeMap::from([("Pod".to_owned(), 1)]),
        pods: vec![pod],
        problems: vec![problem],
        ..Status::default()
    }
}

/// Metrics by the names of their samples, as they are served.
fn served() -> BTreeMap<String, Said> {
    let features = BTreeMap::from([("qdisc tbf".to_owned(), true)]);
    let durations = Durations::new([1.0]);
    let mut text = String::new();
    encode(&mut text, &registry(&status(), &features, durations, true)).unwrap();
    let mut help = BTreeMap::new();
    let mut all: BTreeMap<String, Said> = BTreeMap::new();
    let mut current = String::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, text) = rest.split_once(' ').unwrap();
            help.insert(name.to_owned(), text.trim_end_matches('.').to_owned());
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            current = match kind {
                "counter" => format!("{name}_total"),
                "info" => format!("{name}_info"),
                _ => name.to_owned(),
            };
            let said = Said {
                kind: kind.to_owned(),
                help: help[name].clone(),
                ..Said::default()
            };
            all.insert(current.clone(), said);
        } else if let Some((_, labels)) = line.split_once('{') {
            let (labels, _) = labels.split_once('}').unwrap();
            let names = labels.split(',').filter_map(|label| label.split_once('='));
            // A histogram's own.
            let names = names.map(|(name, _)| name).filter(|name| *name != "le");
            let said = all.get_mut(&current).unwrap();
            said.labels.extend(names.map(str::to_owned));
        }
    }
    all
}

/// The rows of the reference that begin with the name of a metric.
fn documented() -> BTreeMap<String, Said> {
    let mut all = BTreeMap::new();
    for line in REFERENCE.lines() {
        let Some(row) = line.strip_prefix("| `netqos_") else {
            continue;
        };
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        let [name, kind, labels, help, ""] = cells[..] else {
            panic!("{line}: four cells are a row")
        };
        let labels = labels.split(", ").filter(|label| !label.is_empty());
        let said = Said {
            kind: kind.to_owned(),
            labels: labels.map(str::to_owned).collect(),
            help: help.to_owned(),
        };
        let name = format!("netqos_{}", name.trim_end_matches('`'));
        assert!(all.insert(name, said).is_none(), "{line}: twice");
    }
    all
}

#[test]
fn the_reference_names_exactly_what_is_served() {
    let served = served();
    let documented = documented();
    for (name, said) in &served {
        assert_eq!(documented.get(name), Some(said), "{name}");
    }
    let too_much: Vec<_> = documented
        .keys()
        .filter(|name| !served.contains_key(*name))
        .collect();
    assert!(too_much.is_empty(), "not served: {too_much:?}");
}
