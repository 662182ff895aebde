//! From the document to a scenario that can be run: what fits together, and what is left out.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use netqos_core::BitRate;
use netqos_traffic::{HEADER_SIZE, MAX_SIZE, MAX_STREAMS};

use super::{
    Kind, Load, LoadDocument, Measurement, MeasurementDocument, Names, Outside, Place, Scenario,
    ScenarioDocument, What,
};
use crate::manifest::values::{Mark, Rate, Span};
use crate::manifest::{Document, ManifestError, Objects, PodManifest};

/// What a pod must not be called, since scenarios call the node so.
const NODE: &str = "node";

/// What is measured when nothing is said.
/// How long a load fills the path before what is measured under it begins.
const BEFORE: Duration = Duration::from_secs(1);
/// How long a load goes on after that, so that it is there to the end.
const AFTER: Duration = Duration::from_millis(300);
const OMIT: Duration = Duration::from_secs(1);
const DURATION: Duration = Duration::from_secs(4);
const STREAMS: u16 = 1;
const DATAGRAM: usize = 1400;
const REQUEST: usize = 64;
const REQUEST_INTERVAL: Duration = Duration::from_millis(10);
const DSCP_RATE: BitRate = BitRate::from_bits_per_second(100_000);
const DSCP_SIZE: usize = 100;

/// The longest measurement: beyond it, somebody has mistaken the unit.
const MAX_LENGTH: Duration = Duration::from_secs(3600);

/// The fields that belong to some kinds only, as far as they are there.
struct Fields {
    streams: Option<u16>,
    congestion_control: Option<String>,
    rate: Option<Rate>,
    size: Option<usize>,
    interval: Option<Span>,
    dscp: Option<Mark>,
}

/// Where in which document something stands.
pub(super) struct At<'a> {
    document: &'a Document,
    path: String,
    pub(super) pods: &'a [PodManifest],
    outside: &'a [Outside],
    pub(super) objects: &'a Objects,
}

pub(super) fn scenario(
    document: &Document,
    parsed: ScenarioDocument,
    pods: &[PodManifest],
    objects: &Objects,
) -> Result<Scenario, ManifestError> {
    if pods.iter().any(|pod| pod.name() == NODE) {
        return Err(document.problem("metadata.name", "no pod can be called \"node\" here"));
    }
    let outside = parsed.spec.outside;
    check_outside(document, &outside, pods)?;
    let mut names = BTreeSet::new();
    let mut measurements = Vec::new();
    let one_node = objects.nodes().len() == 1;
    let compare = parsed.spec.compare;
    for (index, measurement) in parsed.spec.measurements.into_iter().enumerate() {
        let at = At {
            document,
            path: format!("spec.measurements[{index}]"),
            pods,
            outside: &outside,
            objects,
        };
        if !names.insert(measurement.name.clone()) {
            let problem = format!("there are two measurements {:?}", measurement.name);
            return Err(at.problem("name", problem));
        }
        let measurement = at.measurement(measurement, compare)?;
        if measurement.compare && (!one_node || !measurement.changes.is_empty()) {
            let problem =
                "what is on one of several nodes, or is changed meanwhile, is not compared";
            return Err(at.problem("compare", problem));
        }
        measurements.push(measurement);
    }
    if measurements.is_empty() {
        return Err(document.problem("spec.measurements", "nothing is measured"));
    }
    Ok(Scenario {
        name: parsed.metadata.name,
        description: parsed.spec.description,
        outside,
        measurements,
    })
}

/// Hosts outside are called as pods are, and have addresses, each its own.
fn check_outside(
    document: &Document,
    outside: &[Outside],
    pods: &[PodManifest],
) -> Result<(), ManifestError> {
    let mut names: BTreeSet<&str> = pods.iter().map(PodManifest::name).collect();
    names.insert(NODE);
    let mut addresses = BTreeSet::new();
    for (index, host) in outside.iter().enumerate() {
        let problem = |field: &str, problem: String| {
            document.problem(format!("spec.outside[{index}].{field}"), problem)
        };
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if host.name.is_empty() || !host.name.chars().all(allowed) {
            let text = format!(
                "{:?}: lower case letters, digits and '-' are a name",
                host.name
            );
            return Err(problem("name", text));
        }
        if !names.insert(&host.name) {
            return Err(problem("name", format!("there are two {:?}", host.name)));
        }
        if host.addresses.is_empty() {
            return Err(problem("addresses", "there is none".to_owned()));
        }
        for address in &host.addresses {
            if !addresses.insert(pair(*address)) {
                let text = format!("{address}, or the one that the node has for it, is taken");
                return Err(problem("addresses", text));
            }
        }
    }
    Ok(())
}

/// The lower one of the two addresses that differ in the last bit.
fn pair(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(address) => IpAddr::V4((u32::from(address) & !1).into()),
        IpAddr::V6(address) => IpAddr::V6((u128::from(address) & !1).into()),
    }
}

impl At<'_> {
    pub(super) fn problem(&self, field: &str, problem: impl Into<String>) -> ManifestError {
        self.document
            .problem(format!("{}.{field}", self.path), problem)
    }

    /// One of its fields.
    pub(super) fn below(&self, field: &str) -> Self {
        Self {
            path: format!("{}.{field}", self.path),
            ..*self
        }
    }

    fn measurement(
        &self,
        parsed: MeasurementDocument,
        compare: bool,
    ) -> Result<Measurement, ManifestError> {
        let (from, beside, to) = self.senders(&parsed.from, &parsed.to)?;
        let fields = Fields {
            streams: parsed.streams,
            congestion_control: parsed.congestion_control,
            rate: parsed.rate,
            size: parsed.size,
            interval: parsed.interval,
            dscp: parsed.dscp,
        };
        let what = self.what(parsed.kind, fields)?;
        if !beside.is_empty() && parsed.kind == Kind::Latency {
            return Err(self.problem("from", "latency is measured from one place"));
        }
        if let Some(interface) = &parsed.interface {
            self.check_interface(interface, [&from, &to].into_iter().chain(&beside))?;
        }
        let load = parsed.under_load.map(|load| {
            let at = self.below("underLoad");
            at.load(load)
        });
        let omit = parsed.omit.map_or(OMIT, |span| span.0);
        let duration = parsed.duration.map_or(DURATION, |span| span.0);
        if duration.is_zero() || omit.saturating_add(duration) > MAX_LENGTH {
            return Err(self.problem("duration", "a measurement lasts up to an hour"));
        }
        let load = load.transpose()?;
        let ends = load.iter().flat_map(|load| [&load.from, &load.to]);
        self.check_node([&from, &to].into_iter().chain(&beside).chain(ends))?;
        let changes = self.changes(parsed.changes, omit.saturating_add(duration))?;
        let interface = parsed.interface.as_deref();
        let expect = self.expect(parsed.expect, &what, (&from, &to), interface)?;
        Ok(Measurement {
            name: parsed.name,
            description: parsed.description,
            from,
            beside,
            to,
            family: parsed.family,
            interface: parsed.interface,
            omit,
            duration,
            what,
            load,
            changes,
            compare: parsed.compare.unwrap_or(compare),
            expect,
        })
    }

    fn load(&self, parsed: LoadDocument) -> Result<Load, ManifestError> {
        if !matches!(parsed.kind, Kind::Tcp | Kind::Udp) {
            return Err(self.problem("kind", "a load is tcp or udp"));
        }
        let (from, to) = self.ends(&parsed.from, &parsed.to)?;
        let fields = Fields {
            streams: parsed.streams,
            congestion_control: parsed.congestion_control,
            rate: parsed.rate,
            size: parsed.size,
            interval: None,
            dscp: None,
        };
        let what = self.what(parsed.kind, fields)?;
        let before = parsed.before.map_or(BEFORE, |span| span.0);
        let after = parsed.after.map_or(AFTER, |span| span.0);
        if before.saturating_add(after) > MAX_LENGTH {
            return Err(self.problem("before", "a load goes on by itself for up to an hour"));
        }
        Ok(Load {
            from,
            to,
            what,
            before,
            after,
        })
    }

    /// Where it comes from, also where else, and where it goes.
    fn senders(&self, from: &Names, to: &str) -> Result<(Place, Vec<Place>, Place), ManifestError> {
        let names = match from {
            Names::One(name) => std::slice::from_ref(name),
            Names::Several(names) => names,
        };
        let Some((first, others)) = names.split_first() else {
            return Err(self.problem("from", "there is none"));
        };
        let (first, to_place) = self.ends(first, to)?;
        let mut beside = Vec::new();
        for name in others {
            let (place, _) = self.ends(name, to)?;
            if place == first || beside.contains(&place) {
                return Err(self.problem("from", format!("{name:?} is there twice")));
            }
            beside.push(place);
        }
        Ok((first, beside, to_place))
    }

    /// All of the pods must have this interface.
    fn check_interface<'p>(
        &self,
        interface: &str,
        places: impl Iterator<Item = &'p Place>,
    ) -> Result<(), ManifestError> {
        for place in places {
            let Place::Pod(name) = place else {
                let problem = format!("{place} is not on the networks of pods' own");
                return Err(self.problem("interface", problem));
            };
            let mut pods = self.pods.iter().filter(|pod| pod.name() == name);
            let has_it =
                |pod: &PodManifest| pod.networks.iter().any(|one| one.interface == interface);
            if !pods.any(has_it) {
                let problem = format!("pod {name} asks for no network by this name");
                return Err(self.problem("interface", problem));
            }
        }
        Ok(())
    }

    /// Nodes are not connected to each other: all of its pods must be on one.
    fn check_node<'p>(&self, places: impl Iterator<Item = &'p Place>) -> Result<(), ManifestError> {
        let names = places.filter_map(|place| match place {
            Place::Pod(name) => Some(name.as_str()),
            Place::Node | Place::Outside(_) => None,
        });
        let pods = names.filter_map(|name| self.pods.iter().find(|pod| pod.name() == name));
        let nodes: BTreeSet<&str> = pods.map(|pod| pod.node.as_str()).collect();
        if nodes.len() < 2 {
            return Ok(());
        }
        let nodes: Vec<_> = nodes.into_iter().collect();
        let problem = format!("there is nothing between the nodes {}", nodes.join(" and "));
        Err(self.problem("to", problem))
    }

    fn ends(&self, from: &str, to: &str) -> Result<(Place, Place), ManifestError> {
        let ends = (self.place("from", from)?, self.place("to", to)?);
        if ends.0 == ends.1 {
            return Err(self.problem("to", "traffic to where it comes from passes no network"));
        }
        Ok(ends)
    }

    fn place(&self, field: &str, name: &str) -> Result<Place, ManifestError> {
        if name == NODE {
            return Ok(Place::Node);
        }
        if self.pods.iter().any(|pod| pod.name() == name) {
            return Ok(Place::Pod(name.to_owned()));
        }
        if self.outside.iter().any(|host| host.name == name) {
            return Ok(Place::Outside(name.to_owned()));
        }
        let known = self.pods.iter().map(PodManifest::name);
        let known: Vec<_> = known
            .chain(self.outside.iter().map(|host| host.name.as_str()))
            .collect();
        Err(self.problem(
            field,
            format!(
                "there is no pod {name:?}; there are node, {}",
                known.join(", ")
            ),
        ))
    }

    fn what(&self, kind: Kind, fields: Fields) -> Result<What, ManifestError> {
        let for_tcp = kind == Kind::Tcp;
        let for_datagrams = matches!(kind, Kind::Udp | Kind::Dscp);
        for (field, is_there, belongs, kinds) in [
            ("streams", fields.streams.is_some(), for_tcp, "tcp"),
            (
                "congestionControl",
                fields.congestion_control.is_some(),
                for_tcp,
                "tcp",
            ),
            ("rate", fields.rate.is_some(), for_datagrams, "udp and dscp"),
            (
                "size",
                fields.size.is_some(),
                !for_tcp,
                "udp, dscp and latency",
            ),
            (
                "interval",
                fields.interval.is_some(),
                kind == Kind::Latency,
                "latency",
            ),
            ("dscp", fields.dscp.is_some(), for_datagrams, "udp and dscp"),
        ] {
            if is_there && !belongs {
                return Err(self.problem(field, format!("only measurements of {kinds} have it")));
            }
        }
        if let Some(size) = fields.size
            && !(HEADER_SIZE..=MAX_SIZE).contains(&size)
        {
            return Err(self.problem(
                "size",
                format!("{size} bytes: a datagram has {HEADER_SIZE} to {MAX_SIZE}"),
            ));
        }
        if let Some(streams) = fields.streams
            && !(1..=MAX_STREAMS).contains(&streams)
        {
            return Err(self.problem(
                "streams",
                format!("{streams}: a measurement has 1 to {MAX_STREAMS}"),
            ));
        }
        let dscp = fields.dscp.map(|mark| mark.0);
        let rate = fields.rate.map(|rate| rate.0);
        Ok(match kind {
            Kind::Tcp => What::Tcp {
                streams: fields.streams.unwrap_or(STREAMS),
                congestion_control: fields.congestion_control,
            },
            Kind::Udp => What::Udp {
                rate: rate.ok_or_else(|| self.problem("rate", "missing: udp is sent at a rate"))?,
                size: fields.size.unwrap_or(DATAGRAM),
                dscp: dscp.unwrap_or_default(),
                marks: false,
            },
            Kind::Dscp => What::Udp {
                rate: rate.unwrap_or(DSCP_RATE),
                size: fields.size.unwrap_or(DSCP_SIZE),
                dscp: dscp.unwrap_or_default(),
                marks: true,
            },
            Kind::Latency => What::Latency {
                size: fields.size.unwrap_or(REQUEST),
                interval: match fields.interval.map_or(REQUEST_INTERVAL, |span| span.0) {
                    Duration::ZERO => {
                        return Err(self.problem("interval", "requests without one are a flood"));
                    }
                    interval => interval,
                },
            },
        })
    }
}
