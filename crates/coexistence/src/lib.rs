//! Others that enforce what netqos enforces: who they are, by what they are known, and who of the two
//! is to do it. Nothing is to be enforced twice, and nothing of theirs to be overwritten.
//!
//! | | enforces | is known by |
//! |---|---|---|
//! | OVN-Kubernetes | the bandwidth annotations, once, as a pod starts; NetworkQoS where that is switched on | its pod of the node (below; label `app: ovnkube-node…`); `OVN_NETWORK_QOS_ENABLE=true`, `--enable-network-qos`, or, where neither is to be seen because a ConfigMap says it, conditions `Ready-In-Zone-…` that somebody else than netqos has written |
//! | Cilium's bandwidth manager | `kubernetes.io/egress-bandwidth`, in newer versions `ingress-bandwidth` too | on a node the map `cilium_throttle`, which Cilium pins where the manager is on and removes where it is off; in a cluster `enable-bandwidth-manager` in the ConfigMap cilium-config |
//! | Calico from 3.30 on | `kubernetes.io/*-bandwidth`, and removes every other TBF at the host's end of a pod's first interface | its pod of the node (below; label `k8s-app: calico-node` or `canal`), by the tag of its image; on a node an ifb `bwcali…`, which it makes for a pod with an egress limit. Its eBPF data plane limits by tcx alone: not where pins `cali…` say that it is on, and no `cali…` link has a program on tcx |
//! | terway-qos | `kubernetes.io/*-bandwidth`, which it takes for bytes | its pins in a node's `/sys/fs/bpf/terway` |
//! | koordlet | classes of service on the node's own interface, by annotations of its own, and the node's lines where `netQOSPolicy` says so, which netqos leaves to it unless the node has a label | its pod of the node (below; label `koord-app: koordlet`), its DaemonSet; NodeSLOs |
//! | koord-manager | nothing; it writes NodeSLO objects, and then netqos' controller does not | its pod (label `koord-app: koord-manager`) |
//!
//! A pod is one of another system's where a DaemonSet has made it (a ReplicaSet that of a manager), it shares its node's network, and it
//! is in a namespace of that system's ([`Homes`]): labels alone anybody gives to a pod of their own.
//!
//! ```text
//!  agent:      pods of its node, its bpffs ─► AtWork ─┐
//!                                                     ├─ Choice ─► Elsewhere, and Finding for people
//!  controller: pods, statuses of policies ─► AtWork ──┘
//!  netqos check: Objects of the cluster ────────────────────────► Finding
//! ```
//!
//! What is said of OVN-Kubernetes is from its sources: `pkg/cni` sets a pod's bandwidth on its OVS port
//! as it is added and never again, and the controller of NetworkQoS applies a condition for each zone
//! in the name of the node. The name of Cilium's map is from `pkg/maps/bwmap`. What is said of Calico is from Felix' `dataplane/linux/qos`.
//!
//! Objects in, findings out: no I/O, no clocks.
#![forbid(unsafe_code)]

mod choice;
mod cluster;
mod finding;
mod homes;
mod lingering;
mod neighbour;
mod statuses;

pub use choice::{AtWork, Choice, Enforce};
pub use cluster::Objects;
pub use finding::{Concern, Finding, System};
pub use homes::Homes;
pub use lingering::Lingering;
pub use neighbour::Neighbour;
pub use statuses::{MANAGER, is_written_by_netqos, is_written_by_ovn_kubernetes};
