//! Kinds that the API server does not serve.

use std::time::{Duration, Instant};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::DeleteParams;
use netqos_cluster::{Kind, Told, WatchLimits};
use netqos_faults::{Fault, without_rules};

use crate::fixture::{Watch, WatchedCluster};

const CRDS: &str = "customresourcedefinitions";
/// The time within which a new CRD is watched.
const WITHIN: Duration = Duration::from_secs(10);

async fn assert_absent(watch: &mut Watch) {
    watch.next(|event| *event == Told::Unknown).await;
}

/// Creates the CRD of NodeSLO, and waits until the kind is watched.
async fn assert_crd_is_noticed(cluster: &WatchedCluster, watch: &mut Watch) {
    let crd = netqos_k8s::node_slo_definition().crd().unwrap();
    let crd = without_rules(&crd);
    let created = Instant::now();
    let (served, ()) = tokio::join!(cluster.cluster.define(&crd), watch.listed());
    served.unwrap();
    let took = created.elapsed();
    println!("watched after {took:.1?}");
    assert!(took < WITHIN, "{took:?}");
}

#[tokio::test]
async fn absent_kind_costs_no_periodic_request() {
    let cluster = WatchedCluster::start().await;
    let mut watch = cluster.watch(Kind::UserDefinedNetwork);
    assert_absent(&mut watch).await;
    watch.drain(Duration::from_secs(20)).await;
    let requests = cluster.proxy.requests().into_iter();
    let requests = requests.map(|it| (it.verb, it.resource, it.status));
    let requests: Vec<(&str, String, u16)> = requests.collect();
    let right = [
        ("list", "userdefinednetworks", 404),
        ("list", CRDS, 200),
        ("watch", CRDS, 200),
    ];
    assert_eq!(
        requests,
        right.map(|(verb, of, code)| (verb, of.to_owned(), code))
    );
    // A role may be restricted to this name.
    let name = Some("metadata.name=userdefinednetworks.k8s.ovn.org");
    for request in cluster.requests("watch", CRDS) {
        assert_eq!(request.field_selector.as_deref(), name);
        assert!(request.takes_bookmarks);
    }
}

#[tokio::test]
async fn new_crd_is_watched_within_10_seconds_again_after_deletion() {
    let cluster = WatchedCluster::start().await;
    let mut watch = cluster.watch(Kind::NodeSlo);
    assert_absent(&mut watch).await;
    assert_crd_is_noticed(&cluster, &mut watch).await;
    let client = cluster.cluster.client().await.unwrap();
    let crds: Api<CustomResourceDefinition> = Api::all(client);
    let name = Kind::NodeSlo.crd_name();
    crds.delete(&name, &DeleteParams::default()).await.unwrap();
    assert_absent(&mut watch).await;
    assert_crd_is_noticed(&cluster, &mut watch).await;
    // The watch of the CRD ends with that.
    watch.drain(Duration::from_secs(2)).await;
    let before = cluster.requests("watch", CRDS).len();
    cluster.proxy.end_watches();
    watch.drain(Duration::from_secs(3)).await;
    assert_eq!(cluster.requests("watch", CRDS).len(), before);
}

#[tokio::test]
async fn forbidden_crd_has_its_kind_polled() {
    let cluster = WatchedCluster::start().await;
    cluster.proxy.inject(Fault::status(403).on("list", CRDS));
    let limits = WatchLimits {
        poll: (Duration::from_secs(2), Duration::from_secs(3)),
        ..WatchLimits::default()
    };
    let mut watch = cluster.watch_within(Kind::NodeSlo, limits);
    assert_absent(&mut watch).await;
    let lists = || cluster.requests("list", "nodeslos").len();
    watch.drain(Duration::from_secs(7)).await;
    assert!((3..=4).contains(&lists()), "{}", lists());
    assert_crd_is_noticed(&cluster, &mut watch).await;
}
