//! An API server and a client of it.

use std::fs;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use netqos_cluster::{Client, Connect, Kind, Listing, Selection, Told, WatchLimits, watch_within};
use netqos_faults::{Cluster, Front, Request};
use tempfile::TempDir;
use tokio::time::timeout;

/// The longest time that an event may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// An API server behind a proxy, and a client of the proxy.
pub struct WatchedCluster {
    pub client: Client,
    pub proxy: Front,
    pub cluster: Cluster,
    _directory: TempDir,
}

/// A watch that yields the names of objects.
pub struct Watch(BoxStream<'static, Told<()>>);

impl WatchedCluster {
    pub async fn start() -> Self {
        let cluster = Cluster::start().await.unwrap();
        let proxy = cluster.front().await.unwrap();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("kubeconfig");
        fs::write(&path, proxy.kubeconfig("netqos")).unwrap();
        let connect = Connect {
            kubeconfig: Some(path),
            context: None,
        };
        Self {
            client: connect.client().await.unwrap(),
            proxy,
            cluster,
            _directory: directory,
        }
    }

    pub fn watch(&self, kind: Kind) -> Watch {
        self.watch_within(kind, WatchLimits::default())
    }

    pub fn watch_within(&self, kind: Kind, limits: WatchLimits) -> Watch {
        let selection = Selection::all(kind);
        let client = self.client.clone();
        let events = watch_within(limits, client, &selection, Listing::Cached, |_, _| ());
        Watch(events.boxed())
    }

    /// The requests about a resource.
    pub fn requests(&self, verb: &str, resource: &str) -> Vec<Request> {
        let requests = self.proxy.requests().into_iter();
        let requests = requests.filter(|it| it.verb == verb && it.resource == resource);
        requests.collect()
    }
}

impl Watch {
    /// The next event of this sort.
    pub async fn next(&mut self, is_expected: impl Fn(&Told<()>) -> bool) -> Told<()> {
        let mut others = Vec::new();
        let next = timeout(PATIENCE, async {
            loop {
                let event = self.0.next().await.unwrap();
                if is_expected(&event) {
                    return event;
                }
                others.push(event);
            }
        });
        next.await.unwrap_or_else(|_| panic!("only {others:?}"))
    }

    /// The next list of all objects.
    pub async fn listed(&mut self) {
        self.next(|event| matches!(event, Told::All(_))).await;
    }

    /// The next object of this name.
    pub async fn applied(&mut self, name: &str) {
        self.next(|event| matches!(event, Told::There(it, ()) if *it.name == *name))
            .await;
    }

    /// Takes all events of some time.
    pub async fn drain(&mut self, time: Duration) -> Vec<Told<()>> {
        let mut events = Vec::new();
        let all = async {
            while let Some(event) = self.0.next().await {
                events.push(event);
            }
        };
        timeout(time, all).await.unwrap_err();
        events
    }
}
