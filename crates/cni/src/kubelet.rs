//! The kubelet's role: a pod's annotations become capability arguments of a list.
//!
//! ```text
//!   kubernetes.io/{ingress,egress}-bandwidth ─► Limits ─► runtimeConfig of the plugins that declare
//!                                                          bandwidth | trafficShaping
//!   every annotation ──────────────────────────────────►   io.kubernetes.cri.pod-annotations
//! ```
//!
//! As KEP-2819 and the design document behind it describe it, with what came of them: the
//! capability that plugins declare is `bandwidth`, and runtimes hand over every annotation to those
//! that declare `io.kubernetes.cri.pod-annotations`.

mod capabilities;
mod error;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::PathBuf;

use netqos_api::annotations::pod_limits;
use netqos_core::Limits;

pub use error::{KubeletError, Warning};

use crate::CniResult;
use crate::runtime::{AttachmentRequest, NetworkConfigList, Runtime};

/// What of a pod matters for its network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pod {
    /// Its namespace in Kubernetes.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
}

/// Where a pod runs: what container runtimes call its sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sandbox {
    /// Its id, which CNI calls the container's.
    pub id: String,
    /// Its network namespace; `None` only in teardown, when it has gone.
    pub netns: Option<PathBuf>,
    /// The name of the pod's interface: `eth0` on every cluster.
    pub ifname: String,
}

/// What came of setting up a pod.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    /// The result of the list's last plugin.
    pub result: CniResult,
    /// What the pod asked to be held to.
    pub limits: Limits,
    /// What the pod asked for and does not get.
    pub warnings: Vec<Warning>,
}

/// Sets up and tears down the network of pods.
#[derive(Clone, Copy, Debug)]
pub struct Kubelet<'a> {
    runtime: &'a Runtime,
    list: &'a NetworkConfigList,
}

impl Sandbox {
    /// A sandbox with the interface `eth0`.
    pub fn new(id: impl Into<String>, netns: impl Into<PathBuf>) -> Self {
        Self {
            id: id.into(),
            netns: Some(netns.into()),
            ifname: "eth0".to_owned(),
        }
    }
}

impl<'a> Kubelet<'a> {
    /// A kubelet whose pods are on this network.
    pub const fn new(runtime: &'a Runtime, list: &'a NetworkConfigList) -> Self {
        Self { runtime, list }
    }

    /// Joins a pod to the network, held to what its annotations ask for.
    ///
    /// # Errors
    ///
    /// A bad annotation, named with its value: then no plugin was called. Else what
    /// [`Runtime::add`] says, which has undone what it did. A list whose plugins can't shape is no
    /// error but a [warning](Warning::NoPluginShapes), as it was for the kubelet.
    pub fn set_up(&self, pod: &Pod, sandbox: &Sandbox) -> Result<Setup, KubeletError> {
        let limits = pod_limits(&pod.annotations).map_err(KubeletError::Annotation)?;
        let mut request = base_request(pod, sandbox);
        request.capability_args = capabilities::arguments(self.list, pod, &limits)?;
        let warnings = capabilities::warnings(self.list, &limits);
        let result = self.runtime.add(self.list, &request)?;
        Ok(Setup {
            result,
            limits,
            warnings,
        })
    }

    /// Removes a pod from the network. Succeeds when there is nothing left, whatever the
    /// annotations say by now: a pod must be able to go.
    pub fn tear_down(&self, pod: &Pod, sandbox: &Sandbox) -> Result<(), KubeletError> {
        let request = self.request_as_added(pod, sandbox);
        Ok(self.runtime.del(self.list, &request)?)
    }

    /// Says whether all is as it was set up.
    pub fn check(&self, pod: &Pod, sandbox: &Sandbox) -> Result<(), KubeletError> {
        let request = self.request_as_added(pod, sandbox);
        Ok(self.runtime.check(self.list, &request)?)
    }

    /// The request with the arguments of ADD, as runtimes have them in their cache. The
    /// annotations may have changed since.
    fn request_as_added(&self, pod: &Pod, sandbox: &Sandbox) -> AttachmentRequest {
        let mut request = base_request(pod, sandbox);
        match self.runtime.cached_attachment(self.list, &request) {
            Some(cached) => {
                request.capability_args = cached.capability_args;
                request.args = cached.args;
            }
            None => {
                let arguments = pod_limits(&pod.annotations)
                    .ok()
                    .and_then(|limits| capabilities::arguments(self.list, pod, &limits).ok());
                request.capability_args = arguments.unwrap_or_default();
            }
        }
        request
    }
}

/// Who the pod is, in the arguments that containerd and the kubelet give.
fn base_request(pod: &Pod, sandbox: &Sandbox) -> AttachmentRequest {
    let request = AttachmentRequest::new(&sandbox.id, &sandbox.ifname)
        .with_arg("IgnoreUnknown", "1")
        .with_arg("K8S_POD_NAMESPACE", &pod.namespace)
        .with_arg("K8S_POD_NAME", &pod.name)
        .with_arg("K8S_POD_INFRA_CONTAINER_ID", &sandbox.id)
        .with_arg("K8S_POD_UID", &pod.uid);
    AttachmentRequest {
        netns: sandbox.netns.clone(),
        ..request
    }
}
