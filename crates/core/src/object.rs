//! The names of objects, pods, networks and endpoints.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Serialize, Serializer};

/// The namespace and the name of an object; written `namespace/name`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectName {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name in the namespace.
    pub name: Arc<str>,
}

/// A pod that may be followed by another of the same name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct PodId {
    /// `metadata.namespace` and `metadata.name`.
    #[serde(flatten, serialize_with = "namespace_and_name")]
    pub name: ObjectName,
    /// `metadata.uid`: another for each pod, also under the same name. A pod of a manifest may have
    /// none; then `namespace/name` stands here, which is no uid of any other.
    pub uid: Arc<str>,
}

impl PodId {
    /// True where a pod that is known to others by this uid is this one: for a pod that has none of
    /// its own, any pod of its name.
    pub fn is_known_by(&self, uid: &str) -> bool {
        *self.uid == *uid || *self.uid == *self.name.to_string()
    }
}

/// A network that pods are on. Two pods reach each other's addresses on it, and addresses of two
/// networks have nothing to do with each other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NetworkKey {
    /// The cluster's own, on which every pod is that is not host-networked.
    Default,
    /// That of a `NetworkAttachmentDefinition`, or of a `UserDefinedNetwork` of that name.
    Attachment(ObjectName),
    /// That of a `ClusterUserDefinedNetwork`, which has a definition in each of its namespaces.
    Cluster(Arc<str>),
}

/// A text that names no network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no network: default, NAMESPACE/NAME, or */NAME of a cluster-wide one")]
pub struct NotANetwork(pub String);

/// One interface of one pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndpointId {
    /// The pod's uid.
    pub pod: Arc<str>,
    /// The network that the interface is on.
    pub network: NetworkKey,
    /// Which of the pod's interfaces on that network, in the order of their names, from 0.
    pub ordinal: u16,
}

impl ObjectName {
    /// The object of this name in this namespace.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl fmt::Display for NetworkKey {
    /// `default`, `namespace/name`, or `cluster/name` with an asterisk, which is no namespace.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Attachment(name) => name.fmt(f),
            Self::Cluster(name) => write!(f, "*/{name}"),
        }
    }
}

impl FromStr for NetworkKey {
    type Err = NotANetwork;

    /// As it is displayed.
    fn from_str(text: &str) -> Result<Self, NotANetwork> {
        if text == "default" {
            return Ok(Self::Default);
        }
        match text.split_once('/') {
            Some((namespace, name))
                if !namespace.is_empty() && !name.is_empty() && !name.contains('/') =>
            {
                Ok(match namespace {
                    "*" => Self::Cluster(name.into()),
                    namespace => Self::Attachment(ObjectName::new(namespace, name)),
                })
            }
            _ => Err(NotANetwork(text.to_owned())),
        }
    }
}

impl fmt::Display for EndpointId {
    /// `uid@network#ordinal`, the ordinal only when it is not 0.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.pod, self.network)?;
        match self.ordinal {
            0 => Ok(()),
            ordinal => write!(f, "#{ordinal}"),
        }
    }
}

impl Serialize for ObjectName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Serialize for NetworkKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Serialize for EndpointId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

fn namespace_and_name<S: Serializer>(name: &ObjectName, serializer: S) -> Result<S::Ok, S::Error> {
    use serde::ser::SerializeMap as _;
    let mut map = serializer.serialize_map(Some(2))?;
    map.serialize_entry("namespace", &*name.namespace)?;
    map.serialize_entry("name", &*name.name)?;
    map.end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_read_as_it_is_written() {
        let networks = [
            NetworkKey::Default,
            NetworkKey::Attachment(ObjectName::new("default", "default")),
            NetworkKey::Cluster("wide".into()),
        ];
        for network in networks {
            assert_eq!(network.to_string().parse(), Ok(network));
        }
        for wrong in ["", "/", "a/", "/a", "a/b/c", "Default", "*"] {
            assert!(wrong.parse::<NetworkKey>().is_err(), "{wrong}");
        }
    }
}
