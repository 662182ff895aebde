//! Schemas of other definitions than our own: what a server does with their objects.

use netqos_k8s::ResourceSchema;
use serde_json::{Value, json};

/// A schema whose `spec` has these fields.
fn schema(fields: Value) -> ResourceSchema {
    let spec = json!({"type": "object", "properties": fields});
    ResourceSchema::new(json!({"type": "object", "properties": {"spec": spec}}))
}

/// The paths of what is wrong with a `spec`.
fn wrong(schema: &ResourceSchema, spec: Value) -> Vec<String> {
    let object = json!({"apiVersion": "a/v1", "kind": "A", "metadata": {}, "spec": spec});
    let errors = schema.check_form(&object);
    errors.into_iter().map(|error| error.path).collect()
}

#[test]
fn every_word_of_a_structural_schema_counts() {
    for (field, right, wrong_ones) in [
        (
            json!({"type": "boolean"}),
            json!(true),
            vec![json!("yes"), json!(1)],
        ),
        (json!({"type": "number"}), json!(1.5), vec![json!("1.5")]),
        (json!({"type": "integer"}), json!(1.0), vec![json!(1.5)]),
        (
            json!({"type": "integer", "multipleOf": 4}),
            json!(8),
            vec![json!(9)],
        ),
        (
            json!({"type": "integer", "minimum": 1, "exclusiveMinimum": true}),
            json!(2),
            vec![json!(1)],
        ),
        (
            json!({"type": "integer", "maximum": 4, "exclusiveMaximum": true}),
            json!(3),
            vec![json!(4)],
        ),
        (
            json!({"type": "integer", "enum": [1, 2]}),
            json!(2),
            vec![json!(3)],
        ),
        (
            json!({"type": "string", "nullable": true}),
            json!(null),
            vec![json!(1)],
        ),
        (json!({"type": "string"}), json!(""), vec![json!(null)]),
        (
            json!({"x-kubernetes-int-or-string": true}),
            json!("http"),
            vec![json!(1.5), json!(true), json!({})],
        ),
        (
            json!({"type": "object", "minProperties": 1, "additionalProperties": true}),
            json!({"any": {"thing": 1}}),
            vec![json!({})],
        ),
        (
            json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}),
            json!(["a", "b"]),
            vec![json!(["a", "a"])],
        ),
        (
            json!({"type": "integer", "anyOf": [{"maximum": 1}, {"minimum": 9}]}),
            json!(9),
            vec![json!(5)],
        ),
        (
            json!({"type": "integer", "oneOf": [{"maximum": 5}, {"minimum": 4}]}),
            json!(9),
            vec![json!(4)],
        ),
        (
            json!({"type": "integer", "allOf": [{"maximum": 5}, {"minimum": 4}]}),
            json!(4),
            vec![json!(6)],
        ),
        (
            json!({"type": "integer", "not": {"enum": [3]}}),
            json!(4),
            vec![json!(3)],
        ),
    ] {
        let schema = schema(json!({"f": field}));
        assert_eq!(wrong(&schema, json!({"f": right})), [""; 0], "{field}");
        for value in wrong_ones {
            let found = wrong(&schema, json!({"f": value}));
            assert!(!found.is_empty(), "{value} by {field}");
            assert!(
                found.iter().all(|path| path.starts_with("spec.f")),
                "{found:?}"
            );
        }
    }
}

#[test]
fn an_object_becomes_what_a_server_keeps() {
    let schema = schema(json!({
        "mode": {"type": "string", "default": "on"},
        "maybe": {"type": "string", "nullable": true},
        "deep": {
            "type": "object",
            "default": {},
            "properties": {"x": {"type": "integer", "default": 7}},
        },
        "free": {
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": true,
            "properties": {"known": {"type": "object", "properties": {}}},
        },
        "inner": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {}},
        "list": {"type": "array", "items": {"type": "object", "properties": {}}},
    }));
    let mut object = json!({
        "apiVersion": "a/v1",
        "kind": "A",
        "metadata": {"name": "x"},
        "spec": {
            "mode": null,
            "maybe": null,
            "free": {"any": 1, "known": {"typo": 1}},
            "inner": {"apiVersion": "v1", "kind": "Pod", "typo": 1},
            "list": [{"typo": 1}],
        },
        "typo": 1,
    });
    let mut unknown = schema.tidy(&mut object);
    unknown.sort();
    assert_eq!(
        unknown,
        [
            "spec.free.known.typo",
            "spec.inner.typo",
            "spec.list[0].typo",
            "typo"
        ]
    );
    assert_eq!(
        object["spec"],
        json!({
            "mode": "on",
            "maybe": null,
            "deep": {"x": 7},
            "free": {"any": 1, "known": {}},
            "inner": {"apiVersion": "v1", "kind": "Pod"},
            "list": [{}],
        })
    );
    assert_eq!(schema.check_form(&object), []);
}
