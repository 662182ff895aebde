//! What one object says.

use std::sync::Arc;

use netqos_api::npwg::shortened;
use netqos_cluster::{Kind, Selection};
use netqos_coexistence::{Homes, Neighbour, is_written_by_ovn_kubernetes};
use netqos_core::{ObjectName, ObjectRef, Policy, PolicyVersion, Problem, Reason};
use netqos_k8s::{Object, object_from_value};
use serde_json::Value;
use serde_json::value::RawValue;

use super::super::trim::trim;

/// The key of a text that counts in place of one that cannot be read, with the reason: an agent that reads the text from the
/// disk must know.
const UNREADABLE: &str = "netqos.io/unreadable";

/// The most characters of that reason. Its author may write the key, too.
const MOST_CHARACTERS: usize = 400;

/// An object as it was told: what it says, and its text, to be kept.
#[derive(Clone, Debug)]
pub(in super::super) struct Read {
    pub(super) object: Result<Object, Problem>,
    pub(super) version: Option<PolicyVersion>,
    /// Its `resourceVersion`, by which a server counts what happens to all objects of a kind.
    pub(super) revision: u64,
    pub(super) text: Option<Arc<RawValue>>,
    pub(super) trace: Option<Trace>,
    /// The reason that a later version of it could not be read, where it is from the disk.
    pub(super) unreadable: Option<String>,
}

/// What an object tells of who else is at work.
#[derive(Clone, Debug)]
pub(super) enum Trace {
    /// A pod of another system, on this node.
    Pod(Neighbour),
    /// A policy whose status is written as OVN-Kubernetes does.
    Status,
}

/// How an object stands there, apart from what it means.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Stands {
    /// What is looked at of it, as it is written.
    pub(in super::super) text: Option<Arc<RawValue>>,
    /// Which policy it is, and which version of it.
    pub(in super::super) version: Option<PolicyVersion>,
}

impl Read {
    /// Reads what stands in an object.
    pub(in super::super) fn of(
        kind: Kind,
        name: &ObjectName,
        mut value: Value,
        homes: &Homes,
    ) -> Self {
        let trace = Trace::of(kind, &value, homes);
        trim(kind, &mut value, homes);
        let object = object_from_value(&value).map_err(|errors| {
            let errors = errors.iter().map(ToString::to_string);
            invalid(kind, name, errors.collect::<Vec<_>>().join("; "))
        });
        Self {
            object,
            version: version(&value),
            revision: revision(&value),
            text: serde_json::value::to_raw_value(&value).ok().map(Arc::from),
            trace,
            unreadable: value
                .get(UNREADABLE)
                .and_then(Value::as_str)
                .map(|why| shortened(why, MOST_CHARACTERS)),
        }
    }

    /// The policy that it is, and how it stands there.
    pub(in super::super) fn into_policy(self) -> Option<(Policy, Stands)> {
        let stands = Stands {
            text: self.text,
            version: self.version,
        };
        match self.object {
            Ok(Object::Policy(policy)) => Some((policy, stands)),
            _ => None,
        }
    }

    /// True when it is one of those that a watch of the agent's is of.
    pub(super) fn is_of(&self, selection: &Selection, name: &ObjectName) -> bool {
        let namespace = selection.namespace.as_deref();
        let fields = selection.fields.as_deref();
        let labels = selection.labels.as_deref();
        let selected = match &self.object {
            Ok(Object::Pod(pod, ..)) => fields.is_none_or(|fields| {
                let node = pod.node.as_deref().unwrap_or_default();
                fields == format!("spec.nodeName={node}")
            }),
            Ok(Object::PeerSlice(slice)) => {
                labels.is_none_or(|labels| labels.contains(&slice.set.0.to_string()))
            }
            _ => true,
        };
        selected && namespace.is_none_or(|namespace| namespace == &*name.namespace)
    }
}

impl Trace {
    /// What is to be found in an object before it is trimmed.
    fn of(kind: Kind, value: &Value, homes: &Homes) -> Option<Self> {
        match kind {
            Kind::Pod => Neighbour::of_pod(value, homes).map(Self::Pod),
            Kind::NetworkQoS => is_written_by_ovn_kubernetes(value).then_some(Self::Status),
            _ => None,
        }
    }
}

/// The text of an object whose later version cannot be read for this reason.
pub(super) fn marked(text: &RawValue, why: &str) -> Option<Arc<RawValue>> {
    let mut value: Value = serde_json::from_str(text.get()).ok()?;
    value
        .as_object_mut()?
        .insert(UNREADABLE.to_owned(), why.into());
    serde_json::value::to_raw_value(&value).ok().map(Arc::from)
}

/// A problem with an object that cannot be read.
pub(super) fn invalid(kind: Kind, name: &ObjectName, message: String) -> Problem {
    Problem {
        object: about(kind, name),
        reason: Reason::Invalid,
        message,
    }
}

/// What a problem with an object is about, in words that a condition or an event can be hung on.
fn about(kind: Kind, name: &ObjectName) -> ObjectRef {
    match kind {
        Kind::NetworkQoS => ObjectRef::Policy(name.clone()),
        Kind::Pod => ObjectRef::Pod(name.clone()),
        Kind::NetworkQoSQuota => ObjectRef::Quota(name.name.to_string()),
        Kind::BandwidthProfile => ObjectRef::Profile(name.clone()),
        Kind::Node => ObjectRef::Node(name.name.to_string()),
        _ => ObjectRef::File(key(kind, name)),
    }
}

/// Which policy an object is, and which version of it.
fn version(value: &Value) -> Option<PolicyVersion> {
    let metadata = value.get("metadata")?;
    Some(PolicyVersion {
        uid: metadata.get("uid").and_then(Value::as_str).map(Arc::from),
        generation: metadata.get("generation")?.as_i64()?,
    })
}

fn revision(value: &Value) -> u64 {
    let text = value.pointer("/metadata/resourceVersion");
    let number = text.and_then(Value::as_str).and_then(|it| it.parse().ok());
    number.unwrap_or_default()
}

/// Where an object stands: `pods/games/a`.
pub(super) fn key(kind: Kind, name: &ObjectName) -> String {
    match &*name.namespace {
        "" => format!("{}/{}", kind.plural(), name.name),
        namespace => format!("{}/{namespace}/{}", kind.plural(), name.name),
    }
}
