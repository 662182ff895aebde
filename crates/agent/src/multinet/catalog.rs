//! The networks that pods of this node may select.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use netqos_api::multinet::{About, Answer, CNI_DRIVER, Message, Nad, NadName, PodName};
use netqos_api::npwg::{AttachmentGrant, AttachmentPolicy};
use netqos_core::objects::{AttachmentConfig, NetworkAnnotations, Pod};
#[cfg(feature = "daemon")]
use netqos_core::{Digest, PodId};
use netqos_core::{Labels, ObjectName};
use netqos_k8s::Object;

#[cfg(feature = "daemon")]
use super::MultinetCounts;

/// The label of each namespace with its name.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// The most bytes of configurations in an answer. A tenant writes them, and up to 128 answers are on their way at once.
const MOST_CONFIG_BYTES: usize = 256 << 10;

/// NetworkAttachmentDefinitions, policies about them, and the pods of this node that may select them. All clones are
/// one catalog.
#[derive(Clone, Debug)]
pub struct NetworkCatalog {
    node: Arc<str>,
    contents: Arc<RwLock<Contents>>,
    #[cfg(feature = "daemon")]
    counts: Arc<MultinetCounts>,
}

#[derive(Debug, Default)]
struct Contents {
    /// All objects of the source are in it.
    is_complete: bool,
    nads: BTreeMap<ObjectName, AttachmentConfig>,
    policies: BTreeMap<Arc<str>, AttachmentPolicy>,
    namespaces: BTreeMap<Arc<str>, Labels>,
    /// Pods of this node by their uids.
    pods: BTreeMap<Arc<str>, CatalogPod>,
}

#[derive(Debug)]
struct CatalogPod {
    name: ObjectName,
    config_hash: Option<Arc<str>>,
    annotations: NetworkAnnotations,
}

impl NetworkCatalog {
    /// An empty catalog of this node.
    pub fn new(node: &str) -> Self {
        Self {
            node: node.into(),
            contents: Arc::default(),
            #[cfg(feature = "daemon")]
            counts: Arc::default(),
        }
    }

    /// Returns the counts of answers by this catalog, and of what is written to its pods.
    #[cfg(feature = "daemon")]
    pub(crate) fn counts(&self) -> &Arc<MultinetCounts> {
        &self.counts
    }

    /// Says that all objects of the source are in it. Before that, an object that is not in it may exist.
    pub(crate) fn complete(&self) {
        self.write(|contents| contents.is_complete = true);
    }

    /// Adds an object, in place of what is known of it.
    pub(crate) fn put(&self, object: &Object) {
        match object {
            Object::Network(network) => {
                let (name, attachment) = (network.name.clone(), network.attachment.clone());
                self.write(|it| it.nads.insert(name, attachment));
            }
            // It counts in place of the NAD of its name, which is gone.
            Object::UserNetwork(network) => self.write(|it| it.nads.remove(&network.name)),
            Object::AttachmentPolicy(policy) => {
                self.write(|it| it.policies.insert(policy.name.clone(), policy.clone()));
            }
            Object::Namespace(namespace) => {
                let (name, labels) = (namespace.name.clone(), namespace.labels.clone());
                self.write(|it| it.namespaces.insert(name, labels));
            }
            Object::Pod(pod, ..) if pod.node.as_ref() == Some(&self.node) => {
                self.write(|it| {
                    // The deletion of one that had the name before may not be told.
                    it.pods.retain(|_, other| other.name != pod.id.name);
                    it.pods.insert(pod.id.uid.clone(), CatalogPod::of(pod));
                });
            }
            _ => {}
        }
    }

    /// Removes an object.
    pub(crate) fn remove(&self, object: &Object) {
        match object {
            Object::Network(network) | Object::UserNetwork(network) => {
                self.write(|it| it.nads.remove(&network.name));
            }
            Object::AttachmentPolicy(policy) => self.write(|it| it.policies.remove(&policy.name)),
            Object::Namespace(namespace) => self.write(|it| it.namespaces.remove(&namespace.name)),
            Object::Pod(pod, ..) => self.write(|it| it.pods.remove(&pod.id.uid)),
            _ => {}
        }
    }

    fn write<T>(&self, change: impl FnOnce(&mut Contents) -> T) {
        let mut contents = self
            .contents
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        change(&mut contents);
    }

    /// Returns the pod that the runtime names so, with the digest of its annotation `network-status`.
    #[cfg(feature = "daemon")]
    pub(crate) fn pod(&self, named: &PodName) -> Option<(PodId, Option<Digest>)> {
        let contents = self.contents.read().unwrap_or_else(PoisonError::into_inner);
        let (uid, pod) = contents.pods.iter().find(|(uid, it)| it.is(uid, named))?;
        let id = PodId {
            name: pod.name.clone(),
            uid: uid.clone(),
        };
        Some((id, pod.annotations.status))
    }

    /// Returns the answer to a message of the plugin.
    pub fn answer(&self, message: &Message) -> Answer {
        let contents = self.contents.read().unwrap_or_else(PoisonError::into_inner);
        match &message.about {
            About::Annotations => contents.annotations(&message.pod),
            // Selectors of policies may match namespaces by the absence of a label.
            About::Nads(_) if !contents.is_complete => {
                Answer::TryAgain("netqos-agent has not read all objects yet".to_owned())
            }
            About::Nads(names) if contents.bytes_of(names) > MOST_CONFIG_BYTES => {
                Answer::Refused(format!(
                    "the configurations that the pod selects are larger than {MOST_CONFIG_BYTES} bytes together"
                ))
            }
            About::Nads(names) => {
                let found = names.iter().map(|name| contents.nad(name, &message.pod));
                match found.collect() {
                    Ok(nads) => Answer::Nads(nads),
                    Err(answer) => answer,
                }
            }
        }
    }
}

impl Contents {
    fn annotations(&self, pod: &PodName) -> Answer {
        match self.pods.iter().find(|(uid, it)| it.is(uid, pod)) {
            Some((_, it)) => Answer::Annotations {
                networks: it.annotations.networks.as_deref().map(str::to_owned),
                default_network: it.annotations.default_network.as_deref().map(str::to_owned),
            },
            None => Answer::TryAgain(format!(
                "netqos-agent does not know pod {}/{} yet",
                pod.namespace, pod.name
            )),
        }
    }

    /// The size of these NADs' configurations. One that is selected twice counts twice.
    fn bytes_of(&self, names: &[NadName]) -> usize {
        let configs = names.iter().filter_map(|name| {
            let nad = ObjectName::new(&name.namespace, &name.name);
            self.nads.get(&nad)?.config.as_deref()
        });
        configs.map(str::len).sum()
    }

    /// The NAD, or the answer of a failure.
    fn nad(&self, name: &NadName, pod: &PodName) -> Result<Nad, Answer> {
        let nad = ObjectName::new(&name.namespace, &name.name);
        let Some(attachment) = self.nads.get(&nad) else {
            let why = format!("no NetworkAttachmentDefinition {nad} exists");
            return Err(Answer::Refused(why));
        };
        let of_nad = self.labels(&nad.namespace);
        let about: Vec<&AttachmentPolicy> = (self.policies.values())
            .filter(|policy| policy.namespaces.matches(&of_nad))
            .collect();
        if *nad.namespace != pod.namespace {
            let of_pod = self.labels(&pod.namespace);
            let opens = |policy: &&AttachmentPolicy| {
                policy
                    .open_to
                    .as_ref()
                    .is_some_and(|to| to.matches(&of_pod))
            };
            if !about.iter().any(opens) {
                return Err(Answer::Refused(format!(
                    "pods of namespace {} may not select NetworkAttachmentDefinition {nad}; the key openTo of a \
                     NetworkAttachmentPolicy for namespace {} permits it",
                    pod.namespace, nad.namespace
                )));
            }
        }
        Ok(Nad {
            driver: CNI_DRIVER.to_owned(),
            resource_version: attachment.resource_version.to_string(),
            config: attachment.config.as_deref().map(str::to_owned),
            resource_name: attachment.resource_name.as_deref().map(str::to_owned),
            device: None,
            policies: (about.iter())
                .map(|it| (it.name.to_string(), it.resource_version.to_string()))
                .collect(),
            grant: AttachmentGrant::united(about),
        })
    }

    /// The labels of a namespace. A manifest may leave its object out.
    fn labels(&self, namespace: &str) -> Labels {
        let known = self.namespaces.get(namespace).cloned();
        known.unwrap_or_else(|| Labels::from([(NAMESPACE_NAME.into(), namespace.into())]))
    }
}

impl CatalogPod {
    fn of(pod: &Pod) -> Self {
        Self {
            name: pod.id.name.clone(),
            config_hash: pod.config_hash.clone(),
            annotations: pod
                .network_annotations
                .as_deref()
                .cloned()
                .unwrap_or_default(),
        }
    }

    /// Returns true if this is the pod that the runtime names. The kubelet knows a static pod by the hash of its
    /// manifest.
    fn is(&self, uid: &str, pod: &PodName) -> bool {
        let is_named = *self.name.namespace == pod.namespace && *self.name.name == pod.name;
        let is_uid = |named: &str| named == uid || self.config_hash.as_deref() == Some(named);
        is_named && pod.uid.as_deref().is_none_or(is_uid)
    }
}
