//! What a controller does of peers: it publishes them in slices, by the library that the real one
//! is made of.

use std::collections::BTreeSet;

use netqos_core::{ObjectName, PodId};
use netqos_index::{Change, PeerIndex, SliceWrite, Slicer, head_name};
use netqos_k8s::{NetworkQoSPeerSlice, Object, object_from_value};
use serde_json::{Value, json};

use super::world::{SLICE, World};

/// Its namespace.
pub const NAMESPACE: &str = "netqos-system";
const VERSION: &str = "netqos.io/v1alpha1";

/// It looks at the cluster when it is told to, and writes as much as it is told.
pub struct Controller {
    pub peers: PeerIndex,
    slicer: Slicer,
    pods: BTreeSet<PodId>,
    policies: BTreeSet<ObjectName>,
    left: Vec<SliceWrite>,
}

impl World {
    /// A cluster, and the publisher of its peers. `None`: skipped.
    pub fn with_controller() -> Option<(Self, Controller)> {
        let world = Self::new()?;
        let controller = Controller::start(&world);
        Some((world, controller))
    }

    /// Has the policy `p` mark what `a` sends to `b`, by a rule to a set of pods that is another one each time, and
    /// published.
    pub fn mark_by(&self, controller: &mut Controller, dscp: u8) {
        let other = format!("other{dscp}");
        self.mark_to("p", 1, dscp, &apps(&["b", &other]));
        controller.publish(self);
    }

    /// A policy for the pods of app `a`, in place of what it was, that marks what goes to those that a
    /// peer selects.
    pub fn mark_to(&self, name: &str, priority: u8, dscp: u8, peer: &Value) {
        let object = json!({
            "apiVersion": "k8s.ovn.org/v1alpha1", "kind": "NetworkQoS",
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {
                "priority": priority,
                "podSelector": {"matchLabels": {"app": "a"}},
                "egress": [{"dscp": dscp, "classifier": {"to": [peer]}}]
            }
        });
        self.apply("k8s.ovn.org/v1alpha1", "NetworkQoS", &object);
    }
}

/// Pods of the policy's namespace with any of these apps.
pub fn apps(apps: &[&str]) -> Value {
    let expression = json!({"key": "app", "operator": "In", "values": apps});
    json!({"podSelector": {"matchExpressions": [expression]}})
}

impl Controller {
    /// One that has just become leader: it knows what is on the server.
    pub fn start(world: &World) -> Self {
        let mut slicer = Slicer::new(NAMESPACE);
        for slice in world.list(VERSION, SLICE) {
            match object_from_value(&slice) {
                Ok(Object::PeerSlice(slice)) => slicer.found(slice),
                other => panic!("{other:?}"),
            }
        }
        Self {
            peers: PeerIndex::default(),
            slicer,
            pods: BTreeSet::new(),
            policies: BTreeSet::new(),
            left: Vec::new(),
        }
    }

    /// Looks at the cluster. What is to be written is written by [`Controller::write`].
    pub fn look(&mut self, world: &World) {
        let kinds = [
            ("v1", "Namespace"),
            ("v1", "Pod"),
            ("k8s.ovn.org/v1alpha1", "NetworkQoS"),
        ];
        let objects = kinds.into_iter();
        let objects = objects.flat_map(|(version, kind)| world.list(version, kind));
        let (mut pods, mut policies) = (BTreeSet::new(), BTreeSet::new());
        for object in objects {
            let change = match object_from_value(&object).unwrap() {
                Object::Namespace(namespace) => Change::Namespace(namespace),
                Object::Pod(pod, ..) => {
                    pods.insert(pod.id.clone());
                    Change::Pod(*pod)
                }
                Object::Policy(policy) => {
                    policies.insert(policy.name.clone());
                    Change::Policy(policy)
                }
                other => panic!("{other:?}"),
            };
            self.peers.apply(change);
        }
        for pod in self.pods.difference(&pods) {
            self.peers.apply(Change::PodGone(pod.clone()));
        }
        for policy in self.policies.difference(&policies) {
            self.peers.apply(Change::PolicyGone(policy.clone()));
        }
        (self.pods, self.policies) = (pods, policies);
        self.slicer.change(self.peers.take_changes());
        self.left.extend(self.slicer.take_writes());
    }

    /// How much is to be written.
    pub fn left(&self) -> usize {
        self.left.len()
    }

    /// True when what is written next says that a set is published as a whole.
    pub fn is_at_head(&self) -> bool {
        let next = self.left.first();
        next.is_some_and(|write| match write {
            SliceWrite::Put(slice) => *slice.name.name == head_name(slice.set),
            SliceWrite::Delete(_) => false,
        })
    }

    /// Writes as many slices.
    pub fn write(&mut self, world: &World, many: usize) {
        for write in self.left.drain(..many) {
            match write {
                SliceWrite::Put(slice) => {
                    let object = serde_json::to_value(NetworkQoSPeerSlice::of(&slice)).unwrap();
                    world.apply(VERSION, SLICE, &object);
                }
                SliceWrite::Delete(name) => {
                    world.delete_in(&name.namespace, VERSION, SLICE, &name.name);
                }
            }
        }
    }

    /// Does all that is to be done.
    pub fn publish(&mut self, world: &World) {
        self.look(world);
        self.write(world, self.left());
    }
}
