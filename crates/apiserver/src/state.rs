//! What the server knows, and how a change gets into it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use crate::crds;
use crate::draft::Draft;
use crate::events;
use crate::list::Snapshots;
use crate::registry::Registry;
use crate::resource::Resource;
use crate::status::Refusal;
use crate::store::{Key, Store, Stored};
use crate::time::now;

/// All of it, behind one lock.
pub(crate) struct State {
    pub(crate) store: Store,
    pub(crate) registry: Registry,
    pub(crate) snapshots: Snapshots,
    /// Namespaces that wait for what is left in them.
    terminating: BTreeSet<String>,
}

/// What became of a change.
pub(crate) enum Committed {
    /// It was made.
    Stored(Arc<Stored>),
    /// The object is gone with it; this was its last state.
    Gone(Arc<Stored>),
    /// The object was changed meanwhile: make the change anew.
    Overtaken,
}

impl State {
    pub(crate) fn new(history: usize) -> Self {
        let mut state = Self {
            store: Store::new(history),
            registry: Registry::new(),
            snapshots: Snapshots::default(),
            terminating: BTreeSet::new(),
        };
        for namespace in ["default", "kube-node-lease", "kube-public", "kube-system"] {
            state.add_namespace(namespace);
        }
        state
    }

    fn add_namespace(&mut self, name: &str) {
        let Some(resource) = self.registry.get("", "v1", "namespaces") else {
            return;
        };
        let object = serde_json::json!({
            "metadata": {
                "name": name,
                "uid": crate::random::uid(),
                "creationTimestamp": now(),
                "labels": {"kubernetes.io/metadata.name": name},
            },
            "spec": {"finalizers": ["kubernetes"]},
            "status": {"phase": "Active"},
        });
        self.store.put(&resource, key("", name), object);
    }

    /// Refuses to put something new into a namespace that is not there, or going.
    pub(crate) fn check_namespace(&self, namespace: &str) -> Result<(), Refusal> {
        let Some(namespaces) = self.registry.get("", "v1", "namespaces") else {
            return Ok(());
        };
        if self.terminating.contains(namespace) {
            let message = format!(
                "unable to create new content in namespace {namespace} because it is being \
                 terminated"
            );
            return Err(Refusal::new(403, "Forbidden", message));
        }
        match self.store.get(&namespaces.storage, &key("", namespace)) {
            Some(_) => Ok(()),
            None => Err(Refusal::not_found(&namespaces, namespace)),
        }
    }

    /// Makes a change that was drafted of the present state.
    pub(crate) fn commit(&mut self, draft: &Draft) -> Committed {
        let (resource, object) = events::as_stored(self, &draft.resource, draft.new.clone());
        let present = self.store.get(&resource.storage, &draft.key);
        let revision = |stored: &Arc<Stored>| stored.revision;
        if present.map(revision) != draft.old.as_ref().map(revision) {
            return Committed::Overtaken;
        }
        if draft.is_end() {
            return match self.end(&resource, &draft.key) {
                Some(last) => Committed::Gone(last),
                None => Committed::Overtaken,
            };
        }
        let stored = self.store.put(&resource, draft.key.clone(), object);
        if resource.is("apiextensions.k8s.io", "customresourcedefinitions") {
            crds::serve(self, &stored.value(&resource));
        }
        Committed::Stored(stored)
    }

    /// Puts an object in as it is, whatever it says.
    pub(crate) fn put_raw(&mut self, resource: &Resource, object: Value) {
        let text = |name: &str| {
            let text = object["metadata"][name].as_str();
            text.unwrap_or_default().to_owned()
        };
        let key = key(&text("namespace"), &text("name"));
        self.store.put(resource, key, object);
    }

    /// Takes an object away, and what goes with it.
    pub(crate) fn end(&mut self, resource: &Resource, key: &Key) -> Option<Arc<Stored>> {
        let last = self.store.remove(resource, key)?;
        if resource.is("apiextensions.k8s.io", "customresourcedefinitions") {
            crds::withdraw(self, &last.value(resource));
        }
        if self.terminating.contains(&key.namespace) {
            self.finish_namespace(&key.namespace.clone());
        }
        Some(last)
    }

    /// Ends a namespace: a real cluster's controllers empty it, and then it goes.
    pub(crate) fn end_namespace(&mut self, name: &str) -> Option<Arc<Stored>> {
        let namespaces = self.registry.get("", "v1", "namespaces")?;
        let key = key("", name);
        let stored = self.store.get(&namespaces.storage, &key)?;
        let mut object = stored.value(&namespaces);
        if object["metadata"]["deletionTimestamp"].is_null() {
            object["metadata"]["deletionTimestamp"] = now().into();
            object["status"]["phase"] = "Terminating".into();
        }
        let last = self.store.put(&namespaces, key.clone(), object);
        self.terminating.insert(name.to_owned());
        for (resource, inside) in self.inside(name) {
            self.end_one(&resource, &inside);
        }
        self.finish_namespace(name);
        Some(last)
    }

    /// Marks one object as to be deleted, and takes it away when nobody holds it.
    fn end_one(&mut self, resource: &Resource, key: &Key) {
        let Some(stored) = self.store.get(&resource.storage, key) else {
            return;
        };
        let mut object = stored.value(resource);
        let held = object["metadata"]["finalizers"].as_array();
        if held.is_none_or(Vec::is_empty) {
            self.end(resource, key);
        } else if object["metadata"]["deletionTimestamp"].is_null() {
            object["metadata"]["deletionTimestamp"] = now().into();
            object["metadata"]["deletionGracePeriodSeconds"] = 0.into();
            self.store.put(resource, key.clone(), object);
        }
    }

    fn finish_namespace(&mut self, name: &str) {
        if !self.inside(name).is_empty() {
            return;
        }
        self.terminating.remove(name);
        if let Some(namespaces) = self.registry.get("", "v1", "namespaces") {
            self.store.remove(&namespaces, &key("", name));
        }
    }

    /// All that is in a namespace.
    fn inside(&self, namespace: &str) -> Vec<(Arc<Resource>, Key)> {
        // One version of each resource is enough.
        let stored: BTreeMap<_, _> = self
            .registry
            .all()
            .filter(|resource| resource.namespaced && resource.group != "events.k8s.io")
            .map(|resource| (&resource.storage, resource))
            .collect();
        let mut inside = Vec::new();
        for (storage, resource) in stored {
            let objects = self.store.objects(storage, Some(namespace));
            inside.extend(objects.map(|object| (resource.clone(), object.key.clone())));
        }
        inside
    }
}

pub(crate) fn key(namespace: &str, name: &str) -> Key {
    Key {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    }
}
