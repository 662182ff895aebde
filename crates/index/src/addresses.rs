//! Which pods say that an address is theirs.
//!
//! While a pod is on its way out and another has its address already, both may say so: the address
//! then belongs to the sets of both, whichever was heard of first, until one of them leaves.

use std::collections::HashMap;
use std::net::IpAddr;

use netqos_core::NetworkKey;

use crate::pods::PodKey;

/// The addresses of all pods.
#[derive(Debug, Default)]
pub(crate) struct Addresses {
    claims: HashMap<(NetworkKey, IpAddr), Claimants>,
}

/// Almost always one.
#[derive(Debug)]
enum Claimants {
    One([PodKey; 1]),
    Several(Vec<PodKey>),
}

impl Addresses {
    /// A pod says that an address is its own; it says so of each once.
    pub(crate) fn claim(&mut self, address: (NetworkKey, IpAddr), pod: PodKey) {
        let claimants = self.claims.entry(address);
        claimants
            .and_modify(|claimants| match claimants {
                Claimants::One([one]) => *claimants = Claimants::Several(vec![*one, pod]),
                Claimants::Several(several) => several.push(pod),
            })
            .or_insert(Claimants::One([pod]));
    }

    /// It says so no more.
    pub(crate) fn leave(&mut self, address: &(NetworkKey, IpAddr), pod: PodKey) {
        let Some(claimants) = self.claims.get_mut(address) else {
            return;
        };
        match claimants {
            Claimants::One(_) => {
                self.claims.remove(address);
            }
            Claimants::Several(several) => {
                several.retain(|other| *other != pod);
                if let [one] = several[..] {
                    *claimants = Claimants::One([one]);
                }
            }
        }
    }

    /// The pods that say so.
    pub(crate) fn claimants(&self, address: &(NetworkKey, IpAddr)) -> &[PodKey] {
        match self.claims.get(address) {
            None => &[],
            Some(Claimants::One(one)) => one,
            Some(Claimants::Several(several)) => several,
        }
    }
}
