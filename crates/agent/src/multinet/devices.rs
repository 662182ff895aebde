//! The devices that the kubelet gave to pods, by its pod-resources API (`k8s.io/kubelet/pkg/apis/podresources/v1`).
//!
//! The API is one gRPC method without arguments: a POST of HTTP/2, with a message behind five bytes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper::{Request, header};
use hyper_util::rt::{TokioExecutor, TokioIo};
use netqos_api::multinet::PodName;
use prost::Message;
use tokio::net::UnixStream;
use tokio::time::timeout;

/// The longest wait for the kubelet.
const PATIENCE: Duration = Duration::from_secs(5);

/// The most bytes of an answer: some hundred bytes for each container of a node.
const MAX_BYTES: usize = 16 << 20;

/// The bytes in front of a message of gRPC: whether it is compressed, and its length.
const PREFIX: usize = 5;

/// The kubelet's socket.
#[derive(Clone, Debug)]
pub(crate) struct Kubelet(PathBuf);

/// The reason that the devices of a pod are not known.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DevicesError {
    #[error("cannot reach the kubelet's pod-resources API at {path}: {why}")]
    Unreachable { path: PathBuf, why: String },
    #[error("the kubelet's pod-resources API answers: {0}")]
    Refused(String),
}

#[derive(Clone, PartialEq, Message)]
struct ListResponse {
    #[prost(message, repeated, tag = "1")]
    pods: Vec<Pod>,
}

#[derive(Clone, PartialEq, Message)]
struct Pod {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    namespace: String,
    #[prost(message, repeated, tag = "3")]
    containers: Vec<Container>,
}

#[derive(Clone, PartialEq, Message)]
struct Container {
    #[prost(message, repeated, tag = "2")]
    devices: Vec<Devices>,
}

#[derive(Clone, PartialEq, Message)]
struct Devices {
    #[prost(string, tag = "1")]
    resource: String,
    #[prost(string, repeated, tag = "2")]
    ids: Vec<String>,
}

impl Kubelet {
    pub(crate) fn new(socket: impl Into<PathBuf>) -> Self {
        Self(socket.into())
    }

    /// Returns the devices of all containers of a pod, by the names of their resources, each list sorted.
    ///
    /// # Errors
    /// Returns an error if the kubelet does not answer, or refuses.
    pub(crate) async fn devices(
        &self,
        pod: &PodName,
    ) -> Result<BTreeMap<String, Vec<String>>, DevicesError> {
        let unreachable = |why: String| DevicesError::Unreachable {
            path: self.0.clone(),
            why,
        };
        let answer = timeout(PATIENCE, list(&self.0)).await;
        let answer = answer.map_err(|_| unreachable("no answer within 5 s".to_owned()))?;
        let (status, body) = answer.map_err(|error| unreachable(error.to_string()))?;
        if let Some(why) = status {
            return Err(DevicesError::Refused(why));
        }
        let message = body.get(PREFIX..).unwrap_or_default();
        let response = ListResponse::decode(message)
            .map_err(|error| DevicesError::Refused(format!("not a list of pods: {error}")))?;
        let mut devices: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let own = response
            .pods
            .into_iter()
            .filter(|it| it.namespace == pod.namespace && it.name == pod.name);
        for given in own.flat_map(|it| it.containers).flat_map(|it| it.devices) {
            devices.entry(given.resource).or_default().extend(given.ids);
        }
        for ids in devices.values_mut() {
            ids.sort();
            ids.dedup();
        }
        Ok(devices)
    }
}

/// Calls `List`. Returns the message of a status that is not OK, and the body.
async fn list(
    socket: &Path,
) -> Result<(Option<String>, Bytes), Box<dyn std::error::Error + Send + Sync>> {
    let stream = TokioIo::new(UnixStream::connect(socket).await?);
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await?;
    let connection = tokio::spawn(connection);
    let request = Request::post("http://localhost/v1.PodResourcesLister/List")
        .header(header::CONTENT_TYPE, "application/grpc")
        .header(header::TE, "trailers")
        .body(Full::new(Bytes::from_static(&[0; PREFIX])))?;
    let response = sender.send_request(request).await?;
    let headers = response.headers().clone();
    let collected = Limited::new(response.into_body(), MAX_BYTES)
        .collect()
        .await?;
    // An error without a body has its status in the headers.
    let trailers = collected.trailers().cloned().unwrap_or(headers);
    connection.abort();
    let text = |name: &str| {
        let value = trailers.get(name)?;
        Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
    };
    let status = text("grpc-status").filter(|code| code != "0");
    let why = status.map(|code| {
        format!(
            "status {code}: {}",
            text("grpc-message").unwrap_or_default()
        )
    });
    Ok((why, collected.to_bytes()))
}

#[cfg(test)]
pub(super) mod tests {
    use std::convert::Infallible;

    use http_body_util::StreamBody;
    use hyper::body::{Frame, Incoming};
    use hyper::service::service_fn;
    use hyper::{HeaderMap, Response};
    use tokio::net::UnixListener;

    use super::*;

    /// Serves one call with this message and status, over HTTP/2 as the kubelet does.
    fn serve(listener: UnixListener, message: Vec<u8>, status: &'static str) {
        tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let answer = service_fn(move |request: Request<Incoming>| {
                assert_eq!(request.uri().path(), "/v1.PodResourcesLister/List");
                let mut body = vec![0];
                body.extend((message.len() as u32).to_be_bytes());
                body.extend(&message);
                let trailers = HeaderMap::from_iter([(
                    "grpc-status".parse().unwrap(),
                    status.parse().unwrap(),
                )]);
                let frames = [Frame::data(Bytes::from(body)), Frame::trailers(trailers)];
                let frames = frames.map(Ok::<_, Infallible>);
                let body = StreamBody::new(futures_util::stream::iter(frames));
                async { Ok::<_, Infallible>(Response::new(body)) }
            });
            let served = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            let _ = served.serve_connection(TokioIo::new(stream), answer).await;
        });
    }

    pub(crate) fn web() -> PodName {
        PodName {
            namespace: "shop".to_owned(),
            name: "web".to_owned(),
            uid: None,
        }
    }

    fn pod(namespace: &str, containers: &[&[&str]]) -> Pod {
        let container = |ids: &&[&str]| Container {
            devices: vec![Devices {
                resource: "a.b/nic".to_owned(),
                ids: ids.iter().map(|id| (*id).to_owned()).collect(),
            }],
        };
        Pod {
            name: "web".to_owned(),
            namespace: namespace.to_owned(),
            containers: containers.iter().map(container).collect(),
        }
    }

    /// Serves one call with these devices of the pod `shop/web`, each in a container.
    pub(crate) fn serve_devices(socket: &Path, ids: &[&str]) {
        let containers: Vec<&[&str]> = ids.chunks(1).collect();
        let response = ListResponse {
            pods: vec![pod("shop", &containers)],
        };
        let listener = UnixListener::bind(socket).unwrap();
        serve(listener, response.encode_to_vec(), "0");
    }

    #[tokio::test]
    async fn devices_of_all_containers_of_the_pod_are_read() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("kubelet.sock");
        let response = ListResponse {
            pods: vec![pod("bank", &[&["x"]]), pod("shop", &[&["b", "c"], &["a"]])],
        };
        serve(
            UnixListener::bind(&socket).unwrap(),
            response.encode_to_vec(),
            "0",
        );
        let devices = Kubelet::new(&socket).devices(&web()).await.unwrap();
        assert_eq!(
            devices,
            [(
                "a.b/nic".to_owned(),
                ["a", "b", "c"].map(str::to_owned).to_vec()
            )]
            .into()
        );
    }

    #[tokio::test]
    async fn kubelet_that_refuses_or_is_away_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("kubelet.sock");
        let kubelet = Kubelet::new(&socket);
        let error = kubelet.devices(&web()).await.unwrap_err().to_string();
        assert!(error.contains("cannot reach"), "{error}");
        serve(UnixListener::bind(&socket).unwrap(), Vec::new(), "8");
        let error = kubelet.devices(&web()).await.unwrap_err().to_string();
        assert!(error.contains("status 8"), "{error}");
    }
}
