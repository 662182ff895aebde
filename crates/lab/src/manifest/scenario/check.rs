//! From the document to a scenario that can be run: what fits together, and what is left out.

use std::collections::BTreeSet;
use std::time::Duration;

use netqos_api::pod_limits;
use netqos_core::{BitRate, Direction};
use netqos_traffic::{HEADER_SIZE, MAX_SIZE, MAX_STREAMS};

use super::{
    Expect, ExpectDocument, Kind, Load, LoadDocument, Measurement, MeasurementDocument, Place,
    Scenario, ScenarioDocument, What,
};
use crate::manifest::values::{Mark, Rate, Span};
use crate::manifest::{Document, ManifestError, PodManifest};

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
}

pub(super) fn scenario(
    document: &Document,
    parsed: ScenarioDocument,
    pods: &[PodManifest],
) -> Result<Scenario, ManifestError> {
    if pods.iter().any(|pod| pod.name() == NODE) {
        return Err(document.problem("metadata.name", "no pod can be called \"node\" here"));
    }
    let mut names = BTreeSet::new();
    let mut measurements = Vec::new();
    let compare = parsed.spec.compare;
    for (index, measurement) in parsed.spec.measurements.into_iter().enumerate() {
        let at = At {
            document,
            path: format!("spec.measurements[{index}]"),
            pods,
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
        measurements,
    })
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
        let (from, to) = self.ends(&parsed.from, &parsed.to)?;
        let fields = Fields {
            streams: parsed.streams,
            congestion_control: parsed.congestion_control,
            rate: parsed.rate,
            size: parsed.size,
            interval: parsed.interval,
            dscp: parsed.dscp,
        };
        let what = self.what(parsed.kind, fields)?;
        let load = parsed.under_load.map(|load| {
            let at = At {
                path: format!("{}.underLoad", self.path),
                document: self.document,
                pods: self.pods,
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
            to,
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
        let known: Vec<_> = self.pods.iter().map(PodManifest::name).collect();
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
            },
            Kind::Dscp => What::Udp {
                rate: rate.unwrap_or(DSCP_RATE),
                size: fields.size.unwrap_or(DSCP_SIZE),
                dscp: dscp.unwrap_or_default(),
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
        let expect = Expect {
            held_to: parsed.held_to,
            tolerance: parsed.tolerance.map_or(TOLERANCE, |percent| percent.0),
            at_least: parsed.at_least.map(|rate| rate.0),
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
            ("heldTo", expect.held_to.is_some(), !is_latency),
            ("atLeast", expect.at_least.is_some(), !is_latency),
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
        if let Some(direction) = expect.held_to {
            self.check_limited(direction, from, to)?;
        }
        Ok(expect)
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
            Place::Node => {
                return Err(problem(format!(
                    "{direction} is that of the pod at `{field}`, and the node has no limit"
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
