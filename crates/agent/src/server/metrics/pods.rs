//! What was counted, and what is in force, by pod and rule: written row by row.

use std::fmt;
use std::sync::Arc;

use netqos_core::Direction;
use netqos_core::plan::RuleId;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

use crate::engine::{Of, Row};
use crate::status::Counts;

/// The rows, of which no two have the same labels.
#[derive(Debug)]
pub(super) struct Pods {
    rows: Vec<Row>,
    pod_labels: bool,
}

/// A counter: its name, its help, and what it counts.
type Counted = (&'static str, &'static str, fn(&Counts) -> u64);

const COUNTERS: [Counted; 5] = [
    (
        "pod_packets",
        "Packets that a rule decided about, or with an empty rule those that the limit of the \
         interface let through",
        |counts| counts.packets,
    ),
    ("pod_bytes", "Bytes of these packets at layer 2", |counts| {
        counts.bytes
    }),
    (
        "pod_marked_packets",
        "Packets that a rule marked with its DSCP; in shadow mode, would have",
        |counts| counts.marked_packets,
    ),
    (
        "pod_dropped_packets",
        "Packets dropped because they were over the rate; in shadow mode, would have been",
        |counts| counts.dropped_packets,
    ),
    (
        "pod_dropped_bytes",
        "Bytes of dropped packets at layer 2",
        |counts| counts.dropped_bytes,
    ),
];

impl Pods {
    /// These rows; those that have the same labels are one. Without the names of pods the limits of
    /// interfaces are of none any more.
    pub(super) fn new(mut rows: Vec<Row>, pod_labels: bool) -> Self {
        if !pod_labels {
            let all: Arc<Of> = Arc::default();
            for row in &mut rows {
                row.of = all.clone();
                row.rate = row.rate.filter(|_| row.rule.is_some());
                row.bypass = None;
            }
        }
        // In place.
        rows.sort_unstable_by(|a, b| key(a).cmp(&key(b)));
        rows.dedup_by(|next, row| {
            let is_same = key(next) == key(row);
            if is_same {
                row.add(next);
            }
            is_same
        });
        Self { rows, pod_labels }
    }

    /// Writes a metric: a sample for each row that has a value.
    fn write<T>(
        &self,
        mut metric: MetricEncoder<'_>,
        value: impl Fn(&Row) -> Option<T>,
        write: impl Fn(&mut MetricEncoder<'_>, T) -> fmt::Result,
    ) -> fmt::Result {
        for row in &self.rows {
            let Some(value) = value(row) else {
                continue;
            };
            let direction = row.direction.to_string();
            let rule = row.rule.as_ref().map(ToString::to_string);
            let labels = [
                ("namespace", &*row.of.namespace),
                ("pod", &*row.of.pod),
                ("interface", &*row.of.interface),
                ("direction", &*direction),
                ("rule", rule.as_deref().unwrap_or_default()),
            ];
            let labels = match self.pod_labels {
                true => &labels[..],
                false => &labels[3..],
            };
            write(&mut metric.encode_family(&labels)?, value)?;
        }
        Ok(())
    }
}

impl Collector for Pods {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        if self.rows.is_empty() {
            return Ok(());
        }
        for (name, help, count) in COUNTERS {
            let metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            let value = |row: &Row| row.counts.as_ref().map(count);
            self.write(metric, value, |sample, value| {
                sample.encode_counter::<NoLabelSet, _, u64>(&value, None)
            })?;
        }
        let metric = encoder.encode_descriptor(
            "pod_rate_limit_bytes_per_second",
            "What an interface, or with a rule all pods of it on the node, are held to",
            None,
            MetricType::Gauge,
        )?;
        // Bits are what users say, bytes are what Prometheus asks for.
        let value = |row: &Row| row.rate.map(|rate| rate as f64 / 8.0);
        self.write(metric, value, |sample, value| sample.encode_gauge(&value))?;
        let metric = encoder.encode_descriptor(
            "pod_ingress_bypass_bytes_per_second",
            "The rate at which an interface received when its ingress limit was found to be bypassed, shown for a minute after the limit holds",
            None,
            MetricType::Gauge,
        )?;
        let value = |row: &Row| row.bypass.map(|rate| rate as f64 / 8.0);
        self.write(metric, value, |sample, value| sample.encode_gauge(&value))
    }
}

impl Row {
    /// Adds what another one of the same labels has counted.
    fn add(&mut self, other: &Self) {
        self.rate = self.rate.or(other.rate);
        let Some(other) = other.counts else {
            return;
        };
        let sum = self.counts.get_or_insert_default();
        sum.packets += other.packets;
        sum.bytes += other.bytes;
        sum.marked_packets += other.marked_packets;
        sum.dropped_packets += other.dropped_packets;
        sum.dropped_bytes += other.dropped_bytes;
    }
}

/// What its labels are made of.
fn key(row: &Row) -> (&Of, Direction, Option<&RuleId>) {
    (&row.of, row.direction, row.rule.as_ref())
}

#[cfg(test)]
mod tests {
    use netqos_core::ObjectName;
    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;

    use super::*;

    fn row(pod: &str, rule: Option<u16>, packets: u64) -> Row {
        Row {
            of: Arc::new(Of {
                namespace: "games".into(),
                pod: pod.into(),
                interface: "eth0".to_owned(),
            }),
            direction: Direction::Egress,
            rule: rule.map(|index| RuleId {
                policy: ObjectName::new("games", "p"),
                index,
            }),
            rate: Some(80),
            bypass: None,
            counts: Some(Counts {
                packets,
                ..Counts::default()
            }),
        }
    }

    fn written(rows: Vec<Row>, pod_labels: bool) -> Vec<String> {
        let mut registry = Registry::with_prefix("netqos");
        registry.register_collector(Box::new(Pods::new(rows, pod_labels)));
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        let wanted = |line: &&str| line.contains("packets_total") && !line.contains("ed_packets");
        let rates = |line: &&str| line.contains("second{");
        let lines = text.lines().filter(|line| wanted(line) || rates(line));
        lines.map(str::to_owned).collect()
    }

    #[test]
    fn each_row_has_its_labels() {
        let of = |rule: &str| {
            format!(
                "{{namespace=\"games\",pod=\"a\",interface=\"eth0\",direction=\"egress\",rule=\"{rule}\"}}"
            )
        };
        assert_eq!(
            written(vec![row("a", Some(1), 5), row("a", None, 7)], true),
            [
                format!("netqos_pod_packets_total{} 7", of("")),
                format!("netqos_pod_packets_total{} 5", of("games/p[1]")),
                format!("netqos_pod_rate_limit_bytes_per_second{} 10.0", of("")),
                format!(
                    "netqos_pod_rate_limit_bytes_per_second{} 10.0",
                    of("games/p[1]")
                ),
            ]
        );
    }

    /// Twice the same labels would be no OpenMetrics: a pod that was not found has no interface on any
    /// of its networks.
    #[test]
    fn rows_of_the_same_labels_are_one() {
        let rows = vec![row("a", None, 7), row("a", Some(1), 5), row("a", None, 1)];
        assert!(written(rows, true)[0].ends_with("rule=\"\"} 8"));
    }

    #[test]
    fn without_the_names_of_pods_all_are_summed_and_only_rules_have_rates() {
        let rows = vec![
            row("a", Some(1), 5),
            row("b", Some(1), 3),
            row("a", None, 7),
            row("b", None, 2),
        ];
        let of = |rule: &str| format!("{{direction=\"egress\",rule=\"{rule}\"}}");
        assert_eq!(
            written(rows, false),
            [
                format!("netqos_pod_packets_total{} 9", of("")),
                format!("netqos_pod_packets_total{} 8", of("games/p[1]")),
                format!(
                    "netqos_pod_rate_limit_bytes_per_second{} 10.0",
                    of("games/p[1]")
                ),
            ]
        );
    }
}
