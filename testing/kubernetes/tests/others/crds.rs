//! What kube-apiserver makes of the CRDs.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, Patch, PatchParams};
use netqos_k8s::{definitions, node_slo_definition};
use netqos_kubernetes::ApiServer;
use serde_json::Value;

/// The bounds by which kube-apiserver estimates the cost of CEL rules.
const LIST_BOUNDS: [&str; 2] = ["maxItems", "maxProperties"];

/// Every CRD is accepted, and is still accepted with any one list bound raised by half: kube-apiserver
/// refuses a CRD whose CEL rules could exceed its cost budgets, and the next version of it may estimate
/// a little more.
#[tokio::test]
async fn api_server_accepts_crds_with_each_list_bound_raised_by_half() {
    let server = ApiServer::start().await.unwrap();
    let crds: Api<CustomResourceDefinition> = Api::all(server.client().unwrap());
    let parameters = PatchParams::apply("test").dry_run();
    let all = definitions().into_iter().chain([node_slo_definition()]);
    let mut refused = Vec::new();
    let mut raised = 0;
    for definition in all {
        let name = definition.name();
        let crd = serde_json::to_value(definition.crd().unwrap()).unwrap();
        let accepted = crds.patch(&name, &parameters, &Patch::Apply(&crd)).await;
        accepted.unwrap_or_else(|error| panic!("{name}: {error}"));
        for bound in bounds(&crd) {
            let mut larger = crd.clone();
            let value = larger.pointer_mut(&bound).unwrap();
            *value = (value.as_u64().unwrap() * 3).div_ceil(2).into();
            let accepted = crds.patch(&name, &parameters, &Patch::Apply(&larger)).await;
            raised += 1;
            if let Err(error) = accepted {
                refused.push(format!("{name}{bound}: {error}"));
            }
        }
    }
    assert!(refused.is_empty(), "{refused:#?}");
    assert!(raised > 30, "{raised} bounds were raised");
}

/// The JSON pointers of all bounds of lists.
fn bounds(crd: &Value) -> Vec<String> {
    fn walk(value: &Value, path: &str, found: &mut Vec<String>) {
        let fields: Vec<(String, &Value)> = match value {
            Value::Object(fields) => fields
                .iter()
                .map(|(name, it)| (name.replace('~', "~0").replace('/', "~1"), it))
                .collect(),
            Value::Array(items) => items
                .iter()
                .enumerate()
                .map(|(at, it)| (at.to_string(), it))
                .collect(),
            _ => Vec::new(),
        };
        for (name, inner) in fields {
            let path = format!("{path}/{name}");
            match LIST_BOUNDS.contains(&name.as_str()) && inner.is_u64() {
                true => found.push(path),
                false => walk(inner, &path, found),
            }
        }
    }
    let mut found = Vec::new();
    walk(crd, "", &mut found);
    found
}
