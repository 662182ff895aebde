//! What roles let somebody do, and whether that is what was asked for.
//!
//! An administrator may do everything. Of an account the API server compares a request with rules: verb, API
//! group, resource, in a Role its namespace, and the object's name where a rule has `resourceNames`
//! (<https://kubernetes.io/docs/reference/access-authn-authz/rbac/>).

use std::collections::BTreeSet;
use std::fmt;

use anyhow::{Context as _, bail};
use serde_json::Value;

use crate::Request;

/// What roles let somebody do.
#[derive(Clone, Debug, Default)]
pub struct Roles(BTreeSet<Grant>);

/// The least part of a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Grant {
    /// `get`, `list`, …
    pub verb: String,
    /// With its group: `leases.coordination.k8s.io`, `networkqoses.k8s.ovn.org/status`, `pods`.
    pub resource: String,
    /// The only object of this name; `None`: all.
    pub name: Option<String>,
    /// Only in this namespace; `None`: everywhere.
    pub namespace: Option<String>,
}

impl Roles {
    /// Reads the Roles and ClusterRoles among objects, all of them bound to the same account.
    ///
    /// # Errors
    /// A rule is not of its form, or allows everything of something (`*`), which nobody can say is
    /// needed.
    pub fn among(objects: impl IntoIterator<Item = Value>) -> anyhow::Result<Self> {
        let mut all = BTreeSet::new();
        for object in objects {
            let namespace = match object["kind"].as_str() {
                Some("ClusterRole") => None,
                Some("Role") => Some(text(&object["metadata"]["namespace"])?),
                _ => continue,
            };
            let rules = object["rules"].as_array().context("a role without rules")?;
            for rule in rules {
                let groups = texts(&rule["apiGroups"])?;
                let resources = texts(&rule["resources"])?;
                let names = match rule.get("resourceNames") {
                    None => vec![None],
                    Some(names) => texts(names)?.into_iter().map(Some).collect(),
                };
                for verb in texts(&rule["verbs"])? {
                    for group in &groups {
                        for resource in &resources {
                            all.extend(names.iter().map(|name| Grant {
                                verb: verb.clone(),
                                resource: qualified(group, resource),
                                name: name.clone(),
                                namespace: namespace.clone(),
                            }));
                        }
                    }
                }
            }
        }
        Ok(Self(all))
    }

    /// Requests that they do not allow, in words; each once.
    pub fn refused<'r>(&self, requests: impl IntoIterator<Item = &'r Request>) -> BTreeSet<String> {
        let about_objects = requests.into_iter().filter(|it| !it.resource.is_empty());
        let refused = about_objects.filter(|it| !self.0.iter().any(|grant| grant.allows(it)));
        let words = refused.map(|it| format!("{} {}", it.verb, it.path));
        words.collect()
    }

    /// What they allow, and none of these requests asked for.
    pub fn unused(&self, requests: &[Request]) -> BTreeSet<Grant> {
        let grants = self.0.iter();
        let unused = grants.filter(|grant| !requests.iter().any(|it| grant.allows(it)));
        unused.cloned().collect()
    }
}

impl Grant {
    fn allows(&self, request: &Request) -> bool {
        // What is listed or watched by its name alone has that name.
        let selected = request.field_selector.as_deref();
        let selected = selected.and_then(|it| it.strip_prefix("metadata.name="));
        let name = request.name.as_deref().or(selected);
        self.verb == request.verb
            && self.resource == request.qualified_resource()
            && (self.name.is_none() || self.name.as_deref() == name)
            && (self.namespace.is_none() || self.namespace == request.namespace)
    }
}

impl fmt::Display for Grant {
    /// `update leases.coordination.k8s.io netqos-system/netqos-controller`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = |part: &Option<String>| part.as_deref().unwrap_or("*").to_owned();
        let (namespace, name) = (part(&self.namespace), part(&self.name));
        write!(f, "{} {} {namespace}/{name}", self.verb, self.resource)
    }
}

/// `networkqoses.k8s.ovn.org/status`, as [`Request::qualified_resource`] has it.
fn qualified(group: &str, resource: &str) -> String {
    match (group, resource.split_once('/')) {
        ("", _) => resource.to_owned(),
        (group, None) => format!("{resource}.{group}"),
        (group, Some((resource, part))) => format!("{resource}.{group}/{part}"),
    }
}

fn text(value: &Value) -> anyhow::Result<String> {
    match value.as_str() {
        Some("*") => bail!("a rule allows everything of something (*)"),
        Some(text) => Ok(text.to_owned()),
        None => bail!("{value} in a role is no text"),
    }
}

fn texts(value: &Value) -> anyhow::Result<Vec<String>> {
    let list = value.as_array().context("a list of a rule is missing")?;
    list.iter().map(text).collect()
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use serde_json::json;

    use super::*;

    fn roles() -> Roles {
        let rule = |groups: &[&str], resources: &[&str], verbs: &[&str]| json!({"apiGroups": groups, "resources": resources, "verbs": verbs});
        let mut named = rule(&["coordination.k8s.io"], &["leases"], &["get"]);
        named["resourceNames"] = json!(["mine"]);
        let of_status = rule(&["k8s.ovn.org"], &["networkqoses/status"], &["patch"]);
        let cluster = [rule(&[""], &["pods", "nodes"], &["list"]), of_status];
        Roles::among([
            json!({"kind": "ClusterRole", "rules": cluster}),
            json!({"kind": "Role", "metadata": {"namespace": "home"}, "rules": [named]}),
            json!({"kind": "ServiceAccount"}),
        ])
        .unwrap()
    }

    fn request(verb: &'static str, group: &str, resource: &str, name: &str) -> Request {
        let (resource, part) = resource.split_once('/').unwrap_or((resource, ""));
        Request {
            at: SystemTime::UNIX_EPOCH,
            client: String::new(),
            verb,
            path: format!("{group}/{resource}/{name}"),
            group: group.to_owned(),
            resource: resource.to_owned(),
            subresource: part.to_owned(),
            namespace: Some("home".to_owned()),
            name: (!name.is_empty()).then(|| name.to_owned()),
            field_selector: None,
            label_selector: None,
            resource_version: None,
            timeout_seconds: None,
            takes_bookmarks: false,
            is_continued: false,
            status: 200,
            sent: 0,
            events: 0,
        }
    }

    #[test]
    fn a_request_is_allowed_by_verb_group_resource_name_and_namespace() {
        let lease = |name: &str| request("get", "coordination.k8s.io", "leases", name);
        let elsewhere = Request {
            namespace: Some("away".to_owned()),
            ..lease("mine")
        };
        let unnamed = Request {
            name: None,
            ..lease("mine")
        };
        let selected = Request {
            field_selector: Some("metadata.name=mine".to_owned()),
            ..unnamed.clone()
        };
        for (request, allowed) in [
            (request("list", "", "pods", ""), true),
            (request("watch", "", "pods", ""), false),
            (request("list", "metrics.k8s.io", "pods", ""), false),
            (
                request("patch", "k8s.ovn.org", "networkqoses/status", "p"),
                true,
            ),
            (request("patch", "k8s.ovn.org", "networkqoses", "p"), false),
            (lease("mine"), true),
            (lease("another"), false),
            (unnamed, false),
            (selected, true),
            (elsewhere, false),
        ] {
            let refused = roles().refused([&request]);
            assert_eq!(refused.is_empty(), allowed, "{request:?}");
        }
    }

    #[test]
    fn what_nobody_asked_for_is_unused() {
        let asked = [
            request("list", "", "pods", ""),
            request("get", "coordination.k8s.io", "leases", "another"),
        ];
        let unused = roles().unused(&asked);
        let unused: Vec<String> = unused.iter().map(ToString::to_string).collect();
        let right = [
            "get leases.coordination.k8s.io home/mine",
            "list nodes */*",
            "patch networkqoses.k8s.ovn.org/status */*",
        ];
        assert_eq!(unused, right);
    }

    #[test]
    fn a_rule_that_allows_everything_is_refused() {
        let rules = json!([{"apiGroups": ["*"], "resources": ["pods"], "verbs": ["list"]}]);
        let role = json!({"kind": "ClusterRole", "rules": rules});
        assert!(Roles::among([role]).is_err());
    }
}
