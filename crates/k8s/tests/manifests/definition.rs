//! The definition that an API server gets.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use netqos_k8s::{crd, crd_yaml};

#[test]
fn the_definition_in_the_repository_is_the_one_of_the_types() {
    let written = include_str!("../../../../deploy/crds/k8s.ovn.org_networkqoses.yaml");
    assert_eq!(written, crd_yaml().unwrap(), "cargo xtask crds");
    let read: CustomResourceDefinition = serde_saphyr::from_str(written).unwrap();
    assert_eq!(read, crd().unwrap());
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
    let crd = serde_json::to_value(crd().unwrap()).unwrap();
    look(&crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"], "");
    let version = &crd["spec"]["versions"][0];
    assert!(version["subresources"]["status"].is_object());
    assert_eq!(crd["spec"]["names"]["plural"], "networkqoses");
    assert_eq!(crd["spec"]["scope"], "Namespaced");
}
