//! A real API server, with netqos' kinds, behind a proxy that records requests.

use std::time::{Duration, Instant, UNIX_EPOCH};
use std::{fs, iter, thread};

use anyhow::{Result, bail};
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GetParams, GroupVersionKind, Patch, PatchParams};
use netqos_faults::{Account, Cluster, Front, Request};
use netqos_kubernetes::{Etcd, Operation};
use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

/// `apiVersion`, kind and plural name.
type Kind<'a> = (&'a str, &'a str, &'a str);
pub const PODS: Kind<'_> = ("v1", "Pod", "pods");

/// The namespace of the controller.
pub const HOME: &str = "netqos-system";
/// The objects of a transaction: twenty reports of nodes stay below the 1.5 MiB that etcd takes.
const TRANSACTION: usize = 20;
/// The transactions that are under way at once.
const AT_ONCE: usize = 16;

/// etcd and kube-apiserver: other processes, whose processor time and memory are not measured.
pub struct Server {
    front: Front,
    cluster: Cluster,
    client: Client,
    etcd: Etcd,
    runtime: Runtime,
    folder: TempDir,
}

impl Server {
    /// One that has netqos' kinds, accounts and roles, and the controller's namespace.
    pub fn start() -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let mut cluster = runtime.block_on(Cluster::start())?;
        Ok(Self {
            front: runtime.block_on(cluster.front())?,
            client: runtime.block_on(cluster.client())?,
            etcd: runtime.block_on(async { cluster.etcd() })?,
            cluster,
            runtime,
            folder: tempfile::tempdir()?,
        })
    }

    /// Writes an object into etcd, past the checks of the API server.
    pub fn put(&self, plural: &str, object: Value) -> Result<()> {
        self.write([put(plural, &object)])
    }

    /// Writes objects of one kind into etcd, many at once.
    pub fn put_all(&self, plural: &str, objects: impl IntoIterator<Item = Value>) -> Result<()> {
        let mut puts = objects.into_iter().map(|it| put(plural, &it));
        self.transact(iter::from_fn(|| {
            let some: Vec<Operation> = puts.by_ref().take(TRANSACTION).collect();
            (!some.is_empty()).then_some(some)
        }))
    }

    /// Writes into etcd about different objects, each in a transaction of its own: objects do not share versions.
    pub fn write(&self, operations: impl IntoIterator<Item = Operation>) -> Result<()> {
        self.transact(operations.into_iter().map(|it| vec![it]))
    }

    fn transact(&self, transactions: impl IntoIterator<Item = Vec<Operation>>) -> Result<()> {
        self.runtime.block_on(async {
            let mut under_way = JoinSet::new();
            for operations in transactions {
                if under_way.len() == AT_ONCE
                    && let Some(done) = under_way.join_next().await
                {
                    done??;
                }
                let etcd = self.etcd.clone();
                under_way.spawn(async move { etcd.transact(&operations).await });
            }
            while let Some(done) = under_way.join_next().await {
                done??;
            }
            Ok(())
        })
    }

    /// Waits until the API server has read a pod from etcd.
    pub fn wait_for_pod(&self, namespace: &str, name: &str, patience: Duration) -> Result<()> {
        let pods = self.api(PODS, namespace);
        let (began, cached) = (Instant::now(), GetParams::any());
        while self.runtime.block_on(pods.get_with(name, &cached)).is_err() {
            if began.elapsed() > patience {
                bail!("kube-apiserver does not have pod {namespace}/{name}");
            }
            thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    /// Changes an object of a namespace by a request, as a client does.
    pub fn merge(
        &self,
        kind: Kind<'_>,
        (namespace, name): (&str, &str),
        patch: &Value,
    ) -> Result<()> {
        let (parameters, patch) = (PatchParams::default(), Patch::Merge(patch));
        let objects = self.api(kind, namespace);
        let patched = objects.patch(name, &parameters, &patch);
        self.runtime.block_on(patched)?;
        Ok(())
    }

    fn api(&self, (api_version, kind, plural): Kind<'_>, namespace: &str) -> Api<DynamicObject> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let kind = GroupVersionKind::gvk(group, version, kind);
        let resource = ApiResource::from_gvk_with_plural(&kind, plural);
        Api::namespaced_with(self.client.clone(), namespace, &resource)
    }

    /// A file that says how a client of this name reaches the proxy, with the rights of an account.
    pub fn kubeconfig(&self, client: &str, account: Account<'_>) -> Result<String> {
        let identified = self.cluster.identify(&self.front, client, account);
        self.runtime.block_on(identified)?;
        let file = self.folder.path().join(client);
        fs::write(&file, self.front.kubeconfig(client))?;
        Ok(file.display().to_string())
    }

    /// What a client has asked for since the record was begun.
    pub fn requests(&self, client: &str) -> Vec<Request> {
        let requests = self.front.requests().into_iter();
        requests.filter(|it| it.client == client).collect()
    }

    /// Begins a new record.
    pub fn forget_requests(&self) {
        self.front.forget_requests();
    }

    /// Waits until a client has begun to write anything but a Lease.
    pub fn wait_until_writing(&self, client: &str, patience: Duration) -> Result<()> {
        let began = Instant::now();
        while !self.requests(client).iter().any(is_write) {
            if began.elapsed() > patience {
                bail!("{client} writes nothing");
            }
            thread::sleep(Duration::from_millis(500));
        }
        Ok(())
    }

    /// Waits until a client has written nothing for so long, but to a Lease and events, which go on for as
    /// long as there are any; for how long it wrote.
    pub fn wait_until_quiet(
        &self,
        client: &str,
        quiet: Duration,
        patience: Duration,
    ) -> Result<Duration> {
        let began = Instant::now();
        loop {
            let requests = self.requests(client);
            let writes = |it: &&Request| is_write(it) && !is_event(it);
            let last = requests.iter().rev().find(writes);
            let silence = match last {
                Some(last) => last.at.elapsed().unwrap_or_default(),
                None => began.elapsed(),
            };
            if silence >= quiet && began.elapsed() >= quiet {
                return Ok(began.elapsed().saturating_sub(silence));
            }
            if began.elapsed() > patience {
                bail!("{client} writes without an end");
            }
            thread::sleep(Duration::from_millis(500));
        }
    }
}

/// The write of an object.
pub fn put(plural: &str, object: &Value) -> Operation {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (api_version, metadata) = (text(&object["apiVersion"]), &object["metadata"]);
    let (namespace, name) = (text(&metadata["namespace"]), text(&metadata["name"]));
    Operation::put(&key(&api_version, plural, &namespace, &name), object)
}

/// The deletion of a pod.
pub fn delete_pod(namespace: &str, name: &str) -> Operation {
    Operation::delete(&key("v1", "pods", namespace, name))
}

/// The key of an object in etcd; `namespace` is empty for an object without.
fn key(api_version: &str, plural: &str, namespace: &str, name: &str) -> String {
    let group = api_version.split_once('/').map(|(group, _)| group);
    // Nodes have kept their oldest name.
    let plural = if plural == "nodes" { "minions" } else { plural };
    let parts = [group.unwrap_or_default(), plural, namespace, name];
    let parts = parts.into_iter().filter(|part| !part.is_empty());
    iter::once("/registry")
        .chain(parts)
        .collect::<Vec<_>>()
        .join("/")
}

/// Whether a request changes something, other than whose turn it is to write.
pub fn is_write(request: &Request) -> bool {
    request.is_write() && request.resource != "leases"
}

/// Whether a request tells of something. Events are never more than so many in a second.
pub fn is_event(request: &Request) -> bool {
    request.resource == "events"
}

/// The second of the clock in which a request came.
pub fn second(request: &Request) -> u64 {
    let since = request.at.duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
