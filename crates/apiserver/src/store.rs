//! All objects, and what happened to them, in the order of one growing number.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;

use crate::resource::{Resource, Storage};

/// The name of an object within its resource. The order is that in which lists are given.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    /// Empty for what is in no namespace.
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// An object as it was at a revision. Kept as text: lists and watches send it as it is, under the
/// version that was asked for.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) key: Key,
    pub(crate) revision: u64,
    pub(crate) labels: BTreeMap<String, String>,
    /// What field selectors can ask for.
    pub(crate) fields: BTreeMap<String, String>,
    /// The object's JSON from behind `apiVersion` and `kind` on.
    tail: Bytes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChangeKind {
    Added,
    Modified,
    Deleted,
}

/// Something that happened.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) revision: u64,
    pub(crate) kind: ChangeKind,
    /// The object after it; of one that was deleted, its last state under the revision of its end.
    pub(crate) object: Arc<Stored>,
    pub(crate) previous: Option<Arc<Stored>>,
}

/// All there is.
pub(crate) struct Store {
    revision: u64,
    /// How many changes of a resource are remembered.
    history: usize,
    collections: BTreeMap<Storage, Collection>,
}

#[derive(Default)]
struct Collection {
    objects: BTreeMap<Key, Arc<Stored>>,
    changes: VecDeque<Arc<Change>>,
    /// Changes up to this revision are not remembered.
    forgotten: u64,
}

/// The changes after a revision are not remembered.
#[derive(Debug)]
pub(crate) struct TooOld {
    /// The oldest revision that a watch can start from.
    pub(crate) oldest: u64,
}

impl Store {
    pub(crate) fn new(history: usize) -> Self {
        Self {
            revision: 1,
            history,
            collections: BTreeMap::new(),
        }
    }

    /// The revision of the last change.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    pub(crate) fn get(&self, storage: &Storage, key: &Key) -> Option<&Arc<Stored>> {
        self.collections.get(storage)?.objects.get(key)
    }

    /// The objects of a namespace, or of all.
    pub(crate) fn objects<'s>(
        &'s self,
        storage: &Storage,
        namespace: Option<&str>,
    ) -> Box<dyn Iterator<Item = &'s Arc<Stored>> + 's> {
        let Some(collection) = self.collections.get(storage) else {
            return Box::new(std::iter::empty());
        };
        match namespace {
            None => Box::new(collection.objects.values()),
            Some(namespace) => {
                let first = Key {
                    namespace: namespace.to_owned(),
                    name: String::new(),
                };
                let namespace = namespace.to_owned();
                let objects = collection.objects.range(first..);
                let inside = objects.take_while(move |(key, _)| key.namespace == namespace);
                Box::new(inside.map(|(_, object)| object))
            }
        }
    }

    /// Puts an object in, in place of what was there, and gives it its revision.
    pub(crate) fn put(&mut self, resource: &Resource, key: Key, object: Value) -> Arc<Stored> {
        self.revision += 1;
        let stored = Arc::new(Stored::new(resource, key, self.revision, object));
        let collection = self
            .collections
            .entry(resource.storage.clone())
            .or_default();
        let previous = collection
            .objects
            .insert(stored.key.clone(), stored.clone());
        let kind = match previous {
            None => ChangeKind::Added,
            Some(_) => ChangeKind::Modified,
        };
        self.remember(&resource.storage, kind, stored.clone(), previous);
        stored
    }

    /// Takes an object out. Answers with its last state, under the revision of its end.
    pub(crate) fn remove(&mut self, resource: &Resource, key: &Key) -> Option<Arc<Stored>> {
        let collection = self.collections.get_mut(&resource.storage)?;
        let previous = collection.objects.remove(key)?;
        self.revision += 1;
        let object = previous.value(resource);
        let last = Arc::new(Stored::new(resource, key.clone(), self.revision, object));
        self.remember(
            &resource.storage,
            ChangeKind::Deleted,
            last.clone(),
            Some(previous),
        );
        Some(last)
    }

    /// The changes of a resource after a revision.
    ///
    /// # Errors
    /// They are not remembered any more.
    pub(crate) fn since(
        &self,
        storage: &Storage,
        revision: u64,
    ) -> Result<Vec<Arc<Change>>, TooOld> {
        let collection = self.collections.get(storage);
        let oldest = collection.map_or(0, |collection| collection.forgotten);
        if revision < oldest {
            return Err(TooOld { oldest });
        }
        let Some(collection) = collection else {
            return Ok(Vec::new());
        };
        let from = collection
            .changes
            .partition_point(|change| change.revision <= revision);
        Ok(collection.changes.range(from..).cloned().collect())
    }

    fn remember(
        &mut self,
        storage: &Storage,
        kind: ChangeKind,
        object: Arc<Stored>,
        previous: Option<Arc<Stored>>,
    ) {
        let collection = self.collections.entry(storage.clone()).or_default();
        collection.changes.push_back(Arc::new(Change {
            revision: self.revision,
            kind,
            object,
            previous,
        }));
        while collection.changes.len() > self.history {
            let oldest = collection.changes.pop_front();
            collection.forgotten = oldest.map_or(0, |change| change.revision);
        }
    }
}

impl Stored {
    fn new(resource: &Resource, key: Key, revision: u64, mut object: Value) -> Self {
        object["metadata"]["resourceVersion"] = revision.to_string().into();
        let labels = object["metadata"]["labels"].as_object();
        let labels = labels.into_iter().flatten().filter_map(|(name, value)| {
            let value = value.as_str()?;
            Some((name.clone(), value.to_owned()))
        });
        let labels = labels.collect();
        let mut fields: BTreeMap<String, String> = resource
            .selectable
            .iter()
            .map(|path| (path.clone(), field(&object, path)))
            .collect();
        fields.insert("metadata.name".into(), key.name.clone());
        fields.insert("metadata.namespace".into(), key.namespace.clone());
        if let Some(object) = object.as_object_mut() {
            object.remove("apiVersion");
            object.remove("kind");
        }
        let json = Bytes::from(object.to_string());
        Self {
            labels,
            fields,
            tail: json.slice(1..),
            key,
            revision,
        }
    }

    /// The object, in the version of a resource.
    pub(crate) fn value(&self, resource: &Resource) -> Value {
        serde_json::from_slice(&self.json(resource)).unwrap_or_default()
    }

    /// Its JSON, in the version of a resource.
    pub(crate) fn json(&self, resource: &Resource) -> Bytes {
        let (version, kind) = (resource.api_version(), &resource.kind);
        let head = format!("{{\"apiVersion\":\"{version}\",\"kind\":\"{kind}\",");
        [head.as_bytes(), &self.tail].concat().into()
    }

    /// Its JSON without version and kind, as lists of Kubernetes' own resources have it.
    pub(crate) fn json_without_kind(&self) -> Bytes {
        [b"{", &self.tail[..]].concat().into()
    }
}

/// A field as a field selector sees it: what is not there is empty, or false.
fn field(object: &Value, path: &str) -> String {
    let value = path
        .split('.')
        .filter(|name| !name.is_empty())
        .try_fold(object, |value, name| value.get(name));
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Null) | None => match path {
            "spec.hostNetwork" | "spec.unschedulable" => "false".to_owned(),
            _ => String::new(),
        },
        Some(other) => other.to_string(),
    }
}
