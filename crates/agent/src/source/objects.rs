//! Objects by what they are called, and the places that each is described at.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use netqos_core::{ObjectRef, PodId, Problem, Reason};
use netqos_index::Change;
use netqos_k8s::Object;

/// What an object is called.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) kind: &'static str,
    name: String,
}

/// A place: the file, and which of its objects.
pub(super) type Place = (String, usize);

/// All objects that are described anywhere.
#[derive(Debug, Default)]
pub(super) struct Objects {
    /// The first place is the one that counts.
    by_key: BTreeMap<Key, BTreeMap<Place, Object>>,
    by_file: BTreeMap<String, BTreeSet<Key>>,
}

impl Objects {
    /// A file has these objects, in place of what it had.
    pub(super) fn put(&mut self, file: &str, objects: Vec<Object>) -> Vec<Change> {
        let mut fresh: BTreeMap<Key, BTreeMap<Place, Object>> = BTreeMap::new();
        for (index, object) in objects.into_iter().enumerate() {
            if let Some(key) = key(&object) {
                let places = fresh.entry(key).or_default();
                places.insert((file.to_owned(), index), object);
            }
        }
        let now: BTreeSet<Key> = fresh.keys().cloned().collect();
        let before = match now.is_empty() {
            true => self.by_file.remove(file),
            false => self.by_file.insert(file.to_owned(), now.clone()),
        };
        let mut changes = Vec::new();
        for key in before.unwrap_or_default().union(&now) {
            let places = self.by_key.entry(key.clone()).or_default();
            let first = places.first_key_value().map(|(_, object)| object.clone());
            places.retain(|(of, _), _| of != file);
            places.extend(fresh.remove(key).unwrap_or_default());
            match (first, places.first_key_value()) {
                (Some(before), None) => changes.extend(gone(&before)),
                (before, Some((_, after))) if before.as_ref() != Some(after) => {
                    changes.extend(there(after));
                }
                _ => {}
            }
            if places.is_empty() {
                self.by_key.remove(key);
            }
        }
        changes
    }

    /// How many there are of each kind.
    pub(super) fn counts(&self) -> BTreeMap<&'static str, u64> {
        let mut counts = BTreeMap::new();
        for key in self.by_key.keys() {
            *counts.entry(key.kind).or_default() += 1;
        }
        counts
    }

    /// What is wrong with objects that can be read.
    pub(super) fn problems(&self, path: impl Fn(&str) -> String) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (key, places) in &self.by_key {
            let mut files = places.keys();
            let (Some((first, _)), Some(object)) = (files.next(), places.values().next()) else {
                continue;
            };
            if let Object::Pod(_, found) = object {
                problems.extend(found.iter().cloned());
            }
            for (file, index) in files {
                let file_path = path(file);
                let where_else = match file == first {
                    true => "it is there already, further up".to_owned(),
                    false => format!("it is in {first} already, which comes first by name"),
                };
                problems.push(Problem {
                    object: ObjectRef::File(file_path),
                    reason: Reason::Invalid,
                    message: format!(
                        "{key} (object {}) is left out: {where_else}; remove one of the two",
                        index + 1
                    ),
                });
            }
        }
        problems
    }
}

fn key(object: &Object) -> Option<Key> {
    let (kind, name) = match object {
        Object::Namespace(namespace) => ("Namespace", namespace.name.to_string()),
        Object::Pod(pod, _) => ("Pod", pod.id.name.to_string()),
        Object::Policy(policy) => ("NetworkQoS", policy.name.to_string()),
        Object::Network(network) => ("NetworkAttachmentDefinition", network.name.to_string()),
        Object::ClusterNetwork(network) => ("ClusterUserDefinedNetwork", network.name.to_string()),
        Object::Service(service) => ("Service", service.name.to_string()),
        Object::EndpointSlice(slice) => ("EndpointSlice", slice.name.to_string()),
        Object::Node(name) => ("Node", name.to_string()),
        Object::Other { .. } => return None,
    };
    Some(Key { kind, name })
}

fn there(object: &Object) -> Option<Change> {
    Some(match object.clone() {
        Object::Namespace(namespace) => Change::Namespace(namespace),
        Object::Pod(pod, _) => Change::Pod(*pod),
        Object::Policy(policy) => Change::Policy(policy),
        Object::Network(network) => Change::NetworkDefinition(network),
        Object::ClusterNetwork(network) => Change::ClusterNetwork(network),
        Object::Service(service) => Change::Service(service),
        Object::EndpointSlice(slice) => Change::EndpointSlice(slice),
        Object::Node(_) | Object::Other { .. } => return None,
    })
}

fn gone(object: &Object) -> Option<Change> {
    Some(match object {
        Object::Namespace(namespace) => Change::NamespaceGone(namespace.name.clone()),
        Object::Pod(pod, _) => Change::PodGone(PodId::clone(&pod.id)),
        Object::Policy(policy) => Change::PolicyGone(policy.name.clone()),
        Object::Network(network) => Change::NetworkDefinitionGone(network.name.clone()),
        Object::ClusterNetwork(network) => Change::ClusterNetworkGone(network.name.clone()),
        Object::Service(service) => Change::ServiceGone(service.name.clone()),
        Object::EndpointSlice(slice) => Change::EndpointSliceGone(slice.name.clone()),
        Object::Node(_) | Object::Other { .. } => return None,
    })
}

impl fmt::Display for Key {
    /// `NetworkQoS games/free`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.name)
    }
}
