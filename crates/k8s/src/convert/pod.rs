//! Pods.

mod networks;
mod quality;

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1 as core;
use netqos_api::annotations::{has_bandwidth, parse_pod_limits};
use netqos_api::koordinator::PodClass;
use netqos_api::npwg::{DEFAULT_NETWORK, NETWORK_STATUS, NETWORKS};
use netqos_core::objects::{InvalidLimits, NetworkAnnotations, Pod};
use netqos_core::{Digest, Direction, ObjectRef, PodId, Problem, Reason};

use super::{labels, namespaced};
use crate::FieldError;

/// The annotation of a static pod by which the kubelet knows it in place of its uid.
const CONFIG_HASH: &str = "kubernetes.io/config.hash";

/// A `Pod`, what is wrong with its labels and annotations, and its class: a bandwidth that cannot be
/// parsed is no limit in its direction, and a record of its networks that cannot be read gives no addresses.
///
/// A pod in a manifest may have no uid; then `namespace/name` stands in its place.
///
/// # Errors
/// It has no name, or an address of its status is none.
pub fn pod(object: &core::Pod) -> Result<(Pod, Vec<Problem>, PodClass), FieldError> {
    let name = namespaced(&object.metadata)?;
    let nothing = BTreeMap::new();
    let annotations = object.metadata.annotations.as_ref().unwrap_or(&nothing);
    let problem = |reason, message| Problem {
        object: ObjectRef::Pod(name.clone()),
        reason,
        message,
    };
    let mut problems = Vec::new();
    let (limits, errors) = parse_pod_limits(annotations);
    let mut invalid = InvalidLimits::default();
    for (direction, invalid) in [
        (Direction::Ingress, &mut invalid.ingress),
        (Direction::Egress, &mut invalid.egress),
    ] {
        let errors = errors.iter().filter(|error| error.direction() == direction);
        let errors: Vec<String> = errors.map(ToString::to_string).collect();
        if !errors.is_empty() {
            let message = errors.join("; ");
            *invalid = has_bandwidth(annotations, direction).then(|| message.clone());
            problems.push(problem(Reason::InvalidBandwidth, message));
        }
    }
    let status = object.status.as_ref();
    let (addresses, unread) = networks::addresses(status, annotations, &name)?;
    let unread = unread.into_iter();
    problems.extend(unread.map(|error| problem(Reason::Invalid, error.to_string())));
    let labels = labels(&object.metadata);
    let kubernetes = quality::class(object);
    let (class, wrong) = PodClass::of(&labels, annotations, kubernetes);
    let wrong = wrong
        .into_iter()
        .map(|what| format!("{what}; what it said before stays in force"));
    problems.extend(wrong.map(|message| problem(Reason::InvalidPodClass, message)));
    let spec = object.spec.as_ref();
    let node = spec.and_then(|spec| spec.node_name.as_deref());
    let uid: Arc<str> = match object.metadata.uid.as_deref() {
        None | Some("") => name.to_string().into(),
        Some(uid) => uid.into(),
    };
    let pod = Pod {
        labels,
        node: node.filter(|node| !node.is_empty()).map(Into::into),
        host_network: spec.and_then(|spec| spec.host_network) == Some(true),
        finished: is_finished(object),
        starting: is_starting(object) && addresses.is_empty(),
        limits,
        invalid_limits: (invalid != InvalidLimits::default()).then(|| Box::new(invalid)),
        addresses,
        network_annotations: network_annotations(annotations).map(Box::new),
        config_hash: annotations
            .get(CONFIG_HASH)
            .map(|hash| hash.as_str().into()),
        id: PodId { name, uid },
    };
    Ok((pod, problems, class))
}

fn network_annotations(annotations: &BTreeMap<String, String>) -> Option<NetworkAnnotations> {
    let get = |key| annotations.get(key).map(|text| text.as_str().into());
    let found = NetworkAnnotations {
        networks: get(NETWORKS),
        default_network: get(DEFAULT_NETWORK),
        status: annotations.get(NETWORK_STATUS).map(Digest::of),
    };
    (found != NetworkAnnotations::default()).then_some(found)
}

/// As the kubelet has it: it has ended, or it is being deleted and no container of it runs.
fn is_finished(pod: &core::Pod) -> bool {
    let ended = matches!(phase(pod), Some("Succeeded" | "Failed"));
    let deleting = pod.metadata.deletion_timestamp.is_some();
    ended || (deleting && containers(pod).all(|container| !is_running(container)))
}

/// It has not begun, and no container of it has either.
fn is_starting(pod: &core::Pod) -> bool {
    let waits = |container: &core::ContainerStatus| {
        let state = container.state.as_ref();
        state.is_some_and(|state| state.waiting.is_some())
    };
    phase(pod) == Some("Pending") && containers(pod).all(waits)
}

fn phase(pod: &core::Pod) -> Option<&str> {
    pod.status.as_ref()?.phase.as_deref()
}

fn containers(pod: &core::Pod) -> impl Iterator<Item = &core::ContainerStatus> {
    let lists = pod.status.iter().flat_map(|status| {
        [
            &status.init_container_statuses,
            &status.container_statuses,
            &status.ephemeral_container_statuses,
        ]
    });
    lists.flatten().flatten()
}

fn is_running(container: &core::ContainerStatus) -> bool {
    match &container.state {
        // A container whose state is not known may run.
        None => true,
        Some(state) => state.terminated.is_none() && state.waiting.is_none(),
    }
}
