//! What becomes of a packet to one address.

use std::collections::BTreeSet;

use netqos_core::objects::Pod;
use netqos_core::plan::{Chain, Packet};
use netqos_core::{Destination, Mode, NetworkKey, ObjectName, PeerSelector, Policy, Rule};

use super::{Applicable, Case, Considered, LostBecause, Mismatch, Outcome, Ruled, Standing, Via};
use crate::index::Index;
use crate::policies::peer_set;

/// A packet, and the pods that have the address that it goes to, as far as they are known.
pub(super) struct Destined<'i> {
    pub(super) packet: Packet,
    pub(super) network: &'i NetworkKey,
    pub(super) pods: Vec<&'i Pod>,
    pub(super) index: &'i Index,
}

impl Destined<'_> {
    /// Which of these rules is for it, and why the others are not.
    pub(super) fn case(self, via: Via, policies: &[Applicable<'_>]) -> Case {
        let mut considered = Vec::new();
        let mut rules: Vec<Ruled<'_>> = Vec::new();
        for Applicable {
            policy,
            networks,
            selects,
            excesses,
        } in policies
        {
            let mismatch = if !selects {
                Mismatch::Pod(policy.pods.clone())
            } else if !networks.contains(self.network) {
                Mismatch::Network(networks.clone())
            } else if !excesses.is_empty() {
                Mismatch::Quota(excesses.to_vec())
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
            } else if let Some(mismatch) = self.mismatch(ruled) {
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
        let names = self.pods.iter().map(|pod| pod.id.name.clone());
        Case {
            via,
            packet: self.packet,
            pods: names.collect(),
            slices: self.slices(policies),
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
    fn mismatch(&self, ruled: &Ruled<'_>) -> Option<Mismatch> {
        let packet = self.packet;
        let Rule { to, ports, .. } = ruled.rule;
        let meant = |destination: &Destination| match destination {
            Destination::Anywhere => true,
            Destination::Block(block) => block.contains(packet.destination),
            Destination::Pods(peers) => self.is_peer(ruled.policy, peers),
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

    /// True when the packet goes to one of these peers.
    fn is_peer(&self, policy: &Policy, peers: &PeerSelector) -> bool {
        let Some(slices) = &self.index.slices else {
            return self.pods.iter().any(|pod| self.chooses(policy, peers, pod));
        };
        let set = peer_set(policy, self.network, peers);
        slices
            .publishing(&set, self.packet.destination)
            .next()
            .is_some()
    }

    fn chooses(&self, policy: &Policy, peers: &PeerSelector, pod: &Pod) -> bool {
        let namespace = &pod.id.name.namespace;
        let there = match &peers.namespaces {
            Some(selector) => selector.matches(&self.index.cluster.namespaces.labels(namespace)),
            None => *namespace == policy.name.namespace,
        };
        there
            && peers
                .pods
                .as_ref()
                .is_none_or(|pods| pods.matches(&pod.labels))
    }

    /// Where slices say who is a peer: those that say so of the destination, for any of the rules.
    fn slices(&self, policies: &[Applicable<'_>]) -> Option<BTreeSet<ObjectName>> {
        let slices = self.index.slices.as_ref()?;
        let rules = policies
            .iter()
            .flat_map(|it| it.policy.rules.iter().map(move |rule| (it, rule)));
        let peers = rules.flat_map(|(it, rule)| {
            rule.to.iter().filter_map(|to| match to {
                Destination::Pods(peers) => Some(peer_set(it.policy, self.network, peers)),
                _ => None,
            })
        });
        let mut names = BTreeSet::new();
        for set in peers {
            names.extend(slices.publishing(&set, self.packet.destination).cloned());
        }
        Some(names)
    }
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
