//! Quotas: what a server takes is read, and what is refused is told with its field.

use kube::core::cel::{Validator, compile_schema};
use netqos_core::Quota;
use netqos_k8s::{NetworkQoSQuota, convert, definitions};
use serde_json::{Value, json};

fn object(spec: Value) -> Value {
    json!({
        "apiVersion": "netqos.io/v1alpha1",
        "kind": "NetworkQoSQuota",
        "metadata": {"name": "tenants"},
        "spec": spec,
    })
}

fn read(spec: Value) -> Result<Quota, String> {
    let object: NetworkQoSQuota = serde_json::from_value(object(spec)).unwrap();
    convert::quota(&object).map_err(|error| error.to_string())
}

#[test]
fn an_empty_quota_bounds_nothing_and_a_full_one_all_that_it_says() {
    assert_eq!(read(json!({})), Ok(Quota::new("tenants")));
    let full = read(json!({
        "namespaceSelector": {"matchLabels": {"tier": "own"}},
        "priority": {"min": 10, "max": 50},
        "maxRate": 1000,
        "dscp": [46, 0],
        "maxRules": 0,
    }));
    let full = full.unwrap();
    assert_eq!(full.namespaces.to_string(), "tier=own");
    assert_eq!((full.min_priority.get(), full.max_priority.get()), (10, 50));
    assert_eq!(full.max_rate.unwrap().to_string(), "1 Mbit/s");
    let marks = full
        .dscp
        .unwrap()
        .iter()
        .map(|mark| mark.get())
        .collect::<Vec<_>>();
    assert_eq!((marks, full.max_rules), (vec![0, 46], Some(0)));
    // One bound of two.
    let least = read(json!({"priority": {"min": 10}})).unwrap();
    assert_eq!(
        (least.min_priority.get(), least.max_priority.get()),
        (10, 100)
    );
    assert_eq!(read(json!({"dscp": []})).unwrap().dscp, Some([].into()));
}

/// Schema and CEL of the definition, and the conversion, draw the same line.
#[test]
fn each_limit_is_the_schemas_and_the_conversions() {
    let [_, _, definition, ..] = definitions();
    let crd = serde_json::to_value(definition.crd().unwrap()).unwrap();
    let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let fields = &schema["properties"]["spec"]["properties"];
    let bounds = |field: &Value| (field["minimum"].as_f64(), field["maximum"].as_f64());
    for (field, least, most) in [
        (&fields["maxRate"], 1.0, 4_294_967_295.0),
        (&fields["maxRules"], 0.0, 20.0),
        (&fields["dscp"]["items"], 0.0, 63.0),
        (&fields["priority"]["properties"]["min"], 0.0, 100.0),
        (&fields["priority"]["properties"]["max"], 0.0, 100.0),
    ] {
        assert_eq!(bounds(field), (Some(least), Some(most)));
    }
    assert_eq!(fields["dscp"]["maxItems"], 64);
    for (spec, says) in [
        (json!({"maxRate": 0}), "spec.maxRate: 0 is not between"),
        (json!({"maxRate": -1}), "spec.maxRate: -1 is not between"),
        (
            json!({"maxRate": 4_294_967_296_i64}),
            "spec.maxRate: 4294967296 is not between",
        ),
        (
            json!({"maxRules": 21}),
            "spec.maxRules: 21 is not between 0 and 20",
        ),
        (
            json!({"maxRules": -1}),
            "spec.maxRules: -1 is not between 0 and 20",
        ),
        (
            json!({"dscp": [0, 64]}),
            "spec.dscp[1]: dscp 64 is not between 0 and 63",
        ),
        (
            json!({"dscp": vec![0; 65]}),
            "spec.dscp: 65 are more than 64",
        ),
        (
            json!({"priority": {"max": 101}}),
            "spec.priority.max: priority 101",
        ),
        (
            json!({"priority": {"min": 2, "max": 1}}),
            "spec.priority.min: min is more than max",
        ),
        (
            json!({"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}),
            "spec.namespaceSelector.matchExpressions[0]",
        ),
    ] {
        let error = read(spec).unwrap_err();
        assert!(error.starts_with(says), "{error}");
    }
    let rules = compile_schema(schema);
    let server = |spec| Validator::new().validate_compiled(&rules, &object(spec), None);
    assert!(server(json!({"priority": {"min": 2, "max": 1}})).is_err());
    for fine in [
        json!({"priority": {"min": 2, "max": 2}}),
        json!({"priority": {"min": 2}}),
    ] {
        assert!(server(fine.clone()).is_ok());
        assert!(read(fine).is_ok());
    }
}
