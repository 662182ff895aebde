//! The timeouts that watches ask for.

use std::collections::BTreeSet;
use std::time::Duration;

use netqos_cluster::Kind;

use crate::fixture::WatchedCluster;

#[tokio::test]
async fn watch_timeouts_are_30_to_60_minutes_and_differ_per_renewal() {
    const RENEWALS: usize = 3;
    let cluster = WatchedCluster::start().await;
    let mut watch = cluster.watch(Kind::Namespace);
    let mut other = cluster.watch(Kind::Node);
    watch.listed().await;
    other.listed().await;
    for _ in 0..RENEWALS {
        watch.drain(Duration::from_millis(500)).await;
        other.drain(Duration::from_millis(500)).await;
        cluster.proxy.end_watches();
    }
    watch.drain(Duration::from_millis(500)).await;
    other.drain(Duration::from_millis(500)).await;
    let of = |resource: &str| cluster.requests("watch", resource);
    let requests = [of("namespaces"), of("nodes")].concat();
    let timeouts = requests.iter().map(|it| it.timeout_seconds.unwrap());
    let timeouts: Vec<u64> = timeouts.collect();
    println!("{timeouts:?}");
    assert_eq!(timeouts.len(), 2 * (1 + RENEWALS));
    assert!(timeouts.iter().all(|it| (1_800..=3_600).contains(it)));
    let different: BTreeSet<u64> = timeouts.iter().copied().collect();
    assert!(different.len() > RENEWALS, "{timeouts:?}");
    assert!(requests.iter().all(|it| it.takes_bookmarks));
    assert_eq!(cluster.requests("list", "namespaces").len(), 1);
}
