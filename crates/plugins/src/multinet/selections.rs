//! The networks that a pod selects.

use std::path::Path;

use netqos_api::capability::POD_ANNOTATIONS;
use netqos_api::multinet::{About, Answer, PodName};
use netqos_api::npwg::{DEFAULT_NETWORK, NETWORKS, PodSelections};
use netqos_cni::plugin::CniArgs;
use netqos_cni::{CniError, Request};
use serde_json::Value;

use super::config::{MultinetConfig, PODS};
use super::{agent, pod_files};

/// A pod and the networks that it selects.
#[derive(Clone, Debug, Default)]
pub struct Selected {
    /// The pod; `None` if the runtime does not say which it is.
    pub pod: Option<PodName>,
    /// The networks.
    pub selections: PodSelections,
}

/// The pod, as the runtime names it.
pub fn pod(args: &CniArgs) -> Option<PodName> {
    let get = |key| args.get(key).filter(|value| !value.is_empty());
    Some(PodName {
        namespace: get("K8S_POD_NAMESPACE")?.to_owned(),
        name: get("K8S_POD_NAME")?.to_owned(),
        uid: get("K8S_POD_UID").map(str::to_owned),
    })
}

/// Returns the networks that a pod selects, by the annotations that the runtime passes, or else by those that the agent
/// keeps.
///
/// # Errors
/// Returns an error of code 7 if an annotation is not valid, and of code 11 if the agent is needed and does not answer,
/// or does not know the pod in time.
pub fn of(request: &Request, config: &MultinetConfig) -> Result<Selected, CniError> {
    let Some(pod) = pod(&request.args) else {
        // Not of Kubernetes.
        return Ok(Selected::default());
    };
    let (mut networks, mut default_network) = annotations(request, &pod, config)?;
    loop {
        let selections = PodSelections::of(
            &pod.namespace,
            networks.as_deref(),
            default_network.as_deref(),
            config.interface_names,
            request.ifname(),
        );
        let error = match selections {
            Ok(selections) => {
                return Ok(Selected {
                    pod: Some(pod),
                    selections,
                });
            }
            Err(error) => error,
        };
        if !config.spec_literal || error.is_forbidden {
            let message = format!(
                "annotation {} of pod {}/{}: {}",
                error.annotation, pod.namespace, pod.name, error.error
            );
            return Err(CniError::invalid_config(message));
        }
        super::say(&format!(
            "annotation {} is ignored: {}",
            error.annotation, error.error
        ));
        match error.annotation {
            NETWORKS => networks = None,
            _ => default_network = None,
        }
    }
}

fn not_annotations(found: &Value) -> CniError {
    CniError::invalid_config(format!(
        "runtimeConfig, {POD_ANNOTATIONS}: {found} is not a map of texts"
    ))
}

/// The values of both annotations.
fn annotations(
    request: &Request,
    pod: &PodName,
    config: &MultinetConfig,
) -> Result<(Option<String>, Option<String>), CniError> {
    match request.config.runtime_config.get(POD_ANNOTATIONS) {
        // containerd passes null for a pod without annotations.
        Some(Value::Null) => return Ok((None, None)),
        Some(Value::Object(passed)) => {
            let get = |key| match passed.get(key) {
                None => Ok(None),
                Some(Value::String(text)) => Ok(Some(text.clone())),
                Some(other) => Err(not_annotations(other)),
            };
            return Ok((get(NETWORKS)?, get(DEFAULT_NETWORK)?));
        }
        Some(other) => return Err(not_annotations(other)),
        None => {}
    }
    // Without a UID a file may be that of an earlier pod of the name.
    if pod.uid.is_some()
        && let Some(found) = pod_files::wait(Path::new(PODS), pod)?.annotations
    {
        return Ok((found.networks, found.default_network));
    }
    match agent::ask(&config.socket, pod, About::Annotations)? {
        Answer::Annotations {
            networks,
            default_network,
        } => Ok((networks, default_network)),
        other => Err(CniError::internal(format_args!(
            "netqos-agent answered what was not asked: {other:?}"
        ))),
    }
}
