//! The numbers by which the program knows networks.

use std::collections::BTreeMap;

use netqos_core::{Digest, NetworkKey};

/// A number for each network: the same after a restart, unless two of them would have the same.
#[derive(Debug, Default)]
pub(super) struct NetworkNumbers(BTreeMap<NetworkKey, u32>);

impl NetworkNumbers {
    /// The network's number; it has one from now on.
    pub(super) fn of(&mut self, network: &NetworkKey) -> u32 {
        if let Some(number) = self.0.get(network) {
            return *number;
        }
        let mut number = Digest::of(network).get() as u32;
        while self.0.values().any(|taken| *taken == number) {
            number = number.wrapping_add(1);
        }
        self.0.insert(network.clone(), number);
        number
    }

    /// True when a network has this number.
    pub(super) fn has(&self, number: u32) -> bool {
        self.0.values().any(|own| *own == number)
    }
}
