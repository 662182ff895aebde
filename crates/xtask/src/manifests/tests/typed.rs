//! Every object is one of its kind, and no field of it is a mistake.

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
    ValidatingWebhookConfiguration,
};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Service, ServiceAccount};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::chart::Chart;
use super::choices;

/// As a type holds it: what it does not know is gone.
fn through<T: DeserializeOwned + Serialize>(object: &Value) -> Result<Value, String> {
    let typed: T = serde_json::from_value(object.clone()).map_err(|why| why.to_string())?;
    serde_json::to_value(typed).map_err(|why| why.to_string())
}

fn held(object: &Value) -> Result<Value, String> {
    match object["kind"].as_str().unwrap_or_default() {
        "ClusterRole" => through::<ClusterRole>(object),
        "ClusterRoleBinding" => through::<ClusterRoleBinding>(object),
        "ConfigMap" => through::<ConfigMap>(object),
        "CustomResourceDefinition" => through::<CustomResourceDefinition>(object),
        "DaemonSet" => through::<DaemonSet>(object),
        "Deployment" => through::<Deployment>(object),
        "Namespace" => through::<Namespace>(object),
        "PodDisruptionBudget" => through::<PodDisruptionBudget>(object),
        "Role" => through::<Role>(object),
        "RoleBinding" => through::<RoleBinding>(object),
        "Service" => through::<Service>(object),
        "ServiceAccount" => through::<ServiceAccount>(object),
        "MutatingWebhookConfiguration" => through::<MutatingWebhookConfiguration>(object),
        "ValidatingAdmissionPolicy" => through::<ValidatingAdmissionPolicy>(object),
        "ValidatingAdmissionPolicyBinding" => through::<ValidatingAdmissionPolicyBinding>(object),
        "ValidatingWebhookConfiguration" => through::<ValidatingWebhookConfiguration>(object),
        "PrometheusRule" | "ServiceMonitor" => through::<OfOperator>(object),
        kind => Err(format!("{kind} is not known to this test")),
    }
}

/// What is used of the Prometheus operator's kinds, as its documentation spells it.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct OfOperator {
    api_version: String,
    kind: String,
    metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
    spec: OperatorSpec,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum OperatorSpec {
    Monitor(MonitorSpec),
    Rules(RuleSpec),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct MonitorSpec {
    selector: k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector,
    endpoints: Vec<MonitorEndpoint>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct MonitorEndpoint {
    port: String,
    interval: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    honor_labels: Option<bool>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    relabelings: Vec<Relabeling>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Relabeling {
    source_labels: Vec<String>,
    target_label: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleSpec {
    groups: Vec<RuleGroup>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleGroup {
    name: String,
    rules: Vec<Rule>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    alert: String,
    expr: String,
    #[serde(rename = "for")]
    lasts: String,
    labels: std::collections::BTreeMap<String, String>,
    annotations: std::collections::BTreeMap<String, String>,
}

#[test]
fn every_object_is_one_of_its_kind() {
    let chart = Chart::read().unwrap();
    for chosen in choices() {
        for (name, object) in chart.objects(&chosen).unwrap() {
            let held = held(&object).unwrap_or_else(|why| panic!("{name}: {why}"));
            assert_eq!(whole(held), object, "{name}");
        }
    }
}

/// Numbers without a fraction as they are written: types have the bounds of schemas as fractions.
fn whole(value: Value) -> Value {
    match value {
        Value::Array(all) => all.into_iter().map(whole).collect(),
        Value::Object(all) => all.into_iter().map(|(key, it)| (key, whole(it))).collect(),
        Value::Number(number) => match number.as_f64() {
            Some(fraction) if number.is_f64() && fraction.fract() == 0.0 => {
                Value::from(fraction as i64)
            }
            _ => Value::Number(number),
        },
        other => other,
    }
}

#[test]
fn a_field_that_a_kind_does_not_have_is_found() {
    let chart = Chart::read().unwrap();
    let mut object =
        chart.objects(&serde_json::json!({})).unwrap()["DaemonSet/netqos-agent"].clone();
    object["spec"]["template"]["spec"]["hostNetwrok"] = true.into();
    assert_ne!(held(&object).unwrap(), object);
    object["spec"]["template"]["spec"]["hostNetwork"] = "yes".into();
    assert!(held(&object).is_err());
}
