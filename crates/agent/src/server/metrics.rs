//! Metrics, in the form of OpenMetrics.
//!
//! The counters are the kernel's, which outlive the agent: each answer is made from what is read
//! then, and nothing is counted twice.

mod pods;
mod sample;

use std::sync::atomic::AtomicU64;

use axum::extract::State;
use axum::response::Response;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

use super::parts::openmetrics;
use super::{Desk, Unanswered};
use crate::Engine;
use crate::engine::{Durations, Tally};
use crate::multinet::{AttachmentCounts, MultinetCounts};

use pods::Pods;
pub use sample::metrics_sample;

type Labels = Vec<(&'static str, String)>;

pub(super) async fn metrics(State(desk): State<Desk>) -> std::result::Result<Response, Unanswered> {
    let tally = desk.look(Engine::tally).await?;
    let registry = registry(
        tally,
        desk.durations.clone(),
        &desk.multinet,
        desk.pod_labels,
    );
    Ok(openmetrics(registry))
}

/// All metrics. docs/metrics.md is made from them by `cargo xtask metrics`.
fn registry(
    mut tally: Tally,
    durations: Durations,
    multinet: &MultinetCounts,
    pod_labels: bool,
) -> Registry {
    let mut registry = Registry::with_prefix("netqos");
    build(&mut registry);
    let rows = std::mem::take(&mut tally.rows);
    registry.register_collector(Box::new(Pods::new(rows, pod_labels)));
    of_lines(&mut registry, &tally);
    let attachments = std::mem::take(&mut tally.attachments);
    of_agent(&mut registry, tally);
    of_attachments(&mut registry, attachments);
    of_multinet(&mut registry, multinet);
    registry.register_with_unit(
        "reconcile_duration",
        "How long it took to make the kernel as the objects say, once something had changed",
        Unit::Seconds,
        durations,
    );
    registry
}

fn build(registry: &mut Registry) {
    let labels = vec![
        ("version", netqos_version::RELEASE),
        ("commit", netqos_version::commit()),
    ];
    registry.register("build", "The agent that is running", Info::new(labels));
}

/// How the node's lines are to be shared, and whether they are.
fn of_lines(registry: &mut Registry, tally: &Tally) {
    let guaranteed = Family::<Labels, Gauge<f64, AtomicU64>>::default();
    let most = Family::<Labels, Gauge<f64, AtomicU64>>::default();
    let shared = Family::<Labels, Gauge>::default();
    let packets = Family::<Labels, Counter>::default();
    let bytes = Family::<Labels, Counter>::default();
    let dropped = Family::<Labels, Counter>::default();
    for line in &tally.lines {
        let labels = vec![
            ("line", line.name.clone()),
            ("backend", tally.class_backend.clone()),
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

fn of_agent(registry: &mut Registry, tally: Tally) {
    let gauges = |entries: Vec<(Labels, i64)>| {
        let family = Family::<Labels, Gauge>::default();
        for (labels, value) in entries {
            family.get_or_create(&labels).set(value);
        }
        family
    };
    let invalid = tally.problems.get("Invalid").copied().unwrap_or_default();
    let reasons = tally.problems.into_iter();
    let reasons = reasons.map(|(reason, many)| (vec![("reason", reason)], many));
    registry.register(
        "problems",
        "What is not as it should be now; /v1/status has the words",
        gauges(reasons.collect()),
    );
    let all = Gauge::<i64>::default();
    all.set(invalid);
    registry.register(
        "invalid_objects",
        "Objects that cannot be read, or break a rule, and are not followed as they are",
        all,
    );
    let objects = tally.objects.into_iter();
    let objects = objects.map(|(kind, many)| (vec![("kind", kind.to_owned())], many as i64));
    registry.register(
        "objects",
        "Objects that are known",
        gauges(objects.collect()),
    );
    let of = |purpose: &str| vec![("purpose", purpose.to_owned())];
    let links = vec![
        (of("rule"), tally.links.rules as i64),
        (of("limit"), tally.links.limits as i64),
        (of("uplink"), tally.links.uplinks as i64),
    ];
    registry.register(
        "links",
        "Network interfaces that netqos has made on the node: for the rates of rules, for limits, for uplinks",
        gauges(links),
    );
    let most = Gauge::<i64>::default();
    most.set(tally.links.most_of_rules as i64);
    registry.register(
        "rule_links_limit",
        "The most interfaces that netqos makes for the rates of rules, two for each",
        most,
    );
    let state = |name: &str| vec![("state", name.to_owned())];
    let endpoints = vec![
        (state("in_force"), tally.in_force),
        (state("failing"), tally.failing),
    ];
    registry.register(
        "endpoints",
        "Interfaces of pods that rules or limits are for: in_force, or failing",
        gauges(endpoints),
    );
    let checks = tally.checks.iter();
    let checks = checks.map(|check| (vec![("check", check.name.clone())], i64::from(check.ok)));
    registry.register(
        "ready",
        "Whether a check of /readyz is passed: 1, or 0",
        gauges(checks.collect()),
    );
    let features = tally.features.iter().map(|(feature, works)| {
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
            tally.reconciled.changes,
        ),
        (
            "limit_changes",
            "Limits of pods that were set or lifted",
            tally.reconciled.limits,
        ),
        (
            "retries",
            "Times that something had failed and was tried again",
            tally.reconciled.retries,
        ),
        (
            "hooks_restored",
            "Programs of rules that were put back, since somebody took them away or came before",
            tally.reconciled.restored,
        ),
        (
            "limits_restored",
            "Limits of pods that the agent restored after another process changed them",
            tally.reconciled.limits_restored,
        ),
        (
            "queues_restored",
            "Queues of rules that the agent restored after another process changed them, or emptied because they had stalled",
            tally.reconciled.queues_restored,
        ),
        (
            "uplinks_restored",
            "Inspections that restored classes, filters, ipsets or rules of uplinks after another process changed them",
            tally.reconciled.uplinks_restored,
        ),
        (
            "queues_emptied",
            "Queues of pods' limits and of uplinks that the agent emptied because they had stalled",
            tally.reconciled.queues_emptied,
        ),
        (
            "change_dropped_packets",
            "Packets that the agent dropped because a queue could never send them under a lowered limit, or because the transmit queue length of a link changed",
            tally.reconciled.dropped,
        ),
    ] {
        let counter = Counter::<u64>::default();
        counter.inc_by(value);
        registry.register(name, help, counter);
    }
}

/// The attachments of the plugin's records.
fn of_attachments(registry: &mut Registry, counts: AttachmentCounts) {
    let family = Family::<Labels, Gauge>::default();
    for ((driver, state), number) in counts {
        let labels = vec![("driver", driver.to_owned()), ("state", state.to_owned())];
        family.get_or_create(&labels).set(number as i64);
    }
    registry.register(
        "multinet_attachments",
        "Attachments of pods by netqos-multinet: attached; attaching; leftover, of a sandbox that is gone without a DEL; failed, whose DEL fails until it is repaired",
        family,
    );
}

/// The agent's part in the attachments of pods.
fn of_multinet(registry: &mut Registry, counts: &MultinetCounts) {
    for (name, help, results) in [
        (
            "multinet_answers",
            "Answers to netqos-multinet: answered; try_again, for which a pod waits; refused, which fails it",
            counts.answers(),
        ),
        (
            "multinet_status_writes",
            "Writes of the annotation network-status: written; pod_gone; failed, which are tried again",
            counts.writes(),
        ),
    ] {
        let family = Family::<Labels, Counter>::default();
        for (result, number) in results {
            let labels = vec![("result", result.to_owned())];
            family.get_or_create(&labels).inc_by(number);
        }
        registry.register(name, help, family);
    }
}
