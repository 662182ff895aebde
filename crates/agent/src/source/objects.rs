//! Objects by what they are called, and the places that each is described at.
//!
//! For a `UserDefinedNetwork` OVN-Kubernetes makes a `NetworkAttachmentDefinition` of the same name,
//! and whoever writes down what a cluster has writes down both. They are one network to the index:
//! what the definition says counts, since it is what CNI plugins are given.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use netqos_core::{ObjectRef, PodId, Problem, Reason};
use netqos_index::Change;
use netqos_k8s::Object;

use crate::NetworkCatalog;
use crate::classes::{self, ClassInput};

const DEFINITION: &str = "NetworkAttachmentDefinition";
const USER_NETWORK: &str = "UserDefinedNetwork";

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
    /// Pods by their uids. Of several with one the first counts: they could not be told apart.
    by_uid: BTreeMap<Arc<str>, BTreeSet<Key>>,
    /// What those that count say of classes.
    classes: Arc<ClassInput>,
    /// The catalog that the objects are in, for who attaches pods.
    pub(super) networks: Option<NetworkCatalog>,
}

impl Objects {
    /// No objects yet; those that come are put in this catalog.
    #[cfg(feature = "daemon")]
    pub(super) fn in_catalog(networks: NetworkCatalog) -> Self {
        Self {
            networks: Some(networks),
            ..Self::default()
        }
    }

    /// Says that all objects are here.
    pub(super) fn complete(&self) {
        if let Some(networks) = &self.networks {
            networks.complete();
        }
    }

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
        let mut touched = before.unwrap_or_default();
        touched.extend(now);
        let mut subjects: BTreeSet<Key> = touched.iter().map(Key::subject).collect();
        // Whoever shares a uid may count from now on, or may not any more: one that is said at any
        // of the places, since another may become the first.
        let known = touched.iter().filter_map(|key| self.by_key.get(key));
        let uids: BTreeSet<Arc<str>> = known
            .chain(fresh.values())
            .flat_map(BTreeMap::values)
            .filter_map(uid)
            .collect();
        let sharing = uids.iter().filter_map(|uid| self.by_uid.get(uid));
        subjects.extend(sharing.flatten().cloned());
        let before: Vec<(Key, Option<Object>)> = subjects
            .into_iter()
            .map(|subject| (subject.clone(), self.counting(&subject)))
            .collect();
        for key in touched {
            let found = fresh.remove(&key).unwrap_or_default();
            self.replace(file, key, found);
        }
        // Who goes makes place for who comes.
        let (mut changes, mut coming) = (Vec::new(), Vec::new());
        let (mut left, mut came) = (Vec::new(), Vec::new());
        for (subject, before) in before {
            match (before, self.counting(&subject)) {
                (Some(before), None) => {
                    if let Some(networks) = &self.networks {
                        networks.remove(&before);
                    }
                    changes.extend(gone(&before));
                    left.extend(Some(before).filter(classes::concerns));
                }
                (before, Some(after)) if before.as_ref() != Some(&after) => {
                    if let Some(networks) = &self.networks {
                        networks.put(&after);
                    }
                    coming.extend(there(&after));
                    let concerned = before.iter().chain([&after]).any(classes::concerns);
                    came.extend(concerned.then_some(after));
                }
                _ => {}
            }
        }
        changes.extend(coming);
        if !left.is_empty() || !came.is_empty() {
            let classes = Arc::make_mut(&mut self.classes);
            left.iter().for_each(|object| classes.remove(object));
            came.iter().for_each(|object| classes.put(object));
        }
        changes
    }

    /// A file describes an object so, in place of what it said of it.
    fn replace(&mut self, file: &str, key: Key, found: BTreeMap<Place, Object>) {
        if let Some(uid) = self.first(&key).and_then(uid)
            && let Some(sharing) = self.by_uid.get_mut(&uid)
        {
            sharing.remove(&key);
            if sharing.is_empty() {
                self.by_uid.remove(&uid);
            }
        }
        let places = self.by_key.entry(key.clone()).or_default();
        places.retain(|(of, _), _| of != file);
        places.extend(found);
        if places.is_empty() {
            self.by_key.remove(&key);
        }
        if let Some(uid) = self.first(&key).and_then(uid) {
            self.by_uid.entry(uid).or_default().insert(key);
        }
    }

    /// What is said of an object at the place that counts.
    fn first(&self, key: &Key) -> Option<&Object> {
        first_of(self.by_key.get(key)?)
    }

    /// The object that says what the index shall know of a subject.
    fn counting(&self, subject: &Key) -> Option<Object> {
        let object = subject.keys().find_map(|key| self.first(&key))?;
        let mut object = self
            .namesake(subject, object)
            .is_none()
            .then(|| object.clone())?;
        // Whose primary network it is, a tenant's definition does not say. The index judges whether that object owns it.
        let user_network = || self.first(&subject.of(USER_NETWORK));
        if let Object::Network(network) = &mut object
            && let Some(Object::UserNetwork(user_network)) = user_network()
        {
            network.primary.clone_from(&user_network.primary);
        }
        Some(object)
    }

    /// The pod that is known by the uid of this one, and counts in its place.
    fn namesake(&self, key: &Key, object: &Object) -> Option<&Key> {
        let sharing = self.by_uid.get(&uid(object)?)?;
        sharing.first().filter(|first| *first != key)
    }

    /// All that is said of classes.
    pub(super) fn classes(&self) -> Arc<ClassInput> {
        self.classes.clone()
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
            if let Object::Pod(pod, found, ..) = object {
                problems.extend(found.iter().cloned());
                let namesake = self.namesake(key, object).map(|first| Problem {
                    object: ObjectRef::Pod(pod.id.name.clone()),
                    reason: Reason::Invalid,
                    message: format!(
                        "it is left out: metadata.uid {:?} is that of {first} already; give each \
                         pod a uid of its own, or none",
                        pod.id.uid
                    ),
                });
                problems.extend(namesake);
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

impl Key {
    /// What the index knows the object as.
    fn subject(&self) -> Self {
        match self.kind {
            USER_NETWORK => self.of(DEFINITION),
            _ => self.clone(),
        }
    }

    /// What objects that the index knows as this are called, the one that counts first.
    fn keys(&self) -> impl Iterator<Item = Self> {
        let user_network = (self.kind == DEFINITION).then(|| self.of(USER_NETWORK));
        std::iter::once(self.clone()).chain(user_network)
    }

    /// The same name of another kind.
    fn of(&self, kind: &'static str) -> Self {
        Self {
            kind,
            name: self.name.clone(),
        }
    }
}

fn key(object: &Object) -> Option<Key> {
    let (kind, name) = match object {
        Object::Namespace(namespace) => ("Namespace", namespace.name.to_string()),
        Object::Pod(pod, ..) => ("Pod", pod.id.name.to_string()),
        Object::Policy(policy) => ("NetworkQoS", policy.name.to_string()),
        Object::Quota(quota) => ("NetworkQoSQuota", quota.name.to_string()),
        Object::Profile(profile) => ("BandwidthProfile", profile.name.to_string()),
        Object::Network(network) => (DEFINITION, network.name.to_string()),
        Object::UserNetwork(network) => (USER_NETWORK, network.name.to_string()),
        Object::AttachmentPolicy(policy) => ("NetworkAttachmentPolicy", policy.name.to_string()),
        Object::ClusterNetwork(network) => ("ClusterUserDefinedNetwork", network.name.to_string()),
        Object::Service(service) => ("Service", service.name.to_string()),
        Object::EndpointSlice(slice) => ("EndpointSlice", slice.name.to_string()),
        Object::PeerSlice(slice) => ("NetworkQoSPeerSlice", slice.name.to_string()),
        Object::Node(node) => ("Node", node.name.to_string()),
        Object::SloConfig(name, _) => ("ConfigMap", name.to_string()),
        Object::NodeSlo(name, _) => ("NodeSLO", name.to_string()),
        Object::Other { .. } => return None,
    };
    Some(Key { kind, name })
}

/// The object at the first of its places.
fn first_of(places: &BTreeMap<Place, Object>) -> Option<&Object> {
    places.first_key_value().map(|(_, object)| object)
}

/// By which a pod is known, whatever its name.
fn uid(object: &Object) -> Option<Arc<str>> {
    match object {
        Object::Pod(pod, ..) => Some(pod.id.uid.clone()),
        _ => None,
    }
}

fn there(object: &Object) -> Option<Change> {
    Some(match object.clone() {
        Object::Namespace(namespace) => Change::Namespace(namespace),
        Object::Pod(pod, ..) => Change::Pod(*pod),
        Object::Policy(policy) => Change::Policy(policy),
        Object::Quota(quota) => Change::Quota(quota),
        Object::Profile(profile) => Change::Profile(profile),
        Object::Network(network) | Object::UserNetwork(network) => {
            Change::NetworkDefinition(network)
        }
        Object::ClusterNetwork(network) => Change::ClusterNetwork(network),
        Object::Service(service) => Change::Service(service),
        Object::EndpointSlice(slice) => Change::EndpointSlice(slice),
        Object::PeerSlice(slice) => Change::PeerSlice(slice),
        Object::Node(_)
        | Object::AttachmentPolicy(_)
        | Object::SloConfig(..)
        | Object::NodeSlo(..)
        | Object::Other { .. } => return None,
    })
}

fn gone(object: &Object) -> Option<Change> {
    Some(match object {
        Object::Namespace(namespace) => Change::NamespaceGone(namespace.name.clone()),
        Object::Pod(pod, ..) => Change::PodGone(PodId::clone(&pod.id)),
        Object::Policy(policy) => Change::PolicyGone(policy.name.clone()),
        Object::Quota(quota) => Change::QuotaGone(quota.name.clone()),
        Object::Profile(profile) => Change::ProfileGone(profile.name.clone()),
        Object::Network(network) | Object::UserNetwork(network) => {
            Change::NetworkDefinitionGone(network.name.clone())
        }
        Object::ClusterNetwork(network) => Change::ClusterNetworkGone(network.name.clone()),
        Object::Service(service) => Change::ServiceGone(service.name.clone()),
        Object::EndpointSlice(slice) => Change::EndpointSliceGone(slice.name.clone()),
        Object::PeerSlice(slice) => Change::PeerSliceGone(slice.name.clone()),
        Object::Node(_)
        | Object::AttachmentPolicy(_)
        | Object::SloConfig(..)
        | Object::NodeSlo(..)
        | Object::Other { .. } => return None,
    })
}

impl fmt::Display for Key {
    /// `NetworkQoS games/free`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.name)
    }
}

#[cfg(test)]
mod tests {
    use netqos_k8s::objects_from_yaml;

    use super::*;

    const NETWORK: &str = "apiVersion: k8s.ovn.org/v1\nkind: UserDefinedNetwork\n\
         metadata: {name: blue, namespace: games, uid: u1}\n";
    const DEFINITION_OF_IT: &str = "apiVersion: k8s.cni.cncf.io/v1\nkind: NetworkAttachmentDefinition\n\
         metadata:\n  name: blue\n  namespace: games\n  ownerReferences:\n  - {apiVersion: k8s.ovn.org/v1, \
         kind: UserDefinedNetwork, name: blue, uid: u1, controller: true, blockOwnerDeletion: true}\n\
         spec: {config: '{\"name\": \"games.blue\", \"type\": \"ovn-k8s-cni-overlay\"}'}\n";

    /// What becomes of it when a file says this.
    fn put(objects: &mut Objects, file: &str, documents: &[&str]) -> Vec<String> {
        let text = documents.join("---\n");
        let read = objects_from_yaml(&text).into_iter().map(Result::unwrap);
        let changes = objects.put(file, read.collect());
        changes
            .iter()
            .map(|change| match change {
                Change::NetworkDefinition(network) => format!("is {}", network.cni_name),
                Change::NetworkDefinitionGone(_) => "is gone".to_owned(),
                other => format!("{other:?}"),
            })
            .collect()
    }

    #[test]
    fn a_user_defined_network_and_its_definition_are_one_network() {
        let mut all = Objects::default();
        assert_eq!(put(&mut all, "a", &[NETWORK]), ["is games_blue"]);
        assert_eq!(put(&mut all, "b", &[DEFINITION_OF_IT]), ["is games.blue"]);
        assert_eq!(all.problems(str::to_owned), []);
        assert_eq!(
            all.counts(),
            BTreeMap::from([(DEFINITION, 1), (USER_NETWORK, 1)])
        );
        // Whichever goes first.
        assert_eq!(put(&mut all, "b", &[]), ["is games_blue"]);
        let both = [NETWORK, DEFINITION_OF_IT];
        assert_eq!(put(&mut all, "b", &both), ["is games.blue"]);
        assert_eq!(put(&mut all, "a", &[]), [""; 0]);
        assert_eq!(put(&mut all, "b", &[]), ["is gone"]);
    }

    /// The object of the network says whose primary one it is, and no definition: neither one that it does not own.
    #[test]
    fn role_of_a_user_defined_network_counts_beside_its_definition() {
        let mut all = Objects::default();
        let primary = "spec: {layer2: {role: Primary, subnets: [10.0.0.0/16]}}\n";
        let primary = format!("{NETWORK}{primary}");
        let mut put = |file: &str, documents: &[&str]| {
            let text = documents.join("---\n");
            let read = objects_from_yaml(&text).into_iter().map(Result::unwrap);
            let mut changes = all.put(file, read.collect()).into_iter();
            changes.next().map(|change| match change {
                Change::NetworkDefinition(network) => {
                    let is_primary = network.primary_subnets().is_some();
                    (network.cni_name.to_string(), is_primary)
                }
                other => panic!("{other:?}"),
            })
        };
        let named = |name: &str, is_primary| Some((name.to_owned(), is_primary));
        assert_eq!(put("b", &[DEFINITION_OF_IT]), named("games.blue", false));
        assert_eq!(put("a", &[&primary]), named("games.blue", true));
        assert_eq!(put("a", &[NETWORK]), named("games.blue", false));
        assert_eq!(put("a", &[&primary]), named("games.blue", true));
        // A tenant's own definition of that name.
        for (of_ovn, of_tenant) in [
            ("ovn-k8s-cni-overlay", "bridge"),
            ("UserDefinedNetwork", "Pod"),
            ("uid: u1", "uid: u2"),
            ("ownerReferences", "other"),
        ] {
            let forged = DEFINITION_OF_IT.replace(of_ovn, of_tenant);
            assert_eq!(
                put("b", &[&forged]),
                named("games.blue", false),
                "{of_tenant}"
            );
            assert_eq!(put("b", &[DEFINITION_OF_IT]), named("games.blue", true));
        }
        assert_eq!(put("b", &[]), named("games_blue", true));
    }

    #[test]
    fn two_user_defined_networks_of_one_name_are_not() {
        let mut all = Objects::default();
        put(&mut all, "a", &[NETWORK, DEFINITION_OF_IT]);
        put(&mut all, "b", &[NETWORK]);
        let problems = all.problems(str::to_owned);
        assert_eq!(problems.len(), 1, "{problems:?}");
        let message = &problems[0].message;
        assert!(
            message.starts_with("UserDefinedNetwork games/blue (object 1) is left out"),
            "{message}"
        );
    }

    fn pod(name: &str, uid: &str) -> String {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: games, uid: {uid:?}}}\n"
        )
    }

    #[test]
    fn of_two_pods_with_one_uid_the_first_counts_and_the_other_is_told_of() {
        let mut all = Objects::default();
        let mut put = |file: &str, pods: &[String]| -> (Vec<String>, Vec<String>) {
            let text = pods.join("---\n");
            let read = objects_from_yaml(&text).into_iter().map(Result::unwrap);
            let changes = all.put(file, read.collect());
            let name = |change: &Change| match change {
                Change::Pod(pod) => format!("{} is there", pod.id.name),
                Change::PodGone(pod) => format!("{} is gone", pod.name),
                other => format!("{other:?}"),
            };
            let problems = all.problems(str::to_owned);
            let about_uid = |problem: &&Problem| problem.message.contains("metadata.uid \"1\"");
            let about = problems.iter().filter(about_uid);
            (
                changes.iter().map(name).collect(),
                about.map(|problem| problem.object.to_string()).collect(),
            )
        };
        let there = |name: &str| vec![format!("games/{name} is there")];
        let told = |name: &str| vec![format!("Pod games/{name}")];
        assert_eq!(put("a", &[pod("b", "1")]), (there("b"), vec![]));
        assert_eq!(put("b", &[pod("c", "1")]), (vec![], told("c")));
        // The first by name, whichever was there before: never two at a time.
        let both = vec!["games/b is gone".to_owned(), "games/a is there".to_owned()];
        assert_eq!(
            put("c", &[pod("a", "1")]),
            (both, [told("b"), told("c")].concat())
        );
        assert_eq!(put("a", &[pod("b", "2")]), (there("b"), told("c")));
        let both = vec!["games/a is gone".to_owned(), "games/c is there".to_owned()];
        assert_eq!(put("c", &[]), (both, vec![]));
        // Whose uid it is may be said by a place that becomes the first.
        assert_eq!(put("z", &[pod("b", "1")]).0, [""; 0]);
        let both = vec!["games/c is gone".to_owned(), "games/b is there".to_owned()];
        assert_eq!(put("a", &[]), (both, told("c")));
        assert_eq!(
            put("z", &[]),
            (
                vec!["games/b is gone".to_owned(), "games/c is there".to_owned()],
                vec![]
            )
        );
        // Without a uid a pod is known by its name, which is no uid of another's.
        assert_eq!(put("b", &[pod("c", "")]).1, [""; 0]);
    }
}
