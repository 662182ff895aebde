//! What a source says of classes.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use netqos_api::koordinator::{Mistake, NodeSlo, PodClass};
use netqos_core::classes::Place;
use netqos_core::objects::{NetworkName, Node, Pod};
use netqos_core::{ObjectName, PodId};
use netqos_k8s::Object;

/// All that a source says of who shares the lines of nodes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClassInput {
    /// Koordinator's ConfigMaps, of which the first by name counts.
    pub configs: BTreeMap<ObjectName, BTreeMap<String, String>>,
    /// What `NodeSLO`s say by the names of their nodes, or what is wrong with them.
    pub slos: BTreeMap<Arc<str>, Result<Box<NodeSlo>, Vec<Mistake>>>,
    /// Nodes by their names.
    pub nodes: BTreeMap<Arc<str>, Node>,
    /// Pods that run, by their uids: those of which the class is known.
    pub pods: BTreeMap<Arc<str>, InputPod>,
}

/// A pod that has a part of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputPod {
    /// Which.
    pub id: PodId,
    /// The node that it is on.
    pub node: Arc<str>,
    /// It has no network of its own.
    pub host_network: bool,
    /// Its own addresses on the default network, as its status says; none of a pod on the host's network.
    pub addresses: BTreeSet<IpAddr>,
    /// What it says of its class.
    pub class: PodClass,
}

/// Where a pod is, as far as objects say it: nobody has looked at the node.
pub fn stated_place(pod: &InputPod) -> Place {
    Place {
        host_network: pod.host_network,
        addresses: pod.addresses.clone(),
        ..Place::default()
    }
}

impl ClassInput {
    /// An object is so, in place of what it was.
    pub(crate) fn put(&mut self, object: &Object) {
        match object {
            Object::SloConfig(name, data) => {
                self.configs.insert(name.clone(), data.clone());
            }
            Object::NodeSlo(name, slo) => {
                self.slos.insert(name.clone(), slo.clone());
            }
            Object::Node(node) => {
                self.nodes.insert(node.name.clone(), node.clone());
            }
            Object::Pod(pod, _, class) => {
                let read = class.as_deref().and_then(|it| InputPod::of(pod, it));
                match read {
                    Some(read) => self.pods.insert(pod.id.uid.clone(), read),
                    None => self.pods.remove(&pod.id.uid),
                };
            }
            _ => {}
        }
    }

    /// An object is gone.
    pub(crate) fn remove(&mut self, object: &Object) {
        match object {
            Object::SloConfig(name, _) => drop(self.configs.remove(name)),
            Object::NodeSlo(name, _) => drop(self.slos.remove(name)),
            Object::Node(node) => drop(self.nodes.remove(&node.name)),
            Object::Pod(pod, ..) => drop(self.pods.remove(&pod.id.uid)),
            _ => {}
        }
    }
}

impl InputPod {
    /// `None`: it has no part of any line.
    fn of(pod: &Pod, class: &PodClass) -> Option<Self> {
        let node = pod.node.clone().filter(|_| !pod.finished)?;
        // Those of other networks are in annotations, which a tenant may write: the node itself knows them.
        let default = pod.addresses.iter();
        let default = default.filter(|it| it.network == NetworkName::Default);
        let addresses = default.flat_map(|it| &it.addresses);
        let own = addresses.filter(|_| !pod.host_network);
        Some(Self {
            id: pod.id.clone(),
            node,
            host_network: pod.host_network,
            addresses: own.copied().collect(),
            class: class.clone(),
        })
    }
}

/// True of objects that say something of classes.
pub(crate) fn concerns(object: &Object) -> bool {
    matches!(
        object,
        Object::SloConfig(..) | Object::NodeSlo(..) | Object::Node(_) | Object::Pod(_, _, Some(_))
    )
}
