//! What an explanation consists of.

use super::*;

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Query {
    /// The pod that sends.
    pub from: ObjectName,
    /// The network that it sends on.
    pub network: NetworkKey,
    /// Where to.
    pub to: To,
    /// The transport protocol. `None`: one that has no ports, such as ICMP.
    pub protocol: Option<Protocol>,
    /// The destination port. `None`: not known, as in a later fragment.
    pub port: Option<u16>,
}

/// Where a packet is sent to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum To {
    /// A pod, on the network that is asked about.
    Pod(ObjectName),
    /// An address: a pod's, a Service's, or any other.
    Address(IpAddr),
}

/// Why a packet is treated as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// What was asked.
    pub query: Query,
    /// Why there is no answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refusal: Option<Refusal>,
    /// One for each address that the packet may come to: those of the pod, or those behind a
    /// Service and then the virtual one.
    pub cases: Vec<Case>,
    /// What happens to the packet. `None` where that depends on the case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// What the pod is held to as a whole, whatever the rules say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    /// The NetworkQoSQuota that lowered it to that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bounded_by: Option<Arc<str>>,
}

/// Why there is nothing to explain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Refusal {
    /// There is no such pod.
    NoSuchPod(ObjectName),
    /// This node has no such pod, and knows only addresses of others.
    NotOfThisNode(ObjectName),
    /// The sender is in the node's network: no policy is for it.
    HostNetwork(ObjectName),
    /// The sender has ended.
    Finished(ObjectName),
    /// The sender is not on the network that is asked about.
    NotOnNetwork {
        /// The sender.
        pod: ObjectName,
        /// The networks that it is on.
        on: BTreeSet<NetworkKey>,
    },
    /// The destination has no address on the network that is asked about.
    NoAddress(ObjectName),
}

/// One address that the packet may come to, and what that means.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Case {
    /// How it comes there.
    pub via: Via,
    /// The packet as it is judged.
    pub packet: Packet,
    /// The pods that have the address; of pods of other nodes only where they are known.
    pub pods: Vec<ObjectName>,
    /// Where who is a peer is not found out here, but read in slices
    /// ([`PeerSource::Slices`](crate::PeerSource::Slices)): those that have the address, of the
    /// sets that any rule in the sender's namespace names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slices: Option<BTreeSet<ObjectName>>,
    /// What happens.
    pub outcome: Outcome,
    /// The rules that are for the pod on this network in order of precedence, and then the
    /// policies that are not.
    pub rules: Vec<Considered>,
}

/// How a packet comes to an address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Via {
    /// It is sent there.
    Address,
    /// It is sent to this Service, behind which the address stands.
    Backend(ObjectName),
    /// It is sent to this Service. Where the backends differ, the packet counts as one to this
    /// address until the node has chosen one of them.
    VirtualAddress(ObjectName),
}

/// What happens to a packet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// The rule that decides. `None`: none does.
    pub winner: Option<RuleId>,
    /// The rule in shadow mode that would.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shadow: Option<RuleId>,
    /// What it is marked with.
    pub dscp: Option<Dscp>,
    /// What it is held to, together with the rule's other packets.
    pub bandwidth: Option<Bandwidth>,
}

/// A rule, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Considered {
    /// Its object.
    pub policy: ObjectName,
    /// Its place in the object's `spec.egress`. `None`: all of the object's rules.
    pub index: Option<u16>,
    /// The object's priority.
    pub priority: Priority,
    /// What became of it.
    pub standing: Standing,
    /// What it marks with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dscp: Option<Dscp>,
    /// What it holds to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<Bandwidth>,
}

/// What became of a rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Standing {
    /// It decides.
    Wins,
    /// It matches before all others, but is in shadow mode: it counts, and lets the next decide.
    WouldWin,
    /// It matches, and another one goes before it.
    Lost {
        /// Which.
        to: RuleId,
        /// Why that one goes before it.
        because: LostBecause,
    },
    /// It does not match.
    NoMatch(Mismatch),
    /// It is beyond what can be in force on an interface ([`Chain::MAX_RULES`]).
    LeftOut,
}

/// Why one of two rules that match goes before the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum LostBecause {
    /// Its object's priority is lower.
    LowerPriority,
    /// A later rule of the same object matches.
    EarlierInObject,
    /// Objects of equal priority go by namespace and name.
    LaterByName,
}

/// Why a rule does not match, and what it would have taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Mismatch {
    /// The object is not for the sender, but for pods like this.
    Pod(LabelSelector),
    /// The object asks for more than it may: nothing of it is in force.
    Quota(Vec<Excess>),
    /// The object is not in force on the network, but on these.
    Network(BTreeSet<NetworkKey>),
    /// The destination is none of these.
    Destination(Vec<Destination>),
    /// The protocol is none of these.
    Protocol(Vec<netqos_core::PortMatch>),
    /// The port is none of these, or is not known.
    Port(Vec<netqos_core::PortMatch>),
}

impl Case {
    /// Returns true if this is the address of a Service, before a backend is chosen.
    pub(super) fn is_virtual(&self) -> bool {
        matches!(self.via, Via::VirtualAddress(_))
    }
}

impl Considered {
    pub(super) fn whole(policy: &Policy, mismatch: Mismatch) -> Self {
        Self {
            policy: policy.name.clone(),
            index: None,
            priority: policy.priority,
            standing: Standing::NoMatch(mismatch),
            dscp: None,
            bandwidth: None,
        }
    }

    pub(super) fn rule(policy: &Policy, index: u16, rule: &Rule, standing: Standing) -> Self {
        Self {
            policy: policy.name.clone(),
            index: Some(index),
            priority: policy.priority,
            standing,
            dscp: rule.dscp,
            bandwidth: rule.bandwidth,
        }
    }
}
