//! The files by which terway-qos is told what to do, and those that Koordinator's proposal has.
//!
//! | file | who reads it | what it says |
//! |---|---|---|
//! | `/var/lib/terway/qos/global_bps_config` | terway-qos | the line and its shares: [`GlobalBps`] as ten lines |
//! | `/var/lib/terway/qos/pod.json` | terway-qos | each pod's priority, cgroup and limits: [`PodEntry`] by uid |
//! | `/var/lib/terway/qos/per_cgroup_bps_limit` | terway-qos | a cgroup's limits, a line each: [`CgroupLimit`] |
//! | `/var/run/koordinator/net/node` | who follows the proposal | [`GlobalBps`] as JSON: [`crate::koordinator::net_files`] |
//!
//! All rates in them are **bytes** per second, and whole.

mod cgroup_limit;
mod global_bps;
mod pod;

pub use cgroup_limit::CgroupLimit;
pub use global_bps::{GlobalBps, GlobalBpsError, PercentUnit, Refusal};
pub use pod::{NET_CLS_ROOT, PodEntry, PodRates, pod_json};
