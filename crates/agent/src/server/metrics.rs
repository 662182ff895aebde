//! Metrics, in the form of OpenMetrics.
//!
//! The counters are the kernel's, which outlive the agent: each answer is made from what is read
//! then, and nothing is counted twice.

mod sample;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;

use axum::extract::State;
use axum::response::Response;
use netqos_daemon::openmetrics;
use netqos_datapath::Support;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

use super::{Desk, Unanswered};
use crate::engine::Durations;
use crate::status::{Counts, PodStatus, Status};

pub use sample::metrics_sample;

type Labels = Vec<(&'static str, String)>;

/// Whether each feature of the kernel works.
type Works = BTreeMap<String, bool>;

pub(super) async fn metrics(State(desk): State<Desk>) -> std::result::Result<Response, Unanswered> {
    let asked = desk.ask().await?;
    let (durations, pod_labels) = (desk.durations.clone(), desk.pod_labels);
    let features = asked.features.iter();
    let features: Works = features
        .map(|(feature, support)| (feature.to_string(), matches!(support, Support::Works)))
        .collect();
    let registry = registry(&asked.status, &features, durations, pod_labels);
    Ok(openmetrics(&registry))
}

/// All metrics. docs/metrics.md is made from them by `cargo xtask metrics`.
fn registry(status: &Status, features: &Works, durations: Durations, pod_labels: bool) -> Registry {
    let mut registry = Registry::with_prefix("netqos");
    build(&mut registry);
    of_pods(&mut registry, status, pod_labels);
    of_lines(&mut registry, status);
    of_agent(&mut registry, status, features);
    registry.register_with_unit(
        "reconcile_duration",
        "How long it took to make the kernel as the objects say, once something had changed",
        Unit::Seconds,
        durations,
    );
    registry
}

fn build(registry: &mut Registry) {
    let labels = vec![("version", env!("CARGO_PKG_VERSION"))];
    registry.register("build", "The agent that is running", Info::new(labels));
}

/// What was counted, and what is in force, by pod and rule.
fn of_pods(registry: &mut Registry, status: &Status, pod_labels: bool) {
    let mut counts: BTreeMap<Labels, Counts> = BTreeMap::new();
    let rates = Family::<Labels, Gauge<f64, AtomicU64>>::default();
    for pod in &status.pods {
        for limit in &pod.limits {
            let labels = labels(pod, pod_labels, &limit.direction, "");
            if pod_labels {
                // Bits are what users say, bytes are what Prometheus asks for.
                rates.get_or_create(&labels).set(limit.rate as f64 / 8.0);
            }
            add(&mut counts, labels, limit.counts);
        }
        for rule in &pod.rules {
            let labels = labels(pod, pod_labels, "egress", &rule.rule);
            if let Some(rate) = rule.rate {
                rates.get_or_create(&labels).set(rate as f64 / 8.0);
            }
            add(&mut counts, labels, Some(rule.counts));
        }
    }
    let mut family = |name: &str, help: &str, value: fn(&Counts) -> u64| {
        let family = Family::<Labels, Counter>::default();
        for (labels, counts) in &counts {
            family.get_or_create(labels).inc_by(value(counts));
        }
        registry.register(name, help, family);
    };
    family(
        "pod_packets",
        "Packets that a rule decided about, or with an empty rule those that the limit of the \
         interface let through",
        |counts| counts.packets,
    );
    family("pod_bytes", "Bytes of these packets at layer 2", |counts| {
        counts.bytes
    });
    family(
        "pod_marked_packets",
        "Packets that a rule marked with its DSCP; in shadow mode, would have",
        |counts| counts.marked_packets,
    );
    family(
        "pod_dropped_packets",
        "Packets dropped because they were over the rate; in shadow mode, would have been",
        |counts| counts.dropped_packets,
    );
    family(
        "pod_dropped_bytes",
        "Bytes of dropped packets at layer 2",
        |counts| counts.dropped_bytes,
    );
    registry.register(
        "pod_rate_limit_bytes_per_second",
        "What an interface, or with a rule all pods of it on the node, are held to",
        rates,
    );
}

/// How the node's lines are to be shared, and whether they are.
fn of_lines(registry: &mut Registry, status: &Status) {
    let guaranteed = Family::<Labels, Gauge<f64, AtomicU64>>::default();
    let most = Family::<Labels, Gauge<f64, AtomicU64>>::default();
    let shared = Family::<Labels, Gauge>::default();
    let packets = Family::<Labels, Counter>::default();
    let bytes = Family::<Labels, Counter>::default();
    let dropped = Family::<Labels, Counter>::default();
    for line in &status.lines {
        let labels = vec![
            ("line", line.name.clone()),
            ("backend", status.class_backend.clone()),
        ];
        let is_shared = line.failing.is_empty();
        shared.get_or_create(&labels).set(i64::from(is_shared));
        for share in &line.shares {
            let labels = vec![
                ("line", line.name.clone()),
                ("direction", share.direction.clone()),
                ("class", share.class.clone()),
            ];
            guaranteed
                .get_or_create(&labels)
                .set(share.min as f64 / 8.0);
            most.get_or_create(&labels).set(share.max as f64 / 8.0);
            if let Some(counts) = share.counts {
                packets.get_or_create(&labels).inc_by(counts.packets);
                bytes.get_or_create(&labels).inc_by(counts.bytes);
                dropped
                    .get_or_create(&labels)
                    .inc_by(counts.dropped_packets);
            }
        }
    }
    registry.register(
        "line_shared",
        "Whether a line of the node is shared among classes as it should be: 1, or 0",
        shared,
    );
    registry.register(
        "line_guaranteed_bytes_per_second",
        "What a class is to be guaranteed of a line",
        guaranteed,
    );
    registry.register(
        "line_limit_bytes_per_second",
        "The most that a class is to have of a line",
        most,
    );
    registry.register(
        "class_packets",
        "Packets that went through a class of a line since the agent started",
        packets,
    );
    registry.register("class_bytes", "Bytes of these packets at layer 2", bytes);
    registry.register(
        "class_dropped_packets",
        "Packets of a class that found its queue for a line full",
        dropped,
    );
}

fn of_agent(registry: &mut Registry, status: &Status, features: &Works) {
    let gauges = |entries: Vec<(Labels, i64)>| {
        let family = Family::<Labels, Gauge>::default();
        for (labels, value) in entries {
            family.get_or_create(&labels).set(value);
        }
        family
    };
    let mut reasons: BTreeMap<&str, i64> = BTreeMap::new();
    for problem in &status.problems {
        *reasons.entry(&problem.reason).or_default() += 1;
    }
    let invalid = reasons.get("Invalid").copied().unwrap_or_default();
    let reasons = reasons.into_iter();
    let reasons = reasons.map(|(reason, many)| (vec![("reason", reason.to_owned())], many));
    registry.register(
        "problems",
        "What is not as it should be now; /v1/status has the words",
        gauges(reasons.collect()),
    );
    let all = Gauge::<i64>::default();
    all.set(invalid);
    registry.register(
        "invalid_objects",
        "Objects that cannot be read, or break a rule, and are left out",
        all,
    );
    let objects = status.objects.iter();
    let objects = objects.map(|(kind, many)| (vec![("kind", kind.clone())], *many as i64));
    registry.register(
        "objects",
        "Objects that are known",
        gauges(objects.collect()),
    );
    let failing = status.pods.iter().filter(|pod| !pod.failing.is_empty());
    let failing = failing.count() as i64;
    let state = |name: &str| vec![("state", name.to_owned())];
    let endpoints = vec![
        (state("in_force"), status.pods.len() as i64 - failing),
        (state("failing"), failing),
    ];
    registry.register(
        "endpoints",
        "Interfaces of pods that rules or limits are for: in_force, or failing",
        gauges(endpoints),
    );
    let checks = status.checks.iter();
    let checks = checks.map(|check| (vec![("check", check.name.clone())], i64::from(check.ok)));
    registry.register(
        "ready",
        "Whether a check of /readyz is passed: 1, or 0",
        gauges(checks.collect()),
    );
    let features = features.iter().map(|(feature, works)| {
        let labels = vec![
            ("feature", feature.to_string()),
            ("works", works.to_string()),
        ];
        (labels, 1)
    });
    registry.register(
        "datapath_feature_info",
        "What the kernel has of what is used, found by using it",
        gauges(features.collect()),
    );
    for (name, help, value) in [
        (
            "datapath_changes",
            "Writes to the kernel that rules took",
            status.reconciled.changes,
        ),
        (
            "limit_changes",
            "Limits of pods that were set or lifted",
            status.reconciled.limits,
        ),
        (
            "retries",
            "Times that something had failed and was tried again",
            status.reconciled.retries,
        ),
        (
            "hooks_restored",
            "Programs of rules that were put back, since somebody took them away or came before",
            status.reconciled.restored,
        ),
    ] {
        let counter = Counter::<u64>::default();
        counter.inc_by(value);
        registry.register(name, help, counter);
    }
}

fn labels(pod: &PodStatus, pod_labels: bool, direction: &str, rule: &str) -> Labels {
    let mut labels = Labels::new();
    if pod_labels {
        labels.extend([
            ("namespace", pod.namespace.clone()),
            ("pod", pod.name.clone()),
            ("interface", pod.interface.clone()),
        ]);
    }
    labels.extend([
        ("direction", direction.to_owned()),
        ("rule", rule.to_owned()),
    ]);
    labels
}

fn add(all: &mut BTreeMap<Labels, Counts>, labels: Labels, counts: Option<Counts>) {
    let Some(counts) = counts else {
        return;
    };
    let sum = all.entry(labels).or_default();
    sum.packets += counts.packets;
    sum.bytes += counts.bytes;
    sum.marked_packets += counts.marked_packets;
    sum.dropped_packets += counts.dropped_packets;
    sum.dropped_bytes += counts.dropped_bytes;
}
