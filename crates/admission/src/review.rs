//! From what an API server asks to what it is answered.

use kube::core::DynamicObject;
use kube::core::admission::{AdmissionRequest, AdmissionResponse, Operation};
use serde_json::Value;

use crate::findings::Findings;
use crate::known::Known;
use crate::{attachments, bounds, defaults, pods, policies, slo};

/// What is asked: of an object of any kind.
pub type Request = AdmissionRequest<DynamicObject>;

/// Whether an object may be written, and what whoever writes it should know.
///
/// An object that is on its way out is never refused, nor is one of a kind that nobody here knows.
pub fn validate(request: &Request, known: &Known, strict_annotations: bool) -> AdmissionResponse {
    let response = AdmissionResponse::from(request);
    let Some(object) = written(request) else {
        return response;
    };
    let old = request
        .old_object
        .as_ref()
        .filter(|_| request.operation == Operation::Update);
    let old = old.and_then(|old| serde_json::to_value(old).ok());
    let old = old.as_ref();
    let (group, kind) = (request.kind.group.as_str(), request.kind.kind.as_str());
    let findings = match (group, kind) {
        ("k8s.ovn.org", "NetworkQoS") => policies::check(&object, old, known),
        ("netqos.io", "NetworkQoSQuota" | "BandwidthProfile" | "NetworkQoSDefault") => {
            bounds::check(&object, old, known)
        }
        ("k8s.cni.cncf.io", "NetworkAttachmentDefinition") => {
            attachments::check(&object, old, known)
        }
        ("", "ConfigMap") => slo::check_config(&object, old),
        ("slo.koordinator.sh", "NodeSLO") => slo::check_node(&object, old),
        ("" | "apps" | "batch", _) => pods::check((group, kind), &object, old, strict_annotations),
        _ => Findings::default(),
    };
    findings.answer(response, &called(request))
}

/// What is filled in of an object.
pub fn mutate(request: &Request, known: &Known) -> AdmissionResponse {
    let response = AdmissionResponse::from(request);
    let (group, kind) = (request.kind.group.as_str(), request.kind.kind.as_str());
    let (("k8s.ovn.org", "NetworkQoS"), Some(object)) = ((group, kind), written(request)) else {
        return response;
    };
    let namespace = request.namespace.as_deref().unwrap_or_default();
    match defaults::patch(&object, namespace, known) {
        // What cannot be written is not filled in; the server refuses the object then.
        Some(patch) => { response.clone() }.with_patch(patch).unwrap_or(response),
        None => response,
    }
}

/// The object that is written, if it is one that stays, and not its status alone.
fn written(request: &Request) -> Option<Value> {
    let writes = matches!(request.operation, Operation::Create | Operation::Update);
    let whole = request.sub_resource.as_deref().is_none_or(str::is_empty);
    let object = request.object.as_ref().filter(|_| writes && whole)?;
    let stays = object.metadata.deletion_timestamp.is_none();
    let mut object = serde_json::to_value(object).ok().filter(|_| stays)?;
    // A name that the server makes up is not there yet.
    let metadata = &mut object["metadata"];
    if metadata["name"].is_null() && !request.name.is_empty() {
        metadata["name"] = request.name.clone().into();
    }
    if let (true, Some(namespace)) = (metadata["namespace"].is_null(), &request.namespace) {
        metadata["namespace"] = namespace.clone().into();
    }
    Some(object)
}

/// `NetworkQoS games/free`.
fn called(request: &Request) -> String {
    let kind = &request.kind.kind;
    let name = match request.name.as_str() {
        "" => request
            .object
            .as_ref()
            .and_then(|it| it.metadata.generate_name.as_deref()),
        name => Some(name),
    };
    let name = name.unwrap_or_default();
    match request.namespace.as_deref().filter(|it| !it.is_empty()) {
        Some(namespace) => format!("{kind} {namespace}/{name}"),
        None => format!("{kind} {name}"),
    }
}
