//! The definitions that an API server gets.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use netqos_k8s::definitions;
use serde_json::json;

#[test]
fn the_definitions_in_the_repository_are_those_of_the_types() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/crds");
    let mut files = BTreeSet::new();
    for definition in definitions() {
        let written = fs::read_to_string(folder.join(definition.file())).unwrap();
        assert_eq!(written, definition.yaml().unwrap(), "cargo xtask crds");
        let read: CustomResourceDefinition = serde_saphyr::from_str(&written).unwrap();
        assert_eq!(read, definition.crd().unwrap());
        files.insert(definition.file());
    }
    let there = fs::read_dir(&folder).unwrap();
    let there = there.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut there: BTreeSet<String> = there.collect();
    // By which kustomize takes them all.
    there.remove("kustomization.yaml");
    // What is another project's.
    there.remove("koordinator");
    assert_eq!(there, files, "and no others");
}

#[test]
fn definitions_checked_in_as_json_are_those_of_the_types() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/crds");
    for definition in definitions() {
        let checked_in = fs::read_to_string(directory.join(definition.json_file())).unwrap();
        assert_eq!(checked_in, definition.json(), "cargo xtask crds");
        let read = serde_json::to_value(definition.crd().unwrap()).unwrap();
        let derived: CustomResourceDefinition = serde_json::from_str(&definition.json()).unwrap();
        assert_eq!(read, serde_json::to_value(derived).unwrap());
    }
}

/// An API server's demands on a structural schema, and its estimate of what CEL may cost, need a
/// type everywhere, and a limit on every list, map and text.
#[test]
fn every_list_and_every_text_has_a_limit() {
    fn look(schema: &serde_json::Value, path: &str) {
        let known = [
            "description",
            "default",
            "title",
            "type",
            "format",
            "enum",
            "pattern",
            "minimum",
            "maximum",
            "minLength",
            "maxLength",
            "minItems",
            "maxItems",
            "maxProperties",
            "properties",
            "additionalProperties",
            "items",
            "required",
            "x-kubernetes-list-type",
            "x-kubernetes-list-map-keys",
            "x-kubernetes-map-type",
            "x-kubernetes-validations",
            "x-kubernetes-int-or-string",
        ];
        let schema = schema.as_object().unwrap();
        for word in schema.keys() {
            assert!(known.contains(&&**word), "{path}: {word}");
        }
        // What is a number or a text has no type of its own.
        let either = schema.contains_key("x-kubernetes-int-or-string");
        assert!(either != schema.contains_key("type"), "{path}");
        let limit = match schema
            .get("type")
            .map_or("string", |it| it.as_str().unwrap())
        {
            "string" => Some("maxLength"),
            "array" => Some("maxItems"),
            "object" if schema.contains_key("additionalProperties") => Some("maxProperties"),
            _ => None,
        };
        if let Some(limit) = limit {
            assert!(schema.contains_key(limit), "{path}: {limit}");
        }
        let described = path.ends_with(']') || path.ends_with('}') || path.is_empty();
        assert!(described || schema.contains_key("description"), "{path}");
        for (name, inner) in schema
            .get("properties")
            .and_then(|all| all.as_object())
            .into_iter()
            .flatten()
        {
            look(inner, &format!("{path}.{name}"));
        }
        for (word, mark) in [("items", "[]"), ("additionalProperties", "{}")] {
            if let Some(inner) = schema.get(word) {
                look(inner, &format!("{path}{mark}"));
            }
        }
    }
    for definition in definitions() {
        let crd = serde_json::to_value(definition.crd().unwrap()).unwrap();
        look(&crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"], "");
    }
}

#[test]
fn kinds_are_called_and_scoped_as_documents_say() {
    let crds = definitions().map(|it| serde_json::to_value(it.crd().unwrap()).unwrap());
    let said = crds.each_ref().map(|crd| {
        let has_status = crd["spec"]["versions"][0]["subresources"]["status"].is_object();
        let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
        let name = text(&crd["metadata"]["name"]);
        (name, text(&crd["spec"]["scope"]), has_status)
    });
    let right = [
        ("networkqoses.k8s.ovn.org", "Namespaced", true),
        ("networkqospeerslices.netqos.io", "Namespaced", false),
        ("networkqosquotas.netqos.io", "Cluster", false),
        ("bandwidthprofiles.netqos.io", "Namespaced", false),
        ("networkqosdefaults.netqos.io", "Cluster", false),
        ("networkqosnodereports.netqos.io", "Cluster", false),
        ("networkattachmentpolicies.netqos.io", "Cluster", false),
    ];
    let right = right.map(|(name, scope, status)| (name.to_owned(), scope.to_owned(), status));
    assert_eq!(said, right);
}

/// A default has the rules of the object that it is for, whose cost a real API server estimates
/// (`testing/kubernetes/tests/others/crds.rs`).
#[test]
fn default_template_has_the_schema_of_networkqos() {
    let [whole, _, _, _, default, ..] = definitions();
    let schema = |definition: &netqos_k8s::Definition| {
        let crd = serde_json::to_value(definition.crd().unwrap()).unwrap();
        crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"].clone()
    };
    let template = schema(&default)["properties"]["template"]["properties"]["spec"].clone();
    let rules = |spec: &serde_json::Value| {
        let mut properties = spec["properties"].clone();
        for field in properties.as_object_mut().unwrap().values_mut() {
            field.as_object_mut().unwrap().remove("description");
        }
        (properties, spec["x-kubernetes-validations"].clone())
    };
    assert_eq!(rules(&template), rules(&schema(&whole)));
}

/// What an API server fills in, which is what descriptions say of fields that are absent; and nothing in
/// objects of a kind that is OVN-Kubernetes', too.
#[test]
fn only_kinds_of_our_own_have_defaults() {
    fn look(schema: &serde_json::Value, path: &str, found: &mut Vec<(String, serde_json::Value)>) {
        if let Some(default) = schema.get("default") {
            found.push((path.to_owned(), default.clone()));
        }
        let fields = schema.get("properties").and_then(|it| it.as_object());
        for (name, field) in fields.into_iter().flatten() {
            look(field, &format!("{path}.{name}"), found);
        }
        for inner in ["items", "additionalProperties"] {
            if let Some(inner) = schema.get(inner) {
                look(inner, path, found);
            }
        }
    }
    let mut found = Vec::new();
    for definition in definitions() {
        let name = definition.name();
        let (plural, _) = name.split_once('.').unwrap();
        look(definition.schema(), plural, &mut found);
    }
    let right = [
        ("networkqosquotas.spec.namespaceSelector", json!({})),
        ("networkqosquotas.spec.priority.max", json!(100)),
        ("networkqosquotas.spec.priority.min", json!(0)),
        ("bandwidthprofiles.spec.podSelector", json!({})),
        ("bandwidthprofiles.spec.priority", json!(0)),
        (
            "networkattachmentpolicies.spec.namespaceSelector",
            json!({}),
        ),
    ];
    let right = right.map(|(path, default)| (path.to_owned(), default));
    assert_eq!(found, right);
}
