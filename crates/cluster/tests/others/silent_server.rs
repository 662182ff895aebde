//! Servers that send nothing while TCP connections stay open.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::{ObjectMeta, PostParams};
use netqos_cluster::{Kind, Told, WatchLimits};
use netqos_faults::Fault;

use crate::fixture::WatchedCluster;

const SILENCE: Duration = Duration::from_secs(2);

async fn create(cluster: &WatchedCluster, name: &str) {
    let client = cluster.cluster.client().await.unwrap();
    let namespaces: Api<Namespace> = Api::all(client);
    let namespace = Namespace {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    };
    let created = namespaces.create(&PostParams::default(), &namespace).await;
    created.unwrap();
}

#[tokio::test]
async fn silent_watch_is_renewed_without_list() {
    let cluster = WatchedCluster::start().await;
    let limits = WatchLimits {
        silence: SILENCE,
        ..WatchLimits::default()
    };
    let mut watch = cluster.watch_within(Kind::Namespace, limits);
    watch.listed().await;
    create(&cluster, "before").await;
    watch.applied("before").await;
    cluster.proxy.silence_watches();
    let began = Instant::now();
    create(&cluster, "meanwhile").await;
    watch.applied("meanwhile").await;
    let took = began.elapsed();
    assert!(took < SILENCE + Duration::from_secs(2), "{took:?}");
    assert_eq!(cluster.requests("list", "namespaces").len(), 1);
    for renewed in cluster.requests("watch", "namespaces") {
        let from = renewed.resource_version.unwrap_or_default();
        assert!(!["", "0"].contains(&&*from), "from {from:?}");
    }
}

#[tokio::test]
async fn unanswered_request_is_reported_and_repeated() {
    let cluster = WatchedCluster::start().await;
    let hang = Fault::delay(Duration::from_secs(3_600));
    cluster
        .proxy
        .inject(hang.clone().on("list", "namespaces").times(1));
    cluster
        .proxy
        .inject(hang.on("watch", "namespaces").times(1));
    let limits = WatchLimits {
        answer: Duration::from_secs(1),
        ..WatchLimits::default()
    };
    let mut watch = cluster.watch_within(Kind::Namespace, limits);
    let is_silent = |event: &Told<()>| match event {
        Told::Silent(why) => why.contains("no answer within 1 s"),
        _ => false,
    };
    watch.next(is_silent).await;
    watch.listed().await;
    watch.next(is_silent).await;
    watch.next(|event| *event == Told::Answers).await;
    create(&cluster, "after").await;
    watch.applied("after").await;
    assert_eq!(cluster.requests("list", "namespaces").len(), 2);
}
