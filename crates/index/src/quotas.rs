//! What namespaces may ask for, and which policies ask for more.

use std::collections::BTreeMap;
use std::sync::Arc;

use netqos_core::quota::{Excess, Quota, excesses};
use netqos_core::{BitRate, Labels, Policy};

/// The quotas that there are.
#[derive(Debug, Default)]
pub(crate) struct Quotas {
    by_name: BTreeMap<Arc<str>, Quota>,
}

impl Quotas {
    /// Puts a quota in, and gives back the one that it replaces.
    pub(crate) fn put(&mut self, quota: Quota) -> Option<Quota> {
        self.by_name.insert(quota.name.clone(), quota)
    }

    pub(crate) fn remove(&mut self, name: &Arc<str>) -> Option<Quota> {
        self.by_name.remove(name)
    }

    /// The highest rate that an interface of a pod in a namespace of these labels may have, and the quota that says so.
    pub(crate) fn max_rate(&self, namespace: &Labels) -> Option<(BitRate, &Arc<str>)> {
        let quotas = self.by_name.values();
        let rates = quotas.filter_map(|quota| Some((quota.max_rate?, quota)));
        let rates = rates.filter(|(_, quota)| quota.is_for(namespace));
        rates
            .map(|(rate, quota)| (rate, &quota.name))
            .min_by_key(|(rate, _)| *rate)
    }

    /// What a policy in a namespace of these labels asks for and may not.
    pub(crate) fn excesses(&self, policy: &Policy, namespace: &Labels) -> Vec<Excess> {
        excesses(policy, namespace, self.by_name.values())
    }
}
