//! What a `NetworkQoS` object says, parsed: which pods, towards which destinations, marked with
//! what and held to what.
//!
//! Whatever of it can be wrong by itself is right once it is one of these types; what depends on
//! other objects (which pods, which networks) is the index's to find out.

use std::fmt;
use std::net::IpAddr;
use std::num::NonZeroU16;
use std::sync::Arc;

use ipnet::IpNet;
use serde::Serialize;

use crate::{BitRate, ByteCount, Dscp, LabelSelector, ObjectName};

/// One object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Policy {
    /// Its namespace and name.
    pub name: ObjectName,
    /// Among objects that match a packet, the highest wins.
    pub priority: Priority,
    /// On which of the pods' networks it is in force.
    pub networks: NetworkChoice,
    /// Which pods of its namespace it is for.
    pub pods: LabelSelector,
    /// Its rules as written: a later one wins over an earlier one.
    pub rules: Vec<Rule>,
}

/// `spec.priority`: 0 to 100, higher wins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Priority(u8);

/// The networks of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum NetworkChoice {
    /// The primary network of each pod: the default network, unless a user-defined network is primary in its namespace.
    Default,
    /// Every network that one of these chooses.
    AnyOf(Vec<NetworkRef>),
}

/// Chooses networks other than the default one, or that one by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum NetworkRef {
    /// The pods' default network.
    Default,
    /// The `NetworkAttachmentDefinition` or `UserDefinedNetwork` of this name.
    Attachment(ObjectName),
    /// The `ClusterUserDefinedNetwork` of this name.
    Cluster(Arc<str>),
    /// `NetworkAttachmentDefinition`s by their labels and those of their namespaces.
    AttachmentsMatching {
        /// Which namespaces.
        namespaces: LabelSelector,
        /// Which definitions in them.
        networks: LabelSelector,
    },
    /// `ClusterUserDefinedNetwork`s by their labels.
    ClustersMatching(LabelSelector),
}

/// One rule of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Rule {
    /// Which destinations. None of them: all.
    pub to: Vec<Destination>,
    /// Which protocols and ports. None of them: all.
    pub ports: Vec<PortMatch>,
    /// What matching packets are marked with.
    pub dscp: Option<Dscp>,
    /// What matching packets are held to.
    pub bandwidth: Option<Bandwidth>,
    /// Whether it is in force.
    pub mode: Mode,
}

/// Whether a rule is in force.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Mode {
    /// It marks and drops.
    #[default]
    Enforce,
    /// It counts what it would mark and drop, and touches nothing: rules of lower precedence
    /// decide as if it were not there.
    Shadow,
}

/// A rate that the pods of a rule share on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Bandwidth {
    /// Sustained.
    pub rate: BitRate,
    /// What may pass at line speed after a pause. `None`: netqos chooses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<ByteCount>,
}

/// Where a packet goes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Destination {
    /// To addresses of a block.
    Block(IpBlock),
    /// To pods.
    Pods(PeerSelector),
    /// Anywhere: a destination that says nothing.
    Anywhere,
}

/// Addresses by prefix.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct IpBlock {
    cidr: IpNet,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    except: Vec<IpNet>,
}

/// Pods by their labels. At least one of the two is there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct PeerSelector {
    /// In which namespaces. `None`: in the object's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespaces: Option<LabelSelector>,
    /// Which pods in them. `None`: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods: Option<LabelSelector>,
}

/// A transport protocol that has ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Protocol {
    /// Protocol number 6.
    Tcp,
    /// Protocol number 17.
    Udp,
    /// Protocol number 132.
    Sctp,
}

/// Which destination ports of which protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct PortMatch {
    /// `None`: any of the three.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Protocol>,
    /// `None`: any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<NonZeroU16>,
}

/// Why a value cannot be part of a policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// A priority above 100.
    #[error("priority {0} is not between 0 and 100")]
    Priority(i64),
    /// An exception that is not part of its block.
    #[error("except {except} is not inside of {cidr}")]
    ExceptOutside {
        /// The block.
        cidr: IpNet,
        /// The exception.
        except: IpNet,
    },
}

impl Priority {
    /// The highest.
    pub const MAX: Self = Self(100);

    /// This priority, if it is one.
    pub fn try_new(value: i64) -> Result<Self, PolicyError> {
        u8::try_from(value)
            .ok()
            .filter(|value| *value <= Self::MAX.0)
            .map(Self)
            .ok_or(PolicyError::Priority(value))
    }

    /// The number.
    pub const fn get(self) -> u8 {
        self.0
    }
}

impl IpBlock {
    /// The block without its exceptions. Bits behind the prefix length are cleared, as everybody
    /// does who reads a `NetworkPolicy`.
    ///
    /// # Errors
    /// An exception is not inside of the block.
    pub fn try_new(cidr: IpNet, except: Vec<IpNet>) -> Result<Self, PolicyError> {
        let cidr = cidr.trunc();
        let mut inside = Vec::with_capacity(except.len());
        for except in except {
            let except = except.trunc();
            if !cidr.contains(&except) {
                return Err(PolicyError::ExceptOutside { cidr, except });
            }
            inside.push(except);
        }
        inside.sort_unstable();
        inside.dedup();
        Ok(Self {
            cidr,
            except: inside,
        })
    }

    /// The block.
    pub fn cidr(&self) -> IpNet {
        self.cidr
    }

    /// What is not of it, sorted.
    pub fn except(&self) -> &[IpNet] {
        &self.except
    }

    /// True when the address is in the block and in none of its exceptions.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.cidr.contains(&address) && !self.except.iter().any(|not| not.contains(&address))
    }
}

impl Protocol {
    /// All three.
    pub const ALL: [Self; 3] = [Self::Tcp, Self::Udp, Self::Sctp];

    /// Its number in an IP header (IANA "Protocol Numbers").
    pub const fn number(self) -> u8 {
        match self {
            Self::Tcp => 6,
            Self::Udp => 17,
            Self::Sctp => 132,
        }
    }

    /// The protocol of this name, `TCP`, `UDP` or `SCTP`, in capital letters as Kubernetes has it.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|protocol| protocol.name() == name)
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
            Self::Sctp => "SCTP",
        }
    }
}

impl PortMatch {
    /// True when a packet of this protocol, and to this port where that is known, matches. What
    /// has no known port (a later fragment) matches only where no port is asked for.
    pub fn matches(&self, protocol: Protocol, port: Option<u16>) -> bool {
        self.protocol.is_none_or(|wanted| wanted == protocol)
            && self
                .port
                .is_none_or(|wanted| port.is_some_and(|port| port == wanted.get()))
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for PortMatch {
    /// `TCP/443`, `UDP`, `*/53`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.protocol.map_or("*", Protocol::name))?;
        match self.port {
            Some(port) => write!(f, "/{port}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for IpBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cidr.fmt(f)?;
        for (index, except) in self.except.iter().enumerate() {
            write!(f, "{}{except}", if index == 0 { " except " } else { ", " })?;
        }
        Ok(())
    }
}

impl fmt::Display for PeerSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let selecting = |selector: &Option<LabelSelector>| {
            let selector = selector.clone();
            selector.filter(|selector| *selector != LabelSelector::everything())
        };
        match selecting(&self.pods) {
            Some(pods) => write!(f, "pods {pods}")?,
            None => f.write_str("pods")?,
        }
        match (&self.namespaces, selecting(&self.namespaces)) {
            (None, _) => f.write_str(" in its own namespace"),
            (Some(_), None) => f.write_str(" in all namespaces"),
            (Some(_), Some(namespaces)) => write!(f, " in namespaces {namespaces}"),
        }
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Block(block) => block.fmt(f),
            Self::Pods(selector) => selector.fmt(f),
            Self::Anywhere => f.write_str("anywhere"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn net(text: &str) -> IpNet {
        text.parse().unwrap()
    }

    #[test]
    fn priorities_end_at_one_hundred() {
        assert_eq!(Priority::try_new(100), Ok(Priority::MAX));
        for wrong in [-1, 101, 256, i64::MAX] {
            assert_eq!(Priority::try_new(wrong), Err(PolicyError::Priority(wrong)));
        }
    }

    #[test]
    fn peers_are_named_by_what_selects_them() {
        let web = LabelSelector::new([crate::Requirement::equals("app", "web")]);
        let all = LabelSelector::everything();
        for (pods, namespaces, text) in [
            (None, Some(&web), "pods in namespaces app=web"),
            (Some(&web), None, "pods app=web in its own namespace"),
            (Some(&all), None, "pods in its own namespace"),
            (Some(&all), Some(&all), "pods in all namespaces"),
        ] {
            let peers = PeerSelector {
                pods: pods.cloned(),
                namespaces: namespaces.cloned(),
            };
            assert_eq!(peers.to_string(), text);
        }
    }

    #[test]
    fn an_exception_is_a_part_of_its_block() {
        let block = IpBlock::try_new(net("10.0.0.7/8"), vec![net("10.1.0.0/16")]).unwrap();
        assert_eq!(block.to_string(), "10.0.0.0/8 except 10.1.0.0/16");
        for (address, inside) in [
            ("10.0.0.1", true),
            ("10.1.2.3", false),
            ("11.0.0.1", false),
            ("::1", false),
        ] {
            assert_eq!(block.contains(address.parse().unwrap()), inside);
        }
        for outside in ["10.0.0.0/7", "11.0.0.0/16", "::/0"] {
            assert!(IpBlock::try_new(net("10.0.0.0/8"), vec![net(outside)]).is_err());
        }
    }

    #[test]
    fn a_port_that_is_not_known_matches_no_port() {
        let https = PortMatch {
            protocol: Some(Protocol::Tcp),
            port: NonZeroU16::new(443),
        };
        let tcp = PortMatch {
            port: None,
            ..https
        };
        assert!(https.matches(Protocol::Tcp, Some(443)));
        assert!(!https.matches(Protocol::Tcp, None));
        assert!(!https.matches(Protocol::Udp, Some(443)));
        assert!(tcp.matches(Protocol::Tcp, None));
        assert_eq!([https.to_string(), tcp.to_string()], ["TCP/443", "TCP"]);
    }

    #[test]
    fn only_the_three_names_are_protocols() {
        for protocol in Protocol::ALL {
            assert_eq!(Protocol::from_name(&protocol.to_string()), Some(protocol));
        }
        for wrong in ["TCPx", "tcp", "aUDPb", ""] {
            assert_eq!(Protocol::from_name(wrong), None);
        }
    }
}
