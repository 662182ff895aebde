//! The plan and the explanation say of each packet what the reference matcher says.

use netqos_core::plan::{Packet, RuleId};
use netqos_core::{Bandwidth, Dscp, NetworkKey, ObjectName};
use netqos_index::{Index, Outcome, Query, To, Via};
use netqos_testkit::reference::{Cluster, Decision};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::arbitrary::{change, changes_to, config, note, packet, rule_with_rate};
use crate::objects::{NODE, index};

/// Which rules a packet meets, and what the one in force does to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Said {
    decision: Decision,
    dscp: Option<Dscp>,
    bandwidth: Option<Bandwidth>,
}

/// How many packets were asked about, and what they met.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub packets: u64,
    /// A rule in force.
    pub won: u64,
    /// One with a rate.
    pub limited: u64,
    /// A rule in shadow mode.
    pub shadow: u64,
}

/// What the reference matcher says.
fn right(cluster: &Cluster, from: &ObjectName, network: &NetworkKey, packet: Packet) -> Said {
    let decision = cluster.decide(from, network, packet);
    let winner = decision.winner.as_ref();
    let rule = winner.map(|id| &cluster.policies[&id.policy].rules[usize::from(id.index)]);
    Said {
        dscp: rule.and_then(|rule| rule.dscp),
        bandwidth: rule.and_then(|rule| rule.bandwidth),
        decision,
    }
}

/// What the plan says; nothing where nothing is in force.
fn planned(index: &Index, from: &ObjectName, network: &NetworkKey, packet: Packet) -> Vec<Said> {
    let plan = index.plan();
    let of_pod = plan.endpoints.iter();
    of_pod
        .filter(|(id, endpoint)| endpoint.pod.name == *from && id.network == *network)
        .map(|(_, endpoint)| {
            let Some(chain) = endpoint.chain.map(|chain| &plan.chains[&chain]) else {
                return Said::default();
            };
            let verdict = plan.classify(chain, network, packet);
            let id = |place: usize| -> RuleId { chain.rules[place].id.clone() };
            let winner = verdict.winner.map(|place| &chain.rules[place]);
            Said {
                decision: Decision {
                    winner: verdict.winner.map(id),
                    shadow: verdict.shadow.map(id),
                },
                dscp: winner.and_then(|rule| rule.dscp),
                bandwidth: winner.and_then(|rule| rule.bandwidth),
            }
        })
        .collect()
}

/// What the explanation says: where that depends on the backend, of the virtual address.
fn explained(index: &Index, from: &ObjectName, network: &NetworkKey, packet: Packet) -> Said {
    let explanation = index.explain(&Query {
        from: from.clone(),
        network: network.clone(),
        to: To::Address(packet.destination),
        protocol: packet.protocol,
        port: packet.port,
    });
    assert!(!explanation.to_string().is_empty());
    assert!(serde_json::to_string(&explanation).is_ok());
    let virtual_address = explanation.cases.iter();
    let virtual_address = virtual_address
        .filter(|case| matches!(case.via, Via::VirtualAddress(_)))
        .map(|case| case.outcome.clone())
        .next();
    let Some(outcome) = explanation.outcome.or(virtual_address) else {
        return Said::default();
    };
    let Outcome {
        winner,
        shadow,
        dscp,
        bandwidth,
    } = outcome;
    Said {
        decision: Decision { winner, shadow },
        dscp,
        bandwidth,
    }
}

/// Holds for each pod and network and for these packets: plan, explanation and reference agree.
pub fn agree(
    cluster: &Cluster,
    index: &Index,
    packets: &[Packet],
    tally: &mut Tally,
) -> Result<(), TestCaseError> {
    for pod in cluster.pods.values() {
        let from = &pod.id.name;
        for network in cluster.networks_of(pod) {
            for packet in packets {
                let what = || format!("{from} on {network} {packet:?}");
                let right = right(cluster, from, &network, *packet);
                let explained = explained(index, from, &network, *packet);
                prop_assert_eq!(&explained, &right, "explained: {}", what());
                let planned = planned(index, from, &network, *packet);
                for said in &planned {
                    prop_assert!(cluster.is_local(pod));
                    prop_assert_eq!(said, &right, "planned: {}", what());
                }
                if planned.is_empty() && cluster.is_local(pod) {
                    prop_assert_eq!(&Said::default(), &right, "nothing planned: {}", what());
                }
                if !planned.is_empty() {
                    tally.packets += 1;
                    tally.won += u64::from(right.decision.winner.is_some());
                    tally.limited += u64::from(right.bandwidth.is_some());
                    tally.shadow += u64::from(right.decision.shadow.is_some());
                }
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn plan_explanation_and_reference_agree(
        changes in vec(change(rule_with_rate()), 20..80),
        packets in vec(packet(), 12),
    ) {
        let mut cluster = Cluster { node: NODE.into(), ..Cluster::default() };
        for change in changes {
            note(&mut cluster, change);
        }
        let index = index(changes_to(&cluster, false));
        agree(&cluster, &index, &packets, &mut Tally::default())?;
    }
}
