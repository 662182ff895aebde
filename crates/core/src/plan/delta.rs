//! What changes from one plan to another.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Backend, ByAddress, Chain, ChainId, ClassId, Endpoint, NodePlan, PeerSet, ServicePort, SetId,
};
use crate::EndpointId;

/// The entries of a plan that become another, or, with `None`, go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanDelta {
    /// Of [`NodePlan::endpoints`].
    pub endpoints: BTreeMap<EndpointId, Option<Endpoint>>,
    /// Of [`NodePlan::chains`].
    pub chains: BTreeMap<ChainId, Option<Chain>>,
    /// Of [`NodePlan::sets`].
    pub sets: BTreeMap<SetId, Option<PeerSet>>,
    /// Of [`NodePlan::classes`].
    pub classes: BTreeMap<ClassId, Option<BTreeSet<SetId>>>,
    /// Of [`NodePlan::peers`].
    pub peers: ByAddress<Option<ClassId>>,
    /// Of [`NodePlan::services`].
    pub services: BTreeMap<ServicePort, Option<BTreeSet<Backend>>>,
}

impl NodePlan {
    /// What makes `other` out of this plan.
    pub fn delta_to(&self, other: &Self) -> PlanDelta {
        PlanDelta {
            endpoints: changes(&self.endpoints, &other.endpoints),
            chains: changes(&self.chains, &other.chains),
            sets: changes(&self.sets, &other.sets),
            classes: changes(&self.classes, &other.classes),
            peers: self.peers.changes_to(&other.peers),
            services: changes(&self.services, &other.services),
        }
    }

    /// Changes this plan.
    pub fn apply(&mut self, delta: &PlanDelta) {
        change(&mut self.endpoints, &delta.endpoints);
        change(&mut self.chains, &delta.chains);
        change(&mut self.sets, &delta.sets);
        change(&mut self.classes, &delta.classes);
        self.peers.change(&delta.peers);
        change(&mut self.services, &delta.services);
    }
}

impl PlanDelta {
    /// True when nothing changes.
    pub fn is_empty(&self) -> bool {
        self.endpoints.is_empty()
            && self.chains.is_empty()
            && self.sets.is_empty()
            && self.classes.is_empty()
            && self.peers.is_empty()
            && self.services.is_empty()
    }

    /// This change, and then that one.
    pub fn then(&mut self, later: Self) {
        self.endpoints.extend(later.endpoints);
        self.chains.extend(later.chains);
        self.sets.extend(later.sets);
        self.classes.extend(later.classes);
        for (network, address, class) in later.peers.iter() {
            self.peers.insert(network, address, *class);
        }
        self.services.extend(later.services);
    }
}

fn changes<K: Ord + Clone, V: PartialEq + Clone>(
    from: &BTreeMap<K, V>,
    to: &BTreeMap<K, V>,
) -> BTreeMap<K, Option<V>> {
    let gone = from
        .keys()
        .filter(|key| !to.contains_key(key))
        .map(|key| (key.clone(), None));
    let other = to
        .iter()
        .filter(|(key, value)| from.get(key) != Some(value))
        .map(|(key, value)| (key.clone(), Some(value.clone())));
    gone.chain(other).collect()
}

fn change<K: Ord + Clone, V: Clone>(map: &mut BTreeMap<K, V>, by: &BTreeMap<K, Option<V>>) {
    for (key, value) in by {
        match value {
            Some(value) => {
                map.insert(key.clone(), value.clone());
            }
            None => {
                map.remove(key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::{Digest, NetworkKey};
    use proptest::prelude::*;

    fn plan() -> impl Strategy<Value = NodePlan> {
        let peers = proptest::collection::btree_map(any::<[u8; 1]>(), any::<u8>(), 0..12);
        peers.prop_map(|peers| NodePlan {
            peers: peers
                .into_iter()
                .map(|([last], class)| {
                    let address = IpAddr::from([10, 0, 0, last]);
                    let class = ClassId(Digest::of(&(class % 3)));
                    (NetworkKey::Default, address, class)
                })
                .collect(),
            ..NodePlan::default()
        })
    }

    proptest! {
        #[test]
        fn a_delta_makes_the_one_plan_the_other(before in plan(), after in plan(), last in plan()) {
            let mut changed = before.clone();
            changed.apply(&before.delta_to(&after));
            prop_assert_eq!(&changed, &after);
            prop_assert!(after.delta_to(&after).is_empty());

            let mut both = before.delta_to(&after);
            both.then(after.delta_to(&last));
            let mut changed = before.clone();
            changed.apply(&both);
            prop_assert_eq!(&changed, &last);
        }
    }
}
