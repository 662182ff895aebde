//! What can go wrong for a kubelet, and what it only warns of.

use netqos_api::AnnotationError;

use crate::runtime::RuntimeError;

/// Why a pod's network could not be set up, torn down or checked.
#[derive(Debug, thiserror::Error)]
pub enum KubeletError {
    /// An annotation that can't be followed; it is named with its value. No plugin was called.
    #[error("failed to get pod bandwidth from annotations: {0}")]
    Annotation(AnnotationError),
    /// A list whose `trafficShaping` counts what nobody knows. No plugin was called.
    #[error(
        "network {network:?}: plugin {plugin:?} has the unit {unit}, and trafficShaping counts in \
         \"bps\" or \"Kbps\": correct the list"
    )]
    UnknownUnit {
        /// The network's name.
        network: String,
        /// The plugin's `type`.
        plugin: String,
        /// Its `unit`, as it stands there.
        unit: String,
    },
    /// A list with several plugins that shape, which count in different units. No plugin was
    /// called.
    #[error(
        "network {network:?}: its plugins declare trafficShaping with different units, and they \
         all get the same numbers: give them one unit"
    )]
    UnitsDiffer {
        /// The network's name.
        network: String,
    },
    /// The runtime's role failed.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
}

/// What a pod asks for and does not get, although its network was set up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Warning {
    /// No plugin of the list can be told a bandwidth.
    #[error(
        "the pod asks for a bandwidth, but no plugin of network {network:?} declares the capability \
         \"bandwidth\" or \"trafficShaping\": it is not limited"
    )]
    NoPluginShapes {
        /// The network's name.
        network: String,
    },
    /// No plugin of the list can be told a latency.
    #[error(
        "the pod asks for a latency, but no plugin of network {network:?} declares the capability \
         \"io.kubernetes.cri.pod-annotations\", by which it would learn of it: the plugin chooses"
    )]
    LatencyNotPassedOn {
        /// The network's name.
        network: String,
    },
}
