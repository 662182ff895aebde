//! What one pod gets: its class, its limits and by whom, its rules in their order, and whether its node has them
//! in force.

use std::collections::BTreeSet;
use std::net::IpAddr;

use netqos_core::objects::Pod;
use netqos_core::plan::{ChainRule, Peers, RuleId, SetId};
use netqos_core::{
    Direction, EndpointId, Mode, NetworkKey, NodePlan, ObjectName, ObjectRef, Policy, Problem,
    Reason,
};
use netqos_index::{Index, Subjects};
use netqos_k8s::Object;
use netqos_status::{Agent, Facts, Verdict};
use serde::Serialize;

use crate::policies::has_known_networks;
use crate::snapshot::{Found, Snapshot};
use crate::{Message, analyze};

mod class;
mod networks;

pub use class::{DescribedAsk, DescribedClass};
pub use networks::{DescribedNetwork, NetworkState};

/// What a pod gets.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DescribedPod {
    /// `namespace/name`.
    pub pod: String,
    /// The node that it is on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// What makes it an exception: it is in the node's network, or has ended, or waits for a node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remark: Option<&'static str>,
    /// Of which class of its node's lines it is; absent: it has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<DescribedClass>,
    /// Its networks, as its status and annotations have them: the default one first. A tenant that may change the pod may
    /// write any of it.
    pub networks: Vec<DescribedNetwork>,
    /// The number of further networks that its annotations name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub more_networks: Option<usize>,
    /// What it is held to as a whole.
    pub limits: Vec<DescribedLimit>,
    /// The policies that select it, in the order in which they go.
    pub policies: Vec<DescribedPolicy>,
    /// Their rules, on each network in the order in which they go: the first that matches wins.
    pub rules: Vec<DescribedRule>,
    /// What its node, and a look at all objects, have to say of it.
    pub problems: Vec<String>,
}

/// A limit of one of the pod's interfaces.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DescribedLimit {
    /// `ingress` or `egress`.
    pub direction: Direction,
    /// Bits per second.
    pub rate: u64,
    /// Bytes; absent: netqos chooses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<u64>,
    /// Milliseconds; absent: netqos chooses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<f64>,
    /// Who says so: `annotation`, or `BandwidthProfile namespace/name`.
    pub by: String,
    /// Who would, were it not for that.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub passed_over: Vec<String>,
}

/// A policy that selects the pod.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DescribedPolicy {
    /// `namespace/name`.
    pub policy: String,
    /// Its priority.
    pub priority: u8,
    /// Whether the pod's node has it in force, as far as it has said; absent: it has not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_force: Option<bool>,
    /// Why it is not, or is not known to be.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub why: String,
}

/// A rule for the pod on a network.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DescribedRule {
    /// The network.
    pub network: String,
    /// `namespace/name[index]`.
    pub rule: String,
    /// Its object's priority.
    pub priority: u8,
    /// Which destinations, in words.
    pub to: String,
    /// How many addresses its selectors mean at present; absent: it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peers: Option<usize>,
    /// Which ports; none: all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<String>,
    /// What it marks with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dscp: Option<u8>,
    /// Bits per second that all pods of the rule on a node share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<u64>,
    /// Bytes; absent: netqos chooses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<u64>,
    /// True when it only counts.
    pub shadow: bool,
}

/// What a pod gets; `None`: there is none of this name that can be read.
pub fn describe(snapshot: &Snapshot, name: &ObjectName) -> Option<DescribedPod> {
    let (pod, found) = snapshot.pod(name)?;
    let index = snapshot.index();
    let remark = match pod {
        Pod {
            host_network: true, ..
        } => Some("it is in the node's own network: no limit and no NetworkQoS is for it"),
        Pod { finished: true, .. } => Some("it has ended"),
        Pod { node: None, .. } if snapshot.is_live() => Some("it is on no node yet"),
        _ => None,
    };
    let directions = [Direction::Ingress, Direction::Egress].into_iter();
    let limits = directions.filter_map(|it| limit(&index, name, it));
    let (networks, more_networks) = networks::networks(snapshot, pod, found);
    Some(DescribedPod {
        pod: name.to_string(),
        node: pod.node.as_ref().map(ToString::to_string),
        remark,
        class: match &found.object {
            Ok(Object::Pod(_, _, Some(class))) if !pod.finished => Some(DescribedClass::of(class)),
            _ => None,
        },
        networks,
        more_networks: Some(more_networks).filter(|more| *more > 0),
        limits: match pod.host_network {
            true => Vec::new(),
            false => limits.collect(),
        },
        policies: policies(snapshot, &index, pod),
        rules: rules(snapshot, index.plan(), name),
        problems: problems(snapshot, pod, found),
    })
}

fn limit(index: &Index, pod: &ObjectName, direction: Direction) -> Option<DescribedLimit> {
    let decided = index.decided(pod, direction)?;
    let profile = |name: &ObjectName| format!("BandwidthProfile {name}");
    Some(DescribedLimit {
        direction,
        rate: decided.limit.rate.bits_per_second(),
        burst: decided.limit.burst.map(|it| it.bytes()),
        latency_ms: decided.limit.latency.map(|it| it.as_secs_f64() * 1_000.0),
        by: match &decided.bounded_by {
            Some(quota) => format!("NetworkQoSQuota {quota}"),
            None => decided.by.as_ref().map_or("annotation".into(), profile),
        },
        passed_over: decided.passed_over.iter().map(profile).collect(),
    })
}

fn policies(snapshot: &Snapshot, index: &Index, pod: &Pod) -> Vec<DescribedPolicy> {
    let selecting = snapshot.policies().filter(|(policy, _)| {
        policy.name.namespace == pod.id.name.namespace && policy.pods.matches(&pod.labels)
    });
    let mut selecting: Vec<(&Policy, &Found)> = selecting.collect();
    selecting.sort_by(|(a, _), (b, _)| {
        let by_priority = b.priority.cmp(&a.priority);
        by_priority.then_with(|| a.name.cmp(&b.name))
    });
    let (plan, all_problems) = (index.plan(), index.problems());
    let described = selecting.into_iter().map(|(policy, found)| {
        let (in_force, why) = standing(snapshot, plan, &all_problems, (policy, found), pod);
        DescribedPolicy {
            policy: policy.name.to_string(),
            priority: policy.priority.get(),
            in_force,
            why,
        }
    });
    described.collect()
}

/// Whether a policy is in force on a pod, and why it is not.
fn standing(
    snapshot: &Snapshot,
    plan: &NodePlan,
    problems: &[Problem],
    (policy, found): (&Policy, &Found),
    pod: &Pod,
) -> (Option<bool>, String) {
    if pod.host_network {
        let why = "the pod is in the node's own network";
        return (Some(false), why.to_owned());
    }
    let about = ObjectRef::Policy(policy.name.clone());
    let all = snapshot.known();
    let can_be_known = |it: &&Problem| match it.reason {
        Reason::QuotaExceeded => all.quotas(),
        Reason::NetworkNotFound => all.networks(),
        _ => false,
    };
    let mut known = problems.iter().filter(|it| it.object == about);
    if let Some(problem) = known.find(can_be_known) {
        return (Some(false), problem.message.clone());
    }
    let mut on = on_networks(plan, &pod.id.name);
    if !on.any(|(_, rule)| rule.id.policy == policy.name) && !policy.rules.is_empty() {
        if !has_known_networks(snapshot, policy) {
            let why = "it is not known which networks it is for: they were not all read";
            return (None, why.to_owned());
        }
        let why = "the pod is on none of the networks that it is for";
        return (Some(false), why.to_owned());
    }
    if !snapshot.is_live() {
        return (None, "no node was asked".to_owned());
    }
    let Some(node) = &pod.node else {
        return (None, "the pod is on no node yet".to_owned());
    };
    if !all.all("NetworkQoSNodeReport") {
        let why = format!("what node {node} says is not known: reports were not read");
        return (None, why);
    }
    // As the controller judges, of this pod's node alone.
    let subjects = Subjects {
        pods: 1,
        nodes: BTreeSet::from([node.clone()]),
        ..Subjects::default()
    };
    let verdict = Verdict::of(&Facts {
        name: &policy.name,
        uid: &found.uid,
        generation: found.generation,
        invalid: None,
        rules: None,
        subjects: &subjects,
        reports: snapshot.reports(),
        agents: &|_| Agent::Works,
        selects: &|name| *name == pod.id.name,
    });
    let ready = verdict.ready();
    let said = verdict.zones.first().and_then(|it| it.in_force.as_ref());
    match said {
        Some(finding) if finding.holds => (Some(true), String::new()),
        Some(finding) => (Some(false), finding.message.clone()),
        None => (None, ready.message),
    }
}

/// The rules that are for a pod, with the endpoints that they are for it on.
fn on_networks<'p>(
    plan: &'p NodePlan,
    pod: &ObjectName,
) -> impl Iterator<Item = (&'p EndpointId, &'p ChainRule)> {
    let endpoints = plan.endpoints.iter();
    let its_own = endpoints.filter(move |(_, endpoint)| endpoint.pod.name == *pod);
    its_own.flat_map(|(id, endpoint)| {
        let chain = endpoint.chain.and_then(|chain| plan.chains.get(&chain));
        let rules = chain.into_iter().flat_map(|chain| &chain.rules);
        rules.map(move |rule| (id, rule))
    })
}

fn rules(snapshot: &Snapshot, plan: &NodePlan, pod: &ObjectName) -> Vec<DescribedRule> {
    let all = on_networks(plan, pod).map(|(endpoint, rule)| DescribedRule {
        network: endpoint.network.to_string(),
        rule: format!("{}[{}]", rule.id.policy, rule.id.index),
        priority: rule.priority.get(),
        to: destinations(snapshot, &rule.id),
        peers: match &rule.to {
            Peers::AnyOf { sets, .. } if !sets.is_empty() => {
                Some(addresses(plan, &endpoint.network, sets).count())
            }
            _ => None,
        },
        ports: rule.ports.iter().map(ToString::to_string).collect(),
        dscp: rule.dscp.map(|it| it.get()),
        rate: rule.bandwidth.map(|it| it.rate.bits_per_second()),
        burst: rule.bandwidth.and_then(|it| it.burst).map(|it| it.bytes()),
        shadow: rule.mode == Mode::Shadow,
    });
    all.collect()
}

/// The addresses on a network that belong to any of these sets.
fn addresses<'p>(
    plan: &'p NodePlan,
    network: &'p NetworkKey,
    sets: &'p BTreeSet<SetId>,
) -> impl Iterator<Item = IpAddr> + 'p {
    let here = plan.peers.on(network);
    here.filter_map(move |(address, class)| {
        let of_class = plan.classes.get(class)?;
        (!of_class.is_disjoint(sets)).then_some(address)
    })
}

/// The destinations of a rule, as the object has them.
fn destinations(snapshot: &Snapshot, rule: &RuleId) -> String {
    let policy = snapshot.policy(&rule.policy);
    let rule = policy.and_then(|policy| policy.rules.get(usize::from(rule.index)));
    let to = rule.map(|rule| rule.to.as_slice()).unwrap_or_default();
    match to {
        [] => "anywhere".to_owned(),
        to => to
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join("; "),
    }
}

/// What was said of the pod by its node, and by a look at all objects.
fn problems(snapshot: &Snapshot, pod: &Pod, found: &Found) -> Vec<String> {
    let name = &pod.id.name;
    let of_it = |message: &Message| {
        let subject = &message.subject;
        &*subject.kind == "Pod" && subject.namespace == name.namespace && subject.name == name.name
    };
    let messages = analyze(snapshot, Some(&name.namespace));
    let mut problems: Vec<String> = messages
        .iter()
        .filter(|it| of_it(it))
        .map(|it| format!("{} [{}] {}", it.code.level, it.code.code, it.text))
        .collect();
    if let Some(node) = &pod.node
        && snapshot.is_live()
        && snapshot.known().all("NetworkQoSNodeReport")
        && !snapshot.reports().contains_key(node)
        && found.place.is_empty()
    {
        problems.push(format!(
            "nothing is known of node {node}: no agent there has said anything"
        ));
    }
    problems
}
