//! NodeSLO, of which netqos' own definition names a part and keeps all.

use std::fs;
use std::path::Path;

use netqos_api::koordinator::NodeSlo;
use netqos_k8s::{NodeSLO, ResourceSchema, definitions, node_slo_definition};
use serde_json::{Value, json};

fn schema() -> ResourceSchema {
    let crd = serde_json::to_value(node_slo_definition().crd().unwrap()).unwrap();
    ResourceSchema::new(crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone())
}

fn object(spec: &Value) -> Value {
    json!({
        "apiVersion": "slo.koordinator.sh/v1alpha1",
        "kind": "NodeSLO",
        "metadata": {"name": "node1"},
        "spec": spec,
    })
}

/// As Koordinator writes it, with all that is not netqos'.
fn koordinators() -> Value {
    json!({
        "cpuBurstStrategy": {"policy": "none", "cpuBurstPercent": 1000},
        "extensions": {"any": [1, {"a": null}]},
        "resourceQOSStrategy": {
            "policies": {"cpuPolicy": "groupIdentity", "netQOSPolicy": "terway-qos"},
            "beClass": {
                "cpuQOS": {"enable": false, "groupIdentity": -1},
                "networkQOS": {"enable": true, "egressRequest": 30, "egressLimit": "50M", "more": 1},
            },
            "cgroupRoot": {"cpuQOS": {}},
        },
        "systemStrategy": {"minFreeKbytesFactor": 100, "totalNetworkBandwidth": "1000M"},
    })
}

#[test]
fn the_definition_in_the_repository_is_that_of_the_type_and_not_among_those_that_are_always_installed()
 {
    let definition = node_slo_definition();
    let name = definition.file();
    assert_eq!(name, "slo.koordinator.sh_nodeslos.yaml");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/crds");
    let written = fs::read_to_string(folder.join("koordinator").join(&name)).unwrap();
    assert_eq!(written, definition.yaml().unwrap(), "cargo xtask crds");
    assert!(definitions().iter().all(|it| it.file() != name));
    assert!(!folder.join(&name).exists());
    let crd = serde_json::to_value(definition.crd().unwrap()).unwrap();
    assert_eq!(crd["metadata"]["name"], "nodeslos.slo.koordinator.sh");
    assert_eq!(crd["spec"]["scope"], "Cluster");
    // What is not said is not filled in.
    assert!(!written.contains("default:"), "{written}");
}

#[test]
fn fields_of_others_are_kept_as_they_are() {
    let spec = koordinators();
    let mut kept = object(&spec);
    assert_eq!(schema().tidy(&mut kept), Vec::<String>::new());
    assert_eq!(kept["spec"], spec);
    assert_eq!(schema().check_form(&kept), []);
    let typed: NodeSLO = serde_json::from_value(kept).unwrap();
    assert_eq!(serde_json::to_value(&typed).unwrap()["spec"], spec);
    let slo = NodeSlo::from_spec(&typed.spec.0).unwrap();
    assert_eq!(slo.total.unwrap().to_string(), "1 Gbit/s");
}

#[test]
fn what_is_no_part_of_a_line_is_refused() {
    let class = |amount: Value| json!({"resourceQOSStrategy": {"lsClass": {"networkQOS": {"egressLimit": amount}}}});
    for (spec, wrong) in [
        (class(json!(100)), None),
        (class(json!("50M")), None),
        (class(json!(101)), Some("egressLimit")),
        (class(json!(-1)), Some("egressLimit")),
        (class(json!("40%")), Some("egressLimit")),
        (class(json!(true)), Some("egressLimit")),
        (
            json!({"resourceQOSStrategy": {"lsClass": {"networkQOS": {"enable": "yes"}}}}),
            Some("enable"),
        ),
        (
            json!({"systemStrategy": {"totalNetworkBandwidth": "lots"}}),
            Some("totalNetworkBandwidth"),
        ),
        (
            json!({"systemStrategy": {"totalNetworkBandwidth": 1_000_000}}),
            None,
        ),
    ] {
        let errors = schema().check_form(&object(&spec));
        let path = errors.first().map(|it| it.path.as_str());
        let is_right = match (path, wrong) {
            (None, None) => true,
            (Some(path), Some(wrong)) => path.ends_with(wrong),
            _ => false,
        };
        assert!(is_right, "{spec}: {errors:?}");
    }
}
