//! Whether whoever asks may install netqos.

use netqos_cluster::{Access, ReadError, may};
use netqos_k8s::documents;
use serde_json::Value;

use super::line::Line;
use crate::cluster::Cluster;

const RBAC: &str = "rbac.authorization.k8s.io";
const ADMISSION: &str = "admissionregistration.k8s.io";

/// What an installation consists of: group, resource, and whether it is in a namespace.
const MADE: [(&str, &str, bool); 15] = [
    ("", "namespaces", false),
    ("apiextensions.k8s.io", "customresourcedefinitions", false),
    (RBAC, "clusterroles", false),
    (RBAC, "clusterrolebindings", false),
    (ADMISSION, "validatingwebhookconfigurations", false),
    (ADMISSION, "mutatingwebhookconfigurations", false),
    (ADMISSION, "validatingadmissionpolicies", false),
    (ADMISSION, "validatingadmissionpolicybindings", false),
    ("", "serviceaccounts", true),
    ("", "services", true),
    ("apps", "daemonsets", true),
    ("apps", "deployments", true),
    ("policy", "poddisruptionbudgets", true),
    (RBAC, "roles", true),
    (RBAC, "rolebindings", true),
];
/// What of it is applied: made where it is not there, and changed where it is.
const APPLIES: [&str; 2] = ["create", "patch"];
/// The roles that are made.
const ROLES: [&str; 2] = [
    include_str!("../../../../deploy/kustomize/base/agent-rbac.yaml"),
    include_str!("../../../../deploy/kustomize/base/controller-rbac.yaml"),
];
const ADMINISTRATOR: &str = "have a cluster administrator install it, or bind you to a role that may: \
                             cluster-admin does";

/// A line for each thing that one may not do, or that one may do all.
pub fn look(cluster: &Cluster, home: &str) -> Vec<Line> {
    let all = refused(cluster, home).and_then(|mut lines| {
        lines.extend(beyond(cluster, home)?);
        Ok(lines)
    });
    match all {
        Ok(lines) if lines.is_empty() => {
            let text = "you may apply all that an installation consists of";
            vec![Line::ok("permissions", text)]
        }
        Ok(lines) => lines,
        Err(why) => {
            let remedy = "kubectl auth can-i create customresourcedefinitions says more";
            vec![Line::warning("permissions", why.to_string(), remedy)]
        }
    }
}

fn refused(cluster: &Cluster, home: &str) -> Result<Vec<Line>, ReadError> {
    let mut lines = Vec::new();
    for (group, resource, namespaced) in MADE {
        let namespace = namespaced.then_some(home);
        let mut refused = Vec::new();
        for verb in APPLIES {
            let access = Access {
                verb,
                group,
                resource,
                namespace,
            };
            if !cluster.wait(may(cluster.client(), &access))? {
                refused.push(verb);
            }
        }
        if !refused.is_empty() {
            let place = namespace.map_or_else(String::new, |it| format!(" in namespace {it}"));
            let message = format!("you may not {} {resource}{place}", refused.join(" or "));
            lines.push(Line::failed("permissions", message, ADMINISTRATOR));
        }
    }
    Ok(lines)
}

/// Rights that a role is to give and that whoever makes it has not: a server refuses the role then, but to
/// those with the verb escalate; and its binding, but to those with the verb bind.
fn beyond(cluster: &Cluster, home: &str) -> Result<Option<Line>, ReadError> {
    let mut lacking = Vec::new();
    for (kind, resource) in [("ClusterRole", "clusterroles"), ("Role", "roles")] {
        let namespace = (kind == "Role").then_some(home);
        let ask = |verb: &str, group: &str, resource: &str| {
            let access = Access {
                verb,
                group,
                resource,
                namespace,
            };
            cluster.wait(may(cluster.client(), &access))
        };
        if ask("escalate", RBAC, resource)? && ask("bind", RBAC, resource)? {
            continue;
        }
        for (verb, group, resource) in rights(kind) {
            if !ask(&verb, &group, &resource)? {
                lacking.push(format!("{verb} {resource}"));
            }
        }
    }
    Ok(lacking.first().map(|first| {
        let more = match lacking.len() {
            1 => String::new(),
            all => format!(" and {} more", all - 1),
        };
        let message = format!(
            "you may not give the roles what you have not: {first}{more}; that takes the verbs escalate \
             and bind, or all those rights"
        );
        Line::failed("permissions", message, ADMINISTRATOR)
    }))
}

/// What the roles of a kind give: verb, group and resource.
fn rights(kind: &str) -> Vec<(String, String, String)> {
    let mut rights = Vec::new();
    let roles = ROLES.iter().flat_map(|text| documents(text));
    let roles = roles.filter_map(|it| it.value.ok());
    for role in roles.filter(|it| it["kind"] == kind) {
        for rule in role["rules"].as_array().into_iter().flatten() {
            let texts = |field: &str| {
                let all = rule[field].as_array().into_iter().flatten();
                all.filter_map(Value::as_str).map(str::to_owned)
            };
            for group in texts("apiGroups") {
                for resource in texts("resources") {
                    let right = |verb| (verb, group.clone(), resource.clone());
                    rights.extend(texts("verbs").map(right));
                }
            }
        }
    }
    rights
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use super::*;

    #[test]
    fn all_that_the_manifests_make_is_asked_for() {
        let base = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/kustomize/base");
        let mut kinds = BTreeSet::new();
        for file in fs::read_dir(base).unwrap() {
            let text = fs::read_to_string(file.unwrap().path()).unwrap();
            let objects = documents(&text).into_iter().filter_map(|it| it.value.ok());
            kinds.extend(objects.filter_map(|it| Some(it["kind"].as_str()?.to_lowercase())));
        }
        assert!(kinds.remove("kustomization"));
        for kind in kinds {
            let plural = match kind.strip_suffix('y') {
                Some(stem) => format!("{stem}ies"),
                None => format!("{kind}s"),
            };
            assert!(MADE.iter().any(|(_, it, _)| *it == plural), "{plural}");
        }
    }

    #[test]
    fn the_rights_of_the_roles_are_those_of_the_manifests() {
        let has = |kind, verb: &str, group: &str, resource: &str| {
            let right = (verb.to_owned(), group.to_owned(), resource.to_owned());
            assert!(rights(kind).contains(&right), "{right:?}");
        };
        has("ClusterRole", "patch", "netqos.io", "networkqosnodereports");
        has("ClusterRole", "patch", "k8s.ovn.org", "networkqoses/status");
        has("Role", "create", "", "secrets");
    }
}
