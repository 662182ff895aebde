//! What a run found, for people and for machines.
//!
//! In JSON, rates are bits per second, and durations whole nanoseconds in fields whose names end
//! in `Nanos`.

mod attempt;
mod environment;
mod flow;
mod html;
mod lines;
mod table;

use std::collections::BTreeSet;
use std::net::IpAddr;

use netqos_agent::Status;
use netqos_core::{BitRate, ByteCount, Direction, Limits};
use netqos_traffic::{
    Dscp, DscpSeen, Goodput, LatencyReport, Quantiles, Sample, TcpReport, UdpReport,
};
use serde::Serialize;

use crate::manifest::{Family, Place};
use crate::node::Node;

pub use attempt::FailedAttempt;
pub use environment::Environment;
use environment::modes;
pub(crate) use environment::{ShaperReport, timestamp};
pub use flow::{ChangeReport, FlowReport};
pub use lines::LineReport;
pub(crate) use lines::divided_by;

/// Everything that a run found.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The scenario's name.
    pub scenario: String,
    /// What it shows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// When the run was started, in UTC (RFC 3339).
    pub started: String,
    /// On what it ran.
    pub environment: Environment,
    /// The pods.
    pub pods: Vec<PodReport>,
    /// The nodes' lines, and how they were shared.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<LineReport>,
    /// The rules of NetworkQoS objects that were in force, by pod.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<RuleReport>,
    /// What was measured.
    pub measurements: Vec<MeasurementReport>,
    /// What was measured without netqos; `None` when the scenario does not ask for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comparison: Option<Comparison>,
    /// What people should know, one sentence each.
    pub warnings: Vec<String>,
    /// Where the lab still stands, if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept: Option<Kept>,
}

/// A pod.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodReport {
    /// Its name.
    pub name: String,
    /// The node that it is on.
    pub node: String,
    /// Its class, where lines are shared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// Its address.
    pub address: IpAddr,
    /// What it is held to.
    pub limits: Limits,
    /// How the kernel does that, one sentence for each direction; empty when netqos is not the one
    /// who does.
    pub enforced: Vec<String>,
}

/// A rule of a NetworkQoS, in force on an interface of a pod.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RuleReport {
    /// The pod's name.
    pub pod: String,
    /// Its interface.
    pub interface: String,
    /// `namespace/name[index]`.
    pub rule: String,
    /// What it marks with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dscp: Option<u8>,
    /// What all pods of it share, in bit/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<BitRate>,
    /// Packets of this pod that it decided about.
    pub packets: u64,
    /// Those that it marked.
    pub marked_packets: u64,
    /// Those that it dropped.
    pub dropped_packets: u64,
}

/// A measurement.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MeasurementReport {
    /// Its name.
    pub name: String,
    /// What it shows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// `tcp`, `udp`, `dscp` or `latency`.
    pub kind: String,
    /// Where the traffic came from.
    pub from: Place,
    /// Where else it came from at the same time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<Place>,
    /// Where it went.
    pub to: Place,
    /// By which addresses, where that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub family: Option<Family>,
    /// Over which interface of the pods, where it is not that of the network of all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// The mark that was expected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_dscp: Option<Dscp>,
    /// The limit on the way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub configured: Option<Configured>,
    /// What else went on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load: Option<LoadReport>,
    /// What was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Outcome>,
    /// What came from each place, where there were several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Part>,
    /// All that was sent on one axis of time, where it is more than one result tells.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub flows: Vec<FlowReport>,
    /// What was changed meanwhile.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<ChangeReport>,
    /// Whether all that was expected came true.
    pub verdict: Verdict,
    /// What did not, one sentence each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<String>,
    /// How often it was measured: all that is said above is of the last time.
    pub attempts: u32,
    /// What came of the times before.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failed_attempts: Vec<FailedAttempt>,
}

/// Whether what was expected came true.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// All of it.
    Held,
    /// Not all of it, or it could not be measured.
    Failed,
    /// Nothing was expected.
    Informational,
}

/// A limit that measured traffic passes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Configured {
    /// Whose limit, where it is a pod's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<Place>,
    /// In which direction, where it is a pod's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direction: Option<Direction>,
    /// Which rule's, where it is a rule's: `namespace/name[index]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The limit, which counts whole Ethernet frames.
    pub rate: BitRate,
    /// What of it is left for payload.
    pub payload: BitRate,
}

/// What came from one of several places.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Part {
    /// From where.
    pub from: Place,
    /// How much.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goodput: Option<BitRate>,
}

/// Traffic that filled the path.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LoadReport {
    /// `tcp` or `udp`.
    pub kind: String,
    /// Where it came from.
    pub from: Place,
    /// Where it went.
    pub to: Place,
    /// What arrived of it while the measurement counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goodput: Option<BitRate>,
    /// Why nothing did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// What a meter found.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// By TCP.
    Tcp(TcpReport),
    /// By UDP.
    Udp(UdpReport),
    /// By request and response.
    Latency(LatencyReport),
}

/// The same without netqos.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Comparison {
    /// The plugin that took its place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shaper: Option<ShaperReport>,
    /// What was measured with it.
    pub measurements: Vec<MeasurementReport>,
    /// Why nothing was, if nothing was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_out_because: Option<String>,
}

/// A lab that still stands.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Kept {
    /// Its name, for `netqos lab down`.
    pub run: String,
    /// Its network namespaces: who it is, and its name for `ip netns`.
    pub namespaces: Vec<(String, String)>,
    /// The folder with all of its files, the containers' logs among them.
    pub folder: std::path::PathBuf,
    /// Where agents go on: the folder of their objects, and the one that they run in.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<KeptAgent>,
}

/// An agent that goes on.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KeptAgent {
    /// What is changed here is in force a moment later.
    pub objects: std::path::PathBuf,
    /// Where it is asked: `NETQOS_RUN_DIR`.
    pub run: std::path::PathBuf,
}

impl Report {
    /// True when no expectation failed.
    pub fn holds(&self) -> bool {
        self.measurements
            .iter()
            .all(|measurement| measurement.verdict != Verdict::Failed)
    }

    /// The names of the nodes that pods are on.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = &str> {
        let names = self.pods.iter().map(|pod| pod.node.as_str());
        names.collect::<BTreeSet<_>>().into_iter()
    }

    /// The pod of this name.
    pub(crate) fn pod(&self, name: &str) -> Option<&PodReport> {
        self.pods.iter().find(|pod| pod.name == name)
    }

    /// The same measurement without netqos.
    pub(crate) fn compared(&self, name: &str) -> Option<&MeasurementReport> {
        let comparison = self.comparison.as_ref()?;
        comparison
            .measurements
            .iter()
            .find(|measurement| measurement.name == name)
    }

    /// As tables, for a terminal.
    pub fn to_table(&self) -> String {
        table::render(self)
    }

    /// As one HTML page, which needs nothing beside it.
    pub fn to_html(&self) -> String {
        html::render(self)
    }
}

impl PodReport {
    /// All pods of a node, before anything is said of their classes.
    pub(crate) fn all(node: &Node) -> impl Iterator<Item = Self> {
        node.pods().iter().map(|pod| Self {
            name: pod.name.clone(),
            node: node.name.clone(),
            class: None,
            address: pod.address,
            limits: pod.limits(),
            enforced: modes(&node.files, &pod.netns),
        })
    }
}

impl Configured {
    /// What it is and how much.
    pub(crate) fn limit(&self) -> String {
        let rate = rounded(self.rate);
        match (&self.direction, &self.rule) {
            (Some(direction), _) => format!("{direction} {rate}"),
            (None, Some(rule)) => format!("{rule} {rate}"),
            (None, None) => rate.to_string(),
        }
    }
}

impl RuleReport {
    /// All rules of a node.
    pub(crate) fn all(status: &Status) -> Vec<Self> {
        let mut rules = Vec::new();
        for pod in &status.pods {
            rules.extend(pod.rules.iter().map(|rule| Self {
                pod: pod.name.clone(),
                interface: pod.interface.clone(),
                rule: rule.rule.clone(),
                dscp: rule.dscp,
                rate: rule.rate.map(BitRate::from_bits_per_second),
                packets: rule.counts.packets,
                marked_packets: rule.counts.marked_packets,
                dropped_packets: rule.counts.dropped_packets,
            }));
        }
        rules
    }
}

impl Outcome {
    /// What several found at the same time, as one; `None` for nothing, or for different kinds.
    /// One-way delays are those of the place where they were longest.
    pub(crate) fn together(all: Vec<Self>) -> Option<Self> {
        let mut all = all.into_iter();
        let first = all.next()?;
        all.try_fold(first, |sum, one| match (sum, one) {
            (Self::Tcp(sum), Self::Tcp(one)) => Some(Self::Tcp(TcpReport {
                streams: sum.streams + one.streams,
                goodput: added(sum.goodput, &one.goodput),
                ..sum
            })),
            (Self::Udp(sum), Self::Udp(one)) => Some(Self::Udp(UdpReport {
                goodput: added(sum.goodput, &one.goodput),
                sent: sum.sent + one.sent,
                held_back: sum.held_back + one.held_back,
                received: sum.received + one.received,
                lost: sum.lost + one.lost,
                out_of_order: sum.out_of_order + one.out_of_order,
                delay: [sum.delay, one.delay]
                    .into_iter()
                    .flatten()
                    .max_by_key(|delay| delay.p99),
                dscp_seen: marks(sum.dscp_seen, &one.dscp_seen),
            })),
            _ => None,
        })
    }

    /// What arrived, where that was counted.
    pub fn goodput(&self) -> Option<&Goodput> {
        match self {
            Self::Tcp(report) => Some(&report.goodput),
            Self::Udp(report) => Some(&report.goodput),
            Self::Latency(_) => None,
        }
    }

    /// The goodput's rate, where there is one.
    pub fn rate(&self) -> Option<BitRate> {
        Some(self.goodput()?.rate)
    }

    /// Round trips, or delays.
    pub fn times(&self) -> Option<Quantiles> {
        match self {
            Self::Tcp(_) => None,
            Self::Udp(report) => report.delay,
            Self::Latency(report) => report.round_trip,
        }
    }

    /// How much did not arrive, in percent, where that is counted.
    pub fn loss_percent(&self) -> Option<f64> {
        match self {
            Self::Tcp(_) => None,
            Self::Udp(report) => Some(report.loss() * 100.0),
            Self::Latency(report) if report.sent == 0 => Some(0.0),
            Self::Latency(report) => Some(report.lost as f64 * 100.0 / report.sent as f64),
        }
    }
}

/// Two goodputs at the same time: interval by interval.
fn added(sum: Goodput, one: &Goodput) -> Goodput {
    let bytes = |a: ByteCount, b: ByteCount| ByteCount::from_bytes(a.bytes() + b.bytes());
    let samples = sum.samples.iter().zip(&one.samples);
    Goodput {
        rate: BitRate::from_bits_per_second(
            sum.rate.bits_per_second() + one.rate.bits_per_second(),
        ),
        received: bytes(sum.received, one.received),
        elapsed: sum.elapsed.max(one.elapsed),
        samples: samples
            .map(|(a, b)| Sample {
                received: bytes(a.received, b.received),
                ..*a
            })
            .collect(),
    }
}

/// The marks that arrived from either, in the order of their numbers.
fn marks(mut sum: Vec<DscpSeen>, one: &[DscpSeen]) -> Vec<DscpSeen> {
    for seen in one {
        match sum.iter_mut().find(|known| known.dscp == seen.dscp) {
            Some(known) => known.datagrams += seen.datagrams,
            None => sum.push(*seen),
        }
    }
    sum.sort_by_key(|seen| seen.dscp.value());
    sum
}

/// A rate to three digits, as people read it.
pub(crate) fn rounded(rate: BitRate) -> BitRate {
    let bits = rate.bits_per_second();
    let digits = bits.checked_ilog10().unwrap_or(0);
    let step = 10_u64.pow(digits.saturating_sub(2));
    BitRate::from_bits_per_second((bits.saturating_add(step / 2)) / step * step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_rounded_to_three_digits() {
        for (bits, text) in [
            (9_564_068, "9.56 Mbit/s"),
            (0, "0 bit/s"),
            (999, "999 bit/s"),
            (9_999_999_999, "10 Gbit/s"),
            (123_456, "123 kbit/s"),
        ] {
            let rate = BitRate::from_bits_per_second(bits);
            assert_eq!(rounded(rate).to_string(), text);
        }
    }
}
