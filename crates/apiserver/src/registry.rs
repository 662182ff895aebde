//! The resources that are served: Kubernetes' own, and those that definitions add while the server
//! runs.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::resource::{Form, Resource, Storage};

/// All resources, by group, version and plural.
pub(crate) struct Registry {
    resources: BTreeMap<(String, String, String), Arc<Resource>>,
}

/// One of Kubernetes' own: group, version, plural, kind, short names, and what it has.
type Row = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    u8,
);

/// In a namespace.
const N: u8 = 1;
/// With `/status`.
const S: u8 = 2;
/// With a generation.
const G: u8 = 4;

const BUILT_IN: &[Row] = &[
    ("", "v1", "configmaps", "ConfigMap", "cm", N),
    ("", "v1", "endpoints", "Endpoints", "ep", N),
    ("", "v1", "events", "Event", "ev", N),
    ("", "v1", "namespaces", "Namespace", "ns", S),
    ("", "v1", "nodes", "Node", "no", S),
    ("", "v1", "pods", "Pod", "po", N | S | G),
    (
        "",
        "v1",
        "replicationcontrollers",
        "ReplicationController",
        "rc",
        N | S | G,
    ),
    ("", "v1", "resourcequotas", "ResourceQuota", "quota", N | S),
    ("", "v1", "secrets", "Secret", "", N),
    ("", "v1", "serviceaccounts", "ServiceAccount", "sa", N),
    ("", "v1", "services", "Service", "svc", N | S),
    (
        "admissionregistration.k8s.io",
        "v1",
        "mutatingwebhookconfigurations",
        "MutatingWebhookConfiguration",
        "",
        G,
    ),
    (
        "admissionregistration.k8s.io",
        "v1",
        "validatingadmissionpolicies",
        "ValidatingAdmissionPolicy",
        "",
        S | G,
    ),
    (
        "admissionregistration.k8s.io",
        "v1",
        "validatingadmissionpolicybindings",
        "ValidatingAdmissionPolicyBinding",
        "",
        G,
    ),
    (
        "admissionregistration.k8s.io",
        "v1",
        "validatingwebhookconfigurations",
        "ValidatingWebhookConfiguration",
        "",
        G,
    ),
    (
        "apiextensions.k8s.io",
        "v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        "crd,crds",
        S | G,
    ),
    ("apps", "v1", "daemonsets", "DaemonSet", "ds", N | S | G),
    (
        "apps",
        "v1",
        "deployments",
        "Deployment",
        "deploy",
        N | S | G,
    ),
    ("apps", "v1", "replicasets", "ReplicaSet", "rs", N | S | G),
    (
        "apps",
        "v1",
        "statefulsets",
        "StatefulSet",
        "sts",
        N | S | G,
    ),
    ("batch", "v1", "cronjobs", "CronJob", "cj", N | S | G),
    ("batch", "v1", "jobs", "Job", "", N | S | G),
    ("coordination.k8s.io", "v1", "leases", "Lease", "", N),
    (
        "discovery.k8s.io",
        "v1",
        "endpointslices",
        "EndpointSlice",
        "",
        N | G,
    ),
    ("events.k8s.io", "v1", "events", "Event", "ev", N),
    (
        "networking.k8s.io",
        "v1",
        "networkpolicies",
        "NetworkPolicy",
        "netpol",
        N | G,
    ),
    (
        "policy",
        "v1",
        "poddisruptionbudgets",
        "PodDisruptionBudget",
        "pdb",
        N | S | G,
    ),
    (
        "rbac.authorization.k8s.io",
        "v1",
        "clusterrolebindings",
        "ClusterRoleBinding",
        "",
        0,
    ),
    (
        "rbac.authorization.k8s.io",
        "v1",
        "clusterroles",
        "ClusterRole",
        "",
        0,
    ),
    (
        "rbac.authorization.k8s.io",
        "v1",
        "rolebindings",
        "RoleBinding",
        "",
        N,
    ),
    ("rbac.authorization.k8s.io", "v1", "roles", "Role", "", N),
    (
        "scheduling.k8s.io",
        "v1",
        "priorityclasses",
        "PriorityClass",
        "pc",
        G,
    ),
];

impl Registry {
    /// Kubernetes' own resources.
    pub(crate) fn new() -> Self {
        let resources = BUILT_IN
            .iter()
            .map(|row| Arc::new(built_in(row)))
            .map(|resource| (key(&resource), resource))
            .collect();
        Self { resources }
    }

    pub(crate) fn get(&self, group: &str, version: &str, plural: &str) -> Option<Arc<Resource>> {
        let key = (group.to_owned(), version.to_owned(), plural.to_owned());
        self.resources.get(&key).cloned()
    }

    /// A resource in any of its versions.
    pub(crate) fn any_version(&self, group: &str, plural: &str) -> Option<Arc<Resource>> {
        self.all()
            .find(|resource| resource.is(group, plural))
            .cloned()
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.resources.values()
    }

    /// Serves these in place of all versions of a resource that were served.
    pub(crate) fn replace(&mut self, group: &str, plural: &str, versions: Vec<Resource>) {
        self.resources
            .retain(|(of, _, named), _| of != group || named != plural);
        for resource in versions {
            self.resources.insert(key(&resource), Arc::new(resource));
        }
    }
}

fn key(resource: &Resource) -> (String, String, String) {
    (
        resource.group.clone(),
        resource.version.clone(),
        resource.plural.clone(),
    )
}

fn built_in(&(group, version, plural, kind, short, has): &Row) -> Resource {
    // Events of both groups are the same objects.
    let stored = if plural == "events" { "" } else { group };
    Resource {
        group: group.to_owned(),
        version: version.to_owned(),
        plural: plural.to_owned(),
        singular: kind.to_lowercase(),
        kind: kind.to_owned(),
        list_kind: format!("{kind}List"),
        short_names: short
            .split(',')
            .filter(|name| !name.is_empty())
            .map(str::to_owned)
            .collect(),
        categories: Vec::new(),
        namespaced: has & N != 0,
        status: has & S != 0,
        generation: has & G != 0,
        selectable: selectable(plural)
            .iter()
            .map(|field| (*field).to_owned())
            .collect(),
        storage: Storage {
            group: stored.to_owned(),
            plural: plural.to_owned(),
        },
        form: Form::BuiltIn,
    }
}

/// The fields that a field selector may name, beside name and namespace.
fn selectable(plural: &str) -> &'static [&'static str] {
    match plural {
        "pods" => &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ],
        "nodes" => &["spec.unschedulable"],
        "namespaces" => &["status.phase"],
        "secrets" => &["type"],
        "services" => &["spec.clusterIP", "spec.type"],
        "events" => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "type",
        ],
        _ => &[],
    }
}
