//! Kubernetes' own objects, read as their types: what is of another type is refused, and what the
//! type does not know is dropped, as a server does.

use k8s_openapi::api::{
    admissionregistration::v1 as admission, apps::v1 as apps, batch::v1 as batch,
    coordination::v1 as coordination, core::v1 as core, discovery::v1 as discovery,
    events::v1 as events, networking::v1 as networking, policy::v1 as policy, rbac::v1 as rbac,
    scheduling::v1 as scheduling,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1 as extensions;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::resource::Resource;

/// The object as its type has it.
///
/// # Errors
/// The field that is of another type, and what is wrong with it.
pub(crate) fn as_typed(object: &Value, resource: &Resource) -> Result<Value, String> {
    let read = match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "configmaps") => through::<core::ConfigMap>,
        ("", "endpoints") => through::<core::Endpoints>,
        ("", "events") => through::<core::Event>,
        ("", "namespaces") => through::<core::Namespace>,
        ("", "nodes") => through::<core::Node>,
        ("", "pods") => through::<core::Pod>,
        ("", "resourcequotas") => through::<core::ResourceQuota>,
        ("", "secrets") => through::<core::Secret>,
        ("", "serviceaccounts") => through::<core::ServiceAccount>,
        ("", "services") => through::<core::Service>,
        (_, "mutatingwebhookconfigurations") => through::<admission::MutatingWebhookConfiguration>,
        (_, "validatingadmissionpolicies") => through::<admission::ValidatingAdmissionPolicy>,
        (_, "validatingadmissionpolicybindings") => {
            through::<admission::ValidatingAdmissionPolicyBinding>
        }
        (_, "validatingwebhookconfigurations") => {
            through::<admission::ValidatingWebhookConfiguration>
        }
        (_, "customresourcedefinitions") => through::<extensions::CustomResourceDefinition>,
        ("apps", "daemonsets") => through::<apps::DaemonSet>,
        ("apps", "deployments") => through::<apps::Deployment>,
        ("apps", "replicasets") => through::<apps::ReplicaSet>,
        ("apps", "statefulsets") => through::<apps::StatefulSet>,
        (_, "cronjobs") => through::<batch::CronJob>,
        (_, "jobs") => through::<batch::Job>,
        (_, "leases") => through::<coordination::Lease>,
        (_, "endpointslices") => through::<discovery::EndpointSlice>,
        (_, "events") => through::<events::Event>,
        (_, "networkpolicies") => through::<networking::NetworkPolicy>,
        (_, "poddisruptionbudgets") => through::<policy::PodDisruptionBudget>,
        (_, "clusterrolebindings") => through::<rbac::ClusterRoleBinding>,
        (_, "clusterroles") => through::<rbac::ClusterRole>,
        (_, "rolebindings") => through::<rbac::RoleBinding>,
        (_, "roles") => through::<rbac::Role>,
        (_, "priorityclasses") => through::<scheduling::PriorityClass>,
        _ => through::<Value>,
    };
    read(object)
}

/// The metadata of an object, as its type has it.
///
/// # Errors
/// As [`as_typed`].
pub(crate) fn as_metadata(metadata: &Value) -> Result<Value, String> {
    through::<ObjectMeta>(metadata)
}

fn through<T: DeserializeOwned + Serialize>(object: &Value) -> Result<Value, String> {
    let typed: T = serde_path_to_error::deserialize(object).map_err(|why| why.to_string())?;
    serde_json::to_value(typed).map_err(|why| why.to_string())
}

/// The fields of an object that are not in what became of it.
pub(crate) fn unknown_fields(before: &Value, after: &Value, path: &str, found: &mut Vec<String>) {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            for (name, value) in before {
                let path = match path {
                    "" => name.clone(),
                    path => format!("{path}.{name}"),
                };
                match after.get(name) {
                    Some(after) => unknown_fields(value, after, &path, found),
                    // Nothing was said by it.
                    None if is_nothing(value) => {}
                    None => found.push(path),
                }
            }
        }
        (Value::Array(before), Value::Array(after)) => {
            for (index, (before, after)) in before.iter().zip(after).enumerate() {
                unknown_fields(before, after, &format!("{path}[{index}]"), found);
            }
        }
        _ => {}
    }
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}
