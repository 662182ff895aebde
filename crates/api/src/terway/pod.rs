//! `pod.json`: what terway-qos is told of each pod.

use std::collections::BTreeMap;

use netqos_core::BitRate;
use netqos_core::classes::TrafficClass;
use serde::{Deserialize, Serialize};

/// Where cgroup v1's `net_cls` is mounted, by which terway-qos knows host-network pods.
pub const NET_CLS_ROOT: &str = "/sys/fs/cgroup/net_cls";

/// A pod in `pod.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodEntry {
    /// The pod's name.
    pub pod_name: String,
    /// Its namespace.
    pub pod_namespace: String,
    /// Its uid, by which it is filed as well.
    #[serde(rename = "podUID")]
    pub pod_uid: String,
    /// 0, 1 or 2: the lower comes first.
    pub prio: u8,
    /// Its cgroup of the controller `net_cls`, as an absolute path.
    pub cgroup_dir: String,
    /// Its limits.
    pub qos_config: PodRates,
}

/// A pod's limits in bytes per second; zero is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodRates {
    /// To the pod.
    pub ingress_bandwidth: u64,
    /// From the pod.
    pub egress_bandwidth: u64,
}

impl PodRates {
    /// These limits. (terway-qos takes less than one megabyte per second for no limit.)
    pub fn of(ingress: Option<BitRate>, egress: Option<BitRate>) -> Self {
        let bytes = |rate: Option<BitRate>| rate.map_or(0, BitRate::bytes_per_second);
        Self {
            ingress_bandwidth: bytes(ingress),
            egress_bandwidth: bytes(egress),
        }
    }
}

impl PodEntry {
    /// The entry of a pod of this class, in this cgroup below [`NET_CLS_ROOT`].
    pub fn new(
        (namespace, name): (&str, &str),
        uid: &str,
        class: TrafficClass,
        cgroup: &str,
        rates: PodRates,
    ) -> Self {
        Self {
            pod_name: name.to_owned(),
            pod_namespace: namespace.to_owned(),
            pod_uid: uid.to_owned(),
            prio: class.priority(),
            cgroup_dir: format!("{NET_CLS_ROOT}/{}", cgroup.trim_start_matches('/')),
            qos_config: rates,
        }
    }
}

/// `pod.json`: the pods by uid, as Koordinator writes them, without a line's end.
pub fn pod_json(pods: impl IntoIterator<Item = PodEntry>) -> String {
    let by_uid: BTreeMap<String, PodEntry> = pods
        .into_iter()
        .map(|pod| (pod.pod_uid.clone(), pod))
        .collect();
    // Names and numbers only: there is nothing that JSON cannot say.
    serde_json::to_string(&by_uid).unwrap_or_default()
}
