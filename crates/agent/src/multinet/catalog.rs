//! The networks that pods of this node may select.

use std::collections::BTreeMap;
#[cfg(feature = "daemon")]
use std::sync::OnceLock;
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock};
#[cfg(feature = "daemon")]
use std::time::Duration;

use netqos_api::multinet::{About, Answer, CNI_DRIVER, Message, Nad, PodName};
#[cfg(feature = "daemon")]
use netqos_api::multinet::{MAX_FILE_ANNOTATIONS, PodFile, SelectingAnnotations};
use netqos_api::npwg::{AttachmentGrant, AttachmentPolicy};
use netqos_core::objects::{AttachmentConfig, NetworkAnnotations, Pod};
#[cfg(feature = "daemon")]
use netqos_core::{Digest, PodId};
use netqos_core::{Labels, ObjectName};
use netqos_k8s::Object;

#[cfg(feature = "daemon")]
use super::MultinetCounts;
#[cfg(feature = "daemon")]
use super::confirm::NadReader;

/// The label of each namespace with its name.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// The most bytes of configurations in an answer. A tenant writes them, and up to 128 answers are on their way at once.
const MOST_CONFIG_BYTES: usize = 256 << 10;

/// The most characters of the reason that a NAD cannot be read.
#[cfg(feature = "daemon")]
const MOST_REASON: usize = 300;

/// The most bytes of `kubernetes.io/config.hash`: the kubelet writes 32, and a tenant any number.
#[cfg(feature = "daemon")]
const MAX_HASH: usize = 64;

/// NetworkAttachmentDefinitions, policies about them, and the pods of this node that may select them. All clones are
/// one catalog.
#[derive(Clone, Debug)]
pub struct NetworkCatalog {
    node: Arc<str>,
    contents: Arc<RwLock<Contents>>,
    #[cfg(feature = "daemon")]
    counts: Arc<MultinetCounts>,
    /// Set where the objects are those of an API server.
    #[cfg(feature = "daemon")]
    pub(super) reader: Arc<OnceLock<NadReader>>,
    pod_changes: Arc<PodChanges>,
}

/// The number of changes of pods, for the thread and the task that wait for them.
#[derive(Debug, Default)]
struct PodChanges {
    count: Mutex<u64>,
    counted: Condvar,
    /// For the one task that waits.
    #[cfg(feature = "daemon")]
    notified: tokio::sync::Notify,
}

#[derive(Debug, Default)]
struct Contents {
    /// All objects of the source are in it.
    is_complete: bool,
    nads: BTreeMap<ObjectName, AttachmentConfig>,
    /// NADs that cannot be read, each with the reason. They attach no pod, whatever their configuration was before.
    unreadable: BTreeMap<ObjectName, String>,
    policies: BTreeMap<Arc<str>, AttachmentPolicy>,
    namespaces: BTreeMap<Arc<str>, Labels>,
    /// Pods of this node by their uids.
    pods: BTreeMap<Arc<str>, CatalogPod>,
}

#[derive(Debug, PartialEq)]
struct CatalogPod {
    name: ObjectName,
    config_hash: Option<Arc<str>>,
    annotations: NetworkAnnotations,
    /// The runtime may attach it: it has not ended, and it has a network namespace of its own.
    is_attachable: bool,
}

impl NetworkCatalog {
    /// An empty catalog of this node.
    pub fn new(node: &str) -> Self {
        Self {
            node: node.into(),
            contents: Arc::default(),
            #[cfg(feature = "daemon")]
            counts: Arc::default(),
            #[cfg(feature = "daemon")]
            reader: Arc::default(),
            pod_changes: Arc::default(),
        }
    }

    /// Returns the counts of answers by this catalog, and of what is written to its pods.
    #[cfg(feature = "daemon")]
    pub(crate) fn counts(&self) -> &Arc<MultinetCounts> {
        &self.counts
    }

    /// Says that all objects of the source are in it. Before that, an object that is not in it may exist.
    pub(crate) fn complete(&self) {
        let was_complete =
            self.write(|contents| std::mem::replace(&mut contents.is_complete, true));
        if !was_complete {
            self.count_change();
        }
    }

    /// Adds an object, in place of what is known of it.
    pub(crate) fn put(&self, object: &Object) {
        match object {
            Object::Network(network) => {
                let (name, attachment) = (network.name.clone(), network.attachment.clone());
                self.write(|it| it.nads.insert(name, attachment));
            }
            // It counts in place of the NAD of its name, which is gone.
            Object::UserNetwork(network) => {
                self.write(|it| it.nads.remove(&network.name));
            }
            Object::AttachmentPolicy(policy) => {
                self.write(|it| it.policies.insert(policy.name.clone(), policy.clone()));
            }
            Object::Namespace(namespace) => {
                let (name, labels) = (namespace.name.clone(), namespace.labels.clone());
                self.write(|it| it.namespaces.insert(name, labels));
            }
            Object::Pod(pod, ..) if pod.node.as_ref() == Some(&self.node) => {
                let is_changed = self.write(|it| {
                    let (uid, put) = (pod.id.uid.clone(), CatalogPod::of(pod));
                    let is_changed = it.pods.get(&uid) != Some(&put);
                    // The deletion of one that had the name before may not be told.
                    it.pods.retain(|_, other| other.name != pod.id.name);
                    it.pods.insert(uid, put);
                    is_changed
                });
                if is_changed {
                    self.count_change();
                }
            }
            _ => {}
        }
    }

    /// Says that a NAD cannot be read, or that it can be, or is gone.
    #[cfg(feature = "daemon")]
    pub(crate) fn put_unreadable(&self, nad: &ObjectName, why: Option<&str>) {
        self.write(|it| match why {
            Some(why) => it.unreadable.insert(nad.clone(), shortened(why)),
            None => it.unreadable.remove(nad),
        });
    }

    /// Removes an object.
    pub(crate) fn remove(&self, object: &Object) {
        match object {
            Object::Network(network) | Object::UserNetwork(network) => {
                self.write(|it| it.nads.remove(&network.name));
            }
            Object::AttachmentPolicy(policy) => {
                self.write(|it| it.policies.remove(&policy.name));
            }
            Object::Namespace(namespace) => {
                self.write(|it| it.namespaces.remove(&namespace.name));
            }
            Object::Pod(pod, ..) => {
                let removed = self.write(|it| it.pods.remove(&pod.id.uid));
                if removed.is_some() {
                    self.count_change();
                }
            }
            _ => {}
        }
    }

    fn write<T>(&self, change: impl FnOnce(&mut Contents) -> T) -> T {
        let mut contents = self
            .contents
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        change(&mut contents)
    }

    fn count_change(&self) {
        let count = self.pod_changes.count.lock();
        *count.unwrap_or_else(PoisonError::into_inner) += 1;
        self.pod_changes.counted.notify_all();
        #[cfg(feature = "daemon")]
        self.pod_changes.notified.notify_one();
    }

    /// Waits until pods have changed since this was called last. One task may wait.
    #[cfg(feature = "daemon")]
    pub(super) async fn pods_changed(&self) {
        self.pod_changes.notified.notified().await;
    }

    /// Waits at most this long until pods have changed since the count was `known`. Returns the count now.
    #[cfg(feature = "daemon")]
    pub(super) fn wait_for_pods(&self, known: u64, at_most: Duration) -> u64 {
        let count = self.pod_changes.count.lock();
        let count = count.unwrap_or_else(PoisonError::into_inner);
        let waited = { &self.pod_changes.counted }
            .wait_timeout_while(count, at_most, |count| *count == known);
        let (count, _) = waited.unwrap_or_else(PoisonError::into_inner);
        *count
    }

    /// Returns the files of this node's pods by the names of their documents, and whether these are all pods.
    #[cfg(feature = "daemon")]
    pub(super) fn pod_files(&self) -> (BTreeMap<String, PodFile>, bool) {
        let contents = self.contents.read().unwrap_or_else(PoisonError::into_inner);
        let attachable = contents.pods.iter().filter(|(_, pod)| pod.is_attachable);
        let files = attachable.map(|(uid, pod)| {
            let document = PodFile::document(&pod.name.namespace, &pod.name.name);
            (document, pod.file(uid))
        });
        (files.collect(), contents.is_complete)
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

    /// Returns true if each namespace has an object: if the objects are those of an API server.
    fn has_namespaces(&self) -> bool {
        #[cfg(feature = "daemon")]
        return self.reader.get().is_some();
        #[cfg(not(feature = "daemon"))]
        false
    }

    /// Returns the answer to a message of the plugin.
    pub fn answer(&self, message: &Message) -> Answer {
        let answer = self.answer_with(message, &BTreeMap::new());
        answer.unwrap_or_else(|missing| absent(&missing))
    }

    /// Returns the answer to a message of the plugin, with these NADs beside those of the catalog; or the name of a NAD that
    /// is in neither.
    pub(super) fn answer_with(
        &self,
        message: &Message,
        confirmed: &BTreeMap<ObjectName, AttachmentConfig>,
    ) -> Result<Answer, ObjectName> {
        let contents = self.contents.read().unwrap_or_else(PoisonError::into_inner);
        let find = |name: &ObjectName| contents.nads.get(name).or_else(|| confirmed.get(name));
        let names = match &message.about {
            About::Annotations => return Ok(contents.annotations(&message.pod)),
            // Selectors of policies may match namespaces by the absence of a label.
            About::Nads(_) if !contents.is_complete => {
                let why = "netqos-agent has not read all objects yet";
                return Ok(Answer::TryAgain(why.to_owned()));
            }
            About::Nads(names) => names
                .iter()
                .map(|it| ObjectName::new(&it.namespace, &it.name)),
        };
        let (mut nads, mut bytes) = (Vec::new(), 0);
        for name in names {
            let policies = match contents.policies_about(&name, &message.pod, self.has_namespaces())
            {
                Ok(policies) => policies,
                Err(answer) => return Ok(answer),
            };
            if let Some(why) = contents.unreadable.get(&name) {
                return Ok(unreadable(&name, why));
            }
            let Some(attachment) = find(&name) else {
                return Err(name);
            };
            // One that is selected twice counts twice.
            bytes += attachment.config.as_deref().map_or(0, str::len);
            if bytes > MOST_CONFIG_BYTES {
                return Ok(Answer::Refused(format!(
                    "the configurations that the pod selects are larger than {MOST_CONFIG_BYTES} bytes together"
                )));
            }
            nads.push(nad(attachment, &policies));
        }
        Ok(Answer::Nads(nads))
    }
}

/// The answer about a NAD that does not exist.
pub(super) fn absent(nad: &ObjectName) -> Answer {
    Answer::Refused(format!("no NetworkAttachmentDefinition {nad} exists"))
}

fn may_not_select(nad: &ObjectName, pod: &PodName) -> Answer {
    Answer::Refused(format!(
        "pods of namespace {} may not select NetworkAttachmentDefinition {nad}; the key openTo of a \
         NetworkAttachmentPolicy for namespace {} permits it",
        pod.namespace, nad.namespace
    ))
}

/// The answer about a NAD that cannot be read.
pub(super) fn unreadable(nad: &ObjectName, why: &str) -> Answer {
    Answer::Refused(format!(
        "NetworkAttachmentDefinition {nad} cannot be read: {why}; correct it"
    ))
}

/// The beginning of a reason, which may quote a tenant's text.
#[cfg(feature = "daemon")]
pub(super) fn shortened(why: &str) -> String {
    why.chars().take(MOST_REASON).collect()
}

fn nad(attachment: &AttachmentConfig, policies: &[&AttachmentPolicy]) -> Nad {
    Nad {
        driver: CNI_DRIVER.to_owned(),
        resource_version: attachment.resource_version.to_string(),
        config: attachment.config.as_deref().map(str::to_owned),
        resource_name: attachment.resource_name.as_deref().map(str::to_owned),
        device: None,
        policies: { policies.iter() }
            .map(|it| (it.name.to_string(), it.resource_version.to_string()))
            .collect(),
        grant: AttachmentGrant::united(policies.iter().copied()),
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

    /// Returns the policies about the namespace of a NAD, or the answer if the pod may not select it. Whether the NAD exists
    /// makes no difference: it would be told to pods of other namespaces.
    fn policies_about(
        &self,
        nad: &ObjectName,
        pod: &PodName,
        has_namespaces: bool,
    ) -> Result<Vec<&AttachmentPolicy>, Answer> {
        let is_foreign = *nad.namespace != pod.namespace;
        if has_namespaces && is_foreign && !self.namespaces.contains_key(&nad.namespace) {
            // It makes no difference whether it exists.
            return Err(may_not_select(nad, pod));
        }
        let of_nad = self.labels(&nad.namespace, has_namespaces)?;
        let about: Vec<&AttachmentPolicy> = (self.policies.values())
            .filter(|policy| policy.namespaces.matches(&of_nad))
            .collect();
        if is_foreign {
            let of_pod = self.labels(&pod.namespace, has_namespaces)?;
            let opens = |policy: &&AttachmentPolicy| {
                policy
                    .open_to
                    .as_ref()
                    .is_some_and(|to| to.matches(&of_pod))
            };
            if !about.iter().any(opens) {
                return Err(may_not_select(nad, pod));
            }
        }
        Ok(about)
    }

    /// Returns the labels of a namespace. Manifests may leave its object out; of one that the watch lacks, a selector may match
    /// the absence of a label that it has.
    fn labels(&self, namespace: &str, has_namespaces: bool) -> Result<Labels, Answer> {
        match self.namespaces.get(namespace) {
            Some(labels) => Ok(labels.clone()),
            None if has_namespaces => Err(Answer::TryAgain(format!(
                "netqos-agent does not know namespace {namespace} yet"
            ))),
            None => Ok(Labels::from([(NAMESPACE_NAME.into(), namespace.into())])),
        }
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
            is_attachable: !pod.finished && !pod.host_network,
        }
    }

    #[cfg(feature = "daemon")]
    fn file(&self, uid: &str) -> PodFile {
        let text = |text: &Option<Arc<str>>| text.as_deref().map(str::to_owned);
        let NetworkAnnotations {
            networks,
            default_network,
            ..
        } = &self.annotations;
        let bytes: usize = [networks, default_network]
            .into_iter()
            .flatten()
            .map(|it| it.len())
            .sum();
        PodFile {
            namespace: self.name.namespace.to_string(),
            name: self.name.name.to_string(),
            uid: uid.to_owned(),
            config_hash: text(&self.config_hash).filter(|hash| hash.len() <= MAX_HASH),
            annotations: (bytes <= MAX_FILE_ANNOTATIONS).then(|| SelectingAnnotations {
                networks: text(networks),
                default_network: text(default_network),
            }),
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
