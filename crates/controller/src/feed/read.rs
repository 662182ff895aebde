//! An object as the API server tells it, read.

use std::sync::Arc;

use netqos_cluster::{Kind, ObjectVersion};
use netqos_coexistence::{Homes, Neighbour, is_written_by_netqos, is_written_by_ovn_kubernetes};
use netqos_core::NodeReport;
use netqos_core::objects::PeerSlice;
use netqos_k8s::{
    FieldError, NetworkQoSDefault, NetworkQoSNodeReport, NetworkQoSPeerSlice, NetworkQosStatus,
    Object, convert, object_from_value,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::agents::PodFacts;
use crate::node_slos::{ConfigFacts, NodeFacts, ObjectFacts};

/// An object as it is read when it comes; nothing else of it is kept.
#[derive(Debug)]
pub(crate) struct Read {
    pub(super) version: u64,
    pub(super) uid: Arc<str>,
    pub(super) what: What,
    /// What it is of another system.
    pub(super) neighbour: Option<Neighbour>,
    /// Where it runs.
    pub(super) pod: Option<PodFacts>,
}

#[derive(Debug)]
pub(super) enum What {
    Object(Box<Object>),
    Policy(Box<PolicyRead>),
    Slice(PeerSlice),
    Report(NodeReport),
    Node(Box<NodeFacts>),
    NodeSlo(Box<ObjectFacts>),
    SloConfig(ConfigFacts),
    /// Something that is right, and of which nothing is to be known.
    Right,
    Unreadable(String),
}

#[derive(Debug)]
pub(super) struct PolicyRead {
    pub(super) policy: Result<netqos_core::Policy, String>,
    pub(super) facts: PolicyFacts,
}

/// What is known of a `NetworkQoS` beside what it asks for.
#[derive(Clone, Debug, Default)]
pub(crate) struct PolicyFacts {
    pub(crate) uid: String,
    pub(crate) generation: i64,
    /// How many rules it has, where it can be read.
    pub(crate) rules: Option<usize>,
    /// What is wrong with it.
    pub(crate) invalid: Option<String>,
    pub(crate) status: Option<NetworkQosStatus>,
    /// Its status is written as OVN-Kubernetes does.
    pub(crate) is_of_ovn: bool,
    /// Something of its status is ours.
    pub(crate) is_ours: bool,
    /// The version of the object that this is known from.
    pub(crate) version: u64,
}

impl PolicyFacts {
    /// The state of the object that this is known from.
    pub(crate) fn version(&self) -> ObjectVersion {
        ObjectVersion {
            uid: self.uid.as_str().into(),
            number: self.version,
        }
    }
}

impl Read {
    /// What an object is.
    pub(crate) fn of(kind: Kind, value: Value, homes: &Homes) -> Self {
        let version = text(&value, "resourceVersion");
        let version = version.and_then(|it| it.parse().ok()).unwrap_or_default();
        let uid = text(&value, "uid").unwrap_or_default().into();
        let neighbour = (kind == Kind::Pod).then(|| Neighbour::of_pod(&value, homes));
        let pod = (kind == Kind::Pod).then(|| PodFacts::of(&value));
        let what = match kind {
            Kind::NetworkQoSPeerSlice => typed(value, |it: &NetworkQoSPeerSlice| {
                convert::peer_slice(it).map(What::Slice)
            }),
            Kind::NetworkQoSNodeReport => typed(value, |it: &NetworkQoSNodeReport| {
                convert::node_report(it).map(What::Report)
            }),
            Kind::NetworkQoS => What::Policy(Box::new(policy(value, version))),
            Kind::Node => What::Node(Box::new(NodeFacts::of(&value))),
            Kind::NodeSlo => What::NodeSlo(Box::new(ObjectFacts::of(&value, version))),
            Kind::ConfigMap => What::SloConfig(ConfigFacts::of(&value)),
            Kind::NetworkQoSDefault => match NetworkQoSDefault::read(value) {
                Ok(_) => What::Right,
                Err(why) => What::Unreadable(why.to_string()),
            },
            _ => match object_from_value(&value) {
                Ok(object) => What::Object(Box::new(object)),
                Err(errors) => What::Unreadable(told(&errors)),
            },
        };
        Self {
            version,
            uid,
            what,
            neighbour: neighbour.flatten(),
            pod: pod.flatten(),
        }
    }
}

fn typed<T: DeserializeOwned>(
    value: Value,
    read: impl FnOnce(&T) -> Result<What, FieldError>,
) -> What {
    let object = serde_json::from_value(value).map_err(|why| why.to_string());
    let read = object.and_then(|object| read(&object).map_err(|why| why.to_string()));
    read.unwrap_or_else(What::Unreadable)
}

fn policy(mut value: Value, version: u64) -> PolicyRead {
    let is_of_ovn = is_written_by_ovn_kubernetes(&value);
    let is_ours = is_written_by_netqos(&value);
    let status = value.get_mut("status").map(Value::take);
    let status = status.and_then(|status| serde_json::from_value(status).ok());
    let generation = value.pointer("/metadata/generation");
    let generation = generation.and_then(Value::as_i64).unwrap_or_default();
    let policy = match object_from_value(&value) {
        Ok(Object::Policy(policy)) => Ok(policy),
        Ok(_) => Err("it is no NetworkQoS".to_owned()),
        Err(errors) => Err(told(&errors)),
    };
    PolicyRead {
        facts: PolicyFacts {
            uid: text(&value, "uid").unwrap_or_default().to_owned(),
            generation,
            rules: policy.as_ref().ok().map(|policy| policy.rules.len()),
            invalid: policy.as_ref().err().cloned(),
            status,
            is_of_ovn,
            is_ours,
            version,
        },
        policy,
    }
}

fn text<'v>(value: &'v Value, field: &str) -> Option<&'v str> {
    value.get("metadata")?.get(field)?.as_str()
}

fn told(errors: &[FieldError]) -> String {
    let told: Vec<String> = errors.iter().map(ToString::to_string).collect();
    told.join("; ")
}
