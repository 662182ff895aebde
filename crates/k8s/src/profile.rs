//! The resource `BandwidthProfile` (netqos.io/v1alpha1): what the pods of a namespace are held to, in
//! fields that a schema knows, where annotations are texts that nobody checks.
// Two columns of one type are no mistake.
#![allow(clippy::duplicated_attributes)]

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use crate::schema;

/// Which pods, and what they are held to.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "netqos.io",
    version = "v1alpha1",
    kind = "BandwidthProfile",
    plural = "bandwidthprofiles",
    singular = "bandwidthprofile",
    shortname = "bwp",
    category = "netqos",
    namespaced,
    derive = "PartialEq",
    doc = "BandwidthProfile holds the pods of its namespace that it selects to a rate in each direction, on all of their networks. Where the annotations of a pod limit a direction, those decide that direction as a whole.",
    printcolumn(
        name = "Ingress",
        type_ = "string",
        json_path = ".spec.ingress.rate",
        description = "The rate to each pod in bits per second"
    ),
    printcolumn(
        name = "Egress",
        type_ = "string",
        json_path = ".spec.egress.rate",
        description = "The rate from each pod in bits per second"
    ),
    printcolumn(name = "Priority", type_ = "integer", json_path = ".spec.priority"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.ingress) || has(self.egress)")
        .message("a profile needs ingress, egress, or both"),
)]
pub struct BandwidthProfileSpec {
    /// Which pods of the object's namespace. Absent or empty: all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::label_selector", extend("default" = {}))]
    pub pod_selector: Option<LabelSelector>,

    /// Where several profiles select a pod and limit a direction, the one of highest priority
    /// decides it; among equals the one whose name is smaller. 0 to 100. Absent: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100), extend("default" = 0))]
    pub priority: Option<i64>,

    /// What is sent to each pod. Absent: not limited by this profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ingress: Option<DirectionLimit>,

    /// What each pod sends. Absent: not limited by this profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub egress: Option<DirectionLimit>,
}

/// The limit of one direction. Each pod has it for itself: pods do not share it.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DirectionLimit {
    /// The rate, a quantity in bits per second such as 10M, 1k to 1P.
    #[schemars(schema_with = "schema::quantity")]
    pub rate: WrittenQuantity,

    /// What may pass at line speed after a pause, a quantity in bits such as 1M, 8 to 1P. Absent:
    /// netqos chooses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::quantity")]
    pub burst: Option<WrittenQuantity>,

    /// The longest that a packet of a busy flow may wait, such as 25ms, 1ms to 10s. Absent: netqos
    /// chooses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::duration")]
    pub latency: Option<String>,
}

/// A quantity as it was written: `10M`, or 10000000.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum WrittenQuantity {
    /// As a number.
    Number(i64),
    /// As a text.
    Text(String),
}

impl Default for WrittenQuantity {
    fn default() -> Self {
        Self::Number(0)
    }
}

impl fmt::Display for WrittenQuantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => f.write_str(text),
        }
    }
}
