//! The fields that Kubernetes knows and the lab has no use for: they are passed over, and all
//! others are refused.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Document, ManifestError};

/// Of any object.
pub(super) const OBJECT: &[&str] = &["status"];

/// Of `metadata`.
pub(super) const METADATA: &[&str] = &[
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "labels",
    "managedFields",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
];

/// Of a pod's `spec`.
pub(super) const POD_SPEC: &[&str] = &[
    "activeDeadlineSeconds",
    "affinity",
    "automountServiceAccountToken",
    "dnsConfig",
    "dnsPolicy",
    "enableServiceLinks",
    "ephemeralContainers",
    "hostAliases",
    "hostIPC",
    "hostPID",
    "hostUsers",
    "hostname",
    "hostnameOverride",
    "imagePullSecrets",
    "initContainers",
    "nodeSelector",
    "os",
    "overhead",
    "preemptionPolicy",
    "priority",
    "priorityClassName",
    "readinessGates",
    "resourceClaims",
    "resources",
    "restartPolicy",
    "runtimeClassName",
    "schedulerName",
    "schedulingGates",
    "securityContext",
    "serviceAccount",
    "serviceAccountName",
    "setHostnameAsFQDN",
    "shareProcessNamespace",
    "subdomain",
    "terminationGracePeriodSeconds",
    "tolerations",
    "topologySpreadConstraints",
    "volumes",
    "workloadRef",
];

/// Of a container.
pub(super) const CONTAINER: &[&str] = &[
    "envFrom",
    "image",
    "imagePullPolicy",
    "lifecycle",
    "livenessProbe",
    "ports",
    "readinessProbe",
    "resizePolicy",
    "resources",
    "restartPolicy",
    "restartPolicyRules",
    "securityContext",
    "startupProbe",
    "stdin",
    "stdinOnce",
    "terminationMessagePath",
    "terminationMessagePolicy",
    "tty",
    "volumeDevices",
    "volumeMounts",
];

/// Refuses fields beyond those that are known.
pub(super) fn refuse_unknown(
    document: &Document,
    path: &str,
    fields: &BTreeMap<String, Value>,
    known: &[&str],
) -> Result<(), ManifestError> {
    match fields.keys().find(|key| !known.contains(&key.as_str())) {
        None => Ok(()),
        Some(key) => {
            let path = match path {
                "" => key.clone(),
                path => format!("{path}.{key}"),
            };
            Err(document.problem(path, "unknown field; Kubernetes has none of this name here"))
        }
    }
}
