//! Peers: one entry for each address, which names its class.
//!
//! A rule list that goes and the one that replaces it may go to other sets. A peer that got its new
//! class before the switch would be nobody's to the old list, and one that got it afterwards
//! nobody's to the new one. So it takes a *detour*: a class made for the meantime, which is to the
//! lists that go what the peer's old class was, and to the others what the new one is.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

use netqos_bpf::rules::{Bitmap, ClassKey};
use netqos_core::plan::{ByAddress, ClassId, SetId};
use netqos_core::{Digest, NetworkKey, NodePlan, PlanDelta};

use super::chains::put;
use super::engine::RuleDatapath;
use super::problems::Subject;
use crate::Result;

/// From so many on, peers are written together.
const MANY: usize = 64;

/// Peers of one network, and what becomes of each; `None`: it goes.
type Changes = Vec<(IpAddr, Option<ClassId>)>;

/// The detours that peers are on.
#[derive(Debug, Default)]
pub(super) struct Detours {
    /// What they become when nobody goes by the old rule lists any more.
    later: ByAddress<Option<ClassId>>,
    /// The classes made for the meantime, and which class each is to other rule lists.
    classes: BTreeMap<u64, Option<ClassId>>,
}

impl Detours {
    /// The classes made for the meantime, and the sets that each is to rule lists of the plan.
    pub(super) fn classes<'p>(
        &self,
        plan: &'p NodePlan,
    ) -> impl Iterator<Item = (u64, &'p BTreeSet<SetId>)> {
        let classes = self.classes.iter();
        classes.filter_map(|(class, goal)| Some((*class, plan.classes.get(&(*goal)?)?)))
    }

    /// True when no peer is on one.
    pub(super) fn is_empty(&self) -> bool {
        self.later.is_empty() && self.classes.is_empty()
    }

    /// True when peers may have this class.
    pub(super) fn uses(&self, class: u64) -> bool {
        self.classes.contains_key(&class)
    }
}

impl RuleDatapath {
    /// Adds to a change from nothing the peers that are in the kernel and not in the plan.
    pub(super) fn add_leftover_peers(&mut self, plan: &NodePlan, delta: &mut PlanDelta) {
        let mut networks: BTreeSet<&NetworkKey> = plan.peers.networks().collect();
        networks.extend(plan.endpoints.keys().map(|id| &id.network));
        for network in networks {
            let number = self.networks.of(network);
            match self.rules.networks.all(number) {
                Ok(there) => {
                    for (address, _) in there {
                        if delta.peers.get(network, address).is_none() {
                            delta.peers.insert(network, address, None);
                        }
                    }
                }
                Err(error) => {
                    let subject = Subject::Peers(network.clone());
                    self.problems.note(subject, Err(error.into()));
                }
            }
        }
    }

    /// Writes the classes of peers that change, as far as rule lists that go allow.
    pub(super) fn write_peers(
        &mut self,
        plan: &NodePlan,
        delta: &PlanDelta,
        going: &BTreeSet<u64>,
    ) {
        for network in delta.peers.networks() {
            let changes = delta.peers.on(network);
            let changes = changes.map(|(address, class)| (address, *class)).collect();
            let written = self.write_network(plan, network, changes, going);
            let subject = Subject::Peers(network.clone());
            self.problems.note(subject, written);
        }
    }

    fn write_network(
        &mut self,
        plan: &NodePlan,
        network: &NetworkKey,
        changes: Changes,
        going: &BTreeSet<u64>,
    ) -> Result<()> {
        let number = self.networks.of(network);
        let there = self.peers_there(number, &changes)?;
        let mut detours = HashMap::new();
        let mut due = Vec::with_capacity(changes.len());
        for (address, goal) in changes {
            let before = there.get(&address).copied();
            let class = match before {
                Some(before) if !going.is_empty() => match detours.get(&(before, goal)) {
                    Some(known) => *known,
                    None => {
                        let class = self.detour(plan, before, goal, going)?;
                        detours.insert((before, goal), class);
                        class
                    }
                },
                _ => number_of(goal),
            };
            match class == number_of(goal) {
                true => self.detours.later.remove(network, address),
                false => self.detours.later.insert(network, address, goal),
            };
            due.push((address, class));
        }
        self.put_peers(number, &there, due)
    }

    /// The class that a peer has until nobody goes by rule lists that go.
    fn detour(
        &mut self,
        plan: &NodePlan,
        before: u64,
        goal: Option<ClassId>,
        going: &BTreeSet<u64>,
    ) -> Result<Option<u64>> {
        let classes = &self.rules.classes;
        let to_them = |class: u64| -> Result<Vec<(u64, Bitmap)>> {
            let mut found = Vec::new();
            for chain in going {
                let bitmap = classes.get(&ClassKey::new(*chain, class))?;
                found.extend(bitmap.map(|bitmap| (*chain, bitmap)));
            }
            Ok(found)
        };
        let old = to_them(before)?;
        let new = number_of(goal).map_or(Ok(Vec::new()), to_them)?;
        if old.is_empty() || old == new {
            return Ok(number_of(goal));
        }
        // Named by what it is: whoever finds it after a restart makes the same of it.
        let what: Vec<_> = old.iter().map(|(id, bits)| (id, bits.words())).collect();
        let class = Digest::of(&(what, goal)).get();
        self.retired.classes.remove(&class);
        for (chain, bitmap) in &old {
            let key = ClassKey::new(*chain, class);
            put(&self.rules.classes, &key, bitmap, &mut self.changes)?;
        }
        let sets = goal.and_then(|goal| plan.classes.get(&goal));
        for (id, tables) in &mut self.chains {
            if going.contains(&id.0.get()) {
                tables.classes.insert(class);
            } else if let Some((key, bitmap)) = sets.and_then(|sets| tables.class(class, sets)) {
                put(&self.rules.classes, &key, &bitmap, &mut self.changes)?;
                tables.classes.insert(class);
            }
        }
        self.detours.classes.insert(class, goal);
        Ok(Some(class))
    }

    /// Ends the detours: nobody goes by rule lists any more that go, and no program has one in hand.
    pub(super) fn end_detours(&mut self) -> Result<()> {
        let networks: Vec<NetworkKey> = self.detours.later.networks().cloned().collect();
        for network in networks {
            let later = self.detours.later.on(&network);
            let changes = later.map(|(address, class)| (address, *class)).collect();
            let number = self.networks.of(&network);
            let there = self.peers_there(number, &changes)?;
            let due = changes.into_iter();
            let due = due.map(|(address, class)| (address, number_of(class)));
            self.put_peers(number, &there, due.collect())?;
        }
        let Detours { classes, .. } = std::mem::take(&mut self.detours);
        self.retired.classes.extend(classes.into_keys());
        Ok(())
    }

    /// Which of these addresses are in the kernel already, with which class.
    fn peers_there(&mut self, network: u32, of: &Changes) -> Result<HashMap<IpAddr, u64>> {
        let networks = &mut self.rules.networks;
        if networks.is_empty(network)? {
            return Ok(HashMap::new());
        }
        let mut there = HashMap::with_capacity(of.len());
        for (address, _) in of {
            if let Some(class) = networks.get(network, *address)? {
                there.insert(*address, class);
            }
        }
        Ok(there)
    }

    /// Writes what is not so already.
    fn put_peers(
        &mut self,
        network: u32,
        there: &HashMap<IpAddr, u64>,
        due: Vec<(IpAddr, Option<u64>)>,
    ) -> Result<()> {
        let networks = &mut self.rules.networks;
        let (mut other, mut gone) = (Vec::new(), Vec::new());
        for (address, class) in due {
            match (there.get(&address), class) {
                (Some(before), Some(class)) if *before == class => {}
                (before, Some(class)) => {
                    if before.is_some() {
                        self.grace.note_replaced();
                    }
                    other.push((address, class));
                }
                (Some(_), None) => gone.push(address),
                (None, None) => {}
            }
        }
        networks.remove_all(network, &gone)?;
        self.changes += gone.len() as u64;
        if other.len() < MANY {
            for (address, class) in other {
                self.changes += networks.put(network, address, class)?;
            }
            return Ok(());
        }
        let is_fresh = |(address, _): &&(IpAddr, u64)| !there.contains_key(address);
        let fresh = other.iter().filter(is_fresh).count();
        networks.put_all(network, &other, fresh)?;
        self.changes += other.len() as u64;
        Ok(())
    }
}

fn number_of(class: Option<ClassId>) -> Option<u64> {
    class.map(|class| class.0.get())
}
