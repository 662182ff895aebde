//! Why a packet is treated as it is: each rule that could be for it, and what became of it.
//!
//! This walks the objects themselves and uses nothing that is kept for speed, so that it can tell
//! the truth about an index that is wrong, too.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use netqos_core::objects::{NetworkName, Pod};
use netqos_core::plan::{Backend, Chain, Packet, RuleId, ServicePort};
use netqos_core::quota::Excess;
use netqos_core::{
    Bandwidth, Destination, Direction, Dscp, LabelSelector, Limit, NetworkChoice, NetworkKey,
    ObjectName, Policy, Priority, Protocol, Rule,
};
use serde::Serialize;

use crate::index::Index;
use crate::local::is_on_networks;
use crate::places::places;
use crate::policies::precedence;

mod destined;
mod display;
mod report;

use destined::Destined;

pub use report::{
    Case, Considered, Explanation, LostBecause, Mismatch, Outcome, Query, Refusal, Standing, To,
    Via,
};

/// A policy as far as it has to do with the pod and the network of a question.
struct Applicable<'i> {
    policy: &'i Policy,
    networks: BTreeSet<NetworkKey>,
    selects: bool,
    excesses: &'i [Excess],
}

/// A rule that is for the pod, by precedence.
struct Ruled<'i> {
    policy: &'i Policy,
    index: u16,
    rule: &'i Rule,
}

impl Index {
    /// Why a packet is treated as it is. Also for pods of other nodes, as far as is known of them.
    ///
    /// A network that several definitions are of is asked about by any of them.
    pub fn explain(&self, query: &Query) -> Explanation {
        let query = &Query {
            network: self.network_of(&query.network),
            ..query.clone()
        };
        let mut explanation = Explanation {
            query: query.clone(),
            refusal: None,
            cases: Vec::new(),
            outcome: None,
            limit: None,
            bounded_by: None,
        };
        let sender = match self.sender(query) {
            Ok(sender) => sender,
            Err(refusal) => {
                explanation.refusal = Some(refusal);
                return explanation;
            }
        };
        let places = places(
            sender,
            self.local.interfaces(sender),
            &self.cluster.networks,
            &self.cluster.namespaces,
        );
        let place = places.iter().find(|place| place.network == query.network);
        let decided = place.and_then(|place| self.decided_at(sender, place, Direction::Egress));
        if let Some(decided) = decided {
            explanation.limit = Some(decided.limit);
            explanation.bounded_by = decided.bounded_by;
        }
        let packets = match self.packets(query) {
            Ok(packets) => packets,
            Err(refusal) => {
                explanation.refusal = Some(refusal);
                return explanation;
            }
        };
        let policies = self.applicable(sender);
        let cases = packets.into_iter().map(|(via, packet)| {
            let to = Destined {
                pods: self.pods_at(&query.network, packet.destination),
                network: &query.network,
                packet,
                index: self,
            };
            to.case(via, &policies)
        });
        explanation.cases = cases.collect();
        let place = |rule: &RuleId| {
            let policy = policies.iter().position(|it| it.policy.name == rule.policy);
            (policy, Reverse(rule.index))
        };
        explanation.outcome = common(&explanation.cases, |shadow, winner| {
            place(shadow) < place(winner)
        });
        explanation
    }

    /// The network that a definition is of; any other one as it is.
    fn network_of(&self, network: &NetworkKey) -> NetworkKey {
        let NetworkKey::Attachment(name) = network else {
            return network.clone();
        };
        let known = NetworkName::Attachment(name.clone());
        let known = self.cluster.networks.named(&known, &name.namespace);
        known.unwrap_or_else(|| network.clone())
    }

    fn sender(&self, query: &Query) -> Result<&Pod, Refusal> {
        let pod = self.pod(&query.from)?;
        if pod.host_network {
            return Err(Refusal::HostNetwork(query.from.clone()));
        }
        if pod.finished {
            return Err(Refusal::Finished(query.from.clone()));
        }
        let on = self.networks_of(pod);
        if !on.contains_key(&query.network) {
            return Err(Refusal::NotOnNetwork {
                pod: query.from.clone(),
                on: on.into_keys().collect(),
            });
        }
        Ok(pod)
    }

    fn pod(&self, name: &ObjectName) -> Result<&Pod, Refusal> {
        let mut pods = self.cluster.pods.iter().map(|(_, entry)| &entry.pod);
        pods.find(|pod| pod.id.name == *name)
            .ok_or_else(|| match self.slices {
                None => Refusal::NoSuchPod(name.clone()),
                Some(_) => Refusal::NotOfThisNode(name.clone()),
            })
    }

    fn networks_of(&self, pod: &Pod) -> BTreeMap<NetworkKey, BTreeSet<IpAddr>> {
        let mut networks: BTreeMap<_, BTreeSet<IpAddr>> = BTreeMap::new();
        for place in places(
            pod,
            self.local.interfaces(pod),
            &self.cluster.networks,
            &self.cluster.namespaces,
        ) {
            networks
                .entry(place.network)
                .or_default()
                .extend(place.addresses);
        }
        networks
    }

    /// The packets that are asked about: one for each address that it may come to.
    fn packets(&self, query: &Query) -> Result<Vec<(Via, Packet)>, Refusal> {
        let packet = |destination, port| Packet {
            destination,
            protocol: query.protocol,
            port,
        };
        let address = match &query.to {
            To::Address(address) => address.to_canonical(),
            To::Pod(name) => {
                let networks = self.networks_of(self.pod(name)?);
                let addresses = networks.get(&query.network).into_iter().flatten();
                let packets = addresses.map(|address| (Via::Address, packet(*address, query.port)));
                let packets: Vec<_> = packets.collect();
                return match packets.is_empty() {
                    true => Err(Refusal::NoAddress(name.clone())),
                    false => Ok(packets),
                };
            }
        };
        let mut packets = Vec::new();
        if let (NetworkKey::Default, Some(protocol), Some(port)) =
            (&query.network, query.protocol, query.port)
        {
            let virtual_port = ServicePort {
                address,
                protocol,
                port,
            };
            let backends = self.services.backends(&virtual_port);
            if let Some(service) = self.services.owners(&virtual_port).next()
                && !backends.is_empty()
            {
                for Backend { address, port } in backends {
                    let via = Via::Backend(service.clone());
                    packets.push((via, packet(address, Some(port))));
                }
                packets.push((
                    Via::VirtualAddress(service.clone()),
                    packet(address, Some(port)),
                ));
                return Ok(packets);
            }
        }
        packets.push((Via::Address, packet(address, query.port)));
        Ok(packets)
    }

    /// All policies of the sender's namespace, in order of precedence.
    fn applicable(&self, sender: &Pod) -> Vec<Applicable<'_>> {
        let namespace = &sender.id.name.namespace;
        let places = places(
            sender,
            self.local.interfaces(sender),
            &self.cluster.networks,
            &self.cluster.namespaces,
        );
        let primary = places.into_iter().filter(|place| place.is_primary);
        let primary: BTreeSet<NetworkKey> = primary.map(|place| place.network).collect();
        let mut policies: Vec<_> = self
            .cluster
            .policies
            .in_namespace(namespace)
            .map(|entry| Applicable {
                policy: &entry.policy,
                networks: match entry.policy.networks {
                    NetworkChoice::Default => primary.clone(),
                    NetworkChoice::AnyOf(_) => entry.networks.clone(),
                },
                selects: entry.policy.pods.matches(&sender.labels),
                excesses: &entry.excesses,
            })
            .collect();
        policies.sort_by(|a, b| precedence(a.policy, b.policy));
        policies
    }

    /// The pods that have this address on this network.
    fn pods_at(&self, network: &NetworkKey, address: IpAddr) -> Vec<&Pod> {
        let pods = self.cluster.pods.iter().map(|(_, entry)| &entry.pod);
        pods.filter(|pod| is_on_networks(pod))
            .filter(|pod| {
                let networks = self.networks_of(pod);
                networks
                    .get(network)
                    .is_some_and(|addresses| addresses.contains(&address))
            })
            .collect()
    }
}

/// The outcome that all cases have in common. Of a Service that is the outcome that its backends
/// have in common: the virtual address matters only where they differ. Where they differ only in
/// the rule in shadow mode, the virtual address counts for that alone, if its rule is before the winner.
fn common(cases: &[Case], is_before: impl Fn(&RuleId, &RuleId) -> bool) -> Option<Outcome> {
    let mut outcomes = destinations(cases).map(|case| &case.outcome);
    let first = outcomes.next()?;
    if !outcomes.all(|other| other.winner == first.winner) {
        return None;
    }
    let shadow = if shadows_agree(cases) {
        first.shadow.clone()
    } else {
        let mut virtual_addresses = cases.iter().filter(|case| case.is_virtual());
        virtual_addresses.find_map(|case| case.outcome.shadow.clone())
    };
    let would_win = |shadow: &RuleId| {
        let winner = first.winner.as_ref();
        winner.is_none_or(|winner| is_before(shadow, winner))
    };
    Some(Outcome {
        shadow: shadow.filter(would_win),
        ..first.clone()
    })
}

/// Returns true if the same rule would decide in all cases, were rules in shadow mode enforced.
fn shadows_agree(cases: &[Case]) -> bool {
    let would = |case: &'_ Case| {
        let Outcome { winner, shadow, .. } = &case.outcome;
        shadow.clone().or_else(|| winner.clone())
    };
    let mut deciding = destinations(cases).map(would);
    let first = deciding.next();
    deciding.all(|other| Some(other) == first)
}

/// The addresses that the packet reaches in the end.
fn destinations(cases: &[Case]) -> impl Iterator<Item = &Case> {
    cases.iter().filter(|case| !case.is_virtual())
}

impl Ruled<'_> {
    fn id(&self) -> RuleId {
        RuleId {
            policy: self.policy.name.clone(),
            index: self.index,
        }
    }
}
