//! Pods, and what they are limited to.

use netqos_api::annotations::{AnnotationError, parse_pod_limits};
use netqos_core::{Direction, Limits};
use netqos_datapath::Shape;
use netqos_index::Index;

use crate::code::{ANNOTATION, ANNOTATION_TOO_SMALL, BURST, LIMIT_ON_HOST, OVERRIDDEN};
use crate::message::{Message, Subject};
use crate::policies::USUAL_MTU;
use crate::snapshot::Snapshot;

/// The kernel's default for the largest packet before it is cut up (`GSO_LEGACY_MAX_SIZE`).
const USUAL_GSO: u32 = 65_536;
const DIRECTIONS: [Direction; 2] = [Direction::Ingress, Direction::Egress];

/// The annotations of pods, and the limits in profiles.
pub(crate) fn look(snapshot: &Snapshot, index: &Index) -> Vec<Message> {
    let mut messages = Vec::new();
    for (pod, found) in snapshot.pods().filter(|(pod, _)| !pod.finished) {
        let subject = || Subject::new("Pod", &pod.id.name);
        let mut say = |message: Message| messages.push(message.in_place(&found.place));
        for error in parse_pod_limits(&found.annotations).1 {
            let code = match error {
                AnnotationError::BandwidthTooSmall { .. } => &ANNOTATION_TOO_SMALL,
                _ => &ANNOTATION,
            };
            let message = Message::new(code, subject(), error.to_string());
            say(message.at("metadata.annotations"));
        }
        if pod.limits.is_unlimited() {
            continue;
        }
        if pod.host_network {
            let text = "it is in the node's own network, where its bandwidth annotations have no \
                        effect";
            say(Message::new(&LIMIT_ON_HOST, subject(), text).at("metadata.annotations"));
            continue;
        }
        bursts(&pod.limits)
            .into_iter()
            .for_each(|(direction, text)| {
                let field = format!("metadata.annotations[netqos.io/{direction}-burst]");
                say(Message::new(&BURST, subject(), text).at(field));
            });
        for direction in DIRECTIONS {
            let decided = index.decided(&pod.id.name, direction);
            let Some(decided) = decided.filter(|it| it.by.is_none()) else {
                continue;
            };
            if let Some(profile) = decided.passed_over.first() {
                let text = format!(
                    "its {direction} annotation of {} decides, and not BandwidthProfile {profile}",
                    decided.limit.rate
                );
                say(Message::new(&OVERRIDDEN, subject(), text).at("metadata.annotations"));
            }
        }
    }
    for (profile, found) in snapshot.profiles() {
        for (direction, text) in bursts(&profile.limits) {
            let subject = Subject::new("BandwidthProfile", &profile.name);
            let message = Message::new(&BURST, subject, text);
            let message = message.at(format!("spec.{direction}.burst"));
            messages.push(message.in_place(&found.place));
        }
    }
    messages
}

/// The bursts that are raised.
fn bursts(limits: &Limits) -> Vec<(Direction, String)> {
    let directions = DIRECTIONS.into_iter();
    let raised = directions.filter_map(|direction| {
        let limit = limits.of(direction)?;
        let asked = limit.burst?;
        let least = Shape::for_packets(&limit, USUAL_MTU, USUAL_GSO).burst;
        (asked < least).then(|| {
            let text = format!(
                "{asked} is too small for {} to be reached; {least} is in force",
                limit.rate
            );
            (direction, text)
        })
    });
    raised.collect()
}
