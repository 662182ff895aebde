//! What the API server tells, as changes of the index and facts about policies.

mod read;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use netqos_cluster::{Kind, ObjectVersion, Told};
use netqos_coexistence::{AtWork, Neighbour};
use netqos_core::objects::{NetworkDefinition, PeerSlice};
use netqos_core::{NodeReport, ObjectName, PodId};
use netqos_index::Change;
use netqos_k8s::Object;
use tokio::time::Instant;

use crate::agents::{Agents, PodFacts};
use crate::node_slos::{ConfigFacts, NodeFacts, ObjectFacts};

pub(crate) use read::{PolicyFacts, Read};
use read::{PolicyRead, What};

/// How long a kind that had objects may be unknown to the server before they are taken for gone.
const DISBELIEF: Duration = Duration::from_secs(60);

/// What is watched.
pub(crate) const KINDS: [Kind; 10] = [
    Kind::Namespace,
    Kind::Node,
    Kind::Pod,
    Kind::NetworkQoS,
    Kind::NetworkQoSQuota,
    Kind::NetworkAttachmentDefinition,
    Kind::UserDefinedNetwork,
    Kind::ClusterUserDefinedNetwork,
    Kind::NetworkQoSPeerSlice,
    Kind::NetworkQoSNodeReport,
];

/// What is watched beside that: nothing else waits for it.
pub(crate) const SLO_KINDS: [Kind; 2] = [Kind::ConfigMap, Kind::NodeSlo];

/// What is watched to say what is wrong with it, which agents would say once on each node. Quotas are
/// watched anyway.
pub(crate) const TOLD_KINDS: [Kind; 2] = [Kind::BandwidthProfile, Kind::NetworkQoSDefault];

/// What became of it.
#[derive(Debug)]
pub(crate) enum News {
    /// Something for the index.
    Change(Box<Change>),
    /// A slice is there.
    Slice(PeerSlice, ObjectVersion),
    /// A slice is gone.
    SliceGone(ObjectName),
    /// A policy is there, or has become another one; `None`: it is gone.
    Policy(ObjectName, Option<PolicyFacts>),
    /// A node has said something, or says nothing any more.
    Report(Arc<str>, Option<(NodeReport, ObjectVersion)>),
    /// A node is there, or has changed; `None`: it is gone.
    Node(Arc<str>, Option<Box<NodeFacts>>),
    /// So is its NodeSLO.
    NodeSlo(Arc<str>, Option<Box<ObjectFacts>>),
    /// So is the ConfigMap that these are made of.
    SloConfig(Option<ConfigFacts>),
    /// An object that has no status is wrong in this; `None`: not any more.
    Wrong(Kind, ObjectName, Option<Wrong>),
}

/// What is wrong with an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wrong {
    pub(crate) uid: Arc<str>,
    /// In words that name the field.
    pub(crate) why: String,
}

/// What was told of each kind.
#[derive(Debug)]
pub(crate) struct Feed {
    /// How agents do.
    pub(crate) agents: Agents,
    /// Kinds of which all was told once.
    spoke: BTreeSet<Kind>,
    /// Since when a kind has been unknown to the server.
    unknown: BTreeMap<Kind, Instant>,
    silent: BTreeMap<Kind, String>,
    /// What there is, and which it is: the uid of what could be read last, which counts.
    names: BTreeMap<Kind, HashMap<ObjectName, Arc<str>>>,
    /// What cannot be read, of kinds that have no status to say so.
    wrong: BTreeMap<(Kind, ObjectName), Wrong>,
    /// For one network there may be a definition and the object that OVN-Kubernetes made it from.
    networks: [BTreeMap<ObjectName, NetworkDefinition>; 2],
    /// Pods of other systems.
    neighbours: BTreeMap<ObjectName, Neighbour>,
}

impl Feed {
    /// Nothing yet; agents are in this namespace.
    pub(crate) fn new(namespace: &str) -> Self {
        Self {
            agents: Agents::new(namespace),
            spoke: BTreeSet::new(),
            unknown: BTreeMap::new(),
            silent: BTreeMap::new(),
            names: BTreeMap::new(),
            wrong: BTreeMap::new(),
            networks: [BTreeMap::new(), BTreeMap::new()],
            neighbours: BTreeMap::new(),
        }
    }

    /// Takes note of what a watch tells.
    pub(crate) fn hear(&mut self, kind: Kind, told: Told<Read>) -> Vec<News> {
        let mut news = Vec::new();
        match told {
            Told::Silent(why) => {
                if self.silent.insert(kind, why.clone()).is_none() {
                    tracing::warn!("the API server does not tell of {}: {why}", kind.plural());
                }
                return news;
            }
            Told::Answers => {}
            Told::Unknown => {
                let is_ours = kind.group() == "netqos.io" || kind == Kind::NetworkQoS;
                if is_ours && !self.unknown.contains_key(&kind) {
                    tracing::warn!(
                        "the API server does not know {}: install the definitions of this version \
                         (kubectl apply --server-side -k deploy/crds)",
                        kind.plural()
                    );
                }
                let since = *self.unknown.entry(kind).or_insert_with(Instant::now);
                let some = self.names.get(&kind).is_some_and(|names| !names.is_empty());
                let matters = matches!(kind, Kind::NetworkQoS | Kind::NetworkQoSPeerSlice);
                if (some || matters) && since.elapsed() < DISBELIEF {
                    return news;
                }
                self.replace(kind, BTreeMap::new(), &mut news);
            }
            Told::All(all) => {
                self.unknown.remove(&kind);
                self.replace(kind, all, &mut news);
            }
            Told::There(name, read) => self.there(kind, name, read, &mut news),
            Told::Gone(name) => self.gone(kind, &name, &mut news),
        }
        if self.silent.remove(&kind).is_some() {
            tracing::info!("the API server tells of {} again", kind.plural());
        }
        news
    }

    /// True when all of every kind was told once.
    pub(crate) fn is_whole(&self) -> bool {
        KINDS.iter().all(|kind| self.spoke.contains(kind))
    }

    /// True when all that NodeSLO objects are made of, and all of those, was told once.
    pub(crate) fn knows_slos(&self) -> bool {
        SLO_KINDS.iter().all(|kind| self.spoke.contains(kind))
    }

    /// True where the server does not know a kind.
    pub(crate) fn is_unknown(&self, kind: Kind) -> bool {
        self.unknown.contains_key(&kind)
    }

    /// What is waited for.
    pub(crate) fn waiting(&self) -> String {
        let kinds = KINDS.iter().filter(|kind| !self.spoke.contains(kind));
        let kinds: Vec<String> = kinds
            .map(|kind| match self.silent.get(kind) {
                Some(why) => format!("{} ({why})", kind.plural()),
                None => kind.plural().to_owned(),
            })
            .collect();
        kinds.join(", ")
    }

    /// How many objects of each kind are known.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (Kind, usize)> {
        let counts = self.names.iter();
        counts.map(|(kind, names)| (*kind, names.len()))
    }

    /// The uid of a pod.
    pub(crate) fn pod_uid(&self, name: &ObjectName) -> Option<&Arc<str>> {
        self.names.get(&Kind::Pod)?.get(name)
    }

    /// Who else is at work in the cluster, as far as pods tell.
    pub(crate) fn at_work(&self) -> AtWork {
        let mut at_work = AtWork::default();
        let neighbours = self.neighbours.values();
        neighbours.for_each(|neighbour| at_work.meet(*neighbour));
        at_work
    }

    fn replace(&mut self, kind: Kind, all: BTreeMap<ObjectName, Read>, news: &mut Vec<News>) {
        let known = self.names.get(&kind);
        let wrong = self.wrong.keys().filter(|(of, _)| *of == kind);
        let gone = known.into_iter().flat_map(HashMap::keys);
        let gone = gone.chain(wrong.map(|(_, name)| name));
        let gone: Vec<ObjectName> = gone.filter(|it| !all.contains_key(*it)).cloned().collect();
        for name in gone {
            self.gone(kind, &name, news);
        }
        // Which pods have come since an agent went is known once that is.
        let is_agent = |read: &Read| read.pod.as_ref().is_some_and(PodFacts::is_agent);
        let (agents, others): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|(_, read)| is_agent(read));
        for (name, read) in agents.into_iter().chain(others) {
            self.there(kind, name, read, news);
        }
        self.spoke.insert(kind);
    }

    fn there(&mut self, kind: Kind, name: ObjectName, read: Read, news: &mut Vec<News>) {
        let version = ObjectVersion {
            uid: read.uid.clone(),
            number: read.version,
        };
        let mut uid = read.uid;
        self.agents.there(&name, read.pod.as_ref());
        match read.neighbour {
            Some(neighbour) => drop(self.neighbours.insert(name.clone(), neighbour)),
            None if kind == Kind::Pod => drop(self.neighbours.remove(&name)),
            None => {}
        }
        let change = match read.what {
            What::Slice(slice) => {
                news.push(News::Slice(slice, version));
                None
            }
            What::Report(report) => {
                news.push(News::Report(report.node.clone(), Some((report, version))));
                None
            }
            What::Policy(policy) => {
                let PolicyRead { policy, facts } = *policy;
                let change = match policy {
                    Ok(policy) => Some(Change::Policy(policy)),
                    // What it said before is in force on nodes, by the sets that it names.
                    Err(_) if self.was(kind, &name, &uid) => None,
                    Err(_) => {
                        uid = "".into();
                        Some(Change::PolicyGone(name.clone()))
                    }
                };
                news.extend(change.map(|change| News::Change(Box::new(change))));
                news.push(News::Policy(name.clone(), Some(facts)));
                None
            }
            What::Node(facts) => {
                news.push(News::Node(name.name.clone(), Some(facts)));
                None
            }
            What::NodeSlo(facts) => {
                news.push(News::NodeSlo(name.name.clone(), Some(facts)));
                None
            }
            What::SloConfig(facts) => {
                news.push(News::SloConfig(Some(facts)));
                None
            }
            What::Object(object) => match *object {
                Object::Namespace(namespace) => Some(Change::Namespace(namespace)),
                Object::Pod(pod, ..) => {
                    uid = pod.id.uid.clone();
                    Some(Change::Pod(*pod))
                }
                Object::Network(network) | Object::UserNetwork(network) => {
                    self.networks[place(kind)].insert(name.clone(), network);
                    self.network(&name)
                }
                Object::ClusterNetwork(network) => Some(Change::ClusterNetwork(network)),
                Object::Quota(quota) => Some(Change::Quota(quota)),
                _ => None,
            },
            What::Right => None,
            What::Unreadable(why) => return self.unreadable(kind, name, Wrong { uid, why }, news),
        };
        if self.wrong.remove(&(kind, name.clone())).is_some() {
            news.push(News::Wrong(kind, name.clone(), None));
        }
        self.names.entry(kind).or_default().insert(name, uid);
        news.extend(change.map(|change| News::Change(Box::new(change))));
    }

    /// True where an object of this uid is there, and could be read.
    fn was(&self, kind: Kind, name: &ObjectName, uid: &str) -> bool {
        let known = self.names.get(&kind).and_then(|it| it.get(name));
        known.is_some_and(|known| **known == *uid && !uid.is_empty())
    }

    /// An object cannot be read: what it said before counts until it can be, or is gone. A quota that
    /// somebody has spoiled still bounds.
    fn unreadable(&mut self, kind: Kind, name: ObjectName, wrong: Wrong, news: &mut Vec<News>) {
        // What is written here is written anew.
        let is_own = matches!(kind, Kind::NetworkQoSPeerSlice | Kind::NetworkQoSNodeReport);
        let what = match self.was(kind, &name, &wrong.uid) && !is_own {
            true => "what it said before counts",
            false => {
                self.forget(kind, &name, news);
                "it is left out"
            }
        };
        tracing::warn!("{kind} {name} cannot be read, and {what}: {}", wrong.why);
        if kind == Kind::NetworkQoSQuota || TOLD_KINDS.contains(&kind) {
            let why = format!("{}; {what}", wrong.why);
            let wrong = Wrong { why, ..wrong };
            let before = self.wrong.insert((kind, name.clone()), wrong.clone());
            if before.as_ref() != Some(&wrong) {
                news.push(News::Wrong(kind, name, Some(wrong)));
            }
        }
    }

    fn gone(&mut self, kind: Kind, name: &ObjectName, news: &mut Vec<News>) {
        if self.wrong.remove(&(kind, name.clone())).is_some() {
            news.push(News::Wrong(kind, name.clone(), None));
        }
        self.forget(kind, name, news);
    }

    fn forget(&mut self, kind: Kind, name: &ObjectName, news: &mut Vec<News>) {
        let Some(uid) = self.names.get_mut(&kind).and_then(|it| it.remove(name)) else {
            return;
        };
        let name = name.clone();
        let change = match kind {
            Kind::Namespace => Change::NamespaceGone(name.name),
            Kind::Pod => {
                self.neighbours.remove(&name);
                self.agents.gone(&name);
                Change::PodGone(PodId { name, uid })
            }
            Kind::NetworkAttachmentDefinition | Kind::UserDefinedNetwork => {
                self.networks[place(kind)].remove(&name);
                match self.network(&name) {
                    Some(change) => change,
                    None => Change::NetworkDefinitionGone(name),
                }
            }
            Kind::ClusterUserDefinedNetwork => Change::ClusterNetworkGone(name.name),
            Kind::NetworkQoSQuota => Change::QuotaGone(name.name),
            Kind::NetworkQoS => {
                news.push(News::Policy(name.clone(), None));
                Change::PolicyGone(name)
            }
            Kind::NetworkQoSPeerSlice => return news.push(News::SliceGone(name)),
            Kind::NetworkQoSNodeReport => return news.push(News::Report(name.name, None)),
            Kind::Node => {
                self.agents.node_gone(&name.name);
                return news.push(News::Node(name.name, None));
            }
            Kind::NodeSlo => return news.push(News::NodeSlo(name.name, None)),
            Kind::ConfigMap => return news.push(News::SloConfig(None)),
            _ => return,
        };
        news.push(News::Change(Box::new(change)));
    }

    /// What a network is, if it is: what the definition says counts, since it is what plugins are
    /// given.
    fn network(&self, name: &ObjectName) -> Option<Change> {
        let mut said = self.networks.iter().filter_map(|it| it.get(name));
        let mut network = said.next().cloned()?;
        // Whose primary network it is, a tenant's definition does not say.
        let user_network = self.networks[place(Kind::UserDefinedNetwork)].get(name);
        network.primary = user_network.and_then(|it| it.primary.clone());
        Some(Change::NetworkDefinition(network))
    }
}

/// Where definitions of a kind are.
fn place(kind: Kind) -> usize {
    match kind {
        Kind::UserDefinedNetwork => 1,
        _ => 0,
    }
}
