//! CNI capabilities: their names, and the arguments that a runtime fills in for `bandwidth`.
//!
//! A list entry says `"capabilities": {"bandwidth": true}`; the runtime then puts its argument
//! under that name into the entry's `runtimeConfig`. Names are from the CNI conventions
//! (containernetworking/cni, CONVENTIONS.md) and from containerd.

use netqos_core::{ByteCount, Direction, Limits};
use serde_json::{Map, Value};

use crate::RateUnit;

/// Rates and bursts, as runtimes send them: [`bandwidth_argument`].
pub const BANDWIDTH: &str = "bandwidth";
/// Rates, as KEP-2819 writes them: [`traffic_shaping_argument`].
pub const TRAFFIC_SHAPING: &str = "trafficShaping";
/// All annotations of the pod, as a map of strings (containerd, CRI-O).
pub const POD_ANNOTATIONS: &str = "io.kubernetes.cri.pod-annotations";
/// The pod's cgroup.
pub const CGROUP_PATH: &str = "cgroupPath";
/// Addresses that the pod shall have.
pub const IPS: &str = "ips";
/// The hardware address that the interface shall have.
pub const MAC: &str = "mac";
/// Host ports that lead to ports of the pod.
pub const PORT_MAPPINGS: &str = "portMappings";
/// The pod's name servers and search domains.
pub const DNS: &str = "dns";

/// The burst that containerd sends with every rate, in bits: "choose".
const CHOOSE_BURST: u64 = u32::MAX as u64;

/// The most that the well-known plugin takes for a burst: it must stay under 2^32 − 1 bytes.
const MAX_BURST: ByteCount = ByteCount::from_bytes(u32::MAX as u64 - 1);

/// The argument for [`BANDWIDTH`]: `ingressRate`, `ingressBurst`, `egressRate`, `egressBurst` in
/// bits per second and bits, for the directions that have a limit.
///
/// A burst that netqos is to choose is sent as containerd's, since the capability has no way to
/// leave it out; one that plugins would refuse is sent as the most that they take. A latency has
/// no place in it: that travels with the [pod's annotations](POD_ANNOTATIONS).
pub fn bandwidth_argument(limits: &Limits) -> Value {
    argument(limits, |rate, burst| {
        (rate.into(), Some(burst.unwrap_or(CHOOSE_BURST).into()))
    })
}

/// The argument for [`TRAFFIC_SHAPING`]: `ingressRate` and `egressRate` as strings in `unit`, for
/// the directions that have a limit, and the bursts that are set.
///
/// What is no whole number of units is rounded down, so that a limit is never exceeded, but not
/// to zero, which would be no limit.
pub fn traffic_shaping_argument(limits: &Limits, unit: RateUnit) -> Value {
    let count = |bits: u64| Value::from((bits / unit.bits()).max(1).to_string());
    argument(limits, |rate, burst| (count(rate), burst.map(count)))
}

/// Rates and bursts under their keys, as `write` makes them of bits per second and bits.
fn argument(limits: &Limits, write: impl Fn(u64, Option<u64>) -> (Value, Option<Value>)) -> Value {
    let mut argument = Map::new();
    for direction in [Direction::Ingress, Direction::Egress] {
        let Some(limit) = limits.of(direction) else {
            continue;
        };
        let burst = limit.burst.map(|burst| burst.min(MAX_BURST).bytes() * 8);
        let (rate, burst) = write(limit.rate.bits_per_second(), burst);
        argument.insert(format!("{direction}Rate"), rate);
        if let Some(burst) = burst {
            argument.insert(format!("{direction}Burst"), burst);
        }
    }
    Value::Object(argument)
}
