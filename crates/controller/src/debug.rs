//! `/debug/state`: what is wanted, against what is there.
//!
//! What differs for longer than a moment is what cannot be written; the log says why.

use std::collections::BTreeSet;
use std::net::IpAddr;

use netqos_core::ObjectName;
use netqos_index::PeerIndex;
use netqos_status::Agent;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::agents::Agents;
use crate::slices::SliceWriter;
use crate::statuses::Statuses;

/// Somebody asks how things are.
pub(crate) type Question = oneshot::Sender<Value>;

/// The most of what differs that is told in full.
const MOST: usize = 200;

/// What an engine knows.
pub(crate) struct State<'e> {
    pub(crate) leads: bool,
    pub(crate) knows_all: bool,
    pub(crate) slices: &'e SliceWriter,
    pub(crate) statuses: &'e Statuses,
    pub(crate) index: &'e PeerIndex,
    pub(crate) agents: &'e Agents,
}

impl State<'_> {
    /// All of it. Sets and slices are wanted by who leads alone.
    pub(crate) fn told(&self) -> Value {
        let (sets, slices) = self.sets_and_slices();
        json!({
            "leads": self.leads,
            "knowsAll": self.knows_all,
            "sets": sets,
            "slices": slices,
            "statuses": self.statuses(),
            "agentsAway": self.agents_away(),
        })
    }

    fn sets_and_slices(&self) -> (Value, Value) {
        let none = BTreeSet::new();
        let (mut sets, mut wanted, mut differing) = (Vec::new(), BTreeSet::new(), Vec::new());
        for set in self.slices.wanted() {
            let (mut addresses, mut wrong) = (0, 0);
            for (name, right) in &set.slices {
                addresses += right.len();
                let there = self.slices.there(name);
                if there != Some(right) {
                    wrong += 1;
                    let state = if there.is_none() { "missing" } else { "other" };
                    differing.push(different(name, state, right, there.unwrap_or(&none)));
                }
            }
            sets.push(json!({
                "set": set.id.0.to_string(),
                "network": set.set.network.to_string(),
                "namespaces": set.set.namespaces,
                "pods": set.set.pods,
                "isNamed": set.is_named,
                "addresses": addresses,
                "slices": set.slices.len(),
                "slicesDiffering": wrong,
            }));
            wanted.extend(set.slices.into_iter().map(|(name, _)| name));
        }
        let mut there = 0;
        for (name, addresses) in self.slices.all_there() {
            there += 1;
            if self.leads && !wanted.contains(name) {
                differing.push(different(name, "surplus", &none, addresses));
            }
        }
        let slices = json!({
            "wanted": wanted.len(),
            "there": there,
            "notTakenUp": self.slices.waiting(),
            "differ": differing.len(),
            "differing": differing.into_iter().take(MOST).collect::<Vec<_>>(),
        });
        (sets.into(), slices)
    }

    fn statuses(&self) -> Value {
        let differing = self.statuses.differing(self.index, self.agents);
        let told = differing.iter().take(MOST).map(|(name, wanted, there)| {
            json!({"name": name.to_string(), "wanted": wanted, "there": there})
        });
        json!({
            "policies": self.statuses.policies(),
            "due": self.statuses.due(),
            "differ": differing.len(),
            "differing": told.collect::<Vec<_>>(),
        })
    }

    fn agents_away(&self) -> Value {
        let away = self.agents.nodes().filter_map(|node| {
            let (state, late) = match self.agents.of(node) {
                Agent::Works => return None,
                Agent::NotReady(late) => ("notReady", late.len()),
                Agent::Leaves => ("leaving", 0),
            };
            Some(json!({"node": node, "state": state, "podsSince": late}))
        });
        away.collect()
    }
}

fn different(
    name: &ObjectName,
    state: &str,
    right: &BTreeSet<IpAddr>,
    there: &BTreeSet<IpAddr>,
) -> Value {
    json!({
        "name": name.to_string(),
        "state": state,
        "lacks": right.difference(there).collect::<Vec<_>>(),
        "hasBesides": there.difference(right).collect::<Vec<_>>(),
    })
}
