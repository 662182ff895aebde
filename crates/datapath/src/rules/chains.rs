//! Rule lists, written under their own names beside those in force, and removed when nobody goes
//! by them.

use std::collections::BTreeSet;

use netqos_bpf::rules::{ClassKey, Plain, Table};
use netqos_core::plan::{Chain, ChainId, RuleId};
use netqos_core::{NodePlan, PlanDelta};

use super::engine::RuleDatapath;
use super::problems::{self, Subject};
use super::tables::ChainTables;
use crate::Result;

impl RuleDatapath {
    /// Writes the rule lists that come, those whose rules have other meters now, and what classes
    /// that come are to the rest.
    pub(super) fn write_chains(
        &mut self,
        plan: &NodePlan,
        delta: &PlanDelta,
        other_meters: &BTreeSet<RuleId>,
    ) {
        let mut due: BTreeSet<ChainId> = delta.chains.keys().copied().collect();
        if !other_meters.is_empty() {
            let names_one = |tables: &ChainTables| {
                let mut names = tables.names();
                names.any(|rule| other_meters.contains(rule))
            };
            let chains = self.chains.iter();
            let touched = chains.filter(|(_, tables)| names_one(tables));
            due.extend(touched.map(|(id, _)| *id));
        }
        due.retain(|id| plan.chains.contains_key(id));
        for id in &due {
            if let Some(chain) = plan.chains.get(id) {
                let written = self.write_chain(plan, *id, chain);
                let subject = Subject::Chain(*id);
                self.problems.settle(subject, problems::node(), written);
            }
        }
        if delta.classes.is_empty() {
            return;
        }
        let others: Vec<ChainId> = self.chains.keys().copied().collect();
        for id in others.into_iter().filter(|id| !due.contains(id)) {
            let written = self.write_classes(delta, id);
            self.problems.note(Subject::Chain(id), written);
        }
    }

    fn write_chain(&mut self, plan: &NodePlan, id: ChainId, chain: &Chain) -> Result<()> {
        let meter = |rule: &RuleId| self.meters.get(rule).map(|meter| meter.numbers);
        let mut tables = ChainTables::of(id, chain, meter);
        let (rules, changes) = (&self.rules, &mut self.changes);
        for (key, rule) in &tables.rules {
            put(&rules.rules_of, key, rule, changes)?;
        }
        for (key, bitmap) in tables.blocks4() {
            put(&rules.blocks4, &key, &bitmap, changes)?;
        }
        for (key, bitmap) in tables.blocks6() {
            put(&rules.blocks6, &key, &bitmap, changes)?;
        }
        for (key, bitmap) in &tables.ports {
            put(&rules.ports, key, bitmap, changes)?;
        }
        let known = plan.classes.iter();
        let known = known.map(|(class, sets)| (class.0.get(), sets));
        for (class, sets) in known.chain(self.detours.classes(plan)) {
            if let Some((key, bitmap)) = tables.class(class, sets) {
                put(&rules.classes, &key, &bitmap, changes)?;
                tables.classes.insert(class);
            }
        }
        put(&rules.chains, &id.0.get(), &tables.entry, changes)?;
        if let Some(before) = self.chains.get(&id) {
            tables.classes.extend(&before.classes);
        }
        if let Some(before) = self.retired.chains.remove(&id) {
            let is_of_plan = |class: &u64| plan.classes.keys().any(|it| it.0.get() == *class);
            let left = before.classes.difference(&tables.classes);
            let gone = left.filter(|class| !is_of_plan(class));
            self.retired.classes.extend(gone);
            tables.classes.extend(&before.classes);
        }
        self.chains.insert(id, tables);
        Ok(())
    }

    /// Writes what classes that come are to a rule list.
    fn write_classes(&mut self, delta: &PlanDelta, id: ChainId) -> Result<()> {
        let Some(tables) = self.chains.get_mut(&id) else {
            return Ok(());
        };
        for (class, sets) in &delta.classes {
            let class = class.0.get();
            if let Some((key, bitmap)) = sets.as_ref().and_then(|sets| tables.class(class, sets)) {
                put(&self.rules.classes, &key, &bitmap, &mut self.changes)?;
                tables.classes.insert(class);
            }
        }
        Ok(())
    }

    /// Removes a retired rule list.
    pub(super) fn remove_chain(&mut self, id: ChainId, tables: &ChainTables) -> Result<()> {
        self.rules.chains.remove(&id.0.get())?;
        for (key, _) in &tables.rules {
            self.rules.rules_of.remove(key)?;
        }
        for (key, _) in tables.blocks4() {
            self.rules.blocks4.remove(&key)?;
        }
        for (key, _) in tables.blocks6() {
            self.rules.blocks6.remove(&key)?;
        }
        for key in tables.ports.keys() {
            self.rules.ports.remove(key)?;
        }
        for class in &tables.classes {
            let key = ClassKey::new(id.0.get(), *class);
            self.rules.classes.remove(&key)?;
        }
        self.changes += 1;
        Ok(())
    }
}

/// Writes a value, unless it is there already.
pub(super) fn put<K: Plain, V: Plain + PartialEq>(
    table: &Table<K, V>,
    key: &K,
    value: &V,
    changes: &mut u64,
) -> Result<()> {
    if table.get(key)?.as_ref() != Some(value) {
        table.put(key, value)?;
        *changes += 1;
    }
    Ok(())
}
