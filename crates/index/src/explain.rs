//! Why a packet is treated as it is: each rule that could be for it, and what became of it.
//!
//! This walks the objects themselves and uses nothing that is kept for speed, so that it can tell
//! the truth about an index that is wrong, too.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use netqos_core::objects::Pod;
use netqos_core::plan::{Backend, Chain, Packet, RuleId, ServicePort};
use netqos_core::{
    Bandwidth, Destination, Dscp, LabelSelector, Limit, Mode, NetworkKey, ObjectName, PeerSelector,
    Policy, Priority, Protocol, Rule,
};
use serde::Serialize;

use crate::index::Index;
use crate::local::is_on_networks;
use crate::places::places;
use crate::policies::precedence;

mod display;
mod report;

pub use report::{
    Case, Considered, Explanation, LostBecause, Mismatch, Outcome, Query, Refusal, Standing, To,
    Via,
};

/// A policy as far as it has to do with the pod and the network of a question.
struct Applicable<'i> {
    policy: &'i Policy,
    networks: BTreeSet<NetworkKey>,
    selects: bool,
}

/// A rule that is for the pod, by precedence.
struct Ruled<'i> {
    policy: &'i Policy,
    index: u16,
    rule: &'i Rule,
}

impl Index {
    /// Why a packet is treated as it is. Also for pods of other nodes, as far as is known of them.
    pub fn explain(&self, query: &Query) -> Explanation {
        let mut explanation = Explanation {
            query: query.clone(),
            refusal: None,
            cases: Vec::new(),
            outcome: None,
            limit: None,
        };
        let sender = match self.sender(query) {
            Ok(sender) => sender,
            Err(refusal) => {
                explanation.refusal = Some(refusal);
                return explanation;
            }
        };
        if query.network == NetworkKey::Default {
            explanation.limit = sender.limits.egress;
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
            let pods = self.pods_at(&query.network, packet.destination);
            case(via, packet, &pods, &query.network, &policies, self)
        });
        explanation.cases = cases.collect();
        explanation.outcome = common(&explanation.cases);
        explanation
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
        let mut pods = self.pods.iter().map(|(_, entry)| &entry.pod);
        pods.find(|pod| pod.id.name == *name)
            .ok_or_else(|| Refusal::NoSuchPod(name.clone()))
    }

    fn networks_of(&self, pod: &Pod) -> BTreeMap<NetworkKey, BTreeSet<IpAddr>> {
        let mut networks: BTreeMap<_, BTreeSet<IpAddr>> = BTreeMap::new();
        for place in places(pod, self.local.interfaces(pod), &self.networks) {
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
        let mut policies: Vec<_> = self
            .policies
            .in_namespace(namespace)
            .map(|entry| Applicable {
                policy: &entry.policy,
                networks: self.references.networks(&entry.policy.networks),
                selects: entry.policy.pods.matches(&sender.labels),
            })
            .collect();
        policies.sort_by(|a, b| precedence(a.policy, b.policy));
        policies
    }

    /// The pods that have this address on this network.
    fn pods_at(&self, network: &NetworkKey, address: IpAddr) -> Vec<&Pod> {
        let pods = self.pods.iter().map(|(_, entry)| &entry.pod);
        pods.filter(|pod| is_on_networks(pod))
            .filter(|pod| {
                let networks = self.networks_of(pod);
                networks
                    .get(network)
                    .is_some_and(|addresses| addresses.contains(&address))
            })
            .collect()
    }

    fn chooses(&self, own: &Arc<str>, peers: &PeerSelector, pod: &Pod) -> bool {
        let namespace = &pod.id.name.namespace;
        let there = match &peers.namespaces {
            Some(selector) => selector.matches(&self.namespaces.labels(namespace)),
            None => namespace == own,
        };
        there
            && peers
                .pods
                .as_ref()
                .is_none_or(|pods| pods.matches(&pod.labels))
    }
}

fn case(
    via: Via,
    packet: Packet,
    pods: &[&Pod],
    network: &NetworkKey,
    policies: &[Applicable<'_>],
    index: &Index,
) -> Case {
    let mut considered = Vec::new();
    let mut rules: Vec<Ruled<'_>> = Vec::new();
    for Applicable {
        policy,
        networks,
        selects,
    } in policies
    {
        let mismatch = if !selects {
            Mismatch::Pod(policy.pods.clone())
        } else if !networks.contains(network) {
            Mismatch::Network(networks.clone())
        } else {
            let own = rules.len();
            let numbered = (0..).zip(&policy.rules);
            rules.extend(numbered.map(|(index, rule)| Ruled {
                policy,
                index,
                rule,
            }));
            // A later rule goes before an earlier one.
            rules[own..].reverse();
            continue;
        };
        considered.push(Considered::whole(policy, mismatch));
    }
    let mut winner: Option<&Ruled<'_>> = None;
    let mut shadow: Option<&Ruled<'_>> = None;
    let mut judged = Vec::with_capacity(rules.len());
    for (place, ruled) in rules.iter().enumerate() {
        let standing = if place >= Chain::MAX_RULES {
            Standing::LeftOut
        } else if let Some(mismatch) = mismatch(ruled, packet, pods, index) {
            Standing::NoMatch(mismatch)
        } else {
            match (winner.or(shadow), ruled.rule.mode) {
                (_, Mode::Enforce) if winner.is_none() => {
                    winner = Some(ruled);
                    Standing::Wins
                }
                (None, _) => {
                    shadow = Some(ruled);
                    Standing::WouldWin
                }
                (Some(to), _) => Standing::Lost {
                    to: to.id(),
                    because: because(ruled, to),
                },
            }
        };
        judged.push(Considered::rule(
            ruled.policy,
            ruled.index,
            ruled.rule,
            standing,
        ));
    }
    judged.append(&mut considered);
    let names = pods.iter().map(|pod| pod.id.name.clone());
    Case {
        via,
        packet,
        pods: names.collect(),
        outcome: Outcome {
            winner: winner.map(Ruled::id),
            shadow: shadow.map(Ruled::id),
            dscp: winner.and_then(|winner| winner.rule.dscp),
            bandwidth: winner.and_then(|winner| winner.rule.bandwidth),
        },
        rules: judged,
    }
}

/// Why a rule does not match, if it does not.
fn mismatch(ruled: &Ruled<'_>, packet: Packet, pods: &[&Pod], index: &Index) -> Option<Mismatch> {
    let Rule { to, ports, .. } = ruled.rule;
    let own = &ruled.policy.name.namespace;
    let meant = |destination: &Destination| match destination {
        Destination::Anywhere => true,
        Destination::Block(block) => block.contains(packet.destination),
        Destination::Pods(peers) => pods.iter().any(|pod| index.chooses(own, peers, pod)),
    };
    if !to.is_empty() && !to.iter().any(meant) {
        return Some(Mismatch::Destination(to.clone()));
    }
    if ports.is_empty() {
        return None;
    }
    let Some(protocol) = packet.protocol else {
        return Some(Mismatch::Protocol(ports.clone()));
    };
    if ports
        .iter()
        .any(|ports| ports.matches(protocol, packet.port))
    {
        return None;
    }
    let same_protocol = ports
        .iter()
        .any(|ports| ports.protocol.is_none_or(|wanted| wanted == protocol));
    Some(match same_protocol {
        true => Mismatch::Port(ports.clone()),
        false => Mismatch::Protocol(ports.clone()),
    })
}

fn because(loser: &Ruled<'_>, winner: &Ruled<'_>) -> LostBecause {
    if loser.policy.name == winner.policy.name {
        LostBecause::EarlierInObject
    } else if loser.policy.priority < winner.policy.priority {
        LostBecause::LowerPriority
    } else {
        LostBecause::LaterByName
    }
}

/// What all cases have in common. Of a Service that is what its backends have in common: the
/// virtual address matters only where they differ.
fn common(cases: &[Case]) -> Option<Outcome> {
    let backends = cases
        .iter()
        .filter(|case| !matches!(case.via, Via::VirtualAddress(_)));
    let mut outcomes = backends.map(|case| &case.outcome);
    let first = outcomes.next()?;
    outcomes.all(|other| other == first).then(|| first.clone())
}

impl Ruled<'_> {
    fn id(&self) -> RuleId {
        RuleId {
            policy: self.policy.name.clone(),
            index: self.index,
        }
    }
}
