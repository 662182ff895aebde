//! What a server says about itself: groups, versions, resources.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};

use crate::call::Call;
use crate::registry::Registry;
use crate::resource::Resource;
use crate::status::Refusal;

/// The version of Kubernetes that is spoken, as far as it is.
const VERSION: (&str, &str) = ("1", "36");

/// The media type by which a client knows everything in one answer from the plain one.
pub(crate) const AGGREGATED: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Answers what is not about objects.
pub(crate) fn answer(registry: &Registry, call: &Call) -> Result<Value, Refusal> {
    let parts: Vec<&str> = call.path.trim_matches('/').split('/').collect();
    let aggregated = call.accept.contains("g=apidiscovery.k8s.io");
    match parts[..] {
        ["version"] => Ok(version()),
        ["api"] if aggregated => Ok(aggregate(registry, |group| group.is_empty())),
        ["apis"] if aggregated => Ok(aggregate(registry, |group| !group.is_empty())),
        ["api"] => Ok(json!({
            "kind": "APIVersions",
            "versions": ["v1"],
            "serverAddressByClientCIDRs": [],
        })),
        ["apis"] => {
            let groups = groups(registry);
            let groups = groups.iter().filter(|(group, _)| !group.is_empty());
            let groups: Vec<Value> = groups
                .map(|(name, versions)| group(name, versions))
                .collect();
            Ok(json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}))
        }
        ["apis", name] => {
            let groups = groups(registry);
            let versions = groups.get(name).ok_or_else(Refusal::no_such_path)?;
            let mut group = group(name, versions);
            group["kind"] = json!("APIGroup");
            group["apiVersion"] = json!("v1");
            Ok(group)
        }
        ["api", version] => resources(registry, "", version),
        ["apis", group, version] => resources(registry, group, version),
        ["openapi", "v3"] => Ok(openapi_paths(registry)),
        ["openapi", "v3", "api", version] => Ok(openapi(registry, "", version)),
        ["openapi", "v3", "apis", group, version] => Ok(openapi(registry, group, version)),
        _ => Err(Refusal::no_such_path()),
    }
}

fn version() -> Value {
    json!({
        "major": VERSION.0,
        "minor": VERSION.1,
        "gitVersion": format!("v{}.{}.0+netqos.testkit", VERSION.0, VERSION.1),
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "rustc",
        "platform": "linux/amd64",
    })
}

/// All groups, each with its versions: newest first, stable ones before others.
fn groups(registry: &Registry) -> BTreeMap<&str, Vec<&str>> {
    let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for resource in registry.all() {
        let versions = groups.entry(&resource.group).or_default();
        if !versions.contains(&resource.version.as_str()) {
            versions.push(&resource.version);
        }
    }
    for versions in groups.values_mut() {
        versions.sort_by_key(|version| (version.contains(['a', 'b']), *version));
    }
    groups
}

fn group(name: &str, versions: &[&str]) -> Value {
    let versions: Vec<Value> = versions
        .iter()
        .map(|version| json!({"groupVersion": format!("{name}/{version}"), "version": version}))
        .collect();
    json!({"name": name, "versions": versions, "preferredVersion": versions.first()})
}

const VERBS: [&str; 8] = [
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];

fn of_version<'r>(
    registry: &'r Registry,
    group: &'r str,
    version: &'r str,
) -> impl Iterator<Item = &'r Arc<Resource>> {
    registry
        .all()
        .filter(move |resource| resource.group == group && resource.version == version)
}

/// The subresources of a resource: name, kind and group version of their bodies, verbs.
fn subresources(resource: &Resource) -> Vec<(&'static str, String, String, Vec<&'static str>)> {
    let mut all = Vec::new();
    if resource.status {
        let (kind, version) = (resource.kind.clone(), resource.api_version());
        all.push(("status", kind, version, vec!["get", "patch", "update"]));
    }
    if resource.is("", "pods") {
        all.push(("binding", "Binding".into(), "v1".into(), vec!["create"]));
        all.push((
            "eviction",
            "Eviction".into(),
            "policy/v1".into(),
            vec!["create"],
        ));
    }
    all
}

/// An `APIResourceList`.
fn resources(registry: &Registry, group: &str, version: &str) -> Result<Value, Refusal> {
    let mut resources = Vec::new();
    let mut group_version = None;
    for resource in of_version(registry, group, version) {
        group_version = Some(resource.api_version());
        let mut entry = json!({
            "name": resource.plural,
            "singularName": resource.singular,
            "namespaced": resource.namespaced,
            "kind": resource.kind,
            "verbs": VERBS,
        });
        if !resource.short_names.is_empty() {
            entry["shortNames"] = json!(resource.short_names);
        }
        if !resource.categories.is_empty() {
            entry["categories"] = json!(resource.categories);
        }
        resources.push(entry);
        for (name, kind, version, verbs) in subresources(resource) {
            let mut entry = json!({
                "name": format!("{}/{name}", resource.plural),
                "singularName": "",
                "namespaced": resource.namespaced,
                "kind": kind,
                "verbs": verbs,
            });
            if let Some((group, version)) = version.split_once('/')
                && group != resource.group
            {
                entry["group"] = json!(group);
                entry["version"] = json!(version);
            }
            resources.push(entry);
        }
    }
    let group_version = group_version.ok_or_else(Refusal::no_such_path)?;
    Ok(json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": group_version,
        "resources": resources,
    }))
}

/// An `APIGroupDiscoveryList`: everything about some groups in one answer.
fn aggregate(registry: &Registry, wanted: fn(&str) -> bool) -> Value {
    let groups = groups(registry);
    let groups = groups.iter().filter(|(group, _)| wanted(group));
    let items: Vec<Value> = groups
        .map(|(group, versions)| {
            let versions: Vec<Value> = versions
                .iter()
                .map(|version| {
                    let resources = of_version(registry, group, version);
                    let resources: Vec<Value> = resources.map(|one| discovered(one)).collect();
                    json!({"version": version, "freshness": "Current", "resources": resources})
                })
                .collect();
            let mut item = json!({"metadata": {"creationTimestamp": null}, "versions": versions});
            if !group.is_empty() {
                item["metadata"]["name"] = json!(group);
            }
            item
        })
        .collect();
    json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    })
}

fn discovered(resource: &Resource) -> Value {
    let kind = |api_version: &str, kind: &str| {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        json!({"group": group, "version": version, "kind": kind})
    };
    let subresources: Vec<Value> = subresources(resource)
        .into_iter()
        .map(|(name, of, version, verbs)| {
            json!({"subresource": name, "responseKind": kind(&version, &of), "verbs": verbs})
        })
        .collect();
    let mut entry = json!({
        "resource": resource.plural,
        "responseKind": kind(&resource.api_version(), &resource.kind),
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": resource.singular,
        "verbs": VERBS,
    });
    for (name, list) in [
        ("shortNames", json!(resource.short_names)),
        ("categories", json!(resource.categories)),
        ("subresources", json!(subresources)),
    ] {
        if list != json!([]) {
            entry[name] = list;
        }
    }
    entry
}

fn openapi_paths(registry: &Registry) -> Value {
    let versions: BTreeSet<(&str, &str)> = registry
        .all()
        .map(|resource| (resource.group.as_str(), resource.version.as_str()))
        .collect();
    let mut paths = json!({});
    for (group, version) in versions {
        let path = match group {
            "" => format!("api/{version}"),
            group => format!("apis/{group}/{version}"),
        };
        paths[&path] = json!({"serverRelativeURL": format!("/openapi/v3/{path}")});
    }
    json!({"paths": paths})
}

/// As much of a group's OpenAPI as kubectl asks: that a patch may be validated by the server, and
/// what is in an object, for `kubectl explain`.
fn openapi(registry: &Registry, group: &str, version: &str) -> Value {
    let (mut paths, mut schemas) = (json!({}), json!({}));
    for resource in of_version(registry, group, version) {
        let root = match group {
            "" => format!("/api/{version}"),
            group => format!("/apis/{group}/{version}"),
        };
        let path = match resource.namespaced {
            true => format!(
                "{root}/namespaces/{{namespace}}/{}/{{name}}",
                resource.plural
            ),
            false => format!("{root}/{}/{{name}}", resource.plural),
        };
        let kind = json!({"group": group, "version": version, "kind": resource.kind});
        paths[&path] = json!({
            "patch": {
                "parameters": [{"name": "fieldValidation", "in": "query"}],
                "responses": {},
                "x-kubernetes-action": "patch",
                "x-kubernetes-group-version-kind": kind,
            },
        });
        let mut schema = match resource.schema() {
            Some(schema) => schema.document().clone(),
            None => json!({"type": "object"}),
        };
        schema["x-kubernetes-group-version-kind"] = json!([kind]);
        let name = format!("{}.{version}.{}", resource.group, resource.kind);
        schemas[name.trim_start_matches('.')] = schema;
    }
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "unversioned"},
        "paths": paths,
        "components": {"schemas": schemas},
    })
}
