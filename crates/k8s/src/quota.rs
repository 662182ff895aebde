//! The resource `NetworkQoSQuota` (netqos.io/v1alpha1): what the owner of a cluster lets the owners
//! of its namespaces ask for.
// Two columns of one type are no mistake.
#![allow(clippy::duplicated_attributes)]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use crate::schema;

/// What is allowed.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "netqos.io",
    version = "v1alpha1",
    kind = "NetworkQoSQuota",
    plural = "networkqosquotas",
    singular = "networkqosquota",
    shortname = "nqosquota",
    category = "netqos",
    derive = "PartialEq",
    doc = "NetworkQoSQuota bounds what the NetworkQoS objects of namespaces may ask for. An object has to keep to all quotas for its namespace, or nothing of it is in force.",
    printcolumn(
        name = "Max-Rate",
        type_ = "integer",
        json_path = ".spec.maxRate",
        description = "The highest rate of a rule in kbps"
    ),
    printcolumn(
        name = "Max-Priority",
        type_ = "integer",
        json_path = ".spec.priority.max"
    ),
    printcolumn(name = "Max-Rules", type_ = "integer", json_path = ".spec.maxRules"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct NetworkQosQuotaSpec {
    /// Which namespaces the quota is for. Absent or empty: all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::label_selector", extend("default" = {}))]
    pub namespace_selector: Option<LabelSelector>,

    /// The priorities that objects may have. Absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<PriorityBounds>,

    /// The highest rate that a rule, and an interface of a pod, may have, in kbps (1,000 bits per second), 1 to
    /// 4294967295. Without a rate neither is bounded. Absent: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 4_294_967_295_i64))]
    pub max_rate: Option<i64>,

    /// The DSCP values that rules may mark with, each 0 to 63. Rules without one are not bounded.
    /// Absent: all; empty: none. At most 64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::dscp_values")]
    pub dscp: Option<Vec<i64>>,

    /// How many rules an object may have, 0 to 20. Absent: as many as any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 20))]
    pub max_rules: Option<i64>,
}

/// Priorities, 0 to 100 each.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!has(self.min) || !has(self.max) || self.min <= self.max")
        .message("min is more than max").field_path(".min"),
)]
pub struct PriorityBounds {
    /// The least. Absent: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100), extend("default" = 0))]
    pub min: Option<i64>,

    /// The highest. Absent: 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100), extend("default" = 100))]
    pub max: Option<i64>,
}
