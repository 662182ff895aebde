//! What a node's lines and the pods on them are to be held to, as plain data.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;

use super::{LineShares, Share, Shares, TrafficClass};
use crate::{BitRate, Direction, Dscp, PodId};

/// What the lines of one node are divided into, and whose traffic is whose.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClassPlan {
    /// The node's lines by the names of their links, and how each is shared.
    pub lines: BTreeMap<Arc<str>, LineShares>,
    /// The node's pods by uid. What belongs to none of them is the system's.
    pub pods: BTreeMap<Arc<str>, ClassedPod>,
}

/// A pod of the node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClassedPod {
    /// Which.
    pub id: PodId,
    /// Its class.
    pub class: TrafficClass,
    /// How its traffic is told from others'.
    pub place: Place,
    /// What it asks for by itself, in each direction.
    pub asked: Asked,
    /// What single flows of it have of their own; the first that matches decides.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub flows: Vec<FlowPart>,
}

/// How a pod's traffic is told from others'.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Place {
    /// It has no network of its own, and is told by the cgroup of the socket.
    pub host_network: bool,
    /// Its own addresses; none of a pod on the host's network.
    pub addresses: BTreeSet<IpAddr>,
    /// The host's ends of its interfaces, by name, where they have one.
    pub host_links: BTreeSet<Arc<str>>,
    /// Its cgroup, below the root of the hierarchy (`/kubepods.slice/…`), where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<PathBuf>,
}

/// What somebody asks for in both directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Asked {
    /// Of what comes to it.
    pub ingress: Ask,
    /// Of what it sends.
    pub egress: Ask,
}

/// What somebody asks for in one direction, inside of its class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Ask {
    /// What it is to be guaranteed; zero is nothing.
    pub min: BitRate,
    /// What it never exceeds. `None`: as much as its class may.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<BitRate>,
}

/// Flows of a pod that have a class or a part of their own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FlowPart {
    /// Which way they go.
    pub direction: Direction,
    /// Which flows.
    pub flow: FlowMatch,
    /// Their class; the pod's where it is not said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<TrafficClass>,
    /// What they ask for.
    pub ask: Ask,
    /// What they are marked with (RFC 2474).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dscp: Option<Dscp>,
}

/// Which flows of a pod are meant: those that all of this is true of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FlowMatch {
    /// The other side's address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer: Option<ipnet::IpNet>,
    /// The port on the pod: the source of what it sends, the destination of what it gets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<RangeInclusive<u16>>,
    /// The mark that packets come with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dscp: Option<Dscp>,
}

impl Asked {
    /// What is asked for in one direction.
    pub const fn of(&self, direction: Direction) -> Ask {
        match direction {
            Direction::Ingress => self.ingress,
            Direction::Egress => self.egress,
        }
    }
}

impl Ask {
    /// True when nothing is asked for.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// Who has a part of a line below its class: a pod, or flows of one by their place in
/// [`ClassedPod::flows`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct PartId {
    /// The pod's uid.
    pub pod: Arc<str>,
    /// `None`: the pod as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flow: Option<u16>,
}

/// One direction of one line, divided to the last part: what a tree of queues is made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Tree {
    /// The classes.
    pub shares: Shares,
    /// The parts below the classes. Their minima are never more than their class's.
    pub parts: BTreeMap<PartId, Part>,
}

/// A part of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Part {
    /// Of which class.
    pub class: TrafficClass,
    /// What it is guaranteed of the class's guarantee, and what it never exceeds.
    pub share: Share,
    /// It is a flow's, inside of the part that its pod has: of that guarantee, and below that limit.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_inside_pod: bool,
    /// What was asked for, where the class could not keep it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked: Option<Ask>,
}

impl ClassPlan {
    /// One direction of one line, divided among classes and those pods and flows that ask for a part of
    /// their own. Where a class's pods ask for more than it is guaranteed, each has the same fraction of
    /// what it asked for, and so have flows inside of their pod. `None`: there is no such line.
    pub fn tree(&self, line: &str, direction: Direction) -> Option<Tree> {
        let shares = *self.lines.get(line)?.of(direction);
        let mut parts = BTreeMap::new();
        let mut sums = BTreeMap::<TrafficClass, u128>::new();
        for (uid, pod) in &self.pods {
            for (flow, part) in pod.parts(direction, &shares) {
                if !part.is_inside_pod {
                    *sums.entry(part.class).or_default() += bits(part.share.min);
                }
                let pod = uid.clone();
                parts.insert(PartId { pod, flow }, part);
            }
        }
        for part in parts.values_mut().filter(|part| !part.is_inside_pod) {
            part.have_of(shares.of(part.class).min, sums[&part.class]);
        }
        for uid in self.pods.keys() {
            share_out(&mut parts, uid);
        }
        for part in parts.values_mut() {
            part.asked = part.asked.filter(|asked| !part.share.keeps(asked));
        }
        Some(Tree { shares, parts })
    }
}

/// Divides what a pod has among its flows.
fn share_out(parts: &mut BTreeMap<PartId, Part>, uid: &Arc<str>) {
    let id = |flow| PartId {
        pod: uid.clone(),
        flow,
    };
    let Some(whole) = parts.get(&id(None)).map(|part| part.share.min) else {
        return;
    };
    let flows = id(Some(0))..=id(Some(u16::MAX));
    let inside = |(_, part): &(&PartId, &mut Part)| part.is_inside_pod;
    let inner = parts.range_mut(flows.clone()).filter(inside);
    let sum = inner.map(|(_, part)| bits(part.share.min)).sum();
    for (_, part) in parts.range_mut(flows).filter(inside) {
        part.have_of(whole, sum);
    }
}

fn bits(rate: BitRate) -> u128 {
    rate.bits_per_second().into()
}

impl ClassedPod {
    /// What one of its flows, or all of it, has a part of its own for in this direction, and of which
    /// class. `None`: what it sends is its pod's where that is of the same class, or else its class's.
    ///
    /// A flow of another class is out of its pod's part, and not beyond its limit.
    pub fn part(&self, direction: Direction, flow: Option<u16>) -> Option<(TrafficClass, Ask)> {
        let whole = self.asked.of(direction);
        let (class, ask) = match flow {
            None => (self.class, whole),
            Some(number) => {
                let flow = self.flows.get(usize::from(number))?;
                if flow.direction != direction {
                    return None;
                }
                let mut ask = flow.ask;
                let class = flow.class.unwrap_or(self.class);
                if class != self.class {
                    ask.max = ask.max.into_iter().chain(whole.max).min();
                }
                (class, ask)
            }
        };
        (!ask.is_nothing()).then_some((class, ask))
    }

    /// All parts of it on a line of these shares, with what each wants of the one above it.
    fn parts(&self, direction: Direction, shares: &Shares) -> Vec<(Option<u16>, Part)> {
        let whole = self.part(direction, None);
        let mut whole = whole.map(|(class, ask)| Part::wanted(class, ask, shares.of(class).max));
        let flows = (0..).zip(&self.flows).filter_map(|(number, _)| {
            let (class, ask) = self.part(direction, Some(number))?;
            let above = whole.filter(|whole| whole.class == class);
            let most = above.map_or(shares.of(class).max, |whole| whole.share.max);
            let part = Part {
                is_inside_pod: above.is_some(),
                ..Part::wanted(class, ask, most)
            };
            Some((Some(number), part))
        });
        let flows: Vec<_> = flows.collect();
        if let Some(whole) = &mut whole {
            // What flows are to have is of the pod's.
            let inner = flows.iter().filter(|(_, part)| part.is_inside_pod);
            let inner = inner.map(|(_, part)| part.share.min.bits_per_second());
            let sum = BitRate::from_bits_per_second(inner.fold(0, u64::saturating_add));
            whole.share.min = whole.share.min.max(sum).min(whole.share.max);
        }
        let whole = whole.map(|whole| (None, whole));
        whole.into_iter().chain(flows).collect()
    }
}

impl Part {
    /// What this would have where nobody else asks, below one that may have so much.
    fn wanted(class: TrafficClass, ask: Ask, most: BitRate) -> Self {
        let max = ask.max.unwrap_or(most).min(most);
        Self {
            class,
            share: Share {
                min: ask.min.min(max),
                max,
            },
            is_inside_pod: false,
            asked: Some(ask),
        }
    }

    /// Cuts what it wants of what is there to the fraction that all who want of it can have.
    fn have_of(&mut self, there: BitRate, wanted: u128) {
        if wanted > bits(there) {
            // No more than it wanted, which is a u64.
            let min = bits(self.share.min) * bits(there) / wanted;
            self.share.min = BitRate::from_bits_per_second(min as u64);
        }
    }
}

impl Share {
    /// Whether who asks for this has it.
    fn keeps(&self, asked: &Ask) -> bool {
        self.min >= asked.min && asked.max.is_none_or(|max| max == self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ObjectName;

    const fn mbit(megabits: u64) -> BitRate {
        BitRate::from_bits_per_second(megabits * 1_000_000)
    }

    fn plan(asks: &[(&str, TrafficClass, u64, Option<u64>)]) -> ClassPlan {
        let share = |min| Share {
            min: mbit(min),
            max: mbit(100),
        };
        let shares = Shares::try_new(mbit(100), share(30), share(30)).unwrap();
        let pod = |&(uid, class, min, max): &(&str, TrafficClass, u64, Option<u64>)| {
            let egress = Ask {
                min: mbit(min),
                max: max.map(mbit),
            };
            let pod = ClassedPod {
                id: PodId {
                    name: ObjectName::new("games", uid),
                    uid: uid.into(),
                },
                class,
                place: Place::default(),
                asked: Asked {
                    egress,
                    ..Asked::default()
                },
                flows: Vec::new(),
            };
            (Arc::from(uid), pod)
        };
        ClassPlan {
            lines: BTreeMap::from([(
                "eth0".into(),
                LineShares {
                    ingress: shares,
                    egress: shares,
                },
            )]),
            pods: asks.iter().map(pod).collect(),
        }
    }

    fn parts(plan: &ClassPlan) -> Vec<(u64, u64, bool)> {
        let tree = plan.tree("eth0", Direction::Egress).unwrap();
        let numbers = |part: &Part| {
            let megabits = |rate: BitRate| rate.bits_per_second() / 1_000_000;
            (
                megabits(part.share.min),
                megabits(part.share.max),
                part.asked.is_some(),
            )
        };
        tree.parts.values().map(numbers).collect()
    }

    #[test]
    fn who_asks_for_nothing_has_no_part_of_its_own() {
        let plan = plan(&[("a", TrafficClass::BestEffort, 0, None)]);
        assert_eq!(parts(&plan), []);
        assert_eq!(plan.tree("eth1", Direction::Egress), None);
    }

    #[test]
    fn pods_never_have_more_guaranteed_than_their_class() {
        let l1 = TrafficClass::LatencySensitive;
        let l2 = TrafficClass::BestEffort;
        // 40 are asked for of 30 in l1: each has three quarters. l2 is as it was asked for.
        let plan = plan(&[
            ("a", l1, 30, Some(50)),
            ("b", l1, 10, None),
            ("c", l2, 10, Some(20)),
            ("d", l2, 0, Some(200)),
        ]);
        let expected = [
            (22, 50, true),
            (7, 100, true),
            (10, 20, false),
            (0, 100, true),
        ];
        assert_eq!(parts(&plan), expected);
        assert_eq!(
            plan.tree("eth0", Direction::Ingress).unwrap().parts,
            BTreeMap::new()
        );
    }

    /// Flows of `a` with these classes, guarantees and limits of what it sends.
    fn with_flows(
        mut plan: ClassPlan,
        flows: &[(Option<TrafficClass>, u64, Option<u64>)],
    ) -> ClassPlan {
        let flow = |&(class, min, max): &(Option<TrafficClass>, u64, Option<u64>)| FlowPart {
            direction: Direction::Egress,
            flow: FlowMatch {
                port: Some(80..=80),
                ..FlowMatch::default()
            },
            class,
            ask: Ask {
                min: mbit(min),
                max: max.map(mbit),
            },
            dscp: None,
        };
        let pod = plan.pods.get_mut("a").unwrap();
        pod.flows = flows.iter().map(flow).collect();
        plan
    }

    #[test]
    fn flows_have_parts_in_their_direction() {
        let plan = plan(&[("a", TrafficClass::BestEffort, 10, None)]);
        let mut plan = with_flows(plan, &[(Some(TrafficClass::System), 40, None); 2]);
        plan.pods.get_mut("a").unwrap().flows[0].direction = Direction::Ingress;
        assert_eq!(parts(&plan), [(10, 100, false), (40, 100, false)]);
        let ingress = plan.tree("eth0", Direction::Ingress).unwrap();
        let only = ingress.parts.first_key_value().unwrap();
        assert_eq!((only.0.flow, only.1.class), (Some(0), TrafficClass::System));
    }

    #[test]
    fn a_pods_limit_holds_for_all_of_its_flows() {
        let (system, l1, l2) = (
            TrafficClass::System,
            TrafficClass::LatencySensitive,
            TrafficClass::BestEffort,
        );
        // Whole: guarantee, limit; flows; all parts with whether they are inside of the pod's.
        for (whole, flows, expected) in [
            // Of the pod's guarantee, and no more than the pod may have.
            (
                (10, Some(20)),
                &[(None, 4, None), (Some(l2), 2, Some(50))][..],
                &[(10, 20, false), (4, 20, true), (2, 20, true)][..],
            ),
            // What flows are guaranteed is the pod's at least, and no more than its limit.
            (
                (0, Some(20)),
                &[(None, 15, Some(16))],
                &[(15, 20, false), (15, 16, true)],
            ),
            (
                (0, Some(20)),
                &[(None, 15, None), (None, 45, None)],
                &[(20, 20, false), (8, 20, true), (11, 20, true)],
            ),
            // Those of another class have the same limit there, also where they ask for nothing.
            (
                (10, Some(20)),
                &[
                    (Some(l1), 5, Some(50)),
                    (Some(system), 0, None),
                    (None, 0, None),
                ],
                &[(10, 20, false), (5, 20, false), (0, 20, false)],
            ),
            ((10, None), &[(Some(l1), 0, None)], &[(10, 100, false)]),
            // A pod that asks for nothing has no part that they could be inside of.
            ((0, None), &[(None, 5, Some(50))], &[(5, 50, false)]),
            // The class has 30.
            (
                (0, Some(90)),
                &[(None, 30, None), (None, 30, None)],
                &[(30, 90, false), (15, 90, true), (15, 90, true)],
            ),
        ] {
            let plan = with_flows(plan(&[("a", l2, whole.0, whole.1)]), flows);
            let tree = plan.tree("eth0", Direction::Egress).unwrap();
            let megabits = |rate: BitRate| rate.bits_per_second() / 1_000_000;
            let found: Vec<_> = tree
                .parts
                .values()
                .map(|part| {
                    let share = part.share;
                    (megabits(share.min), megabits(share.max), part.is_inside_pod)
                })
                .collect();
            assert_eq!(found, expected, "{whole:?} {flows:?}");
        }
    }
}
