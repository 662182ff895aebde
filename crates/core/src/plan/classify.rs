//! What a plan says of one packet: the definition that every implementation is measured by.

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde::Serialize;

use super::{Chain, ChainRule, NodePlan, Peers, ServicePort};
use crate::{Mode, NetworkKey, Protocol};

/// What of a packet decides which rule is for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Packet {
    /// Where it goes, as the pod wrote it: the virtual address, where it goes to a Service.
    pub destination: IpAddr,
    /// Its transport protocol. `None`: one that has no ports, such as ICMP.
    pub protocol: Option<Protocol>,
    /// The port that it goes to. `None`: not known, as in a later fragment.
    pub port: Option<u16>,
}

/// Which rules of a chain a packet meets, by their place in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Verdict {
    /// The rule that decides mark and rate.
    pub winner: Option<usize>,
    /// The rule in shadow mode that would have, if it were in force.
    pub shadow: Option<usize>,
}

impl NodePlan {
    /// What this chain says of a packet that leaves an interface on this network.
    ///
    /// On the default network a packet to a virtual address of a Service counts as one to its
    /// backend. Where the backends differ in the rule that wins, only the node's choice of one can
    /// tell; before that choice the packet counts as one to the virtual address. Which rule would
    /// win if rules in shadow mode were enforced is found in the same way and by itself, so that
    /// such rules never alter the winner.
    pub fn classify(&self, chain: &Chain, network: &NetworkKey, packet: Packet) -> Verdict {
        let verdicts = self.backend_verdicts(chain, network, packet);
        let winner = common(verdicts.iter().map(|verdict| verdict.winner));
        // Of one first rule, all have the same or none in shadow mode.
        let first = common(
            verdicts
                .iter()
                .map(|verdict| verdict.shadow.or(verdict.winner)),
        );
        let alike = first.and_then(|_| verdicts.first());
        let shadow = alike.map(|verdict| verdict.shadow);
        if let (Some(winner), Some(shadow)) = (winner, shadow) {
            return Verdict { winner, shadow };
        }
        let own = self.to_address(chain, network, packet);
        Verdict {
            winner: winner.unwrap_or(own.winner),
            shadow: shadow.unwrap_or(own.shadow),
        }
    }

    /// The verdicts of the packet as one to each backend of its destination; none where the
    /// destination is not a Service's.
    fn backend_verdicts(
        &self,
        chain: &Chain,
        network: &NetworkKey,
        packet: Packet,
    ) -> BTreeSet<Verdict> {
        let (NetworkKey::Default, Some(protocol), Some(port)) =
            (network, packet.protocol, packet.port)
        else {
            return BTreeSet::new();
        };
        let backends = self.services.get(&ServicePort {
            address: packet.destination,
            protocol,
            port,
        });
        let rewritten = backends.into_iter().flatten().map(|backend| Packet {
            destination: backend.address,
            port: Some(backend.port),
            ..packet
        });
        rewritten
            .map(|packet| self.to_address(chain, network, packet))
            .collect()
    }

    fn to_address(&self, chain: &Chain, network: &NetworkKey, packet: Packet) -> Verdict {
        let mut shadow = None;
        for (index, rule) in chain.rules.iter().enumerate() {
            if !self.rule_matches(rule, network, packet) {
                continue;
            }
            match rule.mode {
                Mode::Enforce => {
                    let winner = Some(index);
                    return Verdict { winner, shadow };
                }
                Mode::Shadow => shadow = shadow.or(Some(index)),
            }
        }
        Verdict {
            winner: None,
            shadow,
        }
    }

    fn rule_matches(&self, rule: &ChainRule, network: &NetworkKey, packet: Packet) -> bool {
        let there = match &rule.to {
            Peers::Anywhere => true,
            Peers::AnyOf { blocks, sets } => {
                let inside = || {
                    blocks
                        .iter()
                        .any(|block| block.contains(packet.destination))
                };
                let member = || {
                    let class = self.peers.get(network, packet.destination);
                    let class = class.and_then(|id| self.classes.get(id));
                    class.is_some_and(|class| !class.is_disjoint(sets))
                };
                inside() || member()
            }
        };
        let asked = |protocol| {
            let mut ports = rule.ports.iter();
            ports.any(|ports| ports.matches(protocol, packet.port))
        };
        there && (rule.ports.is_empty() || packet.protocol.is_some_and(asked))
    }
}

/// The value that all of these are; `None` where they differ, and of none.
fn common<T: PartialEq>(mut values: impl Iterator<Item = T>) -> Option<T> {
    let first = values.next()?;
    values.all(|other| other == first).then_some(first)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::num::NonZeroU16;

    use super::*;
    use crate::plan::{Backend, ByAddress, ClassId, PeerSet, RuleId, Scope};
    use crate::{IpBlock, LabelSelector, ObjectName, PortMatch, Priority};

    fn rule(to: Peers, port: Option<u16>, mode: Mode) -> ChainRule {
        let ports = port.and_then(NonZeroU16::new).map(|port| PortMatch {
            protocol: Some(Protocol::Tcp),
            port: Some(port),
        });
        ChainRule {
            id: RuleId {
                policy: ObjectName::new("a", "b"),
                index: 0,
            },
            priority: Priority::default(),
            to,
            ports: ports.into_iter().collect(),
            dscp: None,
            bandwidth: None,
            mode,
        }
    }

    fn block(cidr: &str) -> Peers {
        let block = IpBlock::try_new(cidr.parse().unwrap(), vec![]).unwrap();
        Peers::AnyOf {
            blocks: BTreeSet::from([block]),
            sets: BTreeSet::new(),
        }
    }

    fn to(destination: &str, port: u16) -> Packet {
        Packet {
            destination: destination.parse().unwrap(),
            protocol: Some(Protocol::Tcp),
            port: Some(port),
        }
    }

    #[test]
    fn the_first_rule_in_force_wins_and_a_shadow_before_it_is_counted() {
        let chain = Chain {
            rules: vec![
                rule(block("10.0.0.0/8"), Some(80), Mode::Shadow),
                rule(block("10.1.0.0/16"), None, Mode::Enforce),
                rule(Peers::Anywhere, None, Mode::Shadow),
            ],
        };
        let icmp = Packet {
            protocol: None,
            port: None,
            ..to("10.1.0.1", 0)
        };
        for (packet, winner, shadow) in [
            (to("10.1.0.1", 80), Some(1), Some(0)),
            (to("10.1.0.1", 81), Some(1), None),
            (icmp, Some(1), None),
            (to("10.2.0.1", 80), None, Some(0)),
            (to("192.0.2.1", 80), None, Some(2)),
        ] {
            let said = NodePlan::default().classify(&chain, &NetworkKey::Default, packet);
            assert_eq!(said, Verdict { winner, shadow }, "{packet:?}");
        }
    }

    #[test]
    fn a_peer_counts_on_its_own_network_only() {
        let other = NetworkKey::Attachment(ObjectName::new("a", "net"));
        let set = PeerSet {
            network: other.clone(),
            namespaces: Scope::Namespace("a".into()),
            pods: LabelSelector::everything(),
        };
        let class = BTreeSet::from([set.id()]);
        let address = "10.0.0.1".parse().unwrap();
        let plan = NodePlan {
            peers: ByAddress::from_iter([(other.clone(), address, ClassId::of(&class))]),
            classes: BTreeMap::from([(ClassId::of(&class), class.clone())]),
            ..NodePlan::default()
        };
        let to_set = Peers::AnyOf {
            blocks: BTreeSet::new(),
            sets: class,
        };
        let chain = Chain {
            rules: vec![rule(to_set, None, Mode::Enforce)],
        };
        let winner = |network| plan.classify(&chain, network, to("10.0.0.1", 80)).winner;
        assert_eq!(winner(&other), Some(0));
        assert_eq!(winner(&NetworkKey::Default), None);
    }

    #[test]
    fn a_service_counts_as_its_backends_where_they_agree() {
        let port = ServicePort {
            address: "10.96.0.1".parse().unwrap(),
            protocol: Protocol::Tcp,
            port: 80,
        };
        let backend = |address: &str| Backend {
            address: address.parse().unwrap(),
            port: 8080,
        };
        let chain = Chain {
            rules: vec![
                rule(block("10.1.0.0/16"), Some(8080), Mode::Enforce),
                rule(block("10.96.0.0/16"), None, Mode::Enforce),
            ],
        };
        for (backends, winner) in [
            (&["10.1.0.1", "10.1.0.2"][..], Some(0)),
            (&["10.2.0.1"], None),
            (&["10.1.0.1", "10.2.0.1"], Some(1)),
            (&[], Some(1)),
        ] {
            let backends = backends.iter().map(|address| backend(address)).collect();
            let plan = NodePlan {
                services: BTreeMap::from([(port, backends)]),
                ..NodePlan::default()
            };
            let said = plan.classify(&chain, &NetworkKey::Default, to("10.96.0.1", 80));
            assert_eq!(said.winner, winner);
        }
    }

    #[test]
    fn backends_that_only_a_shadow_rule_tells_apart_count_as_backends() {
        let port = ServicePort {
            address: "10.96.0.1".parse().unwrap(),
            protocol: Protocol::Tcp,
            port: 80,
        };
        let backends = ["10.1.0.1", "10.1.0.2"].map(|address| Backend {
            address: address.parse().unwrap(),
            port: 8080,
        });
        let plan = NodePlan {
            services: BTreeMap::from([(port, BTreeSet::from(backends))]),
            ..NodePlan::default()
        };
        let rules = |shadow: &str| {
            vec![
                rule(block(shadow), None, Mode::Shadow),
                rule(block("10.1.0.0/16"), None, Mode::Enforce),
                rule(Peers::Anywhere, None, Mode::Enforce),
            ]
        };
        // Where the shadow rule is for one backend, it counts as it would decide: by the virtual address.
        for (shadow, counted) in [
            ("10.1.0.1/32", None),
            ("10.1.0.0/16", Some(0)),
            ("10.0.0.0/8", Some(0)),
            ("10.96.0.0/16", None),
        ] {
            let chain = Chain {
                rules: rules(shadow),
            };
            let said = plan.classify(&chain, &NetworkKey::Default, to("10.96.0.1", 80));
            let expected = Verdict {
                winner: Some(1),
                shadow: counted,
            };
            assert_eq!(said, expected, "{shadow}");
        }
    }
}
