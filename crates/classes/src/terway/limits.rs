//! What terway-qos is told of pods' limits, and what it would not follow.

use netqos_api::terway::{CgroupLimit, GlobalBps, PodEntry, PodRates};
use netqos_core::classes::{ClassPlan, ClassedPod, LineShares, PartId, TrafficClass};
use netqos_core::{BitRate, Direction};

use super::DIRECTIONS;
use crate::Trouble;

/// terway-qos takes less than one megabyte per second for no limit.
const LEAST: BitRate = BitRate::from_bits_per_second(8_000_000);

/// The pod's limits.
pub(super) fn rates(pod: &ClassedPod) -> PodRates {
    PodRates::of(pod.asked.ingress.max, pod.asked.egress.max)
}

/// `per_cgroup_bps_limit`: a line for each pod that has a limit.
pub(super) fn per_cgroup(entries: &[PodEntry]) -> String {
    let limited = entries
        .iter()
        .filter(|entry| entry.qos_config != PodRates::default());
    let lines = limited.map(|entry| {
        let limit = CgroupLimit {
            cgroup: entry.cgroup_dir.clone(),
            rx_bps: entry.qos_config.ingress_bandwidth,
            tx_bps: entry.qos_config.egress_bandwidth,
        };
        format!("{limit}\n")
    });
    lines.collect()
}

/// Says where terway-qos is told less than the shares.
pub(super) fn clamped(plan: &ClassPlan, shares: &LineShares, troubles: &mut Vec<Trouble>) {
    let (asked, told) = (GlobalBps::of_shares(shares), GlobalBps::for_terway(shares));
    let (l1, l2) = (TrafficClass::LatencySensitive, TrafficClass::BestEffort);
    let line = match plan.lines.len() {
        1 => plan.lines.keys().next().cloned(),
        _ => None,
    };
    for (direction, class, asked, told) in [
        (
            Direction::Egress,
            l1,
            asked.l1_tx_bps_max,
            told.l1_tx_bps_max,
        ),
        (
            Direction::Egress,
            l2,
            asked.l2_tx_bps_max,
            told.l2_tx_bps_max,
        ),
        (
            Direction::Ingress,
            l1,
            asked.l1_rx_bps_max,
            told.l1_rx_bps_max,
        ),
        (
            Direction::Ingress,
            l2,
            asked.l2_rx_bps_max,
            told.l2_rx_bps_max,
        ),
    ] {
        if told < asked {
            let rate = |bytes: u64| BitRate::from_bits_per_second(bytes.saturating_mul(8));
            troubles.push(Trouble {
                line: line.clone(),
                part: None,
                what: format!(
                    "{direction}: terway-qos refuses limits of {l1} and {l2} that are more than the \
                     line together: {class} is held to {} and not to {}",
                    rate(told),
                    rate(asked)
                ),
            });
        }
    }
}

/// Says what pods ask for and terway-qos does not do.
pub(super) fn untold(plan: &ClassPlan, troubles: &mut Vec<Trouble>) {
    for (uid, pod) in &plan.pods {
        let name = &pod.id.name;
        let mut say = |flow: Option<u16>, what: String| {
            troubles.push(Trouble {
                line: None,
                part: Some(PartId {
                    pod: uid.clone(),
                    flow,
                }),
                what,
            });
        };
        for direction in DIRECTIONS {
            let ask = pod.asked.of(direction);
            if ask.min > BitRate::default() {
                let what = format!(
                    "{name}: {direction}: terway-qos guarantees nothing to single pods, and {} were \
                     asked for",
                    ask.min
                );
                say(None, what);
            }
            if let Some(max) = ask.max.filter(|max| *max < LEAST) {
                let what = format!(
                    "{name}: {direction}: terway-qos takes a limit of {max} for none: it knows none \
                     below {LEAST}"
                );
                say(None, what);
            }
        }
        for (number, _) in (0..).zip(&pod.flows) {
            let what = format!("{name}: terway-qos has no parts of single flows");
            say(Some(number), what);
        }
    }
}
