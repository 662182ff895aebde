//! Annotations of pods, written by way of their status.

use std::collections::BTreeMap;
use std::time::Duration;

use http::HeaderValue;
use http::header::ACCEPT;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams, Request};
use kube::{Client, Resource as _};
use netqos_core::PodId;
use netqos_core::with_causes;
use serde_json::json;

/// The answer is not read. Metadata are the smallest one.
const METADATA: HeaderValue =
    HeaderValue::from_static("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1");

/// The longest time for an answer of the server.
const PATIENCE: Duration = Duration::from_secs(30);

/// The reason that a pod's annotations were not written.
#[derive(Debug, thiserror::Error)]
pub enum AnnotateError {
    /// The pod is gone, or another one has its name. Trying again is of no use.
    #[error("the pod is gone")]
    Gone,
    /// The service account may not, or an admission policy refuses this patch.
    #[error("403: it may not patch pods/status: give its ClusterRole this verb ({0})")]
    Forbidden(String),
    /// The server refuses the patch of this pod, as it does one that makes the annotations too large.
    #[error("{0}")]
    Refused(String),
    /// The server cannot be reached, or takes no patch now.
    #[error("{0}")]
    Failed(String),
}

impl AnnotateError {
    /// Returns true if the error says nothing about patches of other pods.
    pub const fn is_of_pod(&self) -> bool {
        !matches!(self, Self::Failed(_))
    }

    fn of(code: u16, message: &str) -> Self {
        match code {
            404 | 409 => Self::Gone,
            403 => Self::Forbidden(message.to_owned()),
            401 | 408 | 429 | 500.. => Self::Failed(format!("{code}: {message}")),
            _ => Self::Refused(format!("{code}: {message}")),
        }
    }
}

/// Writes annotations of a pod, by a patch of its subresource `status` that changes nothing else.
///
/// # Errors
/// Returns an error if the pod is gone, or the server does not take the patch or does not answer within 30 s.
pub async fn annotate_pod(
    client: &Client,
    pod: &PodId,
    annotations: &BTreeMap<&str, String>,
) -> Result<(), AnnotateError> {
    // The server compares the uid.
    let patch = json!({"metadata": {"uid": *pod.uid, "annotations": annotations}});
    let written = async {
        let request = Request::new(Pod::url_path(&(), Some(&pod.name.namespace)));
        let (parameters, patch) = (PatchParams::default(), Patch::Merge(&patch));
        let request = request.patch_subresource("status", &pod.name.name, &parameters, &patch);
        let mut request = request.map_err(kube::Error::BuildRequest)?;
        request.headers_mut().insert(ACCEPT, METADATA);
        client.request_text(request).await
    };
    match tokio::time::timeout(PATIENCE, written).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(kube::Error::Api(status))) => Err(AnnotateError::of(status.code, &status.message)),
        Ok(Err(error)) => Err(AnnotateError::Failed(with_causes(&error))),
        Err(_) => Err(AnnotateError::Failed("no answer within 30 s".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::mpsc;

    use http::{Request, Response};
    use kube::client::Body;
    use netqos_core::ObjectName;

    use super::*;

    #[tokio::test]
    async fn answer_to_a_patch_is_asked_for_as_metadata_alone() {
        let (asked, requests) = mpsc::channel();
        let service = tower::service_fn(move |request: Request<Body>| {
            asked.send(request).unwrap();
            async { Ok::<_, Infallible>(Response::new(Body::empty())) }
        });
        let pod = PodId {
            name: ObjectName::new("shop", "web"),
            uid: "u".into(),
        };
        let annotations = [("netqos.io/x", "1".to_owned())].into();
        let client = Client::new(service, "default");
        annotate_pod(&client, &pod, &annotations).await.unwrap();
        let request = requests.try_recv().unwrap();
        let path = "/api/v1/namespaces/shop/pods/web/status";
        assert_eq!(
            (request.method().as_str(), request.uri().path()),
            ("PATCH", path)
        );
        let accept = request.headers().get_all(ACCEPT).iter();
        assert_eq!(accept.collect::<Vec<_>>(), [METADATA]);
    }

    #[test]
    fn refusal_of_one_pod_says_nothing_about_others() {
        for code in [400, 403, 404, 409, 413, 415, 422] {
            assert!(AnnotateError::of(code, "").is_of_pod(), "{code}");
        }
        for code in [401, 408, 429, 500, 503, 504] {
            assert!(!AnnotateError::of(code, "").is_of_pod(), "{code}");
        }
    }
}
