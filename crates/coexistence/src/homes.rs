//! Where others live.

use serde_json::Value;

/// The namespaces that others live in. A pod of another namespace is nobody, whatever it says of
/// itself: who may create pods may label them, and would lift everybody's limits on their nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Homes {
    /// Of OVN-Kubernetes.
    pub ovn_kubernetes: Vec<String>,
    /// Of koordlet.
    pub koordinator: Vec<String>,
    /// Of Calico and Canal.
    pub calico: Vec<String>,
    /// Of Cilium's ConfigMap.
    pub cilium: Vec<String>,
    /// Of terway-qos.
    pub terway_qos: Vec<String>,
}

impl Homes {
    /// Where OVN-Kubernetes' chart and OpenShift put it.
    pub const OVN_KUBERNETES: [&str; 2] = ["ovn-kubernetes", "openshift-ovn-kubernetes"];
    /// Where Koordinator's chart puts it.
    pub const KOORDINATOR: [&str; 1] = ["koordinator-system"];
    /// Where Calico's operator and the manifests of Calico, Canal and EKS put it.
    const CALICO: [&str; 2] = ["calico-system", "kube-system"];
    const CILIUM: [&str; 2] = ["kube-system", "cilium"];
    const TERWAY_QOS: [&str; 1] = ["kube-system"];
}

impl Default for Homes {
    fn default() -> Self {
        let owned = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        Self {
            ovn_kubernetes: owned(&Self::OVN_KUBERNETES),
            koordinator: owned(&Self::KOORDINATOR),
            calico: owned(&Self::CALICO),
            cilium: owned(&Self::CILIUM),
            terway_qos: owned(&Self::TERWAY_QOS),
        }
    }
}

/// Whether an object is in one of these namespaces.
pub(crate) fn is_in(object: &Value, homes: &[String]) -> bool {
    let namespace = object.pointer("/metadata/namespace");
    let namespace = namespace.and_then(Value::as_str);
    namespace.is_some_and(|it| !it.is_empty() && homes.iter().any(|home| home == it))
}
