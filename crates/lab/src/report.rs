//! What a run found, for people and for machines.
//!
//! In JSON, rates are bits per second, and durations whole nanoseconds in fields whose names end
//! in `Nanos`.

mod environment;
mod html;
mod table;

use std::net::IpAddr;

use netqos_core::{BitRate, Direction, Limits};
use netqos_traffic::{LatencyReport, Quantiles, TcpReport, UdpReport};
use serde::Serialize;

use crate::manifest::Place;

pub use environment::Environment;
pub(crate) use environment::{ShaperReport, modes, timestamp};

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
    /// Its address.
    pub address: IpAddr,
    /// What it is held to.
    pub limits: Limits,
    /// How the kernel does that, one sentence for each direction; empty when netqos is not the one
    /// who does.
    pub enforced: Vec<String>,
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
    /// `tcp`, `udp` or `latency`.
    pub kind: String,
    /// Where the traffic came from.
    pub from: Place,
    /// Where it went.
    pub to: Place,
    /// The limit on the way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub configured: Option<Configured>,
    /// What else went on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load: Option<LoadReport>,
    /// What was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Outcome>,
    /// Whether all that was expected came true.
    pub verdict: Verdict,
    /// What did not, one sentence each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<String>,
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
    /// Whose limit.
    pub pod: Place,
    /// In which direction.
    pub direction: Direction,
    /// The limit, which counts whole Ethernet frames.
    pub rate: BitRate,
    /// What of it is left for payload.
    pub payload: BitRate,
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
    /// What arrived of it.
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
}

impl Report {
    /// True when no expectation failed.
    pub fn holds(&self) -> bool {
        self.measurements
            .iter()
            .all(|measurement| measurement.verdict != Verdict::Failed)
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

impl Outcome {
    /// The goodput, where there is one.
    pub fn rate(&self) -> Option<BitRate> {
        match self {
            Self::Tcp(report) => Some(report.goodput.rate),
            Self::Udp(report) => Some(report.goodput.rate),
            Self::Latency(_) => None,
        }
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
