//! What the agent says of itself and of what is in force: the answer of `/v1/status`.

use std::collections::BTreeMap;

use netqos_core::Mode;
use netqos_core::plan::{ChainRule, Peers};
use netqos_daemon::Check;
use serde::{Deserialize, Serialize};

/// All of it. Rates are bits per second, counts of bytes are of layer 2.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    /// The agent's version.
    pub version: String,
    /// The node's name, as it was given.
    pub node: String,
    /// What has to be well before it is ready.
    pub checks: Vec<Check>,
    /// What was done.
    pub reconciled: Reconciled,
    /// How many objects of each kind are known.
    pub objects: BTreeMap<String, u64>,
    /// The links that netqos has made on the node.
    pub links: LinkStatus,
    /// Who is to divide the node's lines.
    pub class_backend: String,
    /// The node's lines, and how they are to be shared.
    pub lines: Vec<LineStatus>,
    /// Of which class each pod of the node is, where lines are shared.
    pub pod_classes: Vec<ClassStatus>,
    /// The interfaces that something is for.
    pub pods: Vec<PodStatus>,
    /// The networks to which `netqos-multinet` attaches pods.
    pub attachments: Vec<AttachmentStatus>,
    /// What is not as it should be.
    pub problems: Vec<ProblemStatus>,
}

/// What the engine did since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Reconciled {
    /// How often it compared the plan with what is there.
    pub times: u64,
    /// How many writes to the kernel the rules took, all together.
    pub changes: u64,
    /// How often a pod's limits were set or lifted.
    pub limits: u64,
    /// How often something failed and was tried again.
    pub retries: u64,
    /// How often a program was put back that somebody took away, or came before.
    pub restored: u64,
    /// The number of limits that the agent restored after another process changed them.
    pub limits_restored: u64,
    /// The number of queues of rules that the agent restored after another process changed them, or emptied
    /// because they had stalled.
    pub queues_restored: u64,
    /// The number of inspections that restored what another process had changed of uplinks.
    pub uplinks_restored: u64,
    /// The number of queues of limits and of uplinks that the agent emptied because they had stalled.
    pub queues_emptied: u64,
    /// The number of packets that the agent dropped because a queue could never send them, or because the transmit
    /// queue length of a link changed.
    pub dropped: u64,
    /// How long the last time took.
    pub last_seconds: f64,
}

/// The number of links that netqos has made on the node, as the kernel lists them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LinkStatus {
    /// Ends of veth pairs that queue for rules: two for each rule with a rate.
    pub rules: u64,
    /// Ifbs that queue what pods send.
    pub limits: u64,
    /// Ifbs that divide what comes by an uplink.
    pub uplinks: u64,
    /// The most that netqos makes for rules. Rules beyond that drop excess at once.
    pub most_of_rules: u64,
}

/// An interface of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub name: String,
    /// The pod's uid.
    pub uid: String,
    /// The network that the interface is on.
    pub network: String,
    /// The interface's name in the pod; empty where it was not found.
    pub interface: String,
    /// Its addresses.
    pub addresses: Vec<String>,
    /// The interface that carries the rules' hook; empty where none does.
    pub hook_on: String,
    /// How the rules' program is attached; empty where it is not.
    pub hook: String,
    /// What is not in force, and why; empty when all is.
    pub failing: String,
    /// What it is held to as a whole.
    pub limits: Vec<LimitStatus>,
    /// Its rules, the one of highest precedence first.
    pub rules: Vec<RuleStatus>,
}

/// A network to which `netqos-multinet` has attached a pod, or attaches it, as it has recorded that. Rates are bits per
/// second.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AttachmentStatus {
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub name: String,
    /// The ID of its sandbox.
    pub container_id: String,
    /// The NetworkAttachmentDefinition, `namespace/name`; for the default network the name of its CNI network.
    pub network: String,
    /// The interface's name in the pod.
    pub interface: String,
    /// Its addresses, once all networks of the pod are attached.
    pub addresses: Vec<String>,
    /// The limit of what it receives: that which is programmed, or else that which was requested of its plugins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ingress: Option<u64>,
    /// The same of what it sends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub egress: Option<u64>,
    /// The program that attaches it: `cni`.
    pub driver: String,
    /// `attached`, or what has to happen before it is, or before it is released.
    pub state: String,
}

/// A line of the node's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LineStatus {
    /// The name of its link.
    pub name: String,
    /// Who divides it, as far as that backend can; empty while nobody does.
    pub divided_by: String,
    /// Why it is not shared as it should be; empty when it is.
    pub failing: String,
    /// What each class may take of it in each direction.
    pub shares: Vec<ShareStatus>,
    /// How full it is in each direction.
    pub directions: Vec<DirectionStatus>,
}

/// How full a line is in one direction. Rates are bits per second.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DirectionStatus {
    /// `ingress` or `egress`.
    pub direction: String,
    /// What it carries; none where that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// What went over it lately, as far as the backend has the packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<u64>,
    /// Whether that is about all that it carries: who wants more has to wait for others.
    pub full: bool,
}

/// Of which class a pod is, and what it has of each line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClassStatus {
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub name: String,
    /// The pod's uid.
    pub uid: String,
    /// `system`, `latency-sensitive`, `best-effort`.
    pub class: String,
    /// Who says so, in words.
    pub because: String,
    /// How its traffic is told from others': its interfaces, its addresses, its cgroup. Where there is
    /// none, it is the system's.
    pub known_by: Vec<String>,
    /// What is not as it should be; empty when all is.
    pub failing: String,
    /// What it has, and those flows of it have that have something else.
    pub parts: Vec<PartStatus>,
}

/// What a pod, or flows of one, have of a line in one direction. Rates are bits per second.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PartStatus {
    /// The line.
    pub line: String,
    /// `ingress` or `egress`.
    pub direction: String,
    /// Which flows, in words; empty: all that is not said of others.
    pub flow: String,
    /// Their class.
    pub class: String,
    /// Whether this is theirs alone; else it is what all of their class have together.
    pub own: bool,
    /// What is guaranteed.
    pub min: u64,
    /// What is never exceeded.
    pub max: u64,
}

/// What a class may take of a line in one direction. Rates are bits per second.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ShareStatus {
    /// `ingress` or `egress`.
    pub direction: String,
    /// `system`, `latency-sensitive`, `best-effort`.
    pub class: String,
    /// What it is guaranteed.
    pub min: u64,
    /// What it never exceeds.
    pub max: u64,
    /// What it took lately, as far as the backend has the packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<u64>,
    /// What went through it since the agent started, as far as the backend has the packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counts: Option<Counts>,
}

/// A limit of an interface as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LimitStatus {
    /// `ingress` or `egress`.
    pub direction: String,
    /// Bits per second.
    pub rate: u64,
    /// True if it is known to be in force.
    pub in_force: bool,
    /// The reason why it is not, of an ingress limit: `IngressBypassed` or `IngressNotVerified`; else empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The rate at which the interface received when the limit was found to be bypassed, in bits per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bypass_rate: Option<u64>,
    /// The link that carries its queue, by the name that it had when the queue was made; empty if there is none.
    pub link: String,
    /// What it did. None where nothing counts: on kernels without eBPF.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counts: Option<Counts>,
}

/// A rule, for one interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RuleStatus {
    /// `namespace/name[index]` of the NetworkQoS.
    pub rule: String,
    /// The object's priority.
    pub priority: u8,
    /// Which destinations, in words.
    pub to: String,
    /// Which ports, in words; empty for all.
    pub ports: String,
    /// What it marks with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dscp: Option<u8>,
    /// Bits per second that all pods of the rule on this node share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<u64>,
    /// What may pass after a pause in bytes, as it was chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<u64>,
    /// The interface on the node in which what is over the rate waits; none where nothing waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// True where what is over the rate is dropped at once, since no queue can be had.
    pub polices: bool,
    /// True when it only counts.
    pub shadow: bool,
    /// What it did for this interface.
    pub counts: Counts,
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Counts {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
    /// Packets that were marked.
    pub marked_packets: u64,
    /// Packets that were dropped.
    pub dropped_packets: u64,
    /// Bytes that were dropped.
    pub dropped_bytes: u64,
}

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProblemStatus {
    /// The kind of what it is about: `NetworkQoS`, `Pod`, `File`, `Node`.
    pub kind: String,
    /// `namespace/name`, a path, or a name.
    pub name: String,
    /// Which kind of problem.
    pub reason: String,
    /// What, where, and what to do.
    pub message: String,
}

impl Status {
    /// True when every check is well.
    pub fn is_ready(&self) -> bool {
        !self.checks.is_empty() && self.checks.iter().all(|check| check.ok)
    }
}

impl RuleStatus {
    /// The rule as it was asked for; nothing was counted.
    pub fn of(rule: &ChainRule) -> Self {
        let ports: Vec<String> = rule.ports.iter().map(ToString::to_string).collect();
        let bandwidth = rule.bandwidth;
        Self {
            rule: rule.id.to_string(),
            priority: rule.priority.get(),
            to: destinations(&rule.to),
            ports: ports.join(", "),
            dscp: rule.dscp.map(|dscp| dscp.get()),
            rate: bandwidth.map(|bandwidth| bandwidth.rate.bits_per_second()),
            burst: bandwidth.and_then(|bandwidth| Some(bandwidth.burst?.bytes())),
            queue: None,
            polices: false,
            shadow: rule.mode == Mode::Shadow,
            counts: Counts::default(),
        }
    }
}

impl From<&netqos_core::Problem> for ProblemStatus {
    fn from(problem: &netqos_core::Problem) -> Self {
        use netqos_core::ObjectRef;
        let (kind, name) = match &problem.object {
            ObjectRef::Policy(name) => ("NetworkQoS", name.to_string()),
            ObjectRef::Pod(name) => ("Pod", name.to_string()),
            ObjectRef::Quota(name) => ("NetworkQoSQuota", name.clone()),
            ObjectRef::Profile(name) => ("BandwidthProfile", name.to_string()),
            ObjectRef::File(path) => ("File", path.clone()),
            ObjectRef::Node(name) => ("Node", name.clone()),
        };
        Self {
            kind: kind.to_owned(),
            name,
            reason: problem.reason.to_string(),
            message: problem.message.clone(),
        }
    }
}

/// Which destinations, in words.
fn destinations(to: &Peers) -> String {
    match to {
        Peers::Anywhere => "anywhere".to_owned(),
        Peers::AnyOf { blocks, sets } => {
            let mut words: Vec<String> = blocks.iter().map(ToString::to_string).collect();
            match sets.len() {
                0 => {}
                1 => words.push("1 set of pods".to_owned()),
                many => words.push(format!("{many} sets of pods")),
            }
            words.join(", ")
        }
    }
}
