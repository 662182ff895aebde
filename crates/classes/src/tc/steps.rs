//! What has to be done to put a plan in force, and doing it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use netqos_core::Direction;
use netqos_core::classes::{ClassPlan, PartId};
use netqos_netlink::Socket;

use super::choice::Choice;
use super::line::Line;
use super::names::Family;
use super::sets::{self, Sets};
use super::tree::{self, Wanted};
use super::{Tc, rules, untold};
use crate::net_cls::NetCls;
use crate::{Error, Outcome, Result, Trouble};

/// The way from what is found to what a plan says.
pub(super) struct Steps<'a> {
    net_cls: NetCls<'a>,
    socket: &'a mut Socket,
    /// Each line that can be divided, and its classes.
    lines: Vec<(Line, Vec<Wanted>)>,
    /// Lines that are divided and no plan's any more.
    leaving: Vec<Line>,
    /// The sets that are there.
    found: BTreeMap<Family, Sets>,
    choice: Choice,
    troubles: Vec<Trouble>,
    is_for_nothing: bool,
}

impl<'a> Steps<'a> {
    /// Looks at everything, and changes nothing.
    pub(super) fn plan(
        plan: &ClassPlan,
        net_cls: NetCls<'a>,
        socket: &'a mut Socket,
    ) -> Result<Self> {
        let mut troubles = untold::by_kind(plan);
        let mut leaving = Tc::divided(socket)?;
        leaving.retain(|line| !plan.lines.contains_key(line.name()));
        let mut lines = Vec::new();
        for name in plan.lines.keys() {
            match Line::find(socket, name).and_then(|line| line.foreign().map_or(Ok(line), Err)) {
                Ok(line) => lines.push(line),
                Err(error) => troubles.push(of_line(name, &error)),
            }
        }
        let mut found = BTreeMap::new();
        for family in Family::BOTH {
            found.insert(family, sets::read(family)?);
        }
        // Single flows have no parts here, and take nothing from others'.
        let mut whole = plan.clone();
        whole.pods.values_mut().for_each(|pod| pod.flows.clear());
        if plan.lines.is_empty() {
            whole.pods.clear();
        }
        let choice = Choice::of(&whole, net_cls, &found, &lines, &mut troubles);
        let mut divided = Vec::new();
        for line in lines {
            let name: Arc<str> = line.name().into();
            if let Some(tree) = whole.tree(&name, Direction::Egress) {
                divided.push((line, tree::classes(&tree, &choice.numbers)));
            }
        }
        Ok(Self {
            net_cls,
            socket,
            lines: divided,
            leaving,
            found,
            choice,
            troubles,
            is_for_nothing: plan.lines.is_empty(),
        })
    }

    /// Whose the numbers are.
    pub(super) fn numbers(&self) -> BTreeMap<u16, PartId> {
        let numbers = self.choice.numbers.iter();
        numbers
            .map(|(part, number)| (*number, part.clone()))
            .collect()
    }

    /// Does what is to be done.
    pub(super) fn take(mut self) -> Result<Outcome> {
        let (mut changes, leftover) = match self.is_for_nothing {
            true => (0, BTreeSet::new()),
            false => self.let_choose_classes()?,
        };
        let numbers = self.choice.cgroup_numbers();
        let mut done = Vec::new();
        for (line, wanted) in self.lines {
            match line.hold(self.socket, &wanted) {
                Ok(changed) => {
                    changes += changed;
                    done.push((line, wanted));
                }
                Err(error) => self.troubles.push(of_line(line.name(), &error)),
            }
        }
        let mut keep = |result: Result<usize>, line: Option<&str>| match result {
            Ok(changed) => {
                changes += changed;
                true
            }
            Err(error) => {
                self.troubles.push(Trouble {
                    line: line.map(Arc::from),
                    part: None,
                    what: error.explained(),
                });
                false
            }
        };
        // The classes of pods are there now.
        let mut is_chosen = keep(self.net_cls.hold(&self.choice.cgroups), None);
        for family in Family::BOTH {
            let (found, wanted) = (&self.found[&family], &self.choice.sets[&family]);
            if self.is_for_nothing {
                keep(rules::hold(family, &[]), None);
                keep(sets::destroy(family), None);
                continue;
            }
            let parts =
                sets::additions(family, &parts_of(family, found), &parts_of(family, wanted));
            is_chosen &= keep(sets::change(parts), None);
            is_chosen &= keep(sets::change(sets::removals(found, wanted)), None);
            if leftover.contains(&family) {
                let rules = rules::wanted(family, &numbers);
                is_chosen &= keep(rules::hold(family, &rules), None);
            }
        }
        let mut lines = Vec::new();
        for (line, wanted) in done {
            // What is chosen still has to be there.
            if is_chosen && keep(line.tidy(self.socket, &wanted), Some(line.name())) {
                lines.push(Arc::from(line.name()));
            }
        }
        for line in self.leaving {
            keep(line.remove(self.socket).map(|()| 1), Some(line.name()));
        }
        Ok(Outcome {
            lines,
            changes,
            troubles: self.troubles,
            ..Outcome::default()
        })
    }

    /// Fills the sets of the classes, and puts the rules in place that go by them and by the numbers that
    /// cgroups have or will have; how many changes that took, and where there are rules more than there
    /// will be.
    fn let_choose_classes(&mut self) -> Result<(usize, BTreeSet<Family>)> {
        let mut changes = 0;
        let mut leftover = BTreeSet::new();
        let numbers = self.choice.cgroup_numbers();
        for family in Family::BOTH {
            let (found, wanted) = (&self.found[&family], &self.choice.sets[&family]);
            let mut without_parts = wanted.clone();
            without_parts.insert(family.parts_set(), BTreeMap::new());
            let mut hold = || {
                let filled = sets::change(sets::additions(family, found, &without_parts))?;
                let known = rules::cgroups(family)?;
                if !known.is_subset(&numbers) {
                    leftover.insert(family);
                }
                let all = known.union(&numbers).copied().collect();
                Ok(filled + rules::hold(family, &rules::wanted(family, &all))?)
            };
            match (family, hold()) {
                (_, Ok(changed)) => changes += changed,
                (Family::V4, Err(error)) => return Err(error),
                // There are nodes without IPv6.
                (Family::V6, Err(error)) => self.troubles.push(Trouble {
                    line: None,
                    part: None,
                    what: format!("IPv6: {error}"),
                }),
            }
        }
        Ok((changes, leftover))
    }
}

/// The set of the pods' own parts, alone.
fn parts_of(family: Family, sets: &Sets) -> Sets {
    let name = family.parts_set();
    let parts = sets.get(&name).cloned().unwrap_or_default();
    Sets::from([(name, parts)])
}

fn of_line(line: &str, error: &Error) -> Trouble {
    Trouble {
        line: Some(line.into()),
        part: None,
        what: error.explained(),
    }
}
