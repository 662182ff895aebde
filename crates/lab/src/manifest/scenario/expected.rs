//! What should come of a measurement: whether it can be told, and of whose limit it is.

use netqos_api::koordinator::NotABackend;
use netqos_api::pod_limits;
use netqos_core::{BitRate, Direction};

use super::check::At;
use super::{Expect, ExpectDocument, HeldTo, Place, Reaches, What};
use crate::manifest::{ManifestError, MeteredRule, RuleName};

/// How far a goodput may be off in percent when nothing is said.
const TOLERANCE: f64 = 5.0;

impl At<'_> {
    pub(super) fn expect(
        &self,
        parsed: ExpectDocument,
        what: &What,
        ends: (&Place, &Place),
        interface: Option<&str>,
    ) -> Result<Expect, ManifestError> {
        let held_to = match (parsed.held_to, parsed.rate) {
            (Some(_), Some(_)) => {
                return Err(self.problem("expect.rate", "there is a heldTo already"));
            }
            (Some(text), None) => Some(self.held_to(&text, ends, interface)?),
            (None, rate) => rate.map(|rate| HeldTo::Rate(rate.0)),
        };
        let expect = Expect {
            held_to,
            tolerance: parsed.tolerance.map_or(TOLERANCE, |percent| percent.0),
            at_least: parsed.at_least.map(|rate| rate.0),
            reaches: parsed.reaches.map(|reaches| Reaches {
                rate: reaches.rate.0,
                within: reaches.within.0,
            }),
            not_held_to: parsed
                .not_held_to
                .map(|rule| self.not_held_to(&rule))
                .transpose()?,
            p50_at_most: parsed.p50_at_most.map(|span| span.0),
            p99_at_most: parsed.p99_at_most.map(|span| span.0),
            loss_at_most: parsed.loss_at_most.map(|percent| percent.0),
            dscp: parsed.dscp.map(|mark| mark.0),
            divided_by: parsed
                .divided_by
                .map(|name| name.parse())
                .transpose()
                .map_err(|why: NotABackend| self.problem("expect.dividedBy", why.to_string()))?,
        };
        let (is_tcp, is_latency) = match what {
            What::Tcp { .. } => (true, false),
            What::Udp { .. } => (false, false),
            What::Latency { .. } => (false, true),
        };
        for (field, is_there, can_tell) in [
            ("heldTo or rate", expect.held_to.is_some(), !is_latency),
            ("atLeast", expect.at_least.is_some(), !is_latency),
            ("reaches", expect.reaches.is_some(), is_tcp),
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
    fn held_to(
        &self,
        text: &str,
        ends: (&Place, &Place),
        interface: Option<&str>,
    ) -> Result<HeldTo, ManifestError> {
        for direction in [Direction::Ingress, Direction::Egress] {
            if text == direction.to_string() {
                self.check_limited(direction, ends, interface)?;
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
        (from, to): (&Place, &Place),
        interface: Option<&str>,
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
        let limits = pod.and_then(|pod| match interface {
            None => pod_limits(&pod.pod.annotations).ok(),
            Some(name) => {
                let mut networks = pod.networks.iter();
                networks.find(|it| it.interface == name).map(|it| it.limits)
            }
        });
        match (limits, interface) {
            (Some(limits), _) if limits.of(direction).is_some() => Ok(()),
            (None, _) => Ok(()),
            (_, None) => Err(problem(format!(
                "pod {place} has no annotation kubernetes.io/{direction}-bandwidth"
            ))),
            (_, Some(interface)) => Err(problem(format!(
                "pod {place} requests no {direction} bandwidth of {interface}; the key bandwidth of \
                 that network's entry in its annotation k8s.v1.cni.cncf.io/networks does"
            ))),
        }
    }
}
