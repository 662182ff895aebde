//! A server behind the proxy, and clients of both.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::pin::Pin;
use std::time::Duration;

use futures_util::{Stream, StreamExt as _};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ListParams, ObjectMeta, PostParams, WatchEvent, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::Status;
use netqos_faults::{Cluster, Front};

/// ConfigMaps of a namespace of the test's own, by the front and directly.
pub struct Behind {
    pub front: Front,
    pub namespace: String,
    pub direct: Api<ConfigMap>,
    _cluster: Cluster,
}

impl Behind {
    async fn new() -> Self {
        let cluster = Cluster::start().await.unwrap();
        let namespace = cluster.namespace("front").await.unwrap();
        let client = cluster.client().await.unwrap();
        Self {
            front: cluster.front().await.unwrap(),
            direct: Api::namespaced(client, &namespace),
            namespace,
            _cluster: cluster,
        }
    }

    pub async fn of(&self, client: &str) -> Api<ConfigMap> {
        let kubeconfig = Kubeconfig::from_yaml(&self.front.kubeconfig(client)).unwrap();
        let options = KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await;
        let mut config = config.unwrap();
        config.default_retry = false;
        let client = kube::Client::try_from(config).unwrap();
        Api::namespaced(client, &self.namespace)
    }
}

/// Runs a test behind a proxy.
pub fn run(test: impl AsyncFnOnce(Behind)) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime
        .unwrap()
        .block_on(async { test(Behind::new().await).await });
}

/// A watch of all that changes from now on, and the version from which it begins.
pub async fn watched(
    api: &Api<ConfigMap>,
) -> (
    String,
    Pin<Box<impl Stream<Item = kube::Result<WatchEvent<ConfigMap>>>>>,
) {
    let list = api.list(&ListParams::default()).await.unwrap();
    let version = list.metadata.resource_version.unwrap();
    let stream = api.watch(&WatchParams::default(), &version).await.unwrap();
    (version, Box::pin(stream))
}

pub async fn create(api: &Api<ConfigMap>, name: &str) -> ConfigMap {
    let object = ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    };
    api.create(&PostParams::default(), &object).await.unwrap()
}

/// The next item of a stream, which does not take long.
pub async fn next<T>(stream: &mut (impl Stream<Item = T> + Unpin)) -> Option<T> {
    let next = tokio::time::timeout(Duration::from_secs(20), stream.next());
    next.await.expect("nothing came")
}

/// What a server said in place of doing it.
#[track_caller]
pub fn refusal<T: std::fmt::Debug>(result: kube::Result<T>) -> Status {
    match result {
        Err(kube::Error::Api(status)) => *status,
        other => panic!("a refusal is expected, not {other:?}"),
    }
}

/// A watch is told that what it began from is forgotten, and ends.
pub async fn assert_expired(
    stream: &mut (impl Stream<Item = kube::Result<WatchEvent<ConfigMap>>> + Unpin),
) {
    match next(stream).await.unwrap().unwrap() {
        WatchEvent::Error(status) => {
            assert_eq!((status.code, &*status.reason), (410, "Expired"));
        }
        other => panic!("{other:?}"),
    }
    assert!(next(stream).await.is_none());
}

/// From a new list it goes on.
pub async fn assert_goes_on(api: &Api<ConfigMap>) {
    let (_, mut stream) = watched(api).await;
    create(api, "more").await;
    let event = next(&mut stream).await.unwrap().unwrap();
    assert!(matches!(event, WatchEvent::Added(_)), "{event:?}");
}

/// Whether the answer to a watch ends as an answer should where it is interrupted so.
pub fn is_whole(server: SocketAddr, interrupt: impl FnOnce()) -> bool {
    let mut stream = TcpStream::connect(server).unwrap();
    let request = "GET /api/v1/namespaces?watch=1 HTTP/1.1\r\nhost: a\r\n\r\n";
    stream.write_all(request.as_bytes()).unwrap();
    let mut first = [0; 15];
    stream.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"HTTP/1.1 200 OK");
    interrupt();
    let timeout = Some(Duration::from_secs(2));
    stream.set_read_timeout(timeout).unwrap();
    let mut rest = Vec::new();
    let closed = stream.read_to_end(&mut rest).is_ok();
    let is_whole = rest.ends_with(b"\r\n0\r\n\r\n");
    // One that ends leaves the connection as it was.
    assert_eq!(closed, !is_whole);
    is_whole
}
