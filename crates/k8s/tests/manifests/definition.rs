//! The definitions that an API server gets.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use netqos_k8s::{crd, definitions};
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
    ];
    let right = right.map(|(name, scope, status)| (name.to_owned(), scope.to_owned(), status));
    assert_eq!(said, right);
}

/// What an API server reckons with for one rule, at most (apiextensions-apiserver,
/// `StaticEstimatedCostLimit`); what may cost more is refused with the whole definition.
const MOST_A_RULE_MAY_COST: u64 = 10_000_000;

/// Of the other definitions no rule walks a list by itself, so it costs at most what its operators
/// do: each as much as to walk the longest text that it may look at, once for each item of the lists
/// that the rule stands in.
#[test]
fn no_rule_of_the_smaller_definitions_comes_near_that() {
    fn look(schema: &serde_json::Value, times: u64, dearest: &mut (u64, String)) {
        let number = |name: &str| schema[name].as_u64().unwrap_or(1);
        let rules = schema["x-kubernetes-validations"].as_array();
        for rule in rules.into_iter().flatten() {
            let rule = rule["rule"].as_str().unwrap();
            let walks = [".all(", ".exists(", ".map(", ".filter("];
            assert!(walks.iter().all(|word| !rule.contains(word)), "{rule}");
            let text = 1 + (4 * number("maxLength")).div_ceil(10);
            let cost = times * rule.len() as u64 * text;
            if cost > dearest.0 {
                *dearest = (cost, rule.to_owned());
            }
        }
        let fields = schema["properties"].as_object();
        for field in fields.into_iter().flat_map(|fields| fields.values()) {
            look(field, times, dearest);
        }
        for (inner, most) in [
            ("items", "maxItems"),
            ("additionalProperties", "maxProperties"),
        ] {
            if schema[inner].is_object() {
                look(&schema[inner], times * number(most), dearest);
            }
        }
    }
    let mut dearest = (0, String::new());
    let [whole, slice, quota, profile, default, report] = definitions();
    // A default has no more of the dear rules, and no more often, than the object that it is for.
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
    for definition in [slice, quota, profile, report] {
        let crd = serde_json::to_value(definition.crd().unwrap()).unwrap();
        look(
            &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"],
            1,
            &mut dearest,
        );
    }
    let (cost, rule) = dearest;
    assert!(
        cost > 0 && cost <= MOST_A_RULE_MAY_COST / 10,
        "{cost}: {rule}"
    );
}

/// The dearest rule is the one of `except`, which walks a list in a list in a list. Reckoned as the
/// API server does (apiserver, `pkg/cel/library/cost.go`, whose sums must never grow): a text is as
/// long as its schema allows, four bytes for each character; to walk a byte costs a tenth; isCIDR
/// and cidr, called without a receiver, cost one.
#[test]
fn no_rule_costs_more_than_an_api_server_allows() {
    fn walking(bytes: u64) -> u64 {
        bytes.div_ceil(10)
    }
    let crd = serde_json::to_value(crd().unwrap()).unwrap();
    let spec = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    let egress = &spec["properties"]["egress"];
    let to = &egress["items"]["properties"]["classifier"]["properties"]["to"];
    let block = &to["items"]["properties"]["ipBlock"];
    let except = &block["properties"]["except"];
    let rule = block["x-kubernetes-validations"][0]["rule"].as_str();
    assert_eq!(
        rule,
        Some(
            "!has(self.except) || !isCIDR(self.cidr) || \
             self.except.all(e, !isCIDR(e) || cidr(self.cidr).containsCIDR(e))"
        ),
        "another rule has another cost"
    );
    let many = |list: &serde_json::Value| list["maxItems"].as_u64().unwrap();
    let text = 4 * except["items"]["maxLength"].as_u64().unwrap();
    // Two addresses of 16 bytes, one of them masked before, and the text that is parsed.
    let contains = walking(16 + 16) + walking(16) + 1 + walking(text);
    // The fields and the variable that are read, isCIDR and cidr, not and or, and the step of all().
    let around = 10;
    let cost = many(egress) * many(to) * many(except) * (contains + around);
    assert!(
        cost <= MOST_A_RULE_MAY_COST,
        "{cost} of {MOST_A_RULE_MAY_COST}"
    );
    println!("the dearest rule: {cost} of {MOST_A_RULE_MAY_COST}");
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
    ];
    let right = right.map(|(path, default)| (path.to_owned(), default));
    assert_eq!(found, right);
}
