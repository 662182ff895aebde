//! Reports of nodes.

use netqos_core::{NodeReport, ObjectName, PolicyVersion, ReportedProblem};

use super::metadata::name;
use crate::{FieldError, NetworkQoSNodeReport};

/// A `NetworkQoSNodeReport`.
///
/// # Errors
/// It has no name.
pub fn node_report(object: &NetworkQoSNodeReport) -> Result<NodeReport, FieldError> {
    let policies = object.policies.iter();
    let problems = object.problems.iter();
    Ok(NodeReport {
        node: name(&object.metadata)?,
        agent: object.agent_version.clone(),
        pod: object.agent_pod.as_deref().map(Into::into),
        policies: policies
            .map(|it| {
                let version = PolicyVersion {
                    uid: it.uid.as_deref().map(Into::into),
                    generation: it.generation,
                };
                (ObjectName::new(&it.namespace, &it.name), version)
            })
            .collect(),
        problems: problems
            .map(|it| ReportedProblem {
                kind: it.kind.clone(),
                object: ObjectName::new(it.namespace.as_deref().unwrap_or_default(), &it.name),
                reason: it.reason.clone(),
                message: it.message.clone(),
            })
            .collect(),
        more_problems: object.more_problems.map_or(0, i64::unsigned_abs),
    })
}
