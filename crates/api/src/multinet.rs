//! The messages between `netqos-multinet` and the agent of its node.
//!
//! The plugin connects to a socket that only root may use, writes one [`Message`] as a line of JSON, and reads one
//! [`Answer`]. The agent never executes anything: it answers what the API server says.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::PathBuf;

use netqos_core::objects::RecordedLimits;
use netqos_core::plan::Ends;
use netqos_core::{Digest, Limits};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::capability::BANDWIDTH;
use crate::npwg::{AttachmentGrant, NetworkStatus};
use crate::{BandwidthConfig, Environment};

/// The version of these messages. The agent refuses another one; an answer that the plugin cannot read is as none.
pub const PROTOCOL: u32 = 1;

/// The most bytes of a message or an answer.
pub const MAX_BYTES: u64 = 4 << 20;

/// The only driver: plugins that `netqos-multinet` executes itself.
pub const CNI_DRIVER: &str = "cni";

/// A message to the agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Message {
    /// [`PROTOCOL`].
    pub version: u32,
    /// The pod.
    pub pod: PodName,
    /// What it is about.
    pub about: About,
}

/// The content of a [`Message`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum About {
    /// The annotations of the pod are needed, which the runtime does not pass.
    Annotations,
    /// The NetworkAttachmentDefinitions of these names are needed.
    Nads(Vec<NadName>),
}

/// A pod by its names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PodName {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID, where the runtime says it. Of a static pod it is the hash of its manifest, and not that of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
}

/// The ending of the lock of a sandbox, beside its record. ADD, DEL and a hand-over to Multus exclude each other by it.
pub const LOCK_ENDING: &str = ".lock";

/// The plugin's record of a sandbox with its attachments, in the order in which they are made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodRecord {
    /// The sandbox's ID.
    pub container_id: String,
    /// Its network namespace.
    pub netns: Option<PathBuf>,
    /// The pod, where the runtime says which.
    pub pod: Option<PodName>,
    /// The name of the list by which the runtime called the plugin. GC by another list leaves the sandbox alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list: Option<String>,
    /// The attachment to the default network, or to the one in its place, and behind it those that the pod selects.
    pub attachments: Vec<RecordedAttachment>,
    /// The number of attachments that are made. The next one may be half made.
    pub made: usize,
    /// The pod's `network-status`, once all attachments are made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Vec<NetworkStatus>>,
    /// A hand-over to Multus that has begun. A DEL by this record removes what it wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hand_over: Option<HandOver>,
    /// The error of the last DEL, or of an ADD that was not undone, if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// An attachment with all that its plugins get, at ADD and at DEL.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedAttachment {
    /// The program that makes it: [`CNI_DRIVER`].
    pub driver: String,
    /// The NetworkAttachmentDefinition, `namespace/name`; `None` for the default network.
    pub nad: Option<String>,
    /// The interface's name in the pod.
    pub interface: String,
    /// The interface's links, once it is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends: Option<Ends>,
    /// The network configuration list.
    pub list: Map<String, Value>,
    /// `CNI_ARGS`.
    pub args: Vec<(String, String)>,
    /// The arguments of capabilities.
    pub capability_args: Map<String, Value>,
    /// The pod's selection of the network requests the argument `bandwidth`. Of the default network that is otherwise the
    /// runtime's, of the pod's annotations of bandwidth.
    #[serde(default, skip_serializing_if = "is_false")]
    pub selects_bandwidth: bool,
    /// The gateways of the pod's default routes, if they lead through this attachment; empty if the pod has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_route: Option<Vec<IpAddr>>,
    /// Its device information files, if it has some. DEL removes its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_info: Option<DeviceInfoFiles>,
}

/// The device information files of an attachment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeviceInfoFiles {
    /// Its own, which its plugins may write.
    pub file: PathBuf,
    /// That of the device plugin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of_device: Option<PathBuf>,
}

/// The files of a hand-over to Multus.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HandOver {
    /// The directory of Multus, with its delegates and results.
    pub directory: PathBuf,
    /// The name of the list through which the runtime calls Multus.
    pub network: String,
}

impl PodRecord {
    /// Returns the addresses of an interface that one of the attachments has made; none until all are made.
    pub fn addresses(&self, attachment: &RecordedAttachment, interface: &str) -> BTreeSet<IpAddr> {
        let name = attachment.nad.as_deref().unwrap_or(attachment.network());
        let is_its = |entry: &&NetworkStatus| {
            // A plugin may report no interface.
            let of = entry.interface.as_deref().unwrap_or(&attachment.interface);
            entry.name == name && of == interface
        };
        let status = self.status.iter().flatten().filter(is_its);
        let ips = status.flat_map(|entry| &entry.ips);
        ips.filter_map(|ip| ip.parse().ok()).collect()
    }
}

impl RecordedAttachment {
    /// Forgets all plugins of the list but these first ones.
    pub fn keep_plugins(&mut self, number: usize) {
        if let Some(Value::Array(plugins)) = self.list.get_mut("plugins") {
            plugins.truncate(number);
        }
    }

    /// Forgets the plugins of IPAM, none of which has given an address.
    pub fn forget_ipam(&mut self) {
        let plugins = self.list.get_mut("plugins").and_then(Value::as_array_mut);
        for plugin in plugins
            .into_iter()
            .flatten()
            .filter_map(Value::as_object_mut)
        {
            plugin.remove("ipam");
        }
    }

    /// Returns true if its list has a plugin of this type.
    pub fn has_plugin(&self, kind: &str) -> bool {
        let plugins = self.list.get("plugins").and_then(Value::as_array);
        let mut types = plugins.into_iter().flatten().map(|plugin| &plugin["type"]);
        types.any(|it| it == kind)
    }

    /// The name of the CNI network.
    pub fn network(&self) -> &str {
        let name = self.list.get("name").and_then(Value::as_str);
        name.unwrap_or_default()
    }

    /// Returns the limits that the plugins of the list put on the interface: those of the first plugin `bandwidth`, or else
    /// those that the pod requests of the first plugin with that capability.
    pub fn limits(&self) -> RecordedLimits {
        let requested = self.capability_args.get(BANDWIDTH);
        let plugins = self.list.get("plugins").and_then(Value::as_array);
        let plugins = || plugins.into_iter().flatten().filter_map(Value::as_object);
        let requested_of = |plugin: &Map<String, Value>| {
            let capability = plugin.get("capabilities").and_then(|it| it.get(BANDWIDTH));
            requested.filter(|_| capability == Some(&Value::Bool(true)))
        };
        let mut of_netqos =
            plugins().filter(|it| it.get("type").and_then(Value::as_str) == Some(BANDWIDTH));
        if let Some(plugin) = of_netqos.next() {
            return RecordedLimits {
                limits: limits(plugin.clone(), requested_of(plugin)),
                is_delegated: false,
                selected: Limits::default(),
            };
        }
        let requested = plugins().find_map(requested_of);
        RecordedLimits {
            limits: limits(Map::new(), requested),
            is_delegated: requested.is_some(),
            selected: Limits::default(),
        }
    }

    /// Returns the same of the default network, where the runtime requests the bandwidth of the pod's annotations, which are
    /// for the pod's primary network: without that, what the list itself says remains, and what the pod selects.
    pub fn limits_without_annotations(&self) -> RecordedLimits {
        if self.selects_bandwidth {
            let selected = self.limits();
            return RecordedLimits {
                selected: selected.limits,
                ..selected
            };
        }
        let mut unrequested = self.clone();
        unrequested.capability_args.remove(BANDWIDTH);
        RecordedLimits {
            limits: unrequested.limits().limits,
            ..self.limits()
        }
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_false(value: &bool) -> bool {
    !value
}

/// The limits of a plugin `bandwidth` with this argument. ADD fails for a configuration that it cannot read.
fn limits(mut config: Map<String, Value>, requested: Option<&Value>) -> Limits {
    if let Some(requested) = requested {
        config.insert("runtimeConfig".to_owned(), json!({BANDWIDTH: requested}));
    }
    let config = BandwidthConfig::parse(&config, Environment::default());
    config.map(|config| config.limits).unwrap_or_default()
}

/// The directory in which the agent keeps a [`PodFile`] for each pod of its node, below its run directory.
pub const PODS_DIRECTORY: &str = "multinet-pods";

/// The most bytes of annotations in a [`PodFile`]. The API server permits 256 KiB, and the directory is in memory.
pub const MAX_FILE_ANNOTATIONS: usize = 16 << 10;

/// The networks that a pod of the node selects, for plugins whose runtime passes no annotations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodFile {
    /// The pod's namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
    /// The annotation `kubernetes.io/config.hash`, by which the kubelet knows a static pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_hash: Option<String>,
    /// The annotations that select networks; `None` if they are longer than [`MAX_FILE_ANNOTATIONS`], so that only the
    /// agent has them.
    pub annotations: Option<SelectingAnnotations>,
}

/// The values of the annotations that select networks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SelectingAnnotations {
    /// Of `k8s.v1.cni.cncf.io/networks`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub networks: Option<String>,
    /// Of `v1.multus-cni.io/default-network`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_network: Option<String>,
}

impl PodFile {
    /// Returns the name of the document of a pod. Names of pods may be too long for names of files.
    pub fn document(namespace: &str, name: &str) -> String {
        Digest::of(&[namespace, name]).to_string()
    }

    /// Returns true if this is the pod that the runtime names. Without a UID it could be one that had the name before.
    pub fn is(&self, pod: &PodName) -> bool {
        let is_uid = |named: &str| named == self.uid || self.config_hash.as_deref() == Some(named);
        self.namespace == pod.namespace
            && self.name == pod.name
            && pod.uid.as_deref().is_some_and(is_uid)
    }
}

/// A NetworkAttachmentDefinition by its names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct NadName {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// An answer of the agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Answer {
    /// The values of the two annotations that select networks.
    #[serde(rename_all = "camelCase")]
    Annotations {
        /// Of `k8s.v1.cni.cncf.io/networks`.
        networks: Option<String>,
        /// Of `v1.multus-cni.io/default-network`.
        default_network: Option<String>,
    },
    /// The NADs, in the order in which they were asked for.
    Nads(Vec<Nad>),
    /// The agent does not know now, such as right after it has started. The runtime should try again.
    TryAgain(String),
    /// The pod may not be attached.
    Refused(String),
}

/// A NetworkAttachmentDefinition for a pod.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Nad {
    /// The program that attaches the pod: [`CNI_DRIVER`].
    pub driver: String,
    /// `metadata.resourceVersion`.
    pub resource_version: String,
    /// `spec.config`. `None`: a file on the node has it, of the NAD's name.
    pub config: Option<String>,
    /// The annotation `k8s.v1.cni.cncf.io/resourceName`: the devices that the pod's container requests.
    pub resource_name: Option<String>,
    /// The device of that resource which is this attachment's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// The NetworkAttachmentPolicies about its namespace, each with its `metadata.resourceVersion`.
    pub policies: BTreeMap<String, String>,
    /// Their permissions, united.
    pub grant: AttachmentGrant,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(plugins: Value, requested: Value) -> RecordedLimits {
        let network = json!({
            "driver": "cni", "nad": "a/b", "interface": "net1", "list": {"name": "b", "plugins": plugins}, "args": [],
            "capabilityArgs": requested,
        });
        let network: RecordedAttachment = serde_json::from_value(network).unwrap();
        assert_eq!(network.network(), "b");
        network.limits()
    }

    #[test]
    fn limits_of_the_default_network_are_those_of_its_list_and_selection_without_the_annotations() {
        let limits = |plugin: Value, selects_bandwidth: bool| {
            let network = json!({
                "driver": "cni", "interface": "eth0", "list": {"name": "pods", "plugins": [plugin]}, "args": [],
                "capabilityArgs": {"bandwidth": {"egressRate": 8_000_000, "egressBurst": 80_000}},
                "selectsBandwidth": selects_bandwidth,
            });
            let network: RecordedAttachment = serde_json::from_value(network).unwrap();
            let of_first = network.limits_without_annotations();
            assert_eq!(of_first.is_delegated, network.limits().is_delegated);
            [network.limits().limits, of_first.limits, of_first.selected]
                .map(|it| it.egress.map(|it| it.rate.bits_per_second()))
        };
        let capable = |kind: &str| json!({"type": kind, "capabilities": {"bandwidth": true}});
        let requested = Some(8_000_000);
        for kind in ["bandwidth", "other"] {
            assert_eq!(limits(capable(kind), false), [requested, None, None]);
            assert_eq!(limits(capable(kind), true), [requested; 3]);
        }
        let fixed = json!({"type": "bandwidth", "egressRate": 1_000_000, "egressBurst": 80_000});
        let fixed = limits(fixed, false);
        assert_eq!(fixed, [Some(1_000_000), Some(1_000_000), None]);
    }

    #[test]
    fn limits_of_an_attachment_are_those_of_the_plugin_that_enforces_them() {
        let requested = json!({"bandwidth": {"egressRate": 8_000_000, "egressBurst": u32::MAX}});
        let bridge = || json!({"type": "bridge"});
        let capable = |kind: &str| json!({"type": kind, "capabilities": {"bandwidth": true}});
        let fixed = json!({"type": "bandwidth", "egressRate": 1_000_000, "egressBurst": 80_000});
        let none = json!({});
        for (plugins, requested, egress, is_delegated) in [
            (
                json!([bridge(), capable("bandwidth")]),
                &requested,
                8,
                false,
            ),
            (json!([bridge(), capable("bandwidth")]), &none, 0, false),
            (json!([bridge(), fixed.clone()]), &none, 1, false),
            // The plugin does not see it.
            (json!([bridge(), fixed]), &requested, 1, false),
            (
                json!([bridge(), {"type": "bandwidth"}]),
                &requested,
                0,
                false,
            ),
            (json!([capable("ovn-k8s-cni-overlay")]), &requested, 8, true),
            (json!([capable("ovn-k8s-cni-overlay")]), &none, 0, false),
            (json!([bridge()]), &none, 0, false),
            (json!("bridge"), &requested, 0, false),
            (
                json!([capable("bandwidth")]),
                &json!({"bandwidth": "much"}),
                0,
                false,
            ),
        ] {
            let found = limits(plugins.clone(), requested.clone());
            let rate = found
                .limits
                .egress
                .map_or(0, |it| it.rate.bits_per_second());
            let expected = (egress * 1_000_000, is_delegated);
            assert_eq!(
                (rate, found.is_delegated),
                expected,
                "{plugins} {requested}"
            );
        }
    }
}
