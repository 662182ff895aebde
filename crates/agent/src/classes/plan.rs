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
    /// What objects say of what the lines carry: together, where they say that too, else each by itself.
    Slo(&'k NodeSlo),
    /// What another agent's file says of all lines together, whatever they carry by themselves.
    Files(&'k LineShares),
}

/// What a line has of what the lines have together: by what each carries by itself, where that is known
/// of all of them, or else all the same.
#[derive(Clone, Copy, Debug)]
struct Fraction {
    of: u64,
    whole: u64,
}

impl Fraction {
    fn of(speed: Option<BitRate>, speeds: &BTreeMap<Arc<str>, Option<BitRate>>) -> Self {
        let bits = speeds.values().map(|it| it.map(BitRate::bits_per_second));
        let sum: Option<u64> = bits.sum();
        match (speed, sum) {
            (Some(speed), Some(whole)) => Self {
                of: speed.bits_per_second(),
                whole,
            },
            _ => Self {
                of: 1,
                whole: speeds.len() as u64,
            },
        }
    }

    fn is_whole(self) -> bool {
        self.of == self.whole
    }
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
/// `speeds` are the lines, with what each carries by itself, where that is known. What is said of the
/// node goes before it: that is what they carry together, of which each has its part. It is not followed
/// where it is less than a hundredth of what their `cards` carry, where that is known. A line that cannot
/// be divided as it is said is divided as it was `last`.
/// Percentages in what a pod asks for are of the slowest line, so that each line can keep them.
pub fn plan(
    node: &str,
    division: Division<'_>,
    speeds: &BTreeMap<Arc<str>, Option<BitRate>>,
    cards: Option<BitRate>,
    pods: impl IntoIterator<Item = KnownPod>,
    last: &ClassPlan,
) -> (ClassPlan, Vec<Problem>) {
    let mut problems = Vec::new();
    let mut lines = BTreeMap::new();
    for (line, speed) in speeds {
        let was = last.lines.get(line);
        let fraction = Fraction::of(*speed, speeds);
        let (shares, wrong) = shares(division, line, *speed, cards, fraction, was);
        let object = ObjectRef::Node(node.to_owned());
        problems.extend(wrong.into_iter().map(|(reason, message)| Problem {
            object: object.clone(),
            reason,
            message,
        }));
        lines.extend(shares.map(|shares| (line.clone(), shares)));
    }
    let known = lines.values().filter(|it| !it.is_open());
    let of = known.map(|it| it.ingress.total).min();
    let is_open = of.is_none() && !lines.is_empty();
    let pods = pods.into_iter().map(|pod| {
        if is_open {
            problems.extend(of_nothing_known(&pod));
        }
        let pod = classed(pod, of);
        (pod.id.uid.clone(), pod)
    });
    let pods = pods.collect();
    let plan = ClassPlan { pods, lines };
    problems.extend(reduced(&plan));
    problems.sort();
    (plan, problems)
}

/// What a line is divided into, and what is wrong with what is said of it.
fn shares(
    division: Division<'_>,
    line: &str,
    speed: Option<BitRate>,
    cards: Option<BitRate>,
    fraction: Fraction,
    was: Option<&LineShares>,
) -> (Option<LineShares>, Vec<(Reason, String)>) {
    let slo = match division {
        Division::Slo(slo) => slo,
        Division::Files(shares) => {
            return (Some(shares.part(fraction.of, fraction.whole)), Vec::new());
        }
    };
    let was = was.filter(|was| !was.is_open()).copied();
    let stays = match was {
        Some(_) => "; it is shared as before",
        None => "",
    };
    if let Some(why) = too_small(slo, cards) {
        return (
            was,
            vec![(Reason::InvalidClasses, format!("{line}: {why}{stays}"))],
        );
    }
    let Some(total) = slo.total.or(speed) else {
        let then = match was {
            Some(_) => stays,
            None => ", and no percentage of it is in force; limits that are rates are",
        };
        let message = format!(
            "{line}: what it carries is not said, and its speed cannot be read, as of virtual links: \
             nothing of it can be guaranteed{then}. Say it in the node's annotation \
             {NODE_BANDWIDTH_ANNOTATION}, or in totalNetworkBandwidth of slo-controller-config"
        );
        let shares = was.unwrap_or_else(|| slo.open_shares());
        return (Some(shares), vec![(Reason::LineSpeedUnknown, message)]);
    };
    let is_one_of = slo.total.is_some() && !fraction.is_whole();
    match slo.shares(total) {
        Ok(shares) if is_one_of => (Some(shares.part(fraction.of, fraction.whole)), Vec::new()),
        Ok(shares) => (Some(shares), Vec::new()),
        Err(mistakes) => {
            let carries = match is_one_of {
                true => format!("of lines that carry {total} together"),
                false => format!("which carries {total}"),
            };
            let told = mistakes.iter().map(|mistake| {
                let message = format!("{line}, {carries}: {mistake}{stays}");
                (Reason::InvalidClasses, message)
            });
            (was, told.collect())
        }
    }
}

/// What is wrong with a total that is less than a hundredth of what the node's cards carry together.
pub(super) fn too_small(slo: &NodeSlo, cards: Option<BitRate>) -> Option<String> {
    let (total, cards) = slo.total.zip(cards)?;
    let is_less = total.bits_per_second().saturating_mul(100) < cards.bits_per_second();
    is_less.then(|| {
        let megabits = cards.bits_per_second() / 1_000_000;
        format!(
            "a total of {total} is less than 1 % of the {cards} that the network cards carry; write {megabits}M, or \
             what the node may have of it, in the node's annotation {NODE_BANDWIDTH_ANNOTATION} or in \
             totalNetworkBandwidth, or leave it out"
        )
    })
}

/// What a pod asks for in percent of what nobody knows.
fn of_nothing_known(pod: &KnownPod) -> Vec<Problem> {
    let asked = pod.class.asked();
    let whole = std::iter::once((String::new(), &asked.qos));
    let ports = asked.ports.iter();
    let ports = ports.map(|it| (format!(" for port {}", it.port), &it.qos));
    let mut problems = Vec::new();
    for (of, qos) in whole.chain(ports) {
        for direction in [Direction::Ingress, Direction::Egress] {
            let Wanted { request, limit } = *qos.of(direction);
            for (word, amount) in [("request", request), ("limit", limit)] {
                if let Some(Amount::Percent(percent @ 1..)) = amount {
                    problems.push(Problem {
                        object: ObjectRef::Pod(pod.id.name.clone()),
                        reason: Reason::LineSpeedUnknown,
                        message: format!(
                            "its {word} of {percent} % of {direction}{of} is not in force: what the \
                             node's lines carry is not known. A rate, like \"50M\", is kept as a limit"
                        ),
                    });
                }
            }
        }
    }
    problems
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
    for (line, shares) in &plan.lines {
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
                let limit = |limit: Option<BitRate>| limit.filter(|max| *max < min);
                let of_pod = pod.asked.of(direction).max.filter(|_| part.is_inside_pod);
                let why = if let Some(max) = limit(asked.max) {
                    format!("its limit is {max}")
                } else if let Some(max) = limit(of_pod) {
                    format!("the limit of its pod is {max}")
                } else if shares.is_open() {
                    "what that carries is not known".to_owned()
                } else if part.is_inside_pod {
                    "the flows of its pod ask for more together than that has".to_owned()
                } else {
                    format!(
                        "the pods of its class, {}, ask for more together than that has guaranteed",
                        part.class
                    )
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
pub(super) fn flow(pod: &ClassedPod, part: &PartId) -> Option<String> {
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
