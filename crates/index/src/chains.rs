//! The rule lists of endpoints. Endpoints that the same policies are for share one.

use std::collections::BTreeSet;
use std::sync::Arc;

use netqos_core::NetworkKey;
use netqos_core::plan::{Chain, ChainId, PeerSet, Peers, SetId};

use crate::hash::HashMap;
use crate::policies::{Policies, PolicyKey};

/// What a rule list is made of: policies in order of precedence, on one network.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct ChainKey {
    pub(crate) network: NetworkKey,
    pub(crate) policies: Vec<PolicyKey>,
}

/// The rule lists in use.
#[derive(Debug, Default)]
pub(crate) struct Chains {
    made: HashMap<Arc<ChainKey>, Made>,
    /// By what they hold: different policies without rules make equal lists.
    live: HashMap<ChainId, Live>,
    idle: Vec<Arc<ChainKey>>,
    touched: BTreeSet<ChainId>,
}

#[derive(Debug)]
struct Made {
    id: Option<ChainId>,
    left_out: usize,
    endpoints: usize,
}

#[derive(Debug)]
struct Live {
    /// `None` as soon as it is in the plan.
    chain: Option<Chain>,
    sets: Vec<SetId>,
    makings: usize,
}

/// A rule list for an endpoint.
#[derive(Clone, Debug)]
pub(crate) struct Taken {
    pub(crate) key: Arc<ChainKey>,
    /// `None`: there is no rule in it.
    pub(crate) id: Option<ChainId>,
    /// How many rules are too many.
    pub(crate) left_out: usize,
}

/// What became of the rule lists.
#[derive(Debug, Default)]
pub(crate) struct ChainChanges {
    pub(crate) chains: Vec<(ChainId, Option<Chain>)>,
    /// The sets that a list which went had named, one by one.
    pub(crate) released: Vec<SetId>,
}

impl Chains {
    /// The rule list of one more endpoint. `on_new` is told each set of a list that is new.
    pub(crate) fn acquire(
        &mut self,
        key: ChainKey,
        policies: &mut Policies,
        mut on_new: impl FnMut(SetId, &Arc<PeerSet>),
    ) -> Taken {
        if let Some((key, made)) = self.made.get_key_value(&key) {
            let taken = Taken {
                key: key.clone(),
                id: made.id,
                left_out: made.left_out,
            };
            if let Some(made) = self.made.get_mut(&taken.key) {
                made.endpoints += 1;
            }
            return taken;
        }
        let (chain, left_out, sets) = make(&key, policies);
        let id = (!chain.rules.is_empty()).then(|| chain.id());
        if let Some(id) = id {
            let live = self.live.entry(id).or_insert_with(|| {
                self.touched.insert(id);
                let sets = sets.iter().map(|(id, set)| {
                    on_new(*id, set);
                    *id
                });
                Live {
                    sets: sets.collect(),
                    chain: Some(chain),
                    makings: 0,
                }
            });
            live.makings += 1;
        }
        let key = Arc::new(key);
        let made = Made {
            id,
            left_out,
            endpoints: 1,
        };
        self.made.insert(key.clone(), made);
        Taken { key, id, left_out }
    }

    /// One endpoint less has this rule list. It stays until [`Chains::take_changes`].
    pub(crate) fn release(&mut self, key: &Arc<ChainKey>) {
        if let Some(made) = self.made.get_mut(key) {
            made.endpoints -= 1;
            if made.endpoints == 0 {
                self.idle.push(key.clone());
            }
        }
    }

    /// The lists that came into the plan, and those that went out of it, which are forgotten.
    pub(crate) fn take_changes(&mut self) -> ChainChanges {
        for key in std::mem::take(&mut self.idle) {
            let Some(made) = self.made.get(&key).filter(|made| made.endpoints == 0) else {
                continue;
            };
            if let Some(id) = made.id
                && let Some(live) = self.live.get_mut(&id)
            {
                live.makings -= 1;
                self.touched.insert(id);
            }
            self.made.remove(&key);
        }
        let mut changes = ChainChanges::default();
        for id in std::mem::take(&mut self.touched) {
            match self.live.get_mut(&id) {
                Some(live) if live.makings > 0 => {
                    let new = live.chain.take();
                    changes.chains.extend(new.map(|chain| (id, Some(chain))));
                }
                _ => {
                    let Some(gone) = self.live.remove(&id) else {
                        continue;
                    };
                    changes.released.extend(gone.sets);
                    if gone.chain.is_none() {
                        changes.chains.push((id, None));
                    }
                }
            }
        }
        changes
    }

    /// True when there is a rule at all.
    pub(crate) fn any(&self) -> bool {
        !self.live.is_empty()
    }
}

/// The list, how many rules did not fit into it, and the sets that it names.
fn make(key: &ChainKey, policies: &mut Policies) -> (Chain, usize, HashMap<SetId, Arc<PeerSet>>) {
    let mut chain = Chain::default();
    let mut left_out = 0;
    let mut sets = HashMap::default();
    for policy in &key.policies {
        let Some(rules) = policies.rules(*policy, &key.network) else {
            continue;
        };
        let room = Chain::MAX_RULES - chain.rules.len();
        left_out += rules.rules.len().saturating_sub(room);
        for rule in rules.rules.iter().take(room) {
            if let Peers::AnyOf { sets: named, .. } = &rule.to {
                let named = named.iter().filter_map(|id| rules.sets.get_key_value(id));
                sets.extend(named.map(|(id, set)| (*id, set.clone())));
            }
            chain.rules.push(rule.clone());
        }
    }
    (chain, left_out, sets)
}
