//! The networks that a pod selects.

use netqos_api::capability::POD_ANNOTATIONS;
use netqos_api::multinet::{About, Answer, PodName};
use netqos_api::npwg::{DEFAULT_NETWORK, NETWORKS, PodSelections};
use netqos_cni::plugin::CniArgs;
use netqos_cni::{CniError, Request};
use serde_json::Value;

use super::agent;
use super::config::MultinetConfig;

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
/// knows.
///
/// # Errors
/// Returns an error of code 7 if an annotation is not valid, and of code 11 if the agent is needed and does not answer.
pub fn of(request: &Request, config: &MultinetConfig) -> Result<Selected, CniError> {
    let Some(pod) = pod(&request.args) else {
        // Not of Kubernetes.
        return Ok(Selected::default());
    };
    let (networks, default_network) = annotations(request, &pod, config)?;
    let selections = PodSelections::of(
        &pod.namespace,
        networks.as_deref(),
        default_network.as_deref(),
        config.interface_names,
        request.ifname(),
    );
    match selections {
        Ok(selections) => Ok(Selected {
            pod: Some(pod),
            selections,
        }),
        Err(error) if config.spec_literal && !error.is_forbidden => {
            super::say(&format!(
                "annotation {} is ignored: {}",
                error.annotation, error.error
            ));
            Ok(Selected {
                pod: Some(pod),
                ..Selected::default()
            })
        }
        Err(error) => {
            let message = format!(
                "annotation {} of pod {}/{}: {}",
                error.annotation, pod.namespace, pod.name, error.error
            );
            Err(CniError::invalid_config(message))
        }
    }
}

/// The values of both annotations.
fn annotations(
    request: &Request,
    pod: &PodName,
    config: &MultinetConfig,
) -> Result<(Option<String>, Option<String>), CniError> {
    if let Some(passed) = request.config.runtime_config.get(POD_ANNOTATIONS) {
        let get = |key| passed.get(key).and_then(Value::as_str).map(str::to_owned);
        return Ok((get(NETWORKS), get(DEFAULT_NETWORK)));
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
