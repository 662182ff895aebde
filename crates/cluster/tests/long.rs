//! Bookmarks of a real API server, which take more than a minute.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]
#![forbid(unsafe_code)]

use std::fs;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use netqos_cluster::{Connect, Kind, Listing, Selection, WatchLimits, watch};
use netqos_faults::Cluster;
use tokio::time::timeout;

/// A watch without a bookmark for longer than that is renewed.
#[tokio::test]
async fn idle_watch_receives_a_bookmark_within_the_silence_limit() {
    let cluster = Cluster::start().await.unwrap();
    let proxy = cluster.front().await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("kubeconfig");
    fs::write(&path, proxy.kubeconfig("netqos")).unwrap();
    let connect = Connect {
        kubeconfig: Some(path),
        context: None,
    };
    let client = connect.client().await.unwrap();
    let quotas = Selection::all(Kind::NetworkQoSQuota);
    let mut events = watch(client, &quotas, Listing::Cached, |_, _| ()).boxed();
    let began = Instant::now();
    let bookmarks = || {
        let requests = proxy.requests().into_iter();
        let watches = requests.filter(|it| it.verb == "watch");
        watches.map(|it| it.events).collect::<Vec<u64>>()
    };
    while bookmarks().iter().all(|events| *events == 0) {
        assert!(began.elapsed() < WatchLimits::default().silence);
        let _ = timeout(Duration::from_secs(1), events.next()).await;
    }
    println!("bookmark after {:.0?}", began.elapsed());
    assert_eq!(bookmarks().len(), 1);
}
