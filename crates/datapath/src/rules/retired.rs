//! What a change leaves in the kernel because a program that still runs may have read it.
//!
//! ```text
//!  change: switch ─► retire ─► done ─► RCU grace period ─► remove
//! ```
//!
//! A grace period takes some 8 ms. The agent waits for it 100 ms after something was retired. A change waits for it in three
//! cases. Peers that change would need another class for each rule list that a program may still have in hand. A rule list
//! that comes again would give peers on a detour what it gave them before. And what is retired takes room, which the next
//! changes need.

use std::collections::{BTreeMap, BTreeSet};

use netqos_bpf::rules::{ClassKey, wait_for_programs};
use netqos_core::plan::{ChainId, RuleId};
use netqos_core::{NodePlan, PlanDelta};

use super::Outcome;
use super::engine::RuleDatapath;
use super::meters::{self, Meter};
use super::peers::Detours;
use super::problems::Subject;
use super::tables::{ChainTables, rule_number};
use crate::Result;
use crate::error::Errors;

/// The most rule lists, meters and classes that may be retired when a change begins.
const MOST_RETIRED: usize = 64;

/// What is in the kernel and not used any more.
#[derive(Debug, Default)]
pub(super) struct Retired {
    /// Rule lists that no endpoint goes by.
    pub(super) chains: BTreeMap<ChainId, ChainTables>,
    /// Meters that only those name.
    pub(super) meters: BTreeMap<RuleId, Meter>,
    /// Classes that no peer has. Rule lists of the plan have entries for them.
    pub(super) classes: BTreeSet<u64>,
}

/// Whether a program may have in hand what was replaced: chains of endpoints and classes of peers.
#[derive(Debug, Default)]
pub(super) struct Grace {
    /// No program has. An earlier process may have ended before it waited.
    is_over: bool,
    /// The chains of endpoints whose program was detached from an interface that is there, since then.
    pub(super) detached: BTreeSet<u64>,
}

impl Grace {
    pub(super) fn note_replaced(&mut self) {
        self.is_over = false;
    }

    /// Returns true if no program has in hand what was replaced.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Waits for an RCU grace period, some 8 ms, if one is needed: programs that have read a replaced chain or class look up
    /// its entries, which are removed only after this.
    pub(super) fn wait(&mut self) {
        if !self.is_over {
            wait_for_programs();
            self.is_over = true;
            self.detached.clear();
        }
    }
}

impl Retired {
    fn len(&self) -> usize {
        self.chains.len() + self.meters.len() + self.classes.len()
    }

    /// Keeps the classes that come again.
    pub(super) fn revive_classes(&mut self, delta: &PlanDelta) {
        let coming = delta.classes.iter().filter(|(_, sets)| sets.is_some());
        for (class, _) in coming {
            self.classes.remove(&class.0.get());
        }
    }
}

impl RuleDatapath {
    /// Removes what changes have retired, and waits for the grace periods that this needs. `plan` is the plan of the last
    /// change.
    pub fn finish(&mut self, plan: &NodePlan) -> Outcome {
        (self.changes, self.dropped) = (0, 0);
        self.release(plan);
        // Detours may have ended, and their classes be retired.
        self.release(plan);
        self.settle(plan);
        self.outcome()
    }

    /// Returns true if [`finish`](Self::finish) has something to do. What could not be removed, the next change tries again.
    pub fn is_unfinished(&self) -> bool {
        self.has_leftovers() && !self.grace.is_over()
    }

    fn has_leftovers(&self) -> bool {
        let may_end = |detours: &Detours| !self.is_stuck && !detours.is_empty();
        self.retired.len() > 0 || may_end(&self.detours)
    }

    /// Returns true if a program may go by a rule list that was replaced.
    pub(super) fn may_be_read(&self) -> bool {
        !self.retired.chains.is_empty() || !self.detours.is_empty()
    }

    /// Returns true if what earlier changes retired has to be removed before this one.
    pub(super) fn must_release_before(&self, delta: &PlanDelta) -> bool {
        // Its entries for classes of detours are those of the time when it was replaced.
        let comes_again = |id: &ChainId| self.retired.chains.contains_key(id);
        let changes_peers = self.may_be_read() && !delta.peers.is_empty();
        let changes_detours = !self.detours.is_empty() && delta.chains.keys().any(comes_again);
        changes_peers || changes_detours || self.retired.len() >= MOST_RETIRED
    }

    /// Retires the rule lists that the plan does not know and no endpoint goes by, and their meters. Where the switch to another
    /// failed, the old one stays, with what it needs.
    pub(super) fn retire_chains(&mut self, plan: &NodePlan, delta: &PlanDelta) {
        let met = self.met_chains();
        let is_used = |id: &ChainId| plan.chains.contains_key(id) || met.contains(&id.0.get());
        let chains = std::mem::take(&mut self.chains).into_iter();
        let (used, gone): (BTreeMap<_, _>, BTreeMap<_, _>) =
            chains.partition(|(id, _)| is_used(id));
        self.chains = used;
        if gone.is_empty() && delta.chains.is_empty() {
            return;
        }
        for id in gone.keys() {
            self.problems.set(Subject::Chain(*id), None);
        }
        self.retired.chains.extend(gone);
        self.retire_meters(plan);
    }

    /// Retires the classes that no peer has any more.
    pub(super) fn retire_classes(&mut self, delta: &PlanDelta) {
        let gone = delta.classes.iter().filter(|(_, sets)| sets.is_none());
        let gone = gone.map(|(class, _)| class.0.get());
        let is_of_a_chain =
            |class: &u64| { self.chains.values() }.any(|tables| tables.classes.contains(class));
        self.retired.classes.extend(gone.filter(is_of_a_chain));
    }

    /// Removes what is retired, after the programs that may have read it, and ends the detours of peers.
    pub(super) fn release(&mut self, plan: &NodePlan) {
        if !self.has_leftovers() {
            return;
        }
        self.grace.wait();
        let mut errors = Errors::default();
        errors.note(self.remove_classes(plan));
        errors.note(self.remove_chains());
        errors.note(self.remove_meters());
        if !self.is_stuck {
            errors.note(self.end_detours());
            if self.grace.is_over() {
                errors.note(self.remove_classes(plan));
            }
        }
        self.problems.note(Subject::Leftovers, errors.finish());
    }

    fn remove_chains(&mut self) -> Result<()> {
        if !self.retired.chains.is_empty() {
            self.merge_services();
        }
        while let Some((id, tables)) = self.retired.chains.pop_first() {
            if let Err(error) = self.remove_chain(id, &tables) {
                self.retired.chains.insert(id, tables);
                return Err(error);
            }
        }
        Ok(())
    }

    fn remove_meters(&mut self) -> Result<()> {
        // A rule list that is left sends to them.
        while self.retired.chains.is_empty()
            && let Some((rule, meter)) = self.retired.meters.pop_first()
        {
            meters::release(
                &self.pins,
                &self.rules,
                rule_number(&rule),
                meter.numbers.limiter,
            )?;
            self.changes += 1;
        }
        Ok(())
    }

    /// Removes what classes were to rule lists of the plan. To those that are left besides, peers may still be what they were.
    fn remove_classes(&mut self, plan: &NodePlan) -> Result<()> {
        while let Some(class) = self.retired.classes.pop_first() {
            let left = self.chains.iter_mut();
            for (id, tables) in left.filter(|(id, _)| plan.chains.contains_key(id)) {
                if tables.classes.remove(&class) {
                    let key = ClassKey::new(id.0.get(), class);
                    self.rules.classes.remove(&key)?;
                }
            }
        }
        Ok(())
    }
}
