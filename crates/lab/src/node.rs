//! Building a node with its pods, through the CNI plugins that a real one would use.

mod container;

use std::fs;
use std::net::IpAddr;
use std::path::PathBuf;

use netqos_cni::kubelet::{Kubelet, KubeletError, Setup};
use netqos_cni::runtime::NetworkConfigList;
use netqos_core::Limits;
use netqos_netlink::{Namespace, Socket};
use rustix::mount::{MountFlags, mount};

use crate::manifest::{Manifests, Place, PodManifest};
use crate::network::Files;
use crate::plugins::Shaper;
use crate::record::{NodeRecord, PodRecord, Record};
use crate::standing::Standing;
use crate::{LabError, netns};

/// What an interface carries when nobody says.
const USUAL_MTU: u32 = 1500;

/// A node that stands.
#[derive(Debug)]
pub(crate) struct Node {
    namespace: Namespace,
    network: NetworkConfigList,
    pods: Vec<LivePod>,
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
    pub(crate) address: IpAddr,
    gateway: Option<IpAddr>,
    mtu: u32,
    pub(crate) limits: Limits,
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
    /// What sets it apart from the run's other nodes; empty for the first.
    pub(crate) side: &'static str,
    pub(crate) plugin_dirs: Vec<PathBuf>,
}

impl Plan<'_> {
    /// Builds it. What was made before an error is in the record, and is taken away with the lab.
    pub(crate) fn build(self, lab: &Standing) -> Result<Node, LabError> {
        let list = &self.manifests.network;
        let shaper = Shaper::of(list, &self.plugin_dirs);
        let record = NodeRecord {
            side: self.side.to_owned(),
            plugin_dirs: self.plugin_dirs,
            pods: Vec::new(),
        };
        let mut warnings = Vec::new();
        let (files, network, namespace) = lab.change(
            |lab| lab.nodes.push(record),
            |lab| {
                let record = last(lab)?;
                let files = Files::of(lab, record);
                let network = prepare(&files, list, &mut warnings)?;
                let namespace = netns::create(&lab.node_netns(record))?;
                Ok((files, network, namespace))
            },
        )?;
        let mut node = Node {
            namespace,
            network,
            pods: Vec::new(),
            shaper,
            files,
            warnings,
        };
        for (index, pod) in self.manifests.pods.iter().enumerate() {
            node.add_pod(lab, self.side, index, pod)?;
        }
        Ok(node)
    }
}

impl Node {
    pub(crate) fn pods(&self) -> &[LivePod] {
        &self.pods
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
                    processes: Vec::new(),
                };
                if let Some(node) = lab.nodes.last_mut() {
                    node.pods.push(record);
                }
            },
            |lab| self.make_pod(last(lab)?),
        )?;
        container::start_all(lab, &self.files, manifest, &pod)?;
        self.pods.push(pod);
        Ok(())
    }

    fn make_pod(&mut self, node: &NodeRecord) -> Result<LivePod, LabError> {
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
        let Some(ip) = result.ips.first() else {
            return Err(LabError::NoAddress {
                pod: record.name.clone(),
                network: self.network.name.clone(),
            });
        };
        Ok(LivePod {
            name: record.name.clone(),
            netns: record.netns.clone(),
            address: ip.address.address(),
            gateway: ip.gateway,
            mtu: mtu(&namespace, &record.sandbox().ifname),
            namespace,
            limits,
        })
    }

    /// The two ends of a measurement.
    pub(crate) fn ends(&self, from: &Place, to: &Place) -> Result<(End<'_>, End<'_>), LabError> {
        let other = |place: &Place| self.pod(place).or_else(|| self.pods.first());
        Ok((self.end(from, other(to))?, self.end(to, other(from))?))
    }

    /// The smaller packet size of two places; the node's is that of its network.
    pub(crate) fn mtu(&self, from: &Place, to: &Place) -> u32 {
        [from, to]
            .iter()
            .filter_map(|place| self.pod(place))
            .map(|pod| pod.mtu)
            .min()
            .unwrap_or(USUAL_MTU)
    }

    fn pod(&self, place: &Place) -> Option<&LivePod> {
        match place {
            Place::Node => None,
            Place::Pod(name) => self.pods.iter().find(|pod| pod.name == *name),
        }
    }

    fn end(&self, place: &Place, other: Option<&LivePod>) -> Result<End<'_>, LabError> {
        if let Some(pod) = self.pod(place) {
            return Ok(End {
                namespace: &pod.namespace,
                address: pod.address,
                limits: pod.limits,
            });
        }
        let gateway = other.and_then(|pod| pod.gateway);
        Ok(End {
            namespace: &self.namespace,
            address: gateway.ok_or_else(|| LabError::NoGateway {
                network: self.network.name.clone(),
            })?,
            limits: Limits::default(),
        })
    }
}

/// The folders and files of a node, and its network as it is used.
fn prepare(
    files: &Files,
    list: &NetworkConfigList,
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
    let path = files.network();
    fs::write(&path, files.adopt(list).to_string()).map_err(LabError::io("write", &path))?;
    NetworkConfigList::from_file(&path).map_err(|error| LabError::Manifest(error.into()))
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
