//! Networks beside the default one.

use std::sync::Arc;

use ipnet::IpNet;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference};
use netqos_api::npwg::RESOURCE_NAME;
use netqos_core::is_identifier;
use netqos_core::objects::{
    AttachmentConfig, ClusterNetwork, NetworkDefinition, PrimaryNetwork, UserNetwork,
};
use serde::Deserialize;
use serde_json::Value;

use super::{label_selector, labels, metadata, namespaced};
use crate::FieldError;

/// The kind whose objects own a definition in each of their namespaces.
const CLUSTER_NETWORK: &str = "ClusterUserDefinedNetwork";
/// The kind whose objects own one definition.
const USER_NETWORK: &str = "UserDefinedNetwork";
/// The group of both.
const OVN_GROUP: &str = "k8s.ovn.org/";
/// The CNI plugin of OVN-Kubernetes' networks.
const OVN_PLUGIN: &str = "ovn-k8s-cni-overlay";

/// The part of a user-defined network's spec that says whose primary network it is.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct UserNetworkSpec {
    #[serde(default)]
    layer2: Option<Layer>,
    #[serde(default)]
    layer3: Option<Layer>,
}

/// The same of a cluster-wide one.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterNetworkSpec {
    #[serde(default)]
    namespace_selector: Option<LabelSelector>,
    #[serde(default)]
    network: UserNetworkSpec,
}

#[derive(Clone, Debug, Deserialize)]
struct Layer {
    #[serde(default)]
    role: String,
    #[serde(default)]
    subnets: Vec<Subnet>,
}

/// Of layer 2 a text, of layer 3 an object.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Subnet {
    Text(String),
    Object { cidr: String },
}

impl UserNetworkSpec {
    /// The subnets of a primary network; `None` if it is none. One that cannot be read has no addresses.
    fn primary(&self) -> Option<Vec<IpNet>> {
        let layer = self.layer3.as_ref().or(self.layer2.as_ref())?;
        let subnets = layer.subnets.iter().filter_map(|subnet| match subnet {
            Subnet::Text(cidr) | Subnet::Object { cidr } => cidr.parse().ok(),
        });
        (layer.role == "Primary").then(|| subnets.collect())
    }
}

/// A `NetworkAttachmentDefinition` (k8s.cni.cncf.io/v1): its metadata, and `spec.config`, which may
/// be absent (then the CNI configuration is a file on the node, of the definition's name).
///
/// # Errors
/// It has no name, or its configuration is no JSON object with a `name` that is a text.
pub fn network_definition(
    metadata: &ObjectMeta,
    config: Option<&str>,
) -> Result<NetworkDefinition, FieldError> {
    let name = namespaced(metadata)?;
    let wrong = |message: String| FieldError::new("spec.config", message);
    let mut is_of_ovn = false;
    let cni_name = match config.map(str::trim).filter(|config| !config.is_empty()) {
        None => None,
        Some(config) => {
            let config: Value = serde_json::from_str(config)
                .map_err(|error| wrong(format!("not a CNI configuration in JSON: {error}")))?;
            // Of a list, its plugins are executed.
            is_of_ovn = config.get("type").and_then(Value::as_str) == Some(OVN_PLUGIN)
                && config.get("plugins").is_none();
            match (&config, config.get("name")) {
                (Value::Object(_), None) => None,
                (Value::Object(_), Some(Value::String(name))) if name.is_empty() => None,
                (Value::Object(_), Some(Value::String(name))) => Some(name.as_str().into()),
                (Value::Object(_), Some(other)) => {
                    return Err(wrong(format!("name is a text, not {other}")));
                }
                _ => return Err(wrong("not a JSON object".to_owned())),
            }
        }
    };
    let owner = |kind| is_of_ovn.then(|| owner_uid(metadata, kind)).flatten();
    let (cluster_owner, user_owner) = (owner(CLUSTER_NETWORK), owner(USER_NETWORK));
    // OVN-Kubernetes knows a network by its name, in whatever namespaces there are definitions of it. CNI refuses a
    // configuration with another name than these.
    let is_shared = |name: &&Arc<str>| is_of_ovn && is_identifier(name) && user_owner.is_none();
    let shared = cni_name.as_ref().filter(is_shared);
    let shared = shared.map(|name: &Arc<str>| format!("cni:{name}").into());
    let cluster_network = cluster_owner.as_ref().map(|_| name.name.clone());
    Ok(NetworkDefinition {
        labels: labels(metadata),
        cluster_network: cluster_network.or(shared),
        owner_uid: cluster_owner.or(user_owner),
        cni_name: cni_name.unwrap_or_else(|| name.name.clone()),
        is_of_ovn,
        attachment: attachment(metadata, config),
        primary: None,
        name,
    })
}

fn attachment(metadata: &ObjectMeta, config: Option<&str>) -> AttachmentConfig {
    let annotations = metadata.annotations.as_ref();
    let resource_name = annotations.and_then(|it| it.get(RESOURCE_NAME));
    let resource_version = metadata.resource_version.as_deref();
    AttachmentConfig {
        resource_version: resource_version.unwrap_or_default().into(),
        config: config.map(Into::into),
        resource_name: resource_name.map(|name| name.as_str().into()),
    }
}

/// A `UserDefinedNetwork` (k8s.ovn.org/v1), for which OVN-Kubernetes makes a definition of the same
/// name, with a CNI network `namespace_name`.
///
/// # Errors
/// It has no name.
pub fn user_defined_network(
    metadata: &ObjectMeta,
    spec: &UserNetworkSpec,
) -> Result<NetworkDefinition, FieldError> {
    let name = namespaced(metadata)?;
    Ok(NetworkDefinition {
        labels: labels(metadata),
        cni_name: format!("{}_{}", name.namespace, name.name).into(),
        cluster_network: None,
        is_of_ovn: true,
        attachment: AttachmentConfig::default(),
        owner_uid: Some(uid(metadata)),
        primary: spec.primary().map(|subnets| UserNetwork {
            uid: uid(metadata),
            subnets,
        }),
        name,
    })
}

/// A `ClusterUserDefinedNetwork` (k8s.ovn.org/v1). Without a selector it has no namespaces.
///
/// # Errors
/// It has no name, or its selector is not one.
pub fn cluster_network(
    metadata: &ObjectMeta,
    spec: &ClusterNetworkSpec,
) -> Result<ClusterNetwork, FieldError> {
    let primary = spec.namespace_selector.as_ref().zip(spec.network.primary());
    let primary = primary.map(|(selector, subnets)| -> Result<_, FieldError> {
        let namespaces = label_selector(selector);
        let namespaces = namespaces.map_err(|error| error.inside("spec.namespaceSelector"))?;
        Ok(PrimaryNetwork {
            uid: uid(metadata),
            namespaces,
            subnets,
        })
    });
    Ok(ClusterNetwork {
        name: metadata::name(metadata)?,
        labels: labels(metadata),
        primary: primary.transpose()?,
    })
}

fn uid(metadata: &ObjectMeta) -> Arc<str> {
    metadata.uid.as_deref().unwrap_or_default().into()
}

/// The UID of the owner of this kind. OVN-Kubernetes gives each definition the name of its owner.
fn owner_uid(metadata: &ObjectMeta, kind: &str) -> Option<Arc<str>> {
    let mut owners = metadata.owner_references.iter().flatten();
    let is_owner = |owner: &&OwnerReference| {
        let is_of_kind = owner.kind == kind && owner.api_version.starts_with(OVN_GROUP);
        is_of_kind && metadata.name.as_ref() == Some(&owner.name)
    };
    let owner = owners.find(is_owner)?;
    Some(owner.uid.as_str().into())
}

#[cfg(test)]
mod tests {
    use netqos_core::NetworkKey;

    use super::*;

    /// The network of a definition in this namespace, with this CNI plugin and owner.
    fn key(namespace: &str, plugin: &str, owner: Option<&str>) -> NetworkKey {
        key_of("blue-net", namespace, plugin, owner)
    }

    fn key_of(network: &str, namespace: &str, plugin: &str, owner: Option<&str>) -> NetworkKey {
        let owner = owner.map(|kind| {
            vec![OwnerReference {
                api_version: "k8s.ovn.org/v1".to_owned(),
                kind: kind.to_owned(),
                name: "blue".to_owned(),
                ..OwnerReference::default()
            }]
        });
        let metadata = ObjectMeta {
            name: Some("blue".to_owned()),
            namespace: Some(namespace.to_owned()),
            owner_references: owner,
            ..ObjectMeta::default()
        };
        let config = serde_json::json!({"name": network, "type": plugin}).to_string();
        network_definition(&metadata, Some(&config)).unwrap().key()
    }

    #[test]
    fn definitions_of_one_ovn_network_are_one_network() {
        let shared = NetworkKey::Cluster("cni:blue-net".into());
        assert_eq!(key("a", OVN_PLUGIN, None), shared);
        assert_eq!(key("b", OVN_PLUGIN, None), shared);
        let cluster = NetworkKey::Cluster("blue".into());
        assert_eq!(key("a", OVN_PLUGIN, Some(CLUSTER_NETWORK)), cluster);
        for (plugin, owner) in [(OVN_PLUGIN, Some(USER_NETWORK)), ("macvlan", None)] {
            let own = |namespace: &str| {
                NetworkKey::Attachment(netqos_core::ObjectName::new(namespace, "blue"))
            };
            assert_eq!(key("a", plugin, owner), own("a"));
            assert_eq!(key("b", plugin, owner), own("b"));
        }
    }

    /// A definition of the name of a user-defined network, as a tenant may write it.
    #[test]
    fn owner_of_a_definition_counts_as_ovn_kubernetes_writes_it() {
        let owner_of = |version: &str, kind: &str, name: &str, config: Value| {
            let metadata = serde_json::json!({"name": "blue", "namespace": "a", "ownerReferences": [
                {"apiVersion": "v1", "kind": "ConfigMap", "name": "blue", "uid": "u0"},
                {"apiVersion": version, "kind": kind, "name": name, "uid": "u1"}]});
            let metadata = serde_json::from_value(metadata).unwrap();
            let definition = network_definition(&metadata, Some(&config.to_string())).unwrap();
            (
                definition.owner_uid.map(|it| it.to_string()),
                definition.cluster_network.map(|it| it.to_string()),
            )
        };
        let ovn = || serde_json::json!({"name": "n", "type": OVN_PLUGIN});
        let (uid, of) = (Some("u1".to_owned()), |network: &str| {
            Some(network.to_owned())
        });
        let v1 = "k8s.ovn.org/v1";
        let owned = owner_of(v1, USER_NETWORK, "blue", ovn());
        assert_eq!(owned, (uid.clone(), None));
        let owned = owner_of(v1, CLUSTER_NETWORK, "blue", ovn());
        assert_eq!(owned, (uid, of("blue")));
        for kind in [USER_NETWORK, CLUSTER_NETWORK] {
            for (version, kind, name) in [
                ("example.org/v1", kind, "blue"),
                (v1, "NetworkQoS", "blue"),
                (v1, kind, "other"),
            ] {
                let owned = owner_of(version, kind, name, ovn());
                assert_eq!(owned, (None, of("cni:n")), "{version} {kind} {name}");
            }
            let list = serde_json::json!({"name": "n", "type": OVN_PLUGIN, "plugins": [{"type": "bridge"}]});
            for config in [serde_json::json!({"name": "n", "type": "bridge"}), list] {
                let owned = owner_of(v1, kind, "blue", config.clone());
                assert_eq!(owned, (None, None), "{config}");
            }
        }
    }

    #[test]
    fn role_and_subnets_of_a_user_defined_network_are_read() {
        let metadata = ObjectMeta {
            name: Some("blue".to_owned()),
            namespace: Some("a".to_owned()),
            ..ObjectMeta::default()
        };
        let of = |spec: Value| {
            let spec = serde_json::from_value(spec).unwrap();
            let primary = user_defined_network(&metadata, &spec).unwrap().primary;
            primary.map(|it| {
                it.subnets
                    .iter()
                    .map(ToString::to_string)
                    .collect::<Vec<_>>()
            })
        };
        let layer3 = serde_json::json!({"topology": "Layer3", "layer3": {"role": "Primary", "mtu": 1400, "subnets": [
            {"cidr": "10.0.0.0/16", "hostSubnet": 24}, {"cidr": "fd00::/60"}]}});
        let texts = |texts: &[&str]| Some(texts.iter().map(|it| (*it).to_owned()).collect());
        assert_eq!(of(layer3.clone()), texts(&["10.0.0.0/16", "fd00::/60"]));
        let layer2 = |role: &str| serde_json::json!({"layer2": {"role": role, "subnets": ["10.0.0.0/16", "any"]}});
        assert_eq!(of(layer2("Primary")), texts(&["10.0.0.0/16"]));
        for spec in [
            layer2("Secondary"),
            layer2("primary"),
            serde_json::json!({}),
        ] {
            assert_eq!(of(spec.clone()), None, "{spec}");
        }
        let cluster = |spec: Value| {
            let spec = serde_json::from_value(spec).unwrap();
            cluster_network(&metadata, &spec).map(|it| it.primary)
        };
        let labels = serde_json::json!({"matchLabels": {"team": "x"}});
        let selecting = serde_json::json!({"namespaceSelector": labels, "network": layer3});
        let primary = cluster(selecting).unwrap().unwrap();
        assert_eq!(primary.subnets.len(), 2);
        let team = |value: &str| netqos_core::Labels::from([("team".into(), value.into())]);
        assert!(primary.namespaces.matches(&team("x")) && !primary.namespaces.matches(&team("y")));
        let secondary =
            serde_json::json!({"namespaceSelector": {}, "network": layer2("Secondary")});
        assert_eq!(cluster(secondary), Ok(None));
        assert_eq!(cluster(serde_json::json!({"network": layer3})), Ok(None));
    }

    #[test]
    fn ovn_network_whose_name_cni_refuses_is_of_one_namespace() {
        let own = NetworkKey::Attachment(netqos_core::ObjectName::new("a", "blue"));
        for name in ["blue net", "a/b", "blue\n", "-blue", "cni:blue", "bl\u{fc}"] {
            assert_eq!(key_of(name, "a", OVN_PLUGIN, None), own, "{name:?}");
        }
    }
}
