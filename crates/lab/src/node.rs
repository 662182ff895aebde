//! Building a node with its pods, through the CNI plugins that a real one would use.

mod container;
mod multinet;
mod outside;

use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use netqos_cni::CniResult;
use netqos_cni::kubelet::{Kubelet, KubeletError, Setup};
use netqos_cni::runtime::NetworkConfigList;
use netqos_core::Limits;
use netqos_netlink::{Namespace, Socket};
use rustix::mount::{MountFlags, mount};
use serde_json::Value;

pub(crate) use outside::network as outside_network;

use crate::manifest::{Family, Manifests, Outside, Place, PodManifest};
use crate::network::Files;
use crate::plugins::Shaper;
use crate::record::{JoinedNetwork, NodeRecord, PodRecord, Record};
use crate::standing::Standing;
use crate::{LabError, agent, netns};

/// What an interface carries when nobody says.
const USUAL_MTU: u32 = 1500;

/// A node that stands.
#[derive(Debug)]
pub(crate) struct Node {
    /// What objects call it.
    pub(crate) name: String,
    pub(crate) namespace: Namespace,
    network: NetworkConfigList,
    pods: Vec<LivePod>,
    outside: Vec<LivePod>,
    /// The plugin that holds its pods to their limits.
    pub(crate) shaper: Option<Shaper>,
    /// The paths of its files.
    pub(crate) files: Files,
    /// What its pods ask for and don't get.
    pub(crate) warnings: Vec<String>,
}

/// A pod that stands.
#[derive(Debug)]
pub(crate) struct LivePod {
    pub(crate) name: String,
    pub(crate) netns: String,
    namespace: Namespace,
    /// The first of its addresses.
    pub(crate) address: IpAddr,
    /// The first is the one on the network that all pods are on.
    pub(crate) interfaces: Vec<LiveInterface>,
}

/// An interface of a pod that stands.
#[derive(Clone, Debug)]
pub(crate) struct LiveInterface {
    pub(crate) name: String,
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) limits: Limits,
    gateways: Vec<IpAddr>,
    mtu: u32,
    /// The node's end of it, where it has one.
    node_link: Option<String>,
}

/// Which addresses of two ends are meant.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Way<'a> {
    pub(crate) family: Option<Family>,
    pub(crate) interface: Option<&'a str>,
}

/// An end of a measurement: where it is, and how the other end reaches it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End<'a> {
    pub(crate) namespace: &'a Namespace,
    pub(crate) address: IpAddr,
    pub(crate) limits: Limits,
}

/// What a node is built from.
pub(crate) struct Plan<'a> {
    pub(crate) manifests: &'a Manifests,
    /// What objects call it; the pods that are on it are those that say so.
    pub(crate) name: &'a str,
    /// What sets it apart from the run's other nodes; empty for the only one, or the one with netqos.
    pub(crate) side: &'a str,
    pub(crate) plugin_dirs: Vec<PathBuf>,
    /// The executable of its agent, where it has one.
    pub(crate) agent: Option<&'a Path>,
}

impl Plan<'_> {
    /// Builds it. What was made before an error is in the record, and is taken away with the lab.
    pub(crate) fn build(self, lab: &Standing) -> Result<Node, LabError> {
        let list = &self.manifests.network;
        let mut pods = self.manifests.pods_of(self.name);
        let multinet = self
            .agent
            .filter(|_| pods.any(PodManifest::selects_networks));
        let shaper = Shaper::of(list, &self.plugin_dirs);
        let record = NodeRecord {
            side: self.side.to_owned(),
            plugin_dirs: self.plugin_dirs,
            pods: Vec::new(),
            outside: Vec::new(),
            agent: None,
        };
        let mut warnings = Vec::new();
        let (files, network, namespace) = lab.change(
            |lab| lab.nodes.push(record),
            |lab| {
                let record = last(lab)?;
                let files = Files::of(lab, record);
                let network = prepare(&files, list, multinet.is_some(), &mut warnings)?;
                let namespace = netns::create(&lab.node_netns(record))?;
                Ok((files, network, namespace))
            },
        )?;
        let mut node = Node {
            name: self.name.to_owned(),
            namespace,
            network,
            pods: Vec::new(),
            outside: Vec::new(),
            shaper,
            files,
            warnings,
        };
        for host in &self.manifests.scenario.outside {
            node.add_outside(lab, self.side, host)?;
        }
        // Pods that select networks wait for the agent, and the others are there before it.
        let start = |node: &Node, agent| agent::start(lab, node, self.manifests, agent);
        let agent = multinet.map(|agent| start(&node, agent)).transpose()?;
        for (index, pod) in self.manifests.pods_of(self.name).enumerate() {
            node.add_pod(lab, self.side, index, pod)?;
        }
        match (agent, self.agent) {
            (Some(process), _) => agent::add_pods(&node, self.manifests, process)?,
            (None, Some(agent)) => start(&node, agent).map(drop)?,
            (None, None) => {}
        }
        Ok(node)
    }
}

impl Node {
    pub(crate) fn pods(&self) -> &[LivePod] {
        &self.pods
    }

    /// True when one of its pods is at this place.
    pub(crate) fn has(&self, place: &Place) -> bool {
        matches!(place, Place::Pod(_)) && self.pod(place).is_some()
    }

    fn add_pod(
        &mut self,
        lab: &Standing,
        side: &str,
        index: usize,
        manifest: &PodManifest,
    ) -> Result<(), LabError> {
        let pod = lab.change(
            |lab| {
                let netns = lab.pod_netns(side, index, manifest.name());
                let pod = &manifest.pod;
                let record = PodRecord {
                    name: pod.name.clone(),
                    namespace: pod.namespace.clone(),
                    uid: pod.uid.clone(),
                    annotations: pod.annotations.clone(),
                    netns,
                    networks: Vec::new(),
                    processes: Vec::new(),
                };
                if let Some(node) = lab.nodes.last_mut() {
                    node.pods.push(record);
                }
            },
            |lab| self.make_pod(last(lab)?, manifest),
        )?;
        container::start_all(lab, &self.files, manifest, &pod)?;
        self.pods.push(pod);
        Ok(())
    }

    fn make_pod(&mut self, node: &NodeRecord, manifest: &PodManifest) -> Result<LivePod, LabError> {
        let Some(record) = node.pods.last() else {
            return Err(LabError::Panicked("find a pod that it has just recorded"));
        };
        let namespace = netns::create(&record.netns)?;
        let runtime = self.files.runtime(node);
        let setup = netns::inside(&self.namespace, "join a pod to its network", || {
            Kubelet::new(&runtime, &self.network).set_up(&record.pod(), &record.sandbox())
        })?;
        let Setup {
            result,
            limits,
            warnings,
        } = setup.map_err(|source| failed(record, source))?;
        for warning in warnings {
            self.warnings
                .push(format!("pod {}: {warning}", record.name));
        }
        let first = interface(&namespace, &record.sandbox().ifname, limits, &result);
        let Some(address) = first.addresses.first().copied() else {
            return Err(LabError::NoAddress {
                pod: record.name.clone(),
                network: self.network.name.clone(),
            });
        };
        let mut interfaces = vec![first];
        let selected = multinet::interfaces(&self.files, node, &namespace, record, manifest)?;
        interfaces.extend(selected);
        Ok(LivePod {
            name: record.name.clone(),
            netns: record.netns.clone(),
            namespace,
            address,
            interfaces,
        })
    }

    /// Joins a host outside to its network.
    fn join(
        &self,
        node: &NodeRecord,
        record: &PodRecord,
        joined: &JoinedNetwork,
    ) -> Result<CniResult, LabError> {
        let runtime = self.files.runtime(node);
        let list = read_list(&self.files.other_network(&joined.file))?;
        let sandbox = record.sandbox_for(&joined.interface);
        let setup = netns::inside(
            &self.namespace,
            "join a host outside to its network",
            || Kubelet::new(&runtime, &list).set_up(&record.plain_pod(), &sandbox),
        )?;
        let setup = setup.map_err(|source| failed(record, source))?;
        Ok(setup.result)
    }

    fn write_network(&self, name: &str, list: &NetworkConfigList) -> Result<(), LabError> {
        let path = self.files.other_network(name);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(LabError::io("make folder", folder))?;
        }
        fs::write(&path, self.files.adopt(list).to_string()).map_err(LabError::io("write", path))
    }

    fn add_outside(&mut self, lab: &Standing, side: &str, host: &Outside) -> Result<(), LabError> {
        let file = outside::file(host);
        self.write_network(&file, &outside::network(host)?)?;
        let made = lab.change(
            |lab| {
                let record = PodRecord {
                    name: host.name.clone(),
                    // Of no namespace: the agent must not take it for a pod.
                    namespace: String::new(),
                    uid: String::new(),
                    annotations: BTreeMap::new(),
                    netns: lab.outside_netns(side, &host.name),
                    networks: vec![JoinedNetwork {
                        file,
                        interface: "eth0".to_owned(),
                    }],
                    processes: Vec::new(),
                };
                if let Some(node) = lab.nodes.last_mut() {
                    node.outside.push(record);
                }
            },
            |lab| {
                let node = last(lab)?;
                let Some((record, joined)) = node
                    .outside
                    .last()
                    .and_then(|record| Some((record, record.networks.first()?)))
                else {
                    return Err(LabError::Panicked("find a host that it has just recorded"));
                };
                let namespace = netns::create(&record.netns)?;
                let result = self.join(node, record, joined)?;
                let limits = Limits::default();
                let mut eth0 = interface(&namespace, &joined.interface, limits, &result);
                // In the order that the scenario has.
                eth0.addresses.clone_from(&host.addresses);
                Ok(LivePod {
                    name: record.name.clone(),
                    netns: record.netns.clone(),
                    namespace,
                    address: host.addresses[0],
                    interfaces: vec![eth0],
                })
            },
        )?;
        self.outside.push(made);
        Ok(())
    }

    /// The links by which the node reaches the hosts outside.
    pub(crate) fn lines(&self) -> impl Iterator<Item = &str> {
        let interfaces = self.outside.iter().flat_map(|host| &host.interfaces);
        interfaces.filter_map(|interface| interface.node_link.as_deref())
    }

    /// The two ends of a measurement.
    pub(crate) fn ends(
        &self,
        from: &Place,
        to: &Place,
        way: Way<'_>,
    ) -> Result<(End<'_>, End<'_>), LabError> {
        let other = |place: &Place| self.pod(place).or_else(|| self.pods.first());
        // Where it goes decides, and the answer comes from the same family.
        let to_end = self.end(to, other(from), way)?;
        let family = match to_end.address.is_ipv4() {
            true => Family::IPv4,
            false => Family::IPv6,
        };
        let way = Way {
            family: Some(family),
            ..way
        };
        Ok((self.end(from, other(to), way)?, to_end))
    }

    /// The smaller packet size of two places; the node's is that of its network.
    pub(crate) fn mtu(&self, from: &Place, to: &Place, way: Way<'_>) -> u32 {
        [from, to]
            .iter()
            .filter_map(|place| self.pod(place)?.interface(way))
            .map(|interface| interface.mtu)
            .min()
            .unwrap_or(USUAL_MTU)
    }

    fn pod(&self, place: &Place) -> Option<&LivePod> {
        match place {
            Place::Node => None,
            Place::Pod(name) => self.pods.iter().find(|pod| pod.name == *name),
            Place::Outside(name) => self.outside.iter().find(|host| host.name == *name),
        }
    }

    fn end(
        &self,
        place: &Place,
        other: Option<&LivePod>,
        way: Way<'_>,
    ) -> Result<End<'_>, LabError> {
        let no_address = || LabError::NoSuchAddress {
            place: place.to_string(),
            what: way
                .family
                .map_or_else(String::new, |family| family.to_string()),
        };
        if let Some(pod) = self.pod(place) {
            let interface = pod.interface(way).ok_or_else(no_address)?;
            return Ok(End {
                namespace: &pod.namespace,
                address: way.first(&interface.addresses).ok_or_else(no_address)?,
                limits: interface.limits,
            });
        }
        let gateways = other
            .and_then(|pod| pod.interface(way))
            .map(|one| &one.gateways[..])
            .unwrap_or_default();
        if gateways.is_empty() {
            return Err(LabError::NoGateway {
                network: self.network.name.clone(),
            });
        }
        Ok(End {
            namespace: &self.namespace,
            address: way.first(gateways).ok_or_else(no_address)?,
            limits: Limits::default(),
        })
    }
}

impl LivePod {
    /// The limits of its first interface.
    pub(crate) fn limits(&self) -> Limits {
        let first = self.interfaces.first();
        first.map(|one| one.limits).unwrap_or_default()
    }

    fn interface(&self, way: Way<'_>) -> Option<&LiveInterface> {
        match way.interface {
            None => self.interfaces.first(),
            Some(name) => self.interfaces.iter().find(|one| one.name == name),
        }
    }
}

impl Way<'_> {
    fn first(self, addresses: &[IpAddr]) -> Option<IpAddr> {
        let mut addresses = addresses.iter().copied();
        match self.family {
            None => addresses.next(),
            Some(family) => addresses.find(|address| family.has(*address)),
        }
    }
}

fn interface(
    namespace: &Namespace,
    name: &str,
    limits: Limits,
    result: &CniResult,
) -> LiveInterface {
    LiveInterface {
        name: name.to_owned(),
        limits,
        addresses: result.ips.iter().map(|ip| ip.address.address()).collect(),
        gateways: result.ips.iter().filter_map(|ip| ip.gateway).collect(),
        mtu: mtu(namespace, name),
        node_link: result
            .interfaces
            .iter()
            .rfind(|link| link.sandbox.is_empty())
            .map(|link| link.name.clone()),
    }
}

fn read_list(path: &Path) -> Result<NetworkConfigList, LabError> {
    NetworkConfigList::from_file(path).map_err(|error| LabError::Manifest(error.into()))
}

/// The folders and files of a node, and its network as it is used.
fn prepare(
    files: &Files,
    list: &NetworkConfigList,
    is_multinet: bool,
    warnings: &mut Vec<String>,
) -> Result<NetworkConfigList, LabError> {
    for folder in [files.folder(), &files.run(), &files.bpffs()] {
        fs::create_dir_all(folder).map_err(LabError::io("make folder", folder))?;
    }
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    if let Err(errno) = mount("bpf", files.bpffs(), "bpf", flags, None) {
        // The limits hold without; the plugin does what it can.
        warnings.push(format!("cannot mount a BPF file system: {errno}"));
    }
    let write = |path: &Path, list: Value| {
        fs::write(path, list.to_string()).map_err(LabError::io("write", path))
    };
    let path = files.network();
    if is_multinet {
        write(&files.default_network(), files.adopt(list))?;
        write(&path, files.multinet_list(list))?;
    } else {
        write(&path, files.adopt(list))?;
    }
    read_list(&path)
}

fn last(lab: &Record) -> Result<&NodeRecord, LabError> {
    lab.nodes
        .last()
        .ok_or(LabError::Panicked("find a node that it has just recorded"))
}

fn failed(pod: &PodRecord, source: KubeletError) -> LabError {
    LabError::Pod {
        pod: pod.name.clone(),
        source: Box::new(source),
    }
}

fn mtu(namespace: &Namespace, interface: &str) -> u32 {
    Socket::open_in(namespace)
        .and_then(|mut socket| socket.link_by_name(interface))
        .map_or(USUAL_MTU, |link| link.mtu)
}
