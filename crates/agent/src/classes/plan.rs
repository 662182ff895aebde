//! From what is known to what is to be in force. No I/O, and nothing is remembered.

use std::collections::BTreeMap;
use std::sync::Arc;

use netqos_api::koordinator::net_files::NetPod;
use netqos_api::koordinator::{
    Amount, Ask as Wanted, NODE_BANDWIDTH_ANNOTATION, NetworkQos, NodeSlo, PodClass,
};
use netqos_core::classes::{
    Ask, Asked, ClassPlan, ClassedPod, FlowMatch, FlowPart, LineShares, PartId, Place,
};
use netqos_core::{BitRate, Direction, ObjectRef, PodId, Problem, Reason};

/// What a node's lines are divided into.
#[derive(Clone, Copy, Debug)]
pub enum Division<'k> {
    /// What objects say, of what each line carries.
    Slo(&'k NodeSlo),
    /// What another agent's file says: each line exactly so, whatever it carries by itself.
    Files(&'k LineShares),
}

/// A pod, with what is known of its part of the lines.
#[derive(Clone, Debug)]
pub struct KnownPod {
    /// Which.
    pub id: PodId,
    /// What it says itself.
    pub class: PodClass,
    /// What another agent's file says of it, which counts where it says nothing itself.
    pub filed: Option<NetPod>,
    /// How its traffic is told from others'.
    pub place: Place,
}

/// What a node's lines and the pods on them are to be held to, and what is wrong with that.
///
/// `speeds` are the lines, with what each carries by itself, where that is known; what is said of the
/// node goes before it. A line that cannot be divided as it is said is divided as it was `last`.
/// Percentages in what a pod asks for are of the slowest line, so that each line can keep them.
pub fn plan(
    node: &str,
    division: Division<'_>,
    speeds: &BTreeMap<Arc<str>, Option<BitRate>>,
    pods: impl IntoIterator<Item = KnownPod>,
    last: &ClassPlan,
) -> (ClassPlan, Vec<Problem>) {
    let mut problems = Vec::new();
    let mut lines = BTreeMap::new();
    for (line, speed) in speeds {
        let was = last.lines.get(line);
        match shares(division, line, *speed, was.is_some()) {
            Ok(shares) => {
                lines.insert(line.clone(), shares);
            }
            Err(wrong) => {
                let object = ObjectRef::Node(node.to_owned());
                problems.extend(wrong.into_iter().map(|(reason, message)| Problem {
                    object: object.clone(),
                    reason,
                    message,
                }));
                lines.extend(was.map(|was| (line.clone(), *was)));
            }
        }
    }
    let totals = lines.values().map(|it| it.ingress.total);
    let of = totals.min();
    let pods = pods.into_iter().map(|pod| {
        let pod = classed(pod, of);
        (pod.id.uid.clone(), pod)
    });
    let plan = ClassPlan {
        pods: pods.collect(),
        lines,
    };
    problems.extend(reduced(&plan));
    problems.sort();
    (plan, problems)
}

fn shares(
    division: Division<'_>,
    line: &str,
    speed: Option<BitRate>,
    was_shared: bool,
) -> Result<LineShares, Vec<(Reason, String)>> {
    let slo = match division {
        Division::Slo(slo) => slo,
        Division::Files(shares) => return Ok(*shares),
    };
    let stays = match was_shared {
        true => "; it is shared as before",
        false => "",
    };
    let Some(total) = slo.total.or(speed) else {
        let message = format!(
            "{line}: what it carries is not said, and its speed cannot be read, as of virtual links: \
             nothing of it can be guaranteed{stays}. Say it in the node's annotation \
             {NODE_BANDWIDTH_ANNOTATION}, or in totalNetworkBandwidth of slo-controller-config"
        );
        return Err(vec![(Reason::LineSpeedUnknown, message)]);
    };
    slo.shares(total).map_err(|mistakes| {
        let told = mistakes.iter().map(|mistake| {
            let message = format!("{line}, which carries {total}: {mistake}{stays}");
            (Reason::InvalidClasses, message)
        });
        told.collect()
    })
}

fn classed(pod: KnownPod, of: Option<BitRate>) -> ClassedPod {
    let KnownPod {
        id,
        class,
        filed,
        place,
    } = pod;
    let asked = class.asked();
    let mut flows = Vec::new();
    for port in &asked.ports {
        for direction in [Direction::Ingress, Direction::Egress] {
            let ask = ask(port.qos.of(direction), of);
            if port.class.is_none() && ask.is_nothing() {
                continue;
            }
            flows.push(FlowPart {
                direction,
                flow: FlowMatch {
                    port: Some(port.port.get()..=port.port.get()),
                    ..FlowMatch::default()
                },
                class: port.class,
                ask,
                dscp: None,
            });
        }
    }
    let mut own = ClassedPod {
        id,
        class: class.class(),
        place,
        asked: both(&asked.qos, of),
        flows,
    };
    if let Some(filed) = filed {
        own.class = class.said().unwrap_or(filed.class);
        fill(
            &mut own.asked.ingress,
            &asked.qos.ingress,
            filed.asked.ingress,
        );
        fill(&mut own.asked.egress, &asked.qos.egress, filed.asked.egress);
        // The first that matches decides.
        own.flows.extend(filed.flows);
    }
    own
}

/// Takes what the pod does not say itself from the file.
fn fill(own: &mut Ask, said: &Wanted, filed: Ask) {
    if said.request.is_none() {
        own.min = filed.min;
    }
    if said.limit.is_none() {
        own.max = filed.max;
    }
}

fn both(qos: &NetworkQos, of: Option<BitRate>) -> Asked {
    Asked {
        ingress: ask(&qos.ingress, of),
        egress: ask(&qos.egress, of),
    }
}

/// A limit of nothing is none, as Koordinator has it.
fn ask(wanted: &Wanted, of: Option<BitRate>) -> Ask {
    let rate = |amount: Amount| match (amount, of) {
        (Amount::Rate(rate), _) => Some(rate),
        (part, Some(total)) => Some(part.of(total)),
        (Amount::Percent(_), None) => None,
    };
    let limit = wanted.limit.and_then(rate);
    Ask {
        min: wanted.request.and_then(rate).unwrap_or_default(),
        max: limit.filter(|limit| limit.bits_per_second() > 0),
    }
}

/// Those who have less guaranteed than they ask for.
fn reduced(plan: &ClassPlan) -> Vec<Problem> {
    let mut problems = Vec::new();
    for line in plan.lines.keys() {
        for direction in [Direction::Ingress, Direction::Egress] {
            let parts = plan.tree(line, direction).into_iter();
            for (id, part) in parts.flat_map(|tree| tree.parts) {
                let (Some(asked), Some(pod)) = (part.asked, plan.pods.get(&id.pod)) else {
                    continue;
                };
                let (has, min) = (part.share.min, asked.min);
                if has >= min {
                    continue;
                }
                let why = match asked.max.filter(|max| *max < min) {
                    Some(max) => format!("its limit is {max}"),
                    None => format!(
                        "the pods of its class, {}, ask for more together than that has guaranteed",
                        part.class
                    ),
                };
                let of = flow(pod, &id).map_or_else(String::new, |flow| format!(" for {flow}"));
                problems.push(Problem {
                    object: ObjectRef::Pod(pod.id.name.clone()),
                    reason: Reason::GuaranteeReduced,
                    message: format!(
                        "{has} of the {min} of {direction} that it asks for{of} are guaranteed on {line}: \
                         {why}"
                    ),
                });
            }
        }
    }
    problems
}

/// The flows that a part is of, in words, unless it is all of the pod.
fn flow(pod: &ClassedPod, part: &PartId) -> Option<String> {
    let FlowMatch { peer, port, dscp } = &pod.flows.get(usize::from(part.flow?))?.flow;
    let port = port.as_ref().map(|port| match (port.start(), port.end()) {
        (first, last) if first == last => format!("port {first}"),
        (first, last) => format!("ports {first}-{last}"),
    });
    let peer = peer.map(|peer| format!("peer {peer}"));
    let dscp = dscp.map(|dscp| format!("DSCP {dscp}"));
    let words: Vec<String> = [port, peer, dscp].into_iter().flatten().collect();
    Some(match words.is_empty() {
        true => "some flows".to_owned(),
        false => words.join(", "),
    })
}
