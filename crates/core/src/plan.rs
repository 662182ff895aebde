//! Everything that a node shall enforce, as plain data.
//!
//! ```text
//!  endpoints ──► chain ──► rules, the first that matches wins
//!                            to: blocks (longest prefix) and peer sets
//!  peers: network, address ──► class = the peer sets that the address belongs to
//!  services: address and port ──► the backends that stand behind it
//! ```
//!
//! Chains, peer sets and classes are named by a digest of what they hold ([`crate::Digest`]): the
//! same content has the same name after a restart and on every node, so that what is in force
//! already is found again, and a changed rule list is another chain beside the old one until the
//! endpoints are switched over.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    Bandwidth, Digest, Dscp, EndpointId, IpBlock, Limits, Mode, NetworkKey, ObjectName, PodId,
    PortMatch, Priority, Protocol,
};

mod by_address;
mod classify;
mod delta;

pub use by_address::ByAddress;
pub use classify::{Packet, Verdict};
pub use delta::PlanDelta;

/// What one node shall enforce.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NodePlan {
    /// The interfaces of the node's pods that something is in force on.
    pub endpoints: BTreeMap<EndpointId, Endpoint>,
    /// The rule lists of those endpoints.
    pub chains: BTreeMap<ChainId, Chain>,
    /// The peer sets that rules of those chains go to.
    pub sets: BTreeMap<SetId, PeerSet>,
    /// The combinations of peer sets that addresses belong to.
    pub classes: BTreeMap<ClassId, BTreeSet<SetId>>,
    /// The addresses that belong to any peer set, by network.
    pub peers: ByAddress<ClassId>,
    /// Virtual addresses of the default network, and what stands behind them.
    #[serde(serialize_with = "services")]
    pub services: BTreeMap<ServicePort, BTreeSet<Backend>>,
}

/// The name of a rule list: a digest of its rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct ChainId(pub Digest);

/// The name of a peer set: a digest of what it is selected by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct SetId(pub Digest);

/// The name of a combination of peer sets: a digest of their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct ClassId(pub Digest);

/// One interface of a pod of this node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Endpoint {
    /// Whose it is.
    pub pod: PodId,
    /// Where it is, and how it is reached.
    pub attach: Attach,
    /// Its addresses on its network.
    pub addresses: BTreeSet<IpAddr>,
    /// What it is held to as a whole.
    pub limits: Limits,
    /// Its rules. `None`: no rule is for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chain: Option<ChainId>,
}

/// Where an interface is, and how it is reached.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase", tag = "where")]
pub enum Attach {
    /// A veth with one end on the host.
    HostVeth(Interface),
    /// Any other kind, which is reached inside of the pod's namespace.
    PodNetns(Interface),
    /// It cannot be reached.
    Unsupported {
        /// Why, for the user.
        reason: String,
    },
}

/// An interface in a pod's network namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Interface {
    /// The container that the network was made for (`CNI_CONTAINERID`).
    pub container: String,
    /// The name of the CNI network.
    pub network: String,
    /// Its name in the namespace when it was made (`CNI_IFNAME`). The pod can give it to another link.
    pub name: String,
    /// The file that names the namespace.
    pub netns: PathBuf,
    /// The links that it is. `None`: nothing is known but its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ends: Option<Ends>,
}

/// The links of an interface, by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Ends {
    /// The link in the pod's network namespace.
    pub pod: u32,
    /// The other end of the pair, in the host's; `None` for a link of another kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<u32>,
}

/// A rule list. Among rules that match a packet the first wins, and decides both mark and rate;
/// rules in shadow mode are passed over, and counted where they would have won.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Chain {
    /// The rules, the one of highest precedence first.
    pub rules: Vec<ChainRule>,
}

/// A rule of a chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChainRule {
    /// Which rule of which object.
    pub id: RuleId,
    /// Its object's priority.
    pub priority: Priority,
    /// Which destinations.
    pub to: Peers,
    /// Which protocols and ports. None of them: all, and protocols without ports too.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub ports: BTreeSet<PortMatch>,
    /// What matching packets are marked with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dscp: Option<Dscp>,
    /// The rate that matching packets of all the node's pods share. Rules of the same [`RuleId`]
    /// in several chains are one meter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<Bandwidth>,
    /// Whether it is in force.
    pub mode: Mode,
}

/// Which rule of which object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct RuleId {
    /// The object.
    pub policy: ObjectName,
    /// Its place in `spec.egress`, from 0.
    pub index: u16,
}

/// The destinations of a rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Peers {
    /// All.
    Anywhere,
    /// Those that any of these has.
    AnyOf {
        /// By prefix.
        #[serde(skip_serializing_if = "BTreeSet::is_empty")]
        blocks: BTreeSet<IpBlock>,
        /// By selector.
        #[serde(skip_serializing_if = "BTreeSet::is_empty")]
        sets: BTreeSet<SetId>,
    },
}

/// What a peer set is selected by: pods on one network.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct PeerSet {
    /// On which network the pods' addresses count.
    pub network: NetworkKey,
    /// In which namespaces the pods are.
    pub namespaces: Scope,
    /// Which pods.
    pub pods: crate::LabelSelector,
}

/// Where pods are looked for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Scope {
    /// In one namespace.
    Namespace(Arc<str>),
    /// In all that the selector chooses.
    Matching(crate::LabelSelector),
}

/// A port of a virtual address of a Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct ServicePort {
    /// The virtual address.
    pub address: IpAddr,
    /// The protocol.
    pub protocol: Protocol,
    /// The port.
    pub port: u16,
}

/// Where a Service's packets may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Backend {
    /// The address that replaces the virtual one.
    pub address: IpAddr,
    /// The port that replaces the Service's.
    pub port: u16,
}

impl Chain {
    /// The most rules that one can have: what a packet can be classified by in one step.
    pub const MAX_RULES: usize = 1024;

    /// Its name.
    pub fn id(&self) -> ChainId {
        ChainId(Digest::of(self))
    }
}

impl PeerSet {
    /// Its name. A controller and the agents find each other's sets by it, whatever their versions:
    /// the name of a set never changes.
    pub fn id(&self) -> SetId {
        SetId(Digest::of(self))
    }

    /// The namespace of the slices that its addresses are published in, where a controller does
    /// that: a set of one namespace has them there, any other one in the controller's own.
    pub fn home<'s>(&'s self, controller: &'s Arc<str>) -> &'s Arc<str> {
        match &self.namespaces {
            Scope::Namespace(name) => name,
            Scope::Matching(_) => controller,
        }
    }
}

impl ClassId {
    /// The name of this combination.
    pub fn of(sets: &BTreeSet<SetId>) -> Self {
        Self(Digest::of(sets))
    }
}

impl Attach {
    /// The interface, where it can be reached.
    pub fn interface(&self) -> Option<&Interface> {
        match self {
            Self::HostVeth(interface) | Self::PodNetns(interface) => Some(interface),
            Self::Unsupported { .. } => None,
        }
    }
}

impl std::fmt::Display for RuleId {
    /// `namespace/name[index]`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}[{}]", self.policy, self.index)
    }
}

impl std::fmt::Display for ServicePort {
    /// `10.96.0.10:53/UDP`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let address = std::net::SocketAddr::new(self.address, self.port);
        write!(f, "{address}/{}", self.protocol)
    }
}

/// JSON has only strings for keys.
fn services<S: serde::Serializer>(
    services: &BTreeMap<ServicePort, BTreeSet<Backend>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(services.iter().map(|(port, to)| (port.to_string(), to)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LabelSelector, Operator, Requirement};

    /// Of another version of the controller, an agent would look for slices that are not there.
    #[test]
    fn a_set_has_the_name_that_it_has_always_had() {
        let requirement = |key: &str, operator| Requirement {
            key: key.into(),
            operator,
        };
        let shop = LabelSelector::new([
            Requirement::equals("app", "web"),
            requirement("tier", Operator::NotIn(["a".into(), "b".into()].into())),
            requirement("old", Operator::DoesNotExist),
        ]);
        let sets = [
            PeerSet {
                network: NetworkKey::Default,
                namespaces: Scope::Namespace("games".into()),
                pods: LabelSelector::everything(),
            },
            PeerSet {
                network: NetworkKey::Attachment(ObjectName::new("games", "fast")),
                namespaces: Scope::Matching(LabelSelector::new([requirement(
                    "team",
                    Operator::Exists,
                )])),
                pods: shop,
            },
        ];
        let names = sets.map(|set| (serde_json::to_string(&set).unwrap(), set.id().0.to_string()));
        // The digests by sha256sum of the texts.
        let expected = [
            (
                r#"{"network":"default","namespaces":{"namespace":"games"},"pods":{"requirements":[]}}"#,
                "1cf9a3ae5e96c263",
            ),
            (
                r#"{"network":"games/fast","namespaces":{"matching":{"requirements":[{"key":"team","operator":"Exists"}]}},"pods":{"requirements":[{"key":"app","operator":"In","values":["web"]},{"key":"old","operator":"DoesNotExist"},{"key":"tier","operator":"NotIn","values":["a","b"]}]}}"#,
                "d8d0931935b9bbb4",
            ),
        ];
        for ((text, name), (right, digest)) in names.iter().zip(expected) {
            assert_eq!((&**text, &**name), (right, digest));
        }
    }
}
