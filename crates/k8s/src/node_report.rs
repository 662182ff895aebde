//! The resource `NetworkQoSNodeReport` (netqos.io/v1alpha1), by which the agent of a node tells the
//! controller what is in force there.
//!
//! Plain data without a `spec`, of the size of what a node is asked for: which generation of each
//! policy, and what is not as it should be. A heartbeat it is not.

use k8s_openapi::ClusterResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::KubeSchema;
use netqos_core::NodeReport;
use serde::{Deserialize, Serialize};

use crate::own::plain_resource;

/// The most problems that a report names.
const PROBLEMS: usize = 100;
/// The longest message, in characters.
const MESSAGE: usize = 1024;

/// NetworkQoSNodeReport is what the agent of a node says of it: which NetworkQoS objects are in
/// force on its pods, and what is not as it should be. Its name is the node's. The agent makes and
/// changes it, and the controller deletes it when the node is gone; what anybody else writes is put
/// right again.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworkQoSNodeReport {
    #[serde(skip_deserializing, serialize_with = "api_version")]
    #[schemars(skip)]
    api_version: (),

    #[serde(skip_deserializing, serialize_with = "kind")]
    #[schemars(skip)]
    kind: (),

    /// Name and labels.
    #[schemars(skip)]
    pub metadata: ObjectMeta,

    /// The version of the agent that wrote it.
    #[schemars(length(max = 64))]
    pub agent_version: String,

    /// The agent's pod, `namespace/name`. Absent: it runs in none, or is an older one, which does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 3, max = 317))]
    pub agent_pod: Option<String>,

    /// The NetworkQoS objects of the namespaces that the node's pods are in, which are in force on
    /// every pod of the node that they select, but for the problems. At most 10000.
    #[schemars(length(max = 10_000))]
    pub policies: Vec<PolicyInForce>,

    /// What is not as it should be. At most 100.
    #[schemars(length(max = 100))]
    pub problems: Vec<NodeProblem>,

    /// How many problems more there are, which are not named. Absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 9_007_199_254_740_991_i64))]
    pub more_problems: Option<i64>,
}

/// A NetworkQoS that is in force on a node.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyInForce {
    /// Its namespace.
    #[schemars(length(min = 1, max = 63))]
    pub namespace: String,

    /// Its name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,

    /// Its metadata.uid. Absent where the agent is an older one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub uid: Option<String>,

    /// The metadata.generation that is in force.
    #[schemars(range(min = 0, max = 9_007_199_254_740_991_i64))]
    pub generation: i64,
}

/// Something of a node that is not as it should be.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeProblem {
    /// The kind of the object that it is about: NetworkQoS, Pod, NetworkQoSQuota, BandwidthProfile or Node.
    #[schemars(length(min = 1, max = 63))]
    pub kind: String,

    /// The namespace of that object. Absent: it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub namespace: Option<String>,

    /// The name of that object.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,

    /// Which kind of problem, in CamelCase.
    #[schemars(length(min = 1, max = 63))]
    pub reason: String,

    /// What, where and what to do.
    #[schemars(length(max = 1024))]
    pub message: String,
}

impl NetworkQoSNodeReport {
    /// The object of a report. What the schema has no room for is left out, and counted; long
    /// messages are cut.
    pub fn of(report: &NodeReport) -> Self {
        let policies = report.policies.iter().take(10_000);
        let named = report.problems.iter().take(PROBLEMS);
        let left_out = report.problems.len().saturating_sub(PROBLEMS);
        let more = report.more_problems.saturating_add(left_out as u64);
        Self {
            metadata: ObjectMeta {
                name: Some(report.node.to_string()),
                ..ObjectMeta::default()
            },
            agent_version: report.agent.clone(),
            agent_pod: report.pod.as_deref().map(str::to_owned),
            policies: policies
                .map(|(name, version)| PolicyInForce {
                    namespace: name.namespace.to_string(),
                    name: name.name.to_string(),
                    uid: version.uid.as_deref().map(str::to_owned),
                    generation: version.generation,
                })
                .collect(),
            problems: named
                .map(|problem| NodeProblem {
                    kind: problem.kind.clone(),
                    namespace: Some(problem.object.namespace.to_string())
                        .filter(|it| !it.is_empty()),
                    name: problem.object.name.to_string(),
                    reason: problem.reason.clone(),
                    message: problem.message.chars().take(MESSAGE).collect(),
                })
                .collect(),
            more_problems: i64::try_from(more).ok().filter(|more| *more > 0),
            ..Self::default()
        }
    }
}

plain_resource!(
    NetworkQoSNodeReport,
    "networkqosnodereports",
    ClusterResourceScope
);
