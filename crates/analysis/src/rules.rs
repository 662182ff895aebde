//! Rules that never decide, since whatever they match another one matches before them.

use std::collections::BTreeMap;

use netqos_core::plan::{ChainRule, PeerSet, Peers, RuleId, Scope, SetId};
use netqos_core::{IpBlock, LabelSelector, Mode, PortMatch};
use netqos_index::Index;

use crate::code::SHADOWED;
use crate::message::{Message, Subject};
use crate::policies::has_known_networks;
use crate::snapshot::Snapshot;

/// The rules that decide on none of the pods that they are for. Where several rules together match all
/// that one does, that is not noticed: what is said is certain.
///
/// Of a policy for pods or networks that were not all read nothing is said: there it may decide.
pub(crate) fn look(snapshot: &Snapshot, index: &Index) -> Vec<Message> {
    let plan = index.plan();
    // The rule before it; `None`: it decides somewhere.
    let mut hidden: BTreeMap<&RuleId, Option<&RuleId>> = BTreeMap::new();
    for chain in plan.chains.values() {
        for (place, rule) in chain.rules.iter().enumerate() {
            if hidden.get(&rule.id).is_some_and(Option::is_none) {
                continue;
            }
            let before = chain.rules.get(..place).unwrap_or_default();
            let wider = before.iter().find(|it| covers(it, rule, &plan.sets));
            let wider = wider.map(|it| &it.id);
            let known = hidden.entry(&rule.id).or_insert(wider);
            *known = known.and(wider);
        }
    }
    let hidden = hidden
        .into_iter()
        .filter_map(|(rule, by)| Some((rule, by?)));
    let judged = hidden.filter(|(rule, _)| {
        let policy = snapshot.policy(&rule.policy);
        policy.is_some_and(|policy| {
            let pods = snapshot.known().all_in("Pod", &policy.name.namespace);
            pods && has_known_networks(snapshot, policy)
        })
    });
    let messages = judged.map(|(rule, by)| {
        let because = match (by.policy == rule.policy, by.index) {
            (true, index) => format!("egress[{index}] of the same object, which goes before it"),
            (false, index) => format!(
                "egress[{index}] of NetworkQoS {}, which goes before it",
                by.policy
            ),
        };
        let text = format!("it never decides: all that it matches is matched by {because}");
        Message::new(&SHADOWED, Subject::new("NetworkQoS", &rule.policy), text)
            .at(format!("spec.egress[{}]", rule.index))
    });
    messages.collect()
}

/// True when every packet that the second rule matches is matched by the first, which enforces.
fn covers(first: &ChainRule, second: &ChainRule, sets: &BTreeMap<SetId, PeerSet>) -> bool {
    let covered_port = |port: &PortMatch| {
        let mut ports = first.ports.iter();
        ports.any(|it| {
            it.protocol
                .is_none_or(|wanted| port.protocol == Some(wanted))
                && it.port.is_none_or(|wanted| port.port == Some(wanted))
        })
    };
    let ports = first.ports.is_empty()
        || (!second.ports.is_empty() && second.ports.iter().all(covered_port));
    first.mode == Mode::Enforce && ports && goes_everywhere(&first.to, &second.to, sets)
}

fn goes_everywhere(first: &Peers, second: &Peers, sets: &BTreeMap<SetId, PeerSet>) -> bool {
    let (
        Peers::AnyOf {
            blocks,
            sets: named,
        },
        Peers::AnyOf { .. },
    ) = (first, second)
    else {
        return *first == Peers::Anywhere;
    };
    let Peers::AnyOf {
        blocks: other_blocks,
        sets: other_named,
    } = second
    else {
        return false;
    };
    let block = |inner: &IpBlock| blocks.iter().any(|it| has_block(it, inner));
    let set = |inner: &SetId| {
        named.contains(inner)
            || sets.get(inner).is_some_and(|inner| {
                let mut known = named.iter().filter_map(|id| sets.get(id));
                known.any(|it| has_set(it, inner))
            })
    };
    other_blocks.iter().all(block) && other_named.iter().all(set)
}

fn has_block(outer: &IpBlock, inner: &IpBlock) -> bool {
    let (all, part) = (outer.cidr(), inner.cidr());
    all.contains(&part)
        && outer.except().iter().all(|hole| {
            let apart = !hole.contains(&part) && !part.contains(hole);
            apart || inner.except().iter().any(|other| other.contains(hole))
        })
}

fn has_set(outer: &PeerSet, inner: &PeerSet) -> bool {
    let namespaces = match (&outer.namespaces, &inner.namespaces) {
        (Scope::Namespace(outer), Scope::Namespace(inner)) => outer == inner,
        (Scope::Matching(outer), Scope::Matching(inner)) => is_wider(outer, inner),
        (Scope::Matching(outer), Scope::Namespace(_)) => outer.requirements().is_empty(),
        (Scope::Namespace(_), Scope::Matching(_)) => false,
    };
    outer.network == inner.network && namespaces && is_wider(&outer.pods, &inner.pods)
}

/// True when whatever the second chooses the first does, too.
fn is_wider(first: &LabelSelector, second: &LabelSelector) -> bool {
    let asked = second.requirements();
    first.requirements().iter().all(|it| asked.contains(it))
}
