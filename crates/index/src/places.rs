//! Where a pod is: on which networks, with which addresses, through which interfaces.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use netqos_core::objects::{LocalInterface, NetworkName, Pod, PodAddresses, RecordedLimits};
use netqos_core::plan::Attach;
use netqos_core::{FIRST_INTERFACE, NetworkKey};

use crate::addresses::canonical;
use crate::namespaces::Namespaces;
use crate::networks::{Networks, Primary};

/// One interface of a pod, or, where none was found on the node, its being on a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) network: NetworkKey,
    pub(crate) ordinal: u16,
    pub(crate) addresses: BTreeSet<IpAddr>,
    /// Where the interface is; `None` where it was not found.
    pub(crate) attach: Option<Attach>,
    /// Its bandwidth, of an attachment of `netqos-multinet`.
    pub(crate) recorded: Option<RecordedLimits>,
    /// It is on the pod's primary network.
    pub(crate) is_primary: bool,
}

impl Place {
    /// Returns true for the interface that the pod's annotations of bandwidth are for.
    pub(crate) fn is_first(&self) -> bool {
        self.is_primary && self.ordinal == 0
    }
}

/// All places of a pod, by network and by the names of the interfaces. `found` are the interfaces
/// that were found on the node, of a pod that is on it.
///
/// What was found comes before what the status says: only where none of a network's interfaces was
/// found with an address do those of the status count. Every pod is on the default network.
///
/// A record of `netqos-multinet` names all networks of a pod. Then annotations, which a tenant may write, say nothing:
/// neither of other networks nor of addresses.
///
/// The primary network is the default one unless the objects of the pod's namespace say another, and the pod is on that.
pub(crate) fn places(
    pod: &Pod,
    found: &[LocalInterface],
    networks: &Networks,
    namespaces: &Namespaces,
) -> Vec<Place> {
    let primary = networks.primary(&pod.id.name.namespace, namespaces);
    let primary = primary.as_ref();
    let mut here: BTreeMap<NetworkKey, Vec<&LocalInterface>> = BTreeMap::new();
    let named = found.iter().map(|one| (&one.network, Some(&*one.name)));
    for (interface, network) in found.iter().zip(keys(pod, named, networks, primary)) {
        if let Some(network) = network {
            here.entry(network).or_default().push(interface);
        }
    }
    let mut said: BTreeMap<NetworkKey, Vec<&PodAddresses>> = BTreeMap::new();
    said.insert(NetworkKey::Default, Vec::new());
    let named = pod.addresses.iter();
    let named = named.map(|one| (&one.network, one.interface.as_deref()));
    let is_recorded = found.iter().any(|one| one.recorded.is_some());
    for (addresses, network) in pod
        .addresses
        .iter()
        .zip(keys(pod, named, networks, primary))
    {
        let counts = !is_recorded || addresses.network == NetworkName::Default;
        // Pods of other namespaces are not on it.
        let is_foreign = |it: &NetworkKey| {
            networks.is_primary(it) && primary.is_none_or(|primary| primary.key != *it)
        };
        let counts = counts && !network.as_ref().is_some_and(is_foreign);
        if let Some(network) = network.filter(|_| counts) {
            said.entry(network).or_default().push(addresses);
        }
    }

    let mut places = Vec::with_capacity(said.len().max(here.len()));
    for (network, mut interfaces) in here {
        interfaces.sort_by_key(|interface| &interface.name);
        let said = said.remove(&network).unwrap_or_default();
        let known = interfaces.iter().any(|one| !one.addresses.is_empty());
        for (ordinal, interface) in (0..).zip(interfaces) {
            let addresses = if known {
                interface.addresses.clone()
            } else {
                // What the status does not give to an interface is the first one's.
                let own = said.iter().filter(|said| match &said.interface {
                    Some(name) => *name == interface.name,
                    None => ordinal == 0,
                });
                own.flat_map(|said| said.addresses.iter().copied())
                    .filter(|address| is_inside(primary, &network, *address))
                    .collect()
            };
            places.push(Place {
                network: network.clone(),
                ordinal,
                addresses,
                attach: Some(interface.attach.clone()),
                recorded: interface.recorded,
                is_primary: false,
            });
        }
    }
    places.extend(said.into_iter().map(|(network, said)| {
        let addresses = said.iter().flat_map(|said| said.addresses.iter().copied());
        let addresses = addresses.filter(|address| is_inside(primary, &network, *address));
        let addresses: BTreeSet<IpAddr> = addresses.collect();
        Place {
            network,
            ordinal: 0,
            addresses,
            attach: None,
            recorded: None,
            is_primary: false,
        }
    }));
    // One that is about to be attached has neither interface nor address there. Where the node found the pod's interfaces, an
    // address that an annotation claims makes no other one.
    let is_there =
        |place: &Place| place.attach.is_some() || (found.is_empty() && !place.addresses.is_empty());
    let is_on = |it: &&Primary<'_>| {
        let mut places = places.iter();
        places.any(|place| place.network == it.key && is_there(place))
    };
    let primary = primary.filter(is_on).map(|it| it.key.clone());
    let primary = primary.unwrap_or(NetworkKey::Default);
    for place in &mut places {
        canonical(&mut place.addresses);
        place.is_primary = place.network == primary;
    }
    places.sort_by(|a, b| (&a.network, a.ordinal).cmp(&(&b.network, b.ordinal)));
    places
}

/// The networks of a pod's interfaces. One of a CNI network that no definition is of is on the
/// default network when it is the pod's first, and on none that anybody could refer to otherwise.
fn keys<'p>(
    pod: &'p Pod,
    interfaces: impl Iterator<Item = (&'p NetworkName, Option<&'p str>)> + Clone,
    networks: &'p Networks,
    primary: Option<&'p Primary<'p>>,
) -> impl Iterator<Item = Option<NetworkKey>> {
    let is_first = |(network, name): (&NetworkName, Option<&str>)| {
        *network == NetworkName::Default || name == Some(FIRST_INTERFACE)
    };
    let first_is_known = interfaces.clone().any(is_first);
    interfaces.enumerate().map(move |(index, (network, name))| {
        let namespace = &pod.id.name.namespace;
        if let NetworkName::Primary(called) = network {
            // An annotation must name the definition that the primary network has in the pod's namespace.
            let is_it = |primary: &&Primary<'_>| {
                called.as_ref().is_none_or(|name| {
                    let named = NetworkName::Attachment(name.clone());
                    name.namespace == *namespace
                        && networks.named(&named, namespace).as_ref() == Some(&primary.key)
                })
            };
            return primary.filter(is_it).map(|primary| primary.key.clone());
        }
        // A tenant who may write a definition may give it the name of the cluster's CNI network.
        if matches!(network, NetworkName::Cni(_)) && name == Some(FIRST_INTERFACE) {
            return Some(NetworkKey::Default);
        }
        let key = networks.named(network, namespace);
        let first = name == Some(FIRST_INTERFACE) || (index == 0 && !first_is_known);
        key.or_else(|| first.then_some(NetworkKey::Default))
    })
}

/// Returns true unless an address is outside of the subnets of its network, where that is the primary one.
fn is_inside(primary: Option<&Primary<'_>>, network: &NetworkKey, address: IpAddr) -> bool {
    let primary = primary.filter(|it| it.key == *network);
    primary.is_none_or(|it| {
        it.subnets
            .iter()
            .any(|subnet| subnet.contains(&address.to_canonical()))
    })
}
