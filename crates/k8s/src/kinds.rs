//! The kinds that netqos reads, and kinds that are written nearly so.

use netqos_api::distance;
use serde_json::Value;

use crate::FieldError;

/// Groups and kinds, and whether objects of the kind have no namespace.
const KINDS: [(&str, &str, bool); 18] = [
    ("", "Namespace", true),
    ("", "Pod", false),
    ("", "Service", false),
    ("", "Node", true),
    ("", "ConfigMap", false),
    ("discovery.k8s.io", "EndpointSlice", false),
    ("k8s.cni.cncf.io", "NetworkAttachmentDefinition", false),
    ("kubernetes.cni.cncf.io", "Network", false),
    (OVN, "NetworkQoS", false),
    (OVN, "UserDefinedNetwork", false),
    (OVN, "ClusterUserDefinedNetwork", true),
    (KOORDINATOR, "NodeSLO", true),
    (OWN, "NetworkQoSPeerSlice", false),
    (OWN, "NetworkQoSQuota", true),
    (OWN, "BandwidthProfile", false),
    (OWN, "NetworkQoSDefault", true),
    (OWN, "NetworkQoSNodeReport", true),
    (OWN, "NetworkAttachmentPolicy", true),
];
const OVN: &str = "k8s.ovn.org";
const KOORDINATOR: &str = "slo.koordinator.sh";
/// The group of netqos, which has no other kinds.
const OWN: &str = "netqos.io";
/// The most letters in which a kind may differ from the one that is meant.
const TYPOS: usize = 2;

/// Returns true if objects of this kind, of a group that netqos reads, have no namespace.
pub(crate) fn is_cluster_scoped(kind: &str) -> bool {
    KINDS.iter().any(|(_, own, scope)| *own == kind && *scope)
}

/// Returns true if an object of a kind that netqos reads should name a namespace and does not: then
/// it counts as one of the namespace `default`.
pub fn lacks_namespace(object: &Value) -> bool {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str);
    let (Some(version), Some(kind)) = (text("/apiVersion"), text("/kind")) else {
        return false;
    };
    let group = version.split_once('/').map_or("", |(group, _)| group);
    let namespaced =
        |(of, own, cluster): &(&str, &str, bool)| *of == group && *own == kind && !cluster;
    KINDS.iter().any(namespaced) && text("/metadata/namespace").is_none_or(str::is_empty)
}

/// The error about a kind that no object has, where one that netqos reads is written nearly so, or in
/// another group.
pub(crate) fn near_miss(group: &str, kind: &str) -> Option<FieldError> {
    let of_group = || KINDS.iter().filter(|(own, ..)| *own == group);
    if of_group().any(|(_, own, _)| *own == kind) {
        return None;
    }
    let same_letters = of_group().find(|(_, own, _)| own.eq_ignore_ascii_case(kind));
    let is_ours = [OVN, OWN].contains(&group);
    let typo = || of_group().find(|(_, own, _)| is_ours && distance(own, kind) <= TYPOS);
    if let Some((_, meant, _)) = same_letters.or_else(typo) {
        let message = format!("{group} has no kind {kind}; write {meant}");
        return Some(FieldError::new("kind", message.trim_start()));
    }
    let ours = KINDS.iter().filter(|(own, ..)| [OVN, OWN].contains(own));
    let elsewhere = ours.clone().find(|(_, own, _)| *own == kind);
    match elsewhere {
        // Kinds of this name may be of others, but for those of netqos' own.
        Some((right, ..)) if kind.starts_with("NetworkQoS") || group == OWN => {
            let message =
                format!("{group:?} has no kind {kind}; the group of this kind is {right}");
            Some(FieldError::new("apiVersion", message))
        }
        None if group == OWN => {
            let kinds: Vec<&str> = of_group().map(|(_, own, _)| *own).collect();
            let message = format!(
                "{group} has no kind {kind}; its kinds are {}",
                kinds.join(", ")
            );
            Some(FieldError::new("kind", message))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kind_that_is_nearly_one_of_ours_is_an_error_and_names_it() {
        for (group, kind, part) in [
            (OVN, "NetworkQOS", "write NetworkQoS"),
            (OVN, "NetworkQoSs", "write NetworkQoS"),
            (OVN, "NetworQoS", "write NetworkQoS"),
            (OWN, "networkqosquota", "write NetworkQoSQuota"),
            (OWN, "NetworkQoS", "the group of this kind is k8s.ovn.org"),
            (
                "ovn.org",
                "NetworkQoS",
                "the group of this kind is k8s.ovn.org",
            ),
            (OWN, "Policy", "its kinds are NetworkQoSPeerSlice, "),
            ("", "pod", "has no kind pod; write Pod"),
            (KOORDINATOR, "NodeSlo", "write NodeSLO"),
        ] {
            let error = near_miss(group, kind).map(|error| error.to_string());
            let error = error.unwrap_or_default();
            assert!(error.contains(part), "{group} {kind}: {error}");
        }
    }

    #[test]
    fn kinds_of_others_are_no_error() {
        for (group, kind) in [
            (OVN, "EgressQoS"),
            (OVN, "EgressIP"),
            (OVN, "NetworkQoS"),
            (OWN, "NetworkQoSDefault"),
            ("", "Secret"),
            ("", "Event"),
            ("apps", "Deployment"),
            ("example.com", "BandwidthProfile"),
        ] {
            assert_eq!(near_miss(group, kind), None, "{group} {kind}");
        }
    }
}
