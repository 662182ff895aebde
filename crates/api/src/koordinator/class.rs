//! Which class a pod is of.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use netqos_core::classes::TrafficClass;

/// The label of a pod that says its class.
pub const QOS_CLASS_LABEL: &str = "koordinator.sh/qosClass";

/// Koordinator's classes of pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum QosClass {
    /// Latency-sensitive, with processors of its own that nobody shares.
    Lse,
    /// Latency-sensitive, with processors of its own.
    Lsr,
    /// Latency-sensitive.
    Ls,
    /// Best-effort.
    Be,
    /// The system's.
    System,
}

/// A text that names no class.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no class: write SYSTEM, LSE, LSR, LS or BE, in capitals")]
pub struct NotAClass(pub String);

/// Kubernetes' own classes, as `status.qosClass` of a pod has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KubernetesClass {
    /// Every container has requests that are its limits.
    Guaranteed,
    /// Some container has a request or limit.
    Burstable,
    /// None has.
    BestEffort,
}

impl QosClass {
    /// The class of traffic on the node's line.
    pub const fn traffic(self) -> TrafficClass {
        match self {
            Self::System => TrafficClass::System,
            Self::Lse | Self::Lsr | Self::Ls => TrafficClass::LatencySensitive,
            Self::Be => TrafficClass::BestEffort,
        }
    }
}

impl KubernetesClass {
    /// The class of this name in `status.qosClass`.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "Guaranteed" => Self::Guaranteed,
            "Burstable" => Self::Burstable,
            "BestEffort" => Self::BestEffort,
            _ => return None,
        })
    }

    /// The class of traffic of a pod that has no label.
    pub const fn traffic(self) -> TrafficClass {
        match self {
            Self::Guaranteed | Self::Burstable => TrafficClass::LatencySensitive,
            Self::BestEffort => TrafficClass::BestEffort,
        }
    }
}

impl FromStr for QosClass {
    type Err = NotAClass;

    /// The names as Koordinator writes them, in capitals.
    fn from_str(text: &str) -> Result<Self, NotAClass> {
        Ok(match text {
            "LSE" => Self::Lse,
            "LSR" => Self::Lsr,
            "LS" => Self::Ls,
            "BE" => Self::Be,
            "SYSTEM" => Self::System,
            _ => return Err(NotAClass(text.to_owned())),
        })
    }
}

impl fmt::Display for QosClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lse => "LSE",
            Self::Lsr => "LSR",
            Self::Ls => "LS",
            Self::Be => "BE",
            Self::System => "SYSTEM",
        })
    }
}

/// The class of a pod's traffic: by its label; without one, by what Kubernetes says of it; where it
/// says nothing either, the system's, as in terway-qos.
///
/// # Errors
/// The label names no class. What Kubernetes says decides then: a misspelt `BE` must not come before
/// all others.
pub fn traffic_class<K: AsRef<str> + Ord + std::borrow::Borrow<str>, V: AsRef<str>>(
    labels: &BTreeMap<K, V>,
    kubernetes: Option<KubernetesClass>,
) -> (TrafficClass, Option<NotAClass>) {
    let without = kubernetes.map_or(TrafficClass::System, KubernetesClass::traffic);
    match labels.get(QOS_CLASS_LABEL).map(|label| label.as_ref()) {
        None | Some("") => (without, None),
        Some(label) => match label.parse::<QosClass>() {
            Ok(class) => (class.traffic(), None),
            Err(error) => (without, Some(error)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pods_class() {
        use KubernetesClass::{BestEffort, Burstable, Guaranteed};
        use TrafficClass as T;
        for (label, kubernetes, class, is_wrong) in [
            (None, Some(BestEffort), T::BestEffort, false),
            (None, Some(Burstable), T::LatencySensitive, false),
            (None, Some(Guaranteed), T::LatencySensitive, false),
            (None, None, T::System, false),
            (Some(""), Some(BestEffort), T::BestEffort, false),
            (Some("BE"), None, T::BestEffort, false),
            (Some("LSE"), Some(BestEffort), T::LatencySensitive, false),
            (Some("LSR"), None, T::LatencySensitive, false),
            (Some("LS"), None, T::LatencySensitive, false),
            (Some("SYSTEM"), Some(BestEffort), T::System, false),
            (Some("be"), Some(BestEffort), T::BestEffort, true),
        ] {
            let labels: BTreeMap<&str, &str> = label
                .map(|label| (QOS_CLASS_LABEL, label))
                .into_iter()
                .collect();
            let (found, wrong) = traffic_class(&labels, kubernetes);
            assert_eq!((found, wrong.is_some()), (class, is_wrong), "{label:?}");
        }
    }
}
