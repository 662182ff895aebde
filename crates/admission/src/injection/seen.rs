//! What there is: defaults, namespaces, and what was made of the former for the latter.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Namespace;
use netqos_cluster::{Kind, Told};
use netqos_core::{LabelSelector, Labels, ObjectName};
use netqos_k8s::{NetworkQoS, NetworkQoSDefault, convert};
use serde_json::Value;

/// All of it.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// `None`: it cannot be read, so what was made of it stays as it is.
    pub(super) defaults: BTreeMap<Arc<str>, Option<Default>>,
    /// Those that are there to stay.
    pub(super) namespaces: BTreeMap<Arc<str>, Labels>,
    /// With the label.
    pub(super) made: BTreeMap<ObjectName, NetworkQoS>,
    told: BTreeSet<Kind>,
}

/// A default, its selector read.
#[derive(Debug)]
pub(super) struct Default {
    pub(super) namespaces: LabelSelector,
    pub(super) object: NetworkQoSDefault,
}

/// An object, as far as it can be read.
#[derive(Debug)]
pub(super) enum Read {
    Default(Box<Default>),
    Namespace(Labels),
    Made(Box<NetworkQoS>),
    Unreadable,
}

impl Read {
    pub(super) fn of(kind: Kind, value: Value) -> Self {
        let read = || match kind {
            Kind::NetworkQoSDefault => {
                // One that nobody could follow is not made for anybody; an event says so.
                let (object, namespaces) = NetworkQoSDefault::read(value).ok()?;
                Some(Self::Default(Box::new(Default { namespaces, object })))
            }
            Kind::Namespace => {
                let object: Namespace = serde_json::from_value(value).ok()?;
                let goes = object.metadata.deletion_timestamp.is_some();
                let namespace = convert::namespace(&object).ok().filter(|_| !goes)?;
                Some(Self::Namespace(namespace.labels))
            }
            _ => Some(Self::Made(Box::new(serde_json::from_value(value).ok()?))),
        };
        read().unwrap_or(Self::Unreadable)
    }
}

impl Seen {
    /// Takes note of what a watch tells.
    pub(super) fn hear(&mut self, kind: Kind, told: Told<Read>) {
        match told {
            Told::All(all) => {
                self.told.insert(kind);
                match kind {
                    Kind::NetworkQoSDefault => self.defaults.clear(),
                    Kind::Namespace => self.namespaces.clear(),
                    _ => self.made.clear(),
                }
                for (name, read) in all {
                    self.put(kind, name, read);
                }
            }
            Told::There(name, read) => self.put(kind, name, read),
            Told::Gone(name) => match kind {
                Kind::NetworkQoSDefault => drop(self.defaults.remove(&name.name)),
                Kind::Namespace => drop(self.namespaces.remove(&name.name)),
                _ => drop(self.made.remove(&name)),
            },
            // Without the kind nothing is known of what is wanted: nothing is taken away.
            Told::Unknown | Told::Silent(_) | Told::Answers => {}
        }
    }

    fn put(&mut self, kind: Kind, name: ObjectName, read: Read) {
        match read {
            Read::Default(default) => drop(self.defaults.insert(name.name, Some(*default))),
            Read::Namespace(labels) => drop(self.namespaces.insert(name.name, labels)),
            Read::Made(object) => drop(self.made.insert(name, *object)),
            Read::Unreadable => match kind {
                Kind::NetworkQoSDefault => drop(self.defaults.insert(name.name, None)),
                Kind::Namespace => drop(self.namespaces.remove(&name.name)),
                _ => drop(self.made.remove(&name)),
            },
        }
    }

    /// True when everything was told at least once.
    pub(super) fn is_whole(&self) -> bool {
        self.told.len() == 3
    }
}
