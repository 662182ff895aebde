//! The words that all of netqos speaks: units, identities, limits, policies, the plan of a node.
//!
//! ```text
//!   annotations ─┐
//!   CNI request ─┼──►  Limits { ingress, egress: Limit { rate, burst, latency } }
//!   (manifests) ─┘       of one Attachment { network, container, interface }
//!
//!   NetworkQoS ─────►  Policy { priority, networks, pods, rules } ──index──►  NodePlan
//! ```
//!
//! Everything in here is plain data that is right once it exists: what comes from outside is
//! parsed in `netqos-api`, `netqos-cni` and `netqos-k8s`, which pods and addresses a policy means
//! is found out in `netqos-index`, and what the kernel makes of it is decided in
//! `netqos-datapath`. No I/O, no clocks, no Kubernetes.
#![forbid(unsafe_code)]

pub mod classes;
mod digest;
mod dscp;
mod elsewhere;
mod identity;
mod labels;
mod limit;
mod names;
mod object;
pub mod objects;
pub mod plan;
mod policy;
mod problem;
mod profile;
pub mod quota;
mod report;
mod tag;
mod units;

pub use digest::{Digest, NotADigest};
pub use dscp::{Dscp, NotADscp};
pub use elsewhere::Elsewhere;
pub use identity::{Attachment, FIRST_INTERFACE, IdentityError, is_identifier, is_interface_name};
pub use labels::{LabelSelector, Labels, Operator, Requirement};
pub use limit::{Direction, Limit, Limits};
pub use names::{LISTED_NAMES, list_names};
pub use object::{EndpointId, NetworkKey, NotANetwork, ObjectName, PodId};
pub use plan::{NodePlan, PlanDelta};
pub use policy::{
    Bandwidth, Destination, IpBlock, Mode, NetworkChoice, NetworkRef, PeerSelector, Policy,
    PolicyError, PortMatch, Priority, Protocol, Rule,
};
pub use problem::{ObjectRef, OneLine, Problem, Reason, with_causes};
pub use profile::Profile;
pub use quota::Quota;
pub use report::{NodeReport, PolicyVersion, ReportedProblem};
pub use tag::Tag;
pub use units::{BitRate, ByteCount};
