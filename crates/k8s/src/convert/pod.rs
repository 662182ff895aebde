//! Pods.

mod networks;

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1 as core;
use netqos_api::pod_limits;
use netqos_core::objects::Pod;
use netqos_core::{ObjectRef, PodId, Problem, Reason};

use super::{labels, namespaced};
use crate::FieldError;

/// A `Pod`, and what is wrong with its annotations: a bandwidth that cannot be read is no limit, and
/// a record of its networks that cannot be read gives no addresses.
///
/// A pod in a manifest may have no uid; then `namespace/name` stands in its place.
///
/// # Errors
/// It has no name, or an address of its status is none.
pub fn pod(object: &core::Pod) -> Result<(Pod, Vec<Problem>), FieldError> {
    let name = namespaced(&object.metadata)?;
    let nothing = BTreeMap::new();
    let annotations = object.metadata.annotations.as_ref().unwrap_or(&nothing);
    let problem = |reason, message| Problem {
        object: ObjectRef::Pod(name.clone()),
        reason,
        message,
    };
    let mut problems = Vec::new();
    let limits = pod_limits(annotations).unwrap_or_else(|error| {
        problems.push(problem(Reason::InvalidBandwidth, error.to_string()));
        Default::default()
    });
    let status = object.status.as_ref();
    let (addresses, unread) = networks::addresses(status, annotations, &name)?;
    let unread = unread.into_iter();
    problems.extend(unread.map(|message| problem(Reason::Invalid, message)));
    let spec = object.spec.as_ref();
    let node = spec.and_then(|spec| spec.node_name.as_deref());
    let uid: Arc<str> = match object.metadata.uid.as_deref() {
        None | Some("") => name.to_string().into(),
        Some(uid) => uid.into(),
    };
    let pod = Pod {
        labels: labels(&object.metadata),
        node: node.filter(|node| !node.is_empty()).map(Into::into),
        host_network: spec.and_then(|spec| spec.host_network) == Some(true),
        finished: is_finished(object),
        limits,
        addresses,
        id: PodId { name, uid },
    };
    Ok((pod, problems))
}

/// As the kubelet has it: it has ended, or it is being deleted and no container of it runs.
fn is_finished(pod: &core::Pod) -> bool {
    let nothing = core::PodStatus::default();
    let status = pod.status.as_ref().unwrap_or(&nothing);
    let ended = matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"));
    let lists = [
        &status.init_container_statuses,
        &status.container_statuses,
        &status.ephemeral_container_statuses,
    ];
    let mut containers = lists.into_iter().flatten().flatten();
    let deleting = pod.metadata.deletion_timestamp.is_some();
    ended || (deleting && containers.all(|container| !is_running(container)))
}

fn is_running(container: &core::ContainerStatus) -> bool {
    match &container.state {
        // A container whose state is not known may run.
        None => true,
        Some(state) => state.terminated.is_none() && state.waiting.is_none(),
    }
}
