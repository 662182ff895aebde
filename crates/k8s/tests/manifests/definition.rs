//! The definitions that an API server gets.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use netqos_k8s::definitions;

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
    assert_eq!(there.collect::<BTreeSet<_>>(), files, "and no others");
}

/// An API server's demands on a structural schema, and its estimate of what CEL may cost, need a
/// type everywhere, and a limit on every list, map and text.
#[test]
fn every_list_and_every_text_has_a_limit() {
    fn look(schema: &serde_json::Value, path: &str) {
        let known = [
            "description",
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
        ];
        let schema = schema.as_object().unwrap();
        for word in schema.keys() {
            assert!(known.contains(&&**word), "{path}: {word}");
        }
        let limit = match schema["type"].as_str().unwrap() {
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
    ];
    let right = right.map(|(name, scope, status)| (name.to_owned(), scope.to_owned(), status));
    assert_eq!(said, right);
}
