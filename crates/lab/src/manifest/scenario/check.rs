//! From the document to a scenario that can be run: what fits together, and what is left out.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use netqos_api::pod_limits;
use netqos_core::{BitRate, Direction};
use netqos_traffic::{HEADER_SIZE, MAX_SIZE, MAX_STREAMS};

use super::{
    Expect, ExpectDocument, HeldTo, Kind, Load, LoadDocument, Measurement, MeasurementDocument,
    Names, Outside, Place, Scenario, ScenarioDocument, What,
};
use crate::manifest::values::{Mark, Rate, Span};
use crate::manifest::{Document, ManifestError, MeteredRule, Objects, PodManifest, RuleName};

/// What a pod must not be called, since scenarios call the node so.
const NODE: &str = "node";

/// What is measured when nothing is said.
const OMIT: Duration = Duration::from_secs(1);
const DURATION: Duration = Duration::from_secs(4);
const STREAMS: u16 = 1;
const DATAGRAM: usize = 1400;
const REQUEST: usize = 64;
const REQUEST_INTERVAL: Duration = Duration::from_millis(10);
const DSCP_RATE: BitRate = BitRate::from_bits_per_second(100_000);
const DSCP_SIZE: usize = 100;
const TOLERANCE: f64 = 5.0;

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
struct At<'a> {
    document: &'a Document,
    path: String,
    pods: &'a [PodManifest],
    outside: &'a [Outside],
    objects: &'a Objects,
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
        measurements.push(at.measurement(measurement, compare)?);
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
    fn problem(&self, field: &str, problem: impl Into<String>) -> ManifestError {
        self.document
            .problem(format!("{}.{field}", self.path), problem)
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
            let at = At {
                path: format!("{}.underLoad", self.path),
                ..*self
            };
            at.load(load)
        });
        let omit = parsed.omit.map_or(OMIT, |span| span.0);
        let duration = parsed.duration.map_or(DURATION, |span| span.0);
        if duration.is_zero() || omit.saturating_add(duration) > MAX_LENGTH {
            return Err(self.problem("duration", "a measurement lasts up to an hour"));
        }
        let expect = self.expect(parsed.expect, &what, &from, &to)?;
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
            load: load.transpose()?,
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
        Ok(Load { from, to, what })
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

    fn expect(
        &self,
        parsed: ExpectDocument,
        what: &What,
        from: &Place,
        to: &Place,
    ) -> Result<Expect, ManifestError> {
        let held_to = match (parsed.held_to, parsed.rate) {
            (Some(_), Some(_)) => {
                return Err(self.problem("expect.rate", "there is a heldTo already"));
            }
            (Some(text), None) => Some(self.held_to(&text, from, to)?),
            (None, rate) => rate.map(|rate| HeldTo::Rate(rate.0)),
        };
        let expect = Expect {
            held_to,
            tolerance: parsed.tolerance.map_or(TOLERANCE, |percent| percent.0),
            at_least: parsed.at_least.map(|rate| rate.0),
            not_held_to: parsed
                .not_held_to
                .map(|rule| self.not_held_to(&rule))
                .transpose()?,
            p50_at_most: parsed.p50_at_most.map(|span| span.0),
            p99_at_most: parsed.p99_at_most.map(|span| span.0),
            loss_at_most: parsed.loss_at_most.map(|percent| percent.0),
            dscp: parsed.dscp.map(|mark| mark.0),
        };
        let (is_tcp, is_latency) = match what {
            What::Tcp { .. } => (true, false),
            What::Udp { .. } => (false, false),
            What::Latency { .. } => (false, true),
        };
        for (field, is_there, can_tell) in [
            ("heldTo or rate", expect.held_to.is_some(), !is_latency),
            ("atLeast", expect.at_least.is_some(), !is_latency),
            ("notHeldTo", expect.not_held_to.is_some(), is_tcp),
            ("p50AtMost", expect.p50_at_most.is_some(), !is_tcp),
            ("p99AtMost", expect.p99_at_most.is_some(), !is_tcp),
            ("lossAtMost", expect.loss_at_most.is_some(), !is_tcp),
            ("dscp", expect.dscp.is_some(), !is_tcp && !is_latency),
        ] {
            if is_there && !can_tell {
                let problem = format!("a measurement of {} does not tell this", what.kind());
                return Err(self.problem(&format!("expect.{field}"), problem));
            }
        }
        Ok(expect)
    }

    /// A pod's limit by its direction, or a rule's bandwidth by its name.
    fn held_to(&self, text: &str, from: &Place, to: &Place) -> Result<HeldTo, ManifestError> {
        for direction in [Direction::Ingress, Direction::Egress] {
            if text == direction.to_string() {
                self.check_limited(direction, from, to)?;
                return Ok(HeldTo::Limit(direction));
            }
        }
        let rule = self.metered(text).map_err(|known| {
            let problem = format!("{text:?} is neither ingress nor egress, and {known}");
            self.problem("expect.heldTo", problem)
        })?;
        Ok(HeldTo::Rule(rule.name.clone(), rule.bandwidth.rate))
    }

    /// A rule's bandwidth by its name.
    fn not_held_to(&self, text: &str) -> Result<(RuleName, BitRate), ManifestError> {
        let rule = self.metered(text).map_err(|known| {
            let problem = format!("{text:?} is none of them: {known}");
            self.problem("expect.notHeldTo", problem)
        })?;
        Ok((rule.name.clone(), rule.bandwidth.rate))
    }

    /// The rule with a bandwidth by this name; else a sentence that says which ones there are.
    fn metered(&self, text: &str) -> Result<&MeteredRule, String> {
        let metered = &self.objects.metered;
        let found =
            RuleName::parse(text).and_then(|name| metered.iter().find(|rule| rule.name == name));
        found.ok_or_else(|| {
            let known: Vec<_> = metered.iter().map(|rule| rule.name.to_string()).collect();
            match &known[..] {
                [] => "no rule of a NetworkQoS has a bandwidth here".to_owned(),
                known => format!("rules with a bandwidth are {}", known.join(", ")),
            }
        })
    }

    /// A limit that traffic is to be held to must be there.
    fn check_limited(
        &self,
        direction: Direction,
        from: &Place,
        to: &Place,
    ) -> Result<(), ManifestError> {
        let (field, place) = match direction {
            Direction::Ingress => ("to", to),
            Direction::Egress => ("from", from),
        };
        let problem = |problem: String| self.problem("expect.heldTo", problem);
        let pod = match place {
            Place::Node | Place::Outside(_) => {
                return Err(problem(format!(
                    "{direction} is that of the pod at `{field}`, and {place} has no limit"
                )));
            }
            Place::Pod(name) => self.pods.iter().find(|pod| pod.name() == name),
        };
        // A bad annotation is told when the pod is set up, by who plays the kubelet.
        let limits = pod.and_then(|pod| pod_limits(&pod.pod.annotations).ok());
        match limits {
            Some(limits) if limits.of(direction).is_none() => Err(problem(format!(
                "pod {place} has no annotation kubernetes.io/{direction}-bandwidth"
            ))),
            _ => Ok(()),
        }
    }
}
