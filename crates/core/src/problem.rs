//! What is not as the user wants it, in words for the user.

use std::fmt;

use serde::Serialize;

use crate::ObjectName;

/// Something that is not as the user wants it. It becomes a condition, an event, a line of a log
/// and a sample of a metric.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Problem {
    /// What it is about.
    pub object: ObjectRef,
    /// Which kind of problem.
    pub reason: Reason,
    /// What, where and what to do.
    pub message: String,
}

/// An object that a problem is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase", tag = "kind", content = "name")]
pub enum ObjectRef {
    /// A `NetworkQoS`.
    #[serde(rename = "NetworkQoS")]
    Policy(ObjectName),
    /// A `Pod`.
    #[serde(rename = "Pod")]
    Pod(ObjectName),
    /// A `NetworkQoSQuota`.
    #[serde(rename = "NetworkQoSQuota")]
    Quota(String),
    /// A `BandwidthProfile`.
    #[serde(rename = "BandwidthProfile")]
    Profile(ObjectName),
    /// A file, by its path, where no object could be read from it.
    #[serde(rename = "File")]
    File(String),
    /// The node itself.
    #[serde(rename = "Node")]
    Node(String),
}

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident,)+) => {
        /// Which kind of problem. The names are stable: alerts are written for them, and each has a part
        /// of docs/operate.md.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        pub enum Reason {
            $($(#[$doc])* $name,)+
        }

        impl Reason {
            /// Every one.
            pub const ALL: &[Self] = &[$(Self::$name),+];
        }
    };
}

reasons! {
    /// An object that cannot be read or breaks a rule of its schema; it is left out.
    Invalid,
    /// A bandwidth annotation that says nothing that can be enforced.
    InvalidBandwidth,
    /// A network that a policy or a pod refers to does not exist.
    NetworkNotFound,
    /// Two policies of equal priority are for the same pods; their names decide.
    Conflict,
    /// A policy asks for more than a quota allows; it is left out.
    QuotaExceeded,
    /// A pod has more rules than can be enforced; those of least precedence are left out.
    TooManyRules,
    /// A burst with which the rate cannot be reached was raised.
    BurstRaised,
    /// An interface of a pod was not found, or is of a kind that cannot be reached.
    EndpointUnreachable,
    /// Somebody else's program comes before ours at an interface, again and again.
    HookContested,
    /// Calico limits what a pod sends at the only hook that the kernel has for the pod's rules.
    HookReplaced,
    /// Another process keeps removing or changing a qdisc, filter or program of netqos, which restores it five
    /// times a minute.
    RepairContested,
    /// A queue stopped sending its backlog, and netqos emptied it.
    QueueStalled,
    /// Programs of others send a pod packets past the queue of its ingress limit.
    IngressBypassed,
    /// The kernel does not count packets that bypass an ingress limit, so that none is known to hold.
    IngressNotVerified,
    /// The queues of rules have all links that netqos makes on a node; a further rule has none.
    LinkLimitReached,
    /// A Service is beyond the limits of a node for comparing backends; the virtual address classifies the first
    /// packet of each connection.
    ServiceLimitReached,
    /// The kernel lacks what enforcement needs.
    KernelFeatureMissing,
    /// The API server does not answer, or refuses to tell something; what was known stays in force.
    ApiUnavailable,
    /// The API server does not know a kind of netqos: its definition is not installed, or is an older
    /// one. It is as if there were no object of it.
    DefinitionMissing,
    /// Who the peers of a policy's rules are is not published yet; until it is, the policy is in force
    /// as it was before, or not at all.
    PeersUnknown,
    /// Something else failed in the kernel; it is tried again.
    UpdateFailed,
    /// Something else on the node enforces `NetworkQoS` objects, and netqos leaves them to it.
    NetworkQosElsewhere,
    /// Something else on the node enforces bandwidth annotations, and netqos leaves them to it.
    AnnotationsElsewhere,
    /// Something else is at work on the node that may limit the same traffic.
    AnotherAtWork,
    /// The node gives no more of inotify: changes of files are looked for from time to time, until
    /// it does.
    InotifyExhausted,
    /// A file that another program on the node reads cannot be written; it is tried again.
    FileNotWritten,
    /// What a pod's label or annotation says of its class, or of its part of the line, cannot be read;
    /// what it said before stays in force.
    InvalidPodClass,
    /// What divides a node's lines cannot be read, or cannot be kept; what was in force stays.
    InvalidClasses,
    /// What a line carries is neither said nor to be found out, so that nothing of it can be guaranteed.
    LineSpeedUnknown,
    /// A class has less guaranteed than its pods ask for together: each has its part of that.
    GuaranteeReduced,
    /// A line is not divided as it should be; it is tried again.
    LineNotDivided,
    /// What the agent pins is not on the node, but in its own container alone, and goes with that.
    PinsNotOnNode,
}

/// An error with what it came from, in one line. Many errors say their cause in their own text:
/// each is said once.
pub fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text = format!("{text}: {inner_text}");
        }
        cause = inner.source();
    }
    text
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Policy(name) => write!(f, "NetworkQoS {name}"),
            Self::Pod(name) => write!(f, "Pod {name}"),
            Self::Quota(name) => write!(f, "NetworkQoSQuota {name}"),
            Self::Profile(name) => write!(f, "BandwidthProfile {name}"),
            Self::File(path) => write!(f, "file {path}"),
            Self::Node(name) => write!(f, "Node {name}"),
        }
    }
}

impl fmt::Display for Reason {
    /// The name, in CamelCase.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl fmt::Display for Problem {
    /// `NetworkQoS games/free: NetworkNotFound: …`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (object, message) = (OneLine(&self.object), OneLine(&self.message));
        write!(f, "{object}: {}: {message}", self.reason)
    }
}

/// A text in one line, with escaped control characters. Messages contain text from objects, which must not forge
/// lines of a log or control a terminal.
#[derive(Clone, Copy, Debug)]
pub struct OneLine<T>(pub T);

impl<T: fmt::Display> fmt::Display for OneLine<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::write(&mut Escaping(f), format_args!("{}", self.0))
    }
}

struct Escaping<'f, 'g>(&'f mut fmt::Formatter<'g>);

impl fmt::Write for Escaping<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for character in text.chars() {
            match character.is_control() {
                true => write!(self.0, "{}", character.escape_default())?,
                false => self.0.write_char(character)?,
            }
        }
        Ok(())
    }
}
