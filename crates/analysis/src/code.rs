//! The codes of messages: one table, from which the reference is made, too.

use std::fmt;

use serde::{Serialize, Serializer};

/// How much a message matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Level {
    /// Worth knowing; nothing is wrong.
    Info,
    /// Probably not what somebody wants.
    Warning,
    /// Something that is asked for is not in force.
    Error,
}

/// A kind of message.
#[derive(Debug, PartialEq, Eq)]
pub struct Code {
    /// `NQOS0103`: never given to another kind of message.
    pub code: &'static str,
    /// How much it matters.
    pub level: Level,
    /// Its name, in CamelCase.
    pub name: &'static str,
    /// What it means.
    pub meaning: &'static str,
    /// What to do.
    pub remedy: &'static str,
}

macro_rules! codes {
    ($($constant:ident = $code:literal, $level:ident, $name:literal, $meaning:literal, $remedy:literal;)*) => {
        $(
            #[doc = $meaning]
            pub(crate) static $constant: Code = Code {
                code: $code,
                level: Level::$level,
                name: $name,
                meaning: $meaning,
                remedy: $remedy,
            };
        )*
        /// All of them, by their codes.
        pub static CODES: &[&Code] = &[$(&$constant),*];
    };
}

codes! {
    INVALID = "NQOS0101", Error, "InvalidObject",
        "An object breaks its schema or one of its rules. In a cluster what it said before stays in force where it ever was right; else, and in a folder, nothing of it is.",
        "Change the field that the message names. Where the object is in the cluster, the definitions there are older than this one's rules, or were replaced: kubectl apply --server-side -k deploy/crds.";
    UNREADABLE = "NQOS0102", Error, "UnreadableDocument",
        "A document of a file is neither YAML nor JSON, or is no object.",
        "Mend the file at the line that the message names.";
    QUOTA = "NQOS0103", Error, "QuotaExceeded",
        "A NetworkQoS, or the bandwidth of a pod's interface, asks for more than a NetworkQoSQuota allows in its namespace. Nothing of the NetworkQoS is in force; the interface is limited to the rate of the quota.",
        "Ask for less in the field that the message names, or have the quota raised by whoever owns it.";
    NETWORK = "NQOS0104", Error, "NetworkNotFound",
        "A NetworkQoS is for a network that does not exist. It is not in force there.",
        "Correct the name in spec.netAttachRefs or spec.networkSelectors, or make the NetworkAttachmentDefinition or UserDefinedNetwork.";
    DUPLICATE = "NQOS0105", Warning, "DuplicateObject",
        "Several documents describe the same object. The first one counts here; in a cluster it depends on the order in which they are applied.",
        "Remove all but one.";
    DOUBTFUL = "NQOS0106", Warning, "DoubtfulField",
        "A field of an object is followed and hardly meant, or is not read at all: a limit in the wrong place, or a key that is nearly one of netqos'.",
        "Write what the message says.";
    NO_POD = "NQOS0201", Warning, "SelectsNoPod",
        "A NetworkQoS or BandwidthProfile selects none of the pods in its namespace.",
        "Compare spec.podSelector with the labels that the pods have: kubectl get pods --show-labels.";
    EMPTY_NAMESPACE = "NQOS0202", Info, "NamespaceWithoutPods",
        "A NetworkQoS or BandwidthProfile is in a namespace that has no pods. A policy is for pods of its own namespace alone.",
        "Nothing, where pods are still to come; else move it to the namespace of the pods.";
    NO_PEER = "NQOS0203", Warning, "DestinationMatchesNothing",
        "A destination of a rule selects no pod, so nothing is sent there.",
        "Compare the selectors under classifier.to with the labels of pods and of namespaces. Without a namespaceSelector the pods are those of the policy's own namespace.";
    SHADOWED = "NQOS0204", Warning, "RuleNeverDecides",
        "Whatever a rule matches, a rule that goes before it matches, too: it never decides about a packet, on any of the pods.",
        "Give the object a higher priority, put the rule behind the wider one where both are of one object (the last that matches wins), or remove it.";
    CONFLICT = "NQOS0205", Warning, "Conflict",
        "Policies of equal priority are for the same pods. Where rules of both match a packet, the policy of the smaller name wins.",
        "Give them different priorities.";
    BURST = "NQOS0206", Warning, "BurstTooSmall",
        "With a burst as small as that the rate cannot be reached. A larger one is in force.",
        "Leave the burst out, and netqos chooses; or ask for at least as much as the message names.";
    TOO_MANY_RULES = "NQOS0207", Error, "TooManyRules",
        "More rules are for a pod than can be in force on one interface. Those of least precedence are left out.",
        "Select the pod by fewer policies, or merge rules.";
    HOST_NETWORK = "NQOS0208", Info, "HostNetworkPod",
        "A NetworkQoS or BandwidthProfile selects pods in the node's own network. It has no effect on them: they have no interface of their own.",
        "Nothing, where that is meant; else select by a label that those pods do not have, or take hostNetwork from them.";
    NOT_ATTACHED = "NQOS0209", Warning, "NotOnNetwork",
        "None of the pods that a NetworkQoS selects is on a network that it is for.",
        "Compare the networks in the object's spec with the pods' annotation k8s.v1.cni.cncf.io/network-status.";
    ANNOTATION = "NQOS0301", Error, "InvalidBandwidthAnnotation",
        "A bandwidth annotation of a pod says nothing that can be enforced. Until it does, none of the pod's annotations limits it.",
        "Write rates as quantities in bit/s (10M), bursts in bits, latencies as durations (25ms).";
    ANNOTATION_TOO_SMALL = "NQOS0302", Error, "BandwidthTooSmall",
        "A bandwidth annotation asks for less than 1 kbit/s. Until it does not, none of the pod's annotations limits it.",
        "Ask for 1k or more; a number without a suffix is in bit/s.";
    OVERRIDDEN = "NQOS0303", Info, "AnnotationOverridesProfile",
        "A pod's annotation limits a direction that a BandwidthProfile limits, too. The annotation decides.",
        "Nothing, where that is meant; else remove the annotation.";
    LIMIT_ON_HOST = "NQOS0304", Warning, "LimitOnHostNetworkPod",
        "A pod in the node's own network has a bandwidth annotation, which has no effect there.",
        "Remove the annotation, or hostNetwork.";
    INVALID_NETWORKS = "NQOS0305", Error, "InvalidNetworksAnnotation",
        "An annotation of a pod that selects networks cannot be read. netqos-multinet does not start the pod.",
        "Correct the entry and the key that the message names: docs/multinet.md. A pod's networks are set when it is created: create it again.";
    NAD_NOT_FOUND = "NQOS0306", Error, "SelectedNetworkNotFound",
        "A pod selects a NetworkAttachmentDefinition that does not exist. The pod does not start until it does.",
        "Correct the name in the annotation (without a namespace it is one of the pod's own), or create the NetworkAttachmentDefinition.";
    NAD_NOT_PERMITTED = "NQOS0307", Warning, "NetworkNotPermitted",
        "No NetworkAttachmentPolicy permits a need of a NetworkAttachmentDefinition. netqos-multinet attaches no pod to it.",
        "Read its spec.config, which is executed as root on nodes. Then permit it: netqos analyze --attachment-policies writes the policies that today's NADs need. Nothing, where Multus attaches its pods.";
    NO_AGENT = "NQOS0401", Error, "NoAgent",
        "On a node with pods that are to be limited, or have rules, no agent has said anything.",
        "kubectl -n netqos-system get pods -l app.kubernetes.io/component=agent -o wide: is there one on the node, and what does it log?";
    STALE = "NQOS0402", Warning, "NotInForceYet",
        "The agent of a node has not put the present generation of a NetworkQoS in force.",
        "It passes within seconds. Where it does not: netqos status in the agent's pod on that node.";
    NO_NODE = "NQOS0403", Info, "ReportWithoutNode",
        "There is a report of a node that does not exist. The controller deletes it.",
        "Where it stays: does the controller run?";
    NODE_PROBLEM = "NQOS0404", Error, "NodeProblem",
        "The agent of a node says that something is not as it should be.",
        "What the message says; docs/operate.md goes through the reasons.";
    ELSEWHERE = "NQOS0405", Warning, "EnforcedElsewhere",
        "Something else is at work on a node that enforces bandwidth annotations or NetworkQoS objects, or may limit the same traffic. What it enforces netqos leaves to it.",
        "Nothing, where that is meant; else docs/coexistence.md says who may be told to enforce what.";
}

impl Code {
    /// The code of this text.
    pub fn named(code: &str) -> Option<&'static Self> {
        CODES.iter().find(|it| it.code == code).copied()
    }
}

impl Serialize for &'static Code {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.code)
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_names_are_given_once_and_in_order() {
        assert!(CODES.is_sorted_by(|a, b| a.code < b.code));
        let mut names: Vec<&str> = CODES.iter().map(|it| it.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), CODES.len());
        for code in CODES {
            let (letters, digits) = code.code.split_at(4);
            assert_eq!((letters, digits.len()), ("NQOS", 4));
            assert!(digits.bytes().all(|it| it.is_ascii_digit()), "{digits}");
        }
    }
}
