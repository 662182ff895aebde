//! The scenario: what is measured between which pods, and what should come of it.

mod changes;
mod check;
mod expected;

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use netqos_api::koordinator::BackendKind;
use netqos_core::{BitRate, Direction, ObjectName};
use netqos_traffic::Dscp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::values::{Mark, Percentage, Rate, Span};
use super::{Document, ManifestError, Objects, PodManifest, RuleName};
use crate::node::Way;

/// The only version of scenarios so far.
const API_VERSION: &str = "lab.netqos.io/v1alpha1";

/// What is measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// Its name.
    pub name: String,
    /// What it shows, for people.
    pub description: Option<String>,
    /// Who is there beside the node and its pods.
    pub outside: Vec<Outside>,
    /// In their order.
    pub measurements: Vec<Measurement>,
}

/// A host that is in no cluster, to which the node is a router.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outside {
    /// Its name, other than those of pods.
    pub name: String,
    /// Its addresses. The other one of the two in the same /31, or /127, is the node's.
    pub addresses: Vec<IpAddr>,
}

/// One measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    /// Its name, unique in the scenario.
    pub name: String,
    /// What it shows, for people.
    pub description: Option<String>,
    /// Where the traffic comes from.
    pub from: Place,
    /// Where else it comes from at the same time.
    pub beside: Vec<Place>,
    /// Where it goes.
    pub to: Place,
    /// Which of the addresses at `to`; `None`: the first.
    pub family: Option<Family>,
    /// The interface of the pods; `None`: that of the network which all pods are on.
    pub interface: Option<String>,
    /// The warm-up, which is not counted.
    pub omit: Duration,
    /// How long is counted.
    pub duration: Duration,
    /// What is measured.
    pub what: What,
    /// What else goes on meanwhile.
    pub load: Option<Load>,
    /// What is changed meanwhile, in the order of time, and put back at the end.
    pub changes: Vec<Change>,
    /// Also measured without netqos.
    pub compare: bool,
    /// What should come of it.
    pub expect: Expect,
}

/// An end of a measurement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Place {
    /// The node.
    #[serde(serialize_with = "node_as_text")]
    Node,
    /// The pod of this name.
    Pod(String),
    /// The host of this name outside.
    Outside(String),
}

/// Which kind of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// Of 32 bits.
    IPv4,
    /// Of 128 bits.
    IPv6,
}

/// What a goodput may be that of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeldTo {
    /// The limit of a pod: ingress of the one at `to`, egress of the one at `from`.
    Limit(Direction),
    /// The bandwidth of a rule.
    Rule(RuleName, BitRate),
    /// This rate, which counts as limits do.
    Rate(BitRate),
}

/// What a measurement measures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// Goodput of TCP.
    Tcp {
        /// How many connections.
        streams: u16,
        /// The sender's congestion control.
        congestion_control: Option<String>,
    },
    /// Goodput, loss and delay of UDP; and the marks that arrive.
    Udp {
        /// How much is sent.
        rate: BitRate,
        /// The payload of a datagram in bytes.
        size: usize,
        /// How they are marked.
        dscp: Dscp,
        /// It is for the marks alone, and not for the rate.
        marks: bool,
    },
    /// Request and response.
    Latency {
        /// The payload of a request in bytes.
        size: usize,
        /// From one request to the next.
        interval: Duration,
    },
}

/// Traffic that fills the path while something else is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Load {
    /// Where it comes from.
    pub from: Place,
    /// Where it goes.
    pub to: Place,
    /// TCP or UDP.
    pub what: What,
    /// How long it goes on by itself before what is measured begins.
    pub before: Duration,
    /// How long it goes on by itself after that.
    pub after: Duration,
}

/// An object that is changed while something is measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// When, from where what is measured begins.
    pub at: Duration,
    /// The object's kind.
    pub kind: String,
    /// The object's name.
    pub name: ObjectName,
    /// What becomes other in it (RFC 7386): `null` takes a field away.
    pub patch: Value,
    /// What it is called in reports.
    pub title: String,
}

/// What should come of a measurement. What is `None` is not asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Expect {
    /// The goodput is that of this limit.
    pub held_to: Option<HeldTo>,
    /// How far the goodput may be from that, in percent.
    pub tolerance: f64,
    /// The goodput is at least this.
    pub at_least: Option<BitRate>,
    /// The goodput is at least so much, so soon.
    pub reaches: Option<Reaches>,
    /// The goodput is far beyond what this rule holds others to.
    pub not_held_to: Option<(RuleName, BitRate)>,
    /// The 50th percentile of round trips or delays is at most this.
    pub p50_at_most: Option<Duration>,
    /// The 99th percentile of round trips or delays is at most this.
    pub p99_at_most: Option<Duration>,
    /// So many percent of requests or datagrams are lost at most.
    pub loss_at_most: Option<f64>,
    /// All datagrams arrive with this mark.
    pub dscp: Option<Dscp>,
    /// In the end the lines of the node are divided by this backend.
    pub divided_by: Option<BackendKind>,
}

/// How much arrives how soon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reaches {
    /// So much per second, of payload.
    pub rate: BitRate,
    /// After its first byte, and for a tenth of a second from then on.
    pub within: Duration,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ScenarioDocument {
    api_version: String,
    #[expect(dead_code, reason = "known from choosing this type")]
    kind: String,
    metadata: Metadata,
    spec: Spec,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Metadata {
    name: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Spec {
    description: Option<String>,
    #[serde(default)]
    compare: bool,
    #[serde(default)]
    outside: Vec<Outside>,
    measurements: Vec<MeasurementDocument>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Tcp,
    Udp,
    Latency,
    Dscp,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct MeasurementDocument {
    name: String,
    description: Option<String>,
    kind: Kind,
    from: Names,
    to: String,
    family: Option<Family>,
    interface: Option<String>,
    omit: Option<Span>,
    duration: Option<Span>,
    streams: Option<u16>,
    congestion_control: Option<String>,
    rate: Option<Rate>,
    size: Option<usize>,
    interval: Option<Span>,
    dscp: Option<Mark>,
    under_load: Option<LoadDocument>,
    #[serde(default)]
    changes: Vec<ChangeDocument>,
    compare: Option<bool>,
    #[serde(default)]
    expect: ExpectDocument,
}

/// One, or a list of them.
#[derive(Deserialize)]
#[serde(untagged)]
enum Names {
    One(String),
    Several(Vec<String>),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct LoadDocument {
    #[serde(default = "tcp")]
    kind: Kind,
    from: String,
    to: String,
    streams: Option<u16>,
    congestion_control: Option<String>,
    rate: Option<Rate>,
    size: Option<usize>,
    before: Option<Span>,
    after: Option<Span>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ChangeDocument {
    at: Span,
    title: Option<String>,
    patch: Value,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ExpectDocument {
    held_to: Option<String>,
    rate: Option<Rate>,
    tolerance: Option<Percentage>,
    at_least: Option<Rate>,
    reaches: Option<ReachesDocument>,
    not_held_to: Option<String>,
    p50_at_most: Option<Span>,
    p99_at_most: Option<Span>,
    loss_at_most: Option<Percentage>,
    dscp: Option<Mark>,
    divided_by: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReachesDocument {
    rate: Rate,
    within: Span,
}

const fn tcp() -> Kind {
    Kind::Tcp
}

impl Scenario {
    pub(super) fn from_document(
        document: &Document,
        pods: &[PodManifest],
        objects: &Objects,
    ) -> Result<Self, ManifestError> {
        let parsed: ScenarioDocument = document.read()?;
        if parsed.api_version != API_VERSION {
            let problem = format!("a Scenario is of {API_VERSION}");
            return Err(document.problem("apiVersion", problem));
        }
        check::scenario(document, parsed, pods, objects)
    }
}

impl Measurement {
    /// What it is called in scenarios and reports.
    pub fn kind(&self) -> &'static str {
        self.what.kind()
    }

    /// All that send.
    pub fn senders(&self) -> impl Iterator<Item = &Place> {
        std::iter::once(&self.from).chain(&self.beside)
    }

    /// Which addresses it is between.
    pub(crate) fn way(&self) -> Way<'_> {
        Way {
            family: self.family,
            interface: self.interface.as_deref(),
        }
    }

    /// How long it takes, warm-up included.
    pub fn length(&self) -> Duration {
        self.omit.saturating_add(self.duration)
    }
}

impl What {
    /// What it is called in scenarios and reports.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Tcp { .. } => "tcp",
            Self::Udp { marks: true, .. } => "dscp",
            Self::Udp { .. } => "udp",
            Self::Latency { .. } => "latency",
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Node => "node",
            Self::Pod(name) | Self::Outside(name) => name,
        })
    }
}

impl Family {
    /// True for its own addresses.
    pub(crate) const fn has(self, address: IpAddr) -> bool {
        match self {
            Self::IPv4 => address.is_ipv4(),
            Self::IPv6 => address.is_ipv6(),
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::IPv4 => "IPv4",
            Self::IPv6 => "IPv6",
        })
    }
}

fn node_as_text<S: serde::Serializer>(to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str("node")
}
