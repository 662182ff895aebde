//! The numbers by which the programs know pods and parts, written down before they are used.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use netqos_bpf::classes::{MOST_PODS, Slot};
use netqos_core::Direction;
use netqos_core::classes::{ClassPlan, PartId, TrafficClass};
use netqos_datapath::{Documents, Paths};
use serde::{Deserialize, Serialize};

use crate::{Error, Result, Trouble};

/// The document's name.
const NAME: &str = "classes";

/// What is written down.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Written {
    /// Pods by uid.
    pods: BTreeMap<Arc<str>, u16>,
    /// Parts.
    parts: Vec<WrittenPart>,
    /// Links of pods whose clsact is ours.
    clsact: BTreeSet<Arc<str>>,
}

/// A part. One that comes to be below another class, or in or out of its pod's part, has another slot: HTB
/// moves no class, and what waits in the old one is to go out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct WrittenPart {
    pod: Arc<str>,
    flow: Option<u16>,
    class: TrafficClass,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_inside_pod: bool,
    slot: u16,
}

/// What came of giving numbers.
#[derive(Debug, Default)]
pub(super) struct Assigned {
    /// Somebody has one that had none.
    pub(super) is_new: bool,
    /// Who has none, since there are not so many.
    pub(super) left_out: Vec<Trouble>,
}

/// The numbers of pods and parts.
#[derive(Debug)]
pub(super) struct Numbers {
    documents: Documents,
    written: Written,
}

impl Numbers {
    /// Those that an earlier process wrote down.
    pub(super) fn open(paths: &Paths) -> Result<Self> {
        let documents = Documents::new(paths.run().to_owned());
        let written = documents.read(NAME).map_err(Error::Numbers)?;
        Ok(Self {
            written: written.unwrap_or_default(),
            documents,
        })
    }

    /// The number of a pod, from 1.
    pub(super) fn pod(&self, uid: &str) -> Option<u16> {
        self.written.pods.get(uid).copied()
    }

    /// The slots of parts.
    pub(super) fn slots(&self) -> BTreeMap<PartId, Slot> {
        let parts = self.written.parts.iter();
        parts.map(|part| (part.id(), Slot(part.slot))).collect()
    }

    /// The parts of slots.
    pub(super) fn parts(&self) -> BTreeMap<Slot, PartId> {
        self.slots()
            .into_iter()
            .map(|(part, slot)| (slot, part))
            .collect()
    }

    /// Gives a number to every pod and part of a plan that has none; those of others stay taken.
    pub(super) fn assign(&mut self, plan: &ClassPlan) -> Result<Assigned> {
        let mut next = self.written.clone();
        let mut left_out = Vec::new();
        let mut leave_out = |part: &PartId, what: &str| {
            left_out.push(Trouble {
                line: None,
                part: Some(part.clone()),
                what: what.to_owned(),
            });
        };
        let taken: BTreeSet<u16> = next.pods.values().copied().collect();
        let mut free = (1..=MOST_PODS).filter(|number| !taken.contains(number));
        for uid in plan
            .pods
            .keys()
            .filter(|uid| !self.written.pods.contains_key(*uid))
        {
            let Some(number) = free.next() else {
                let pod = PartId {
                    pod: uid.clone(),
                    flow: None,
                };
                let what =
                    "there are more pods than can be told apart; its traffic is the system's";
                leave_out(&pod, what);
                continue;
            };
            next.pods.insert(uid.clone(), number);
        }
        // A slot that is given up here stays taken until the next time.
        let taken: BTreeSet<u16> = next.parts.iter().map(|part| part.slot).collect();
        let wanted = wanted(plan);
        let moves = |part: &WrittenPart| {
            let is = (part.class, part.is_inside_pod);
            wanted.get(&part.id()).is_some_and(|it| *it != is)
        };
        next.parts.retain(|part| !moves(part));
        let known: BTreeSet<PartId> = next.parts.iter().map(WrittenPart::id).collect();
        let all = Slot::FIRST_FREE.0..=Slot::LAST.0;
        let mut free = all.filter(|slot| !taken.contains(slot));
        let others = wanted.iter().filter(|(part, _)| !known.contains(part));
        for (part, &(class, is_inside_pod)) in others {
            let Some(slot) = free.next() else {
                leave_out(
                    part,
                    "there are more parts of their own than can be told apart; it has none",
                );
                continue;
            };
            next.parts.push(WrittenPart {
                pod: part.pod.clone(),
                flow: part.flow,
                class,
                is_inside_pod,
                slot,
            });
        }
        Ok(Assigned {
            is_new: self.write(next)?,
            left_out,
        })
    }

    /// Forgets the numbers of what is not of a plan.
    pub(super) fn retain(&mut self, plan: &ClassPlan) -> Result<bool> {
        let mut next = self.written.clone();
        let wanted = wanted(plan);
        next.pods.retain(|uid, _| plan.pods.contains_key(uid));
        let links: BTreeSet<_> = plan
            .pods
            .values()
            .flat_map(|pod| &pod.place.host_links)
            .collect();
        next.clsact.retain(|link| links.contains(link));
        next.parts.retain(|part| wanted.contains_key(&part.id()));
        self.write(next)
    }

    /// The links of pods whose clsact is ours.
    pub(super) fn clsact(&self) -> &BTreeSet<Arc<str>> {
        &self.written.clsact
    }

    /// Writes down whose clsact is ours.
    pub(super) fn set_clsact(&mut self, links: BTreeSet<Arc<str>>) -> Result<()> {
        let next = Written {
            clsact: links,
            ..self.written.clone()
        };
        self.write(next).map(drop)
    }

    /// Forgets everything.
    pub(super) fn forget(&mut self) -> Result<()> {
        self.documents.remove(NAME).map_err(Error::Numbers)?;
        self.written = Written::default();
        Ok(())
    }

    fn write(&mut self, next: Written) -> Result<bool> {
        if next == self.written {
            return Ok(false);
        }
        self.documents.write(NAME, &next).map_err(Error::Numbers)?;
        self.written = next;
        Ok(true)
    }
}

impl WrittenPart {
    fn id(&self) -> PartId {
        PartId {
            pod: self.pod.clone(),
            flow: self.flow,
        }
    }
}

/// The parts of any direction of any line, their classes, and whether they are inside of their pods'.
fn wanted(plan: &ClassPlan) -> BTreeMap<PartId, (TrafficClass, bool)> {
    let lines = plan.lines.keys();
    let trees = lines.flat_map(|line| {
        let tree = |direction| plan.tree(line, direction);
        [Direction::Ingress, Direction::Egress]
            .into_iter()
            .filter_map(tree)
    });
    let parts = trees.flat_map(|tree| tree.parts);
    parts
        .map(|(id, part)| (id, (part.class, part.is_inside_pod)))
        .collect()
}

#[cfg(test)]
mod tests {
    use netqos_core::classes::{
        Ask, Asked, ClassedPod, FlowMatch, FlowPart, LineShares, Place, Share, Shares,
    };
    use netqos_core::{BitRate, ObjectName, PodId};

    use super::*;

    const fn mbit(megabits: u64) -> BitRate {
        BitRate::from_bits_per_second(megabits * 1_000_000)
    }

    /// So many pods with a part of their own each, and with so many flows that have one, too.
    fn plan(pods: u16, flows: u16) -> ClassPlan {
        let total = mbit(1000);
        let shares = Shares::try_new(total, Share::up_to(total), Share::up_to(total)).unwrap();
        let egress = Ask {
            min: mbit(0),
            max: Some(mbit(10)),
        };
        let flow = |port: u16| FlowPart {
            direction: Direction::Egress,
            flow: FlowMatch {
                port: Some(port..=port),
                ..FlowMatch::default()
            },
            class: None,
            ask: egress,
            dscp: None,
        };
        let pod = |number: u16| {
            let uid: Arc<str> = format!("uid-{number:05}").into();
            let pod = ClassedPod {
                id: PodId {
                    name: ObjectName::new("games", &uid),
                    uid: uid.clone(),
                },
                class: TrafficClass::BestEffort,
                place: Place::default(),
                asked: Asked {
                    egress,
                    ..Asked::default()
                },
                flows: (1..=flows).map(flow).collect(),
            };
            (uid, pod)
        };
        let line = LineShares {
            ingress: shares,
            egress: shares,
        };
        ClassPlan {
            lines: [("eth0".into(), line)].into(),
            pods: (0..pods).map(pod).collect(),
        }
    }

    fn left_out(assigned: &Assigned) -> Vec<&str> {
        assigned.left_out.iter().map(|it| &*it.what).collect()
    }

    #[test]
    fn who_comes_when_all_numbers_are_taken_has_none_and_takes_none_from_others() {
        let run = tempfile::tempdir().unwrap();
        let run = run.path().to_str().unwrap().to_owned();
        let paths = Paths::from_variables(|name| (name == "NETQOS_RUN_DIR").then(|| run.clone()));
        let mut numbers = Numbers::open(&paths).unwrap();
        assert_eq!(numbers.assign(&plan(MOST_PODS, 0)).unwrap().left_out, []);
        let first = numbers.pod("uid-00000");
        let assigned = numbers.assign(&plan(MOST_PODS + 2, 0)).unwrap();
        let one = "there are more pods than can be told apart; its traffic is the system's";
        assert_eq!(left_out(&assigned), [one, one]);
        assert_eq!(numbers.pod("uid-00000"), first);
        assert_eq!(numbers.pod(&format!("uid-{:05}", MOST_PODS + 1)), None);
    }

    #[test]
    fn what_comes_when_all_parts_are_taken_has_none_and_takes_none_from_others() {
        const FLOWS: u16 = 14;
        let run = tempfile::tempdir().unwrap();
        let run = run.path().to_str().unwrap().to_owned();
        let paths = Paths::from_variables(|name| (name == "NETQOS_RUN_DIR").then(|| run.clone()));
        let mut numbers = Numbers::open(&paths).unwrap();
        let slots = Slot::LAST.0 - Slot::FIRST_FREE.0 + 1;
        let pods = slots / (FLOWS + 1);
        assert_eq!(numbers.assign(&plan(pods, FLOWS)).unwrap().left_out, []);
        let before = numbers.slots();
        let assigned = numbers.assign(&plan(pods + 2, FLOWS)).unwrap();
        let one = "there are more parts of their own than can be told apart; it has none";
        let none = left_out(&assigned);
        assert_eq!(none.len(), usize::from((pods + 2) * (FLOWS + 1) - slots));
        assert!(none.iter().all(|what| *what == one));
        let now = numbers.slots();
        assert!(
            before
                .iter()
                .all(|(part, slot)| now.get(part) == Some(slot))
        );
        assert!(numbers.pod(&format!("uid-{:05}", pods + 1)).is_some());
    }
}
