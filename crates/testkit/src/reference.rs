//! What the proposal (okep-4380) says of a packet, written down as it is read: every policy is
//! looked at for every packet, and every pod for every destination. Slow, and nothing to get wrong
//! by being clever. The index, its plan, and the kernel's programs are measured by it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use netqos_core::objects::{
    ClusterNetwork, EndpointSlice, LocalInterface, NetworkDefinition, NetworkName, Pod,
    PodAddresses, Service,
};
use netqos_core::plan::{Packet, RuleId};
use netqos_core::{
    Destination, Labels, Mode, NetworkChoice, NetworkKey, NetworkRef, ObjectName, Policy, Rule,
};

/// All there is in a cluster, seen from one node.
#[derive(Clone, Debug, Default)]
pub struct Cluster {
    /// The node.
    pub node: String,
    /// The labels of namespaces.
    pub namespaces: BTreeMap<Arc<str>, Labels>,
    /// The pods.
    pub pods: BTreeMap<ObjectName, Pod>,
    /// The definitions of networks.
    pub definitions: BTreeMap<ObjectName, NetworkDefinition>,
    /// The cluster-wide networks.
    pub cluster_networks: BTreeMap<Arc<str>, ClusterNetwork>,
    /// The policies.
    pub policies: BTreeMap<ObjectName, Policy>,
    /// The services.
    pub services: BTreeMap<ObjectName, Service>,
    /// Their endpoints.
    pub slices: BTreeMap<ObjectName, EndpointSlice>,
    /// What was found on the node of a pod, and of which.
    pub found: BTreeMap<ObjectName, (Option<Arc<str>>, Vec<LocalInterface>)>,
}

/// Which rules a packet meets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// The rule that decides mark and rate.
    pub winner: Option<RuleId>,
    /// The rule in shadow mode that would.
    pub shadow: Option<RuleId>,
}

impl Cluster {
    /// What happens to a packet that a pod sends on a network.
    pub fn decide(&self, from: &ObjectName, network: &NetworkKey, packet: Packet) -> Decision {
        let Some(sender) = self.pods.get(from) else {
            return Decision::default();
        };
        if sender.host_network || sender.finished || !self.networks_of(sender).contains(network) {
            return Decision::default();
        }
        // A destination that is reached through a Service counts as its backend, where it does
        // not matter which one.
        let mut behind: Vec<Decision> = Vec::new();
        for (address, port) in self.backends(network, packet) {
            let rewritten = Packet {
                destination: address,
                port: Some(port),
                ..packet
            };
            behind.push(self.decide_for(sender, network, rewritten));
        }
        let mut decision = self.decide_for(sender, network, packet);
        let Some(one) = behind.first() else {
            return decision;
        };
        if behind.iter().all(|other| other.winner == one.winner) {
            decision.winner = one.winner.clone();
        }
        // The same, if rules in shadow mode were enforced.
        let would = |it: &Decision| it.shadow.clone().or_else(|| it.winner.clone());
        if behind.iter().all(|other| would(other) == would(one)) {
            decision.shadow = one.shadow.clone();
        }
        // One behind the winner would not win if it were enforced.
        let place = |rule: &RuleId| {
            let priority = self.policies.get(&rule.policy).map(|it| it.priority);
            (Reverse(priority), rule.policy.clone(), Reverse(rule.index))
        };
        let winner = decision.winner.as_ref().map(place);
        let shadow = decision.shadow.take();
        decision.shadow =
            shadow.filter(|shadow| winner.as_ref().is_none_or(|winner| place(shadow) < *winner));
        decision
    }

    /// The networks that a pod is on.
    pub fn networks_of(&self, pod: &Pod) -> BTreeSet<NetworkKey> {
        let mut networks = BTreeSet::from([NetworkKey::Default]);
        let said: Vec<(NetworkName, Option<Arc<str>>)> = pod
            .addresses
            .iter()
            .map(|said| (said.network.clone(), said.interface.clone()))
            .collect();
        let found: Vec<(NetworkName, Option<Arc<str>>)> = self
            .found_of(pod)
            .iter()
            .map(|found| (found.network.clone(), Some(found.name.clone())))
            .collect();
        for interfaces in [said, found] {
            for index in 0..interfaces.len() {
                networks.extend(self.network(pod, &interfaces, index));
            }
        }
        networks
    }

    /// True when a pod is this node's, and so is for this node to look after.
    pub fn is_local(&self, pod: &Pod) -> bool {
        match &pod.node {
            Some(node) => **node == *self.node,
            None => !self.found_of(pod).is_empty(),
        }
    }

    fn decide_for(&self, sender: &Pod, network: &NetworkKey, packet: Packet) -> Decision {
        let mut matching: Vec<(&Policy, usize, &Rule)> = Vec::new();
        for policy in self.policies.values() {
            let own = policy.name.namespace == sender.id.name.namespace;
            if !own || !policy.pods.matches(&sender.labels) {
                continue;
            }
            if !self.chosen(&policy.networks).contains(network) {
                continue;
            }
            for (index, rule) in policy.rules.iter().enumerate() {
                if self.matches(policy, rule, network, packet) {
                    matching.push((policy, index, rule));
                }
            }
        }
        let first = |only_enforced: bool| {
            let among = matching
                .iter()
                .filter(|(_, _, rule)| !only_enforced || rule.mode == Mode::Enforce);
            among.max_by(|(a, a_index, _), (b, b_index, _)| {
                let by_priority = a.priority.cmp(&b.priority);
                let by_name = b.name.cmp(&a.name);
                by_priority.then(by_name).then(a_index.cmp(b_index))
            })
        };
        let id = |(policy, index, _): &(&Policy, usize, &Rule)| RuleId {
            policy: policy.name.clone(),
            index: u16::try_from(*index).unwrap_or(u16::MAX),
        };
        Decision {
            winner: first(true).map(id),
            shadow: first(false)
                .filter(|(_, _, rule)| rule.mode == Mode::Shadow)
                .map(id),
        }
    }

    fn matches(&self, policy: &Policy, rule: &Rule, network: &NetworkKey, packet: Packet) -> bool {
        let mut there = rule.to.is_empty();
        for destination in &rule.to {
            there |= match destination {
                Destination::Anywhere => true,
                Destination::Block(block) => {
                    block.cidr().contains(&packet.destination)
                        && block
                            .except()
                            .iter()
                            .all(|except| !except.contains(&packet.destination))
                }
                Destination::Pods(peers) => self.pods.values().any(|pod| {
                    let namespace = &pod.id.name.namespace;
                    let in_namespace = match &peers.namespaces {
                        Some(selector) => selector.matches(&self.namespace_labels(namespace)),
                        None => *namespace == policy.name.namespace,
                    };
                    let labelled = match &peers.pods {
                        Some(selector) => selector.matches(&pod.labels),
                        None => true,
                    };
                    in_namespace
                        && labelled
                        && !pod.host_network
                        && !pod.finished
                        && self.addresses(pod, network).contains(&packet.destination)
                }),
            };
        }
        let mut port = rule.ports.is_empty();
        for wanted in &rule.ports {
            port |= packet.protocol.is_some()
                && (wanted.protocol.is_none() || wanted.protocol == packet.protocol)
                && (wanted.port.is_none() || wanted.port.map(u16::from) == packet.port);
        }
        there && port
    }

    fn namespace_labels(&self, name: &Arc<str>) -> Labels {
        let mut labels = self.namespaces.get(name).cloned().unwrap_or_default();
        labels
            .entry("kubernetes.io/metadata.name".into())
            .or_insert_with(|| name.clone());
        labels
    }

    /// The networks that a policy is in force on.
    fn chosen(&self, choice: &NetworkChoice) -> BTreeSet<NetworkKey> {
        let NetworkChoice::AnyOf(references) = choice else {
            return BTreeSet::from([NetworkKey::Default]);
        };
        let mut chosen = BTreeSet::new();
        for reference in references {
            if *reference == NetworkRef::Default {
                chosen.insert(NetworkKey::Default);
            }
            for definition in self.definitions.values() {
                let meant = match reference {
                    NetworkRef::Attachment(name) => definition.name == *name,
                    NetworkRef::Cluster(name) => definition.cluster_network.as_ref() == Some(name),
                    NetworkRef::AttachmentsMatching {
                        namespaces,
                        networks,
                    } => {
                        let labels = self.namespace_labels(&definition.name.namespace);
                        namespaces.matches(&labels) && networks.matches(&definition.labels)
                    }
                    NetworkRef::Default | NetworkRef::ClustersMatching(_) => false,
                };
                if meant {
                    chosen.insert(definition.key());
                }
            }
            for network in self.cluster_networks.values() {
                let meant = match reference {
                    NetworkRef::Cluster(name) => network.name == *name,
                    NetworkRef::ClustersMatching(selector) => selector.matches(&network.labels),
                    _ => false,
                };
                if meant {
                    chosen.insert(NetworkKey::Cluster(network.name.clone()));
                }
            }
        }
        chosen
    }

    /// The network of one of a pod's interfaces.
    fn network(
        &self,
        pod: &Pod,
        interfaces: &[(NetworkName, Option<Arc<str>>)],
        index: usize,
    ) -> Option<NetworkKey> {
        let (network, name) = &interfaces[index];
        match network {
            NetworkName::Default => return Some(NetworkKey::Default),
            NetworkName::Attachment(name) => {
                let definition = self.definitions.get(name);
                return Some(match definition {
                    Some(definition) => definition.key(),
                    None => NetworkKey::Attachment(name.clone()),
                });
            }
            NetworkName::Primary(_) => return None,
            NetworkName::Cni(_) if name.as_deref() == Some("eth0") => {
                return Some(NetworkKey::Default);
            }
            NetworkName::Cni(cni_name) => {
                let of_name = |definition: &&NetworkDefinition| definition.cni_name == *cni_name;
                let own = |definition: &&NetworkDefinition| {
                    definition.name.namespace == pod.id.name.namespace
                };
                let all = || self.definitions.values().filter(of_name);
                if let Some(definition) = all().find(own).or_else(|| all().next()) {
                    return Some(definition.key());
                }
            }
        }
        // No definition is of it: the pod's first interface is on the cluster's network.
        let is_eth0 = |name: &Option<Arc<str>>| name.as_deref() == Some("eth0");
        let known = interfaces
            .iter()
            .any(|(network, name)| *network == NetworkName::Default || is_eth0(name));
        let first = is_eth0(name) || (index == 0 && !known);
        first.then_some(NetworkKey::Default)
    }

    /// What was found of a pod on the node, if it is on the node.
    fn found_of(&self, pod: &Pod) -> &[LocalInterface] {
        let elsewhere = pod.node.as_ref().is_some_and(|node| **node != *self.node);
        match self.found.get(&pod.id.name) {
            Some((uid, found))
                if !elsewhere && uid.as_ref().is_none_or(|uid| pod.is_known_by(uid)) =>
            {
                found
            }
            _ => &[],
        }
    }

    /// A pod's addresses on a network: as found on the node, or else as its status says.
    fn addresses(&self, pod: &Pod, network: &NetworkKey) -> BTreeSet<IpAddr> {
        let found = self.found_of(pod);
        let names: Vec<_> = found
            .iter()
            .map(|found| (found.network.clone(), Some(found.name.clone())))
            .collect();
        let mut addresses = BTreeSet::new();
        let mut interfaces = BTreeSet::new();
        for (index, found) in found.iter().enumerate() {
            if self.network(pod, &names, index).as_ref() == Some(network) {
                addresses.extend(found.addresses.iter().copied());
                interfaces.insert(found.name.clone());
            }
        }
        if !addresses.is_empty() {
            return addresses;
        }
        let names: Vec<_> = pod
            .addresses
            .iter()
            .map(|said| (said.network.clone(), said.interface.clone()))
            .collect();
        for (
            index,
            PodAddresses {
                interface,
                addresses: said,
                ..
            },
        ) in pod.addresses.iter().enumerate()
        {
            // The status may speak of an interface that is not there any more.
            let there = interfaces.is_empty()
                || interface
                    .as_ref()
                    .is_none_or(|name| interfaces.contains(name));
            if there && self.network(pod, &names, index).as_ref() == Some(network) {
                addresses.extend(said.iter().copied());
            }
        }
        addresses
    }

    /// What stands behind the virtual address and port that a packet goes to.
    fn backends(&self, network: &NetworkKey, packet: Packet) -> BTreeSet<(IpAddr, u16)> {
        let mut backends = BTreeSet::new();
        if *network != NetworkKey::Default {
            return backends;
        }
        for service in self.services.values() {
            if !service.addresses.contains(&packet.destination) {
                continue;
            }
            for port in &service.ports {
                if Some(port.protocol) != packet.protocol || Some(port.port) != packet.port {
                    continue;
                }
                for slice in self.slices.values() {
                    let own = slice.name.namespace == service.name.namespace
                        && slice.service == service.name.name;
                    for target in &slice.ports {
                        if !own || target.name != port.name || target.protocol != port.protocol {
                            continue;
                        }
                        for address in &slice.addresses {
                            if address.is_ipv4() == packet.destination.is_ipv4() {
                                backends.insert((*address, target.port));
                            }
                        }
                    }
                }
            }
        }
        backends
    }
}
