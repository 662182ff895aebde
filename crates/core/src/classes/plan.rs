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
    /// What was asked for, where the class could not keep it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked: Option<Ask>,
}

impl ClassPlan {
    /// One direction of one line, divided among classes and those pods and flows that ask for a part of
    /// their own. Where a class's pods ask for more than it is guaranteed, each has the same fraction of
    /// what it asked for. `None`: there is no such line.
    pub fn tree(&self, line: &str, direction: Direction) -> Option<Tree> {
        let shares = *self.lines.get(line)?.of(direction);
        let asking: Vec<_> = self.asking(direction).collect();
        let mut sums = BTreeMap::<TrafficClass, u128>::new();
        for (_, class, ask) in &asking {
            *sums.entry(*class).or_default() += u128::from(ask.min.bits_per_second());
        }
        let part = |(id, class, ask): (PartId, TrafficClass, Ask)| {
            let whole = shares.of(class);
            let there = u128::from(whole.min.bits_per_second());
            let asked = u128::from(ask.min.bits_per_second());
            let sum = sums[&class];
            // At most what was asked for, which is a u64.
            let min = if sum > there {
                asked * there / sum
            } else {
                asked
            } as u64;
            let min = BitRate::from_bits_per_second(min);
            let max = ask.max.unwrap_or(whole.max).min(whole.max);
            let share = Share {
                min: min.min(max),
                max,
            };
            let is_kept = share.min == ask.min && ask.max.is_none_or(|asked| asked == max);
            let part = Part {
                class,
                share,
                asked: (!is_kept).then_some(ask),
            };
            (id, part)
        };
        let parts = asking.into_iter().map(part).collect();
        Some(Tree { shares, parts })
    }

    /// Everybody who asks for a part of its own in this direction, and of which class.
    fn asking(
        &self,
        direction: Direction,
    ) -> impl Iterator<Item = (PartId, TrafficClass, Ask)> + '_ {
        self.pods.iter().flat_map(move |(uid, pod)| {
            let id = |flow| PartId {
                pod: uid.clone(),
                flow,
            };
            let whole = (id(None), pod.class, pod.asked.of(direction));
            let flows = (0..).zip(&pod.flows).filter_map(move |(number, flow)| {
                let class = flow.class.unwrap_or(pod.class);
                (flow.direction == direction).then(|| (id(Some(number)), class, flow.ask))
            });
            std::iter::once(whole)
                .chain(flows)
                .filter(|(_, _, ask)| !ask.is_nothing())
        })
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

    #[test]
    fn flows_have_parts_beside_their_pods() {
        let mut plan = plan(&[("a", TrafficClass::BestEffort, 10, None)]);
        let flow = |direction| FlowPart {
            direction,
            flow: FlowMatch {
                port: Some(80..=80),
                ..FlowMatch::default()
            },
            class: Some(TrafficClass::System),
            ask: Ask {
                min: mbit(40),
                max: None,
            },
            dscp: None,
        };
        let pod = plan.pods.get_mut("a").unwrap();
        pod.flows = vec![flow(Direction::Ingress), flow(Direction::Egress)];
        assert_eq!(parts(&plan), [(10, 100, false), (40, 100, false)]);
        let ingress = plan.tree("eth0", Direction::Ingress).unwrap();
        let only = ingress.parts.first_key_value().unwrap();
        assert_eq!((only.0.flow, only.1.class), (Some(0), TrafficClass::System));
    }
}
