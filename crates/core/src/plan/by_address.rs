//! Things of addresses, each address on one network.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::{Serialize, Serializer};

use crate::NetworkKey;

/// A thing for each address on a network, in the order of networks and addresses.
///
/// A node has one for each pod of the cluster that its rules may go to: the name of a network is held
/// once for all its addresses, and an address takes no more than it has bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ByAddress<V> {
    networks: BTreeMap<NetworkKey, Network<V>>,
    len: usize,
}

/// What is on one network. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Network<V> {
    v4: BTreeMap<Ipv4Addr, V>,
    v6: BTreeMap<Ipv6Addr, V>,
}

impl<V> ByAddress<V> {
    /// Nothing.
    pub const fn new() -> Self {
        Self {
            networks: BTreeMap::new(),
            len: 0,
        }
    }

    /// How many addresses have something.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// True when none has.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// That of an address.
    pub fn get(&self, network: &NetworkKey, address: IpAddr) -> Option<&V> {
        let network = self.networks.get(network)?;
        match address {
            IpAddr::V4(address) => network.v4.get(&address),
            IpAddr::V6(address) => network.v6.get(&address),
        }
    }

    /// Gives an address something. Gives back what it had.
    pub fn insert(&mut self, network: &NetworkKey, address: IpAddr, value: V) -> Option<V> {
        if !self.networks.contains_key(network) {
            self.networks.insert(network.clone(), Network::default());
        }
        let network = self.networks.get_mut(network)?;
        let before = match address {
            IpAddr::V4(address) => network.v4.insert(address, value),
            IpAddr::V6(address) => network.v6.insert(address, value),
        };
        self.len += usize::from(before.is_none());
        before
    }

    /// Takes away what an address has.
    pub fn remove(&mut self, network: &NetworkKey, address: IpAddr) -> Option<V> {
        let on_it = self.networks.get_mut(network)?;
        let before = match address {
            IpAddr::V4(address) => on_it.v4.remove(&address),
            IpAddr::V6(address) => on_it.v6.remove(&address),
        };
        if on_it.v4.is_empty() && on_it.v6.is_empty() {
            self.networks.remove(network);
        }
        self.len -= usize::from(before.is_some());
        before
    }

    /// The networks that any address is on.
    pub fn networks(&self) -> impl Iterator<Item = &NetworkKey> {
        self.networks.keys()
    }

    /// The addresses of a network, with what they have.
    pub fn on(&self, network: &NetworkKey) -> impl Iterator<Item = (IpAddr, &V)> {
        self.networks
            .get(network)
            .into_iter()
            .flat_map(Network::iter)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&NetworkKey, IpAddr, &V)> {
        self.networks.iter().flat_map(|(network, on_it)| {
            let addresses = on_it.iter();
            addresses.map(move |(address, value)| (network, address, value))
        })
    }

    /// What addresses have.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, _, value)| value)
    }
}

impl<V: Clone + PartialEq> ByAddress<V> {
    /// What makes `other` out of this one: what addresses get, or, with `None`, lose.
    pub(super) fn changes_to(&self, other: &Self) -> ByAddress<Option<V>> {
        let gone = self.iter();
        let gone = gone.filter(|(network, address, _)| other.get(network, *address).is_none());
        let mut changes = ByAddress::new();
        for (network, address, _) in gone {
            changes.insert(network, address, None);
        }
        for (network, address, value) in other.iter() {
            if self.get(network, address) != Some(value) {
                changes.insert(network, address, Some(value.clone()));
            }
        }
        changes
    }

    /// Makes these changes.
    pub(super) fn change(&mut self, by: &ByAddress<Option<V>>) {
        for (network, address, value) in by.iter() {
            match value {
                Some(value) => self.insert(network, address, value.clone()),
                None => self.remove(network, address),
            };
        }
    }
}

impl<V> Network<V> {
    fn iter(&self) -> impl Iterator<Item = (IpAddr, &V)> {
        let v4 = self.v4.iter();
        let v6 = self.v6.iter();
        v4.map(|(address, value)| (IpAddr::V4(*address), value))
            .chain(v6.map(|(address, value)| (IpAddr::V6(*address), value)))
    }
}

impl<V> Default for Network<V> {
    fn default() -> Self {
        Self {
            v4: BTreeMap::new(),
            v6: BTreeMap::new(),
        }
    }
}

impl<V> Default for ByAddress<V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<V> FromIterator<(NetworkKey, IpAddr, V)> for ByAddress<V> {
    fn from_iter<I: IntoIterator<Item = (NetworkKey, IpAddr, V)>>(from: I) -> Self {
        let mut all = Self::new();
        for (network, address, value) in from {
            all.insert(&network, address, value);
        }
        all
    }
}

/// JSON has only strings for keys: network, then address.
impl<V: Serialize> Serialize for ByAddress<V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(&self.networks)
    }
}

impl<V: Serialize> Serialize for Network<V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ObjectName;

    fn network(number: u8) -> NetworkKey {
        match number {
            0 => NetworkKey::Default,
            _ => NetworkKey::Attachment(ObjectName::new("games", &number.to_string())),
        }
    }

    fn address(number: u8) -> IpAddr {
        match number % 2 {
            0 => IpAddr::from([10, 0, 0, number]),
            _ => IpAddr::from([0, 0, 0, 0, 0, 0, 0, u16::from(number)]),
        }
    }

    proptest! {
        #[test]
        fn it_has_what_a_map_of_pairs_has(
            steps in proptest::collection::vec((0..3_u8, 0..12_u8, any::<Option<u8>>()), 0..60),
        ) {
            let mut all = ByAddress::new();
            let mut known = BTreeMap::new();
            for (on, at, value) in steps {
                let (network, address) = (network(on), address(at));
                let (is, shall) = match value {
                    Some(value) => (
                        all.insert(&network, address, value),
                        known.insert((network, address), value),
                    ),
                    None => (
                        all.remove(&network, address),
                        known.remove(&(network, address)),
                    ),
                };
                prop_assert_eq!(is, shall);
                prop_assert_eq!((all.len(), all.is_empty()), (known.len(), known.is_empty()));
            }
            let flat = known.iter().map(|((network, address), value)| (network, *address, value));
            prop_assert!(all.iter().eq(flat));
            let networks: std::collections::BTreeSet<_> = known.keys().map(|(it, _)| it).collect();
            prop_assert!(all.networks().eq(networks));
            for ((network, address), value) in &known {
                prop_assert_eq!(all.get(network, *address), Some(value));
            }
            let again = known.into_iter().map(|((network, address), value)| (network, address, value));
            prop_assert_eq!(all, again.collect::<ByAddress<_>>());
        }
    }

    #[test]
    fn in_json_it_is_by_network() {
        let all: ByAddress<u8> = [
            (network(1), address(1), 3),
            (network(0), address(3), 2),
            (network(0), address(2), 1),
        ]
        .into_iter()
        .collect();
        assert_eq!(
            serde_json::to_string(&all).unwrap(),
            r#"{"default":{"10.0.0.2":1,"::3":2},"games/1":{"::1":3}}"#
        );
    }
}
