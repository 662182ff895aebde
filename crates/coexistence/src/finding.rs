//! What is said of others at work, in words.

use std::fmt;

use netqos_core::Reason;

/// Another system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum System {
    /// OVN-Kubernetes.
    OvnKubernetes,
    /// Calico.
    Calico,
    /// Cilium's bandwidth manager.
    Cilium,
    /// terway-qos.
    TerwayQos,
    /// Koordinator's koordlet.
    Koordlet,
    /// None: an administrator has said so.
    Administrator,
}

/// What it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Concern {
    /// NetworkQoS objects are enforced elsewhere.
    NetworkQos,
    /// Bandwidth annotations are.
    Annotations,
    /// The lines of nodes are divided elsewhere.
    Lines,
    /// Something else is at work that does not stand in the way.
    Beside,
    /// The definition of NetworkQoS is not the one of netqos.
    Definition,
}

/// Something to know.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// What it is about.
    pub concern: Concern,
    /// Who it is.
    pub system: System,
    /// True where netqos leaves it to the other; where not, and both would do the same, it is done
    /// twice.
    pub is_left: bool,
    /// What there is, and what follows from it.
    pub message: String,
    /// What to do about it.
    pub to_do: String,
}

impl Finding {
    pub(crate) fn ovn_network_qos(left: bool) -> Self {
        let (message, to_do) = match left {
            true => (
                "OVN-Kubernetes enforces NetworkQoS on the pods' default network and on its own \
                 networks, and writes their status: netqos leaves them to it there. On other networks \
                 netqos enforces them",
                "switch one of the two off: OVN-Kubernetes' --enable-network-qos, or netqos' by \
                 --network-qos=never, which also stills this",
            ),
            false => (
                "OVN-Kubernetes enforces NetworkQoS too, and --network-qos=always says that netqos \
                 does: everything is marked, and held to its rate, twice",
                "switch OVN-Kubernetes' --enable-network-qos off, or take --network-qos=auto",
            ),
        };
        Self::new(
            Concern::NetworkQos,
            System::OvnKubernetes,
            left,
            message,
            to_do,
        )
    }

    pub(crate) fn ovn_annotations(left: bool) -> Self {
        let (message, to_do) = match left {
            true => (
                "OVN-Kubernetes limits pods by their bandwidth annotations as they start: netqos \
                 leaves the annotations to it. One that changes later has no effect until the pod \
                 is made again. BandwidthProfiles are enforced by netqos",
                "have limits that follow a change: a BandwidthProfile in place of annotations",
            ),
            false => (
                "OVN-Kubernetes limits pods by their bandwidth annotations too, and \
                 --annotations=always says that netqos does: both limits hold, the lower one counts",
                "take --annotations=auto, or know that an annotation that is raised later has no \
                 effect until the pod is made again",
            ),
        };
        Self::new(
            Concern::Annotations,
            System::OvnKubernetes,
            left,
            message,
            to_do,
        )
    }

    pub(crate) fn calico(left: bool, is_known: bool) -> Self {
        let who = match is_known {
            true => "Calico limits pods by their bandwidth annotations",
            false => {
                "Calico is at work, whose image does not say whether it is of a version that limits pods by their \
                 bandwidth annotations, 3.30 or later"
            }
        };
        let (message, to_do) = match left {
            true => (
                format!(
                    "{who}: netqos leaves the annotations to it. BandwidthProfiles and NetworkQoS are enforced by netqos, \
                     ingress limits inside of pods, where Calico does not remove them"
                ),
                "have limits that netqos enforces: a BandwidthProfile in place of annotations; where Calico is older: \
                 --annotations=always",
            ),
            false => (
                format!(
                    "{who}, and --annotations=always says that netqos enforces them: where both do, the lower limit counts"
                ),
                "take --annotations=auto, unless Calico is older than 3.30",
            ),
        };
        Self::new(Concern::Annotations, System::Calico, left, &message, to_do)
    }

    pub(crate) fn cilium(left: bool, ingress: bool, egress: bool) -> Self {
        let which = match (ingress, egress) {
            (true, true) => "kubernetes.io/egress-bandwidth and ingress-bandwidth",
            (true, false) => "kubernetes.io/ingress-bandwidth",
            (false, _) => "kubernetes.io/egress-bandwidth",
        };
        let (message, to_do) = match left {
            true => (
                format!(
                    "Cilium's bandwidth manager enforces {which}: netqos leaves that to it. \
                     BandwidthProfiles, NetworkQoS and the other direction are enforced by netqos"
                ),
                "to have netqos do it: bandwidthManager.enabled=false in Cilium's values",
            ),
            false => (
                format!(
                    "Cilium's bandwidth manager enforces {which} too, and --annotations=always says \
                     that netqos does: both limits hold"
                ),
                "take --annotations=auto, or bandwidthManager.enabled=false in Cilium's values",
            ),
        };
        Self::new(Concern::Annotations, System::Cilium, left, &message, to_do)
    }

    pub(crate) fn beside(system: System) -> Self {
        let (message, to_do) = match system {
            System::TerwayQos => (
                "terway-qos is at work: it takes kubernetes.io/*-bandwidth for bytes a second, so its \
                 limits are eight times as wide as those of netqos, which hold",
                "switch off one of the two for pods with bandwidth annotations",
            ),
            _ => (
                "koordlet is at work: what it puts on the node's own interface netqos does not \
                 touch; both hold",
                "keep its per-pod network limits (koordinator.sh/networkQOS) off pods that netqos \
                 limits",
            ),
        };
        Self::new(Concern::Beside, system, false, message, to_do)
    }

    pub(crate) fn koordlet_divides(left: bool) -> Self {
        let (message, to_do) = match left {
            true => (
                "koordlet is at work, and netQOSPolicy says tc or terway-qos, which koordlet follows: \
                 netqos leaves the node's lines to it, and its class backend is none there",
                "to have netqos divide them: label the node netqos.io/class-backend=kernel, and switch \
                 koordlet's feature gates TCNetworkQoS and TerwayQoS off, or take netQOSPolicy away",
            ),
            false => (
                "koordlet is at work, and netQOSPolicy says tc or terway-qos, which koordlet follows; \
                 the node's label netqos.io/class-backend says who divides its lines for netqos, which \
                 does so: where koordlet's feature gate is on, both do",
                "switch koordlet's feature gates TCNetworkQoS and TerwayQoS off, or take netQOSPolicy \
                 away, or the label",
            ),
        };
        Self::new(Concern::Lines, System::Koordlet, left, message, to_do)
    }

    pub(crate) fn told(concern: Concern) -> Self {
        let (message, to_do) = match concern {
            Concern::NetworkQos => (
                "NetworkQoS is not enforced by netqos, as --network-qos=never says",
                "--network-qos=auto enforces it unless OVN-Kubernetes does",
            ),
            _ => (
                "bandwidth annotations are not enforced by netqos, as --annotations=never says",
                "--annotations=auto enforces them unless somebody else does",
            ),
        };
        Self::new(concern, System::Administrator, true, message, to_do)
    }

    pub(crate) fn new(
        concern: Concern,
        system: System,
        is_left: bool,
        message: &str,
        to_do: &str,
    ) -> Self {
        Self {
            concern,
            system,
            is_left,
            message: message.to_owned(),
            to_do: to_do.to_owned(),
        }
    }

    /// As which problem a node tells of it.
    pub fn reason(&self) -> Reason {
        match (self.concern, self.is_left) {
            (Concern::NetworkQos, true) => Reason::NetworkQosElsewhere,
            (Concern::Annotations, true) => Reason::AnnotationsElsewhere,
            _ => Reason::AnotherAtWork,
        }
    }
}

impl fmt::Display for Finding {
    /// What there is, and what to do.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.message, self.to_do)
    }
}

impl fmt::Display for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OvnKubernetes => "OVN-Kubernetes",
            Self::Calico => "Calico",
            Self::Cilium => "Cilium's bandwidth manager",
            Self::TerwayQos => "terway-qos",
            Self::Koordlet => "koordlet",
            Self::Administrator => "the administrator",
        })
    }
}
