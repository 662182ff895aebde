//! The plan and the explanation say of each packet what the reference matcher says.

use netqos_core::plan::RuleId;
use netqos_core::{NetworkKey, ObjectName};
use netqos_index::{Index, Outcome, Query, To, Via};
use netqos_testkit::reference::{Cluster, Decision};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::arbitrary::{change, changes_to, config, note, packet};
use crate::objects::{NODE, index};
use netqos_core::plan::Packet;

/// What the plan says; nothing where nothing is in force.
fn planned(
    index: &Index,
    from: &ObjectName,
    network: &NetworkKey,
    packet: Packet,
) -> Vec<Decision> {
    let plan = index.plan();
    let of_pod = plan.endpoints.iter();
    of_pod
        .filter(|(id, endpoint)| endpoint.pod.name == *from && id.network == *network)
        .map(|(_, endpoint)| {
            let Some(chain) = endpoint.chain.map(|chain| &plan.chains[&chain]) else {
                return Decision::default();
            };
            let verdict = plan.classify(chain, network, packet);
            let id = |place: usize| -> RuleId { chain.rules[place].id.clone() };
            Decision {
                winner: verdict.winner.map(id),
                shadow: verdict.shadow.map(id),
            }
        })
        .collect()
}

/// What the explanation says: where that depends on the backend, of the virtual address.
fn explained(index: &Index, from: &ObjectName, network: &NetworkKey, packet: Packet) -> Decision {
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
    let Some(Outcome { winner, shadow, .. }) = explanation.outcome.or(virtual_address) else {
        return Decision::default();
    };
    Decision { winner, shadow }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn plan_explanation_and_reference_agree(
        changes in vec(change(), 20..80),
        packets in vec(packet(), 12),
    ) {
        let mut cluster = Cluster { node: NODE.into(), ..Cluster::default() };
        for change in changes {
            note(&mut cluster, change);
        }
        let index = index(changes_to(&cluster, false));
        for pod in cluster.pods.values() {
            let from = &pod.id.name;
            for network in cluster.networks_of(pod) {
                for packet in &packets {
                    let right = cluster.decide(from, &network, *packet);
                    let said = explained(&index, from, &network, *packet);
                    prop_assert_eq!(&said, &right, "explained: {} on {} {:?}", from, network, packet);
                    let planned = planned(&index, from, &network, *packet);
                    for said in &planned {
                        prop_assert!(cluster.is_local(pod));
                        prop_assert_eq!(said, &right, "planned: {} on {} {:?}", from, network, packet);
                    }
                    if planned.is_empty() && cluster.is_local(pod) {
                        prop_assert_eq!(&Decision::default(), &right, "nothing planned: {}", from);
                    }
                }
            }
        }
    }
}
