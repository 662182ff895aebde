//! The tests' API server, with netqos' kinds.

use std::time::{Duration, Instant, UNIX_EPOCH};
use std::{fs, thread};

use anyhow::{Result, bail};
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use netqos_apiserver::{ApiServer, Cluster, Options, Request};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// The namespace of the controller.
pub const HOME: &str = "netqos-system";

/// A server in this process: what it takes is not what is measured.
pub struct Server {
    cluster: Cluster,
    client: Client,
    runtime: Runtime,
    folder: TempDir,
}

impl Server {
    /// One that knows netqos' kinds, and the controller's namespace.
    pub fn start() -> Result<Self> {
        let options = Options {
            // More than happens in a run.
            history: 1_000_000,
            ..Options::default()
        };
        let cluster = Cluster::Fixture(ApiServer::start_with(&options)?);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        for definition in netqos_k8s::definitions() {
            runtime.block_on(cluster.define(&definition.crd()?))?;
        }
        let client = runtime.block_on(cluster.client("bench"))?;
        let server = Self {
            cluster,
            client,
            runtime,
            folder: tempfile::tempdir()?,
        };
        let home = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HOME}});
        server.put("namespaces", home)?;
        Ok(server)
    }

    fn fixture(&self) -> Result<&ApiServer> {
        match self.cluster.as_fixture() {
            Some(server) => Ok(server),
            None => bail!("it is not the tests' API server"),
        }
    }

    /// Puts an object there, past all checks.
    pub fn put(&self, plural: &str, object: Value) -> Result<()> {
        let api_version = object["apiVersion"].as_str().unwrap_or_default().to_owned();
        Ok(self.fixture()?.put_raw(&api_version, plural, object)?)
    }

    /// Changes an object of a namespace by a request, as a client does.
    pub fn merge(
        &self,
        (api_version, kind, plural): (&str, &str, &str),
        (namespace, name): (&str, &str),
        patch: &Value,
    ) -> Result<()> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let kind = GroupVersionKind::gvk(group, version, kind);
        let resource = ApiResource::from_gvk_with_plural(&kind, plural);
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), namespace, &resource);
        let (parameters, patch) = (PatchParams::default(), Patch::Merge(patch));
        let patched = api.patch(name, &parameters, &patch);
        self.runtime.block_on(patched)?;
        Ok(())
    }

    /// Takes a pod away.
    pub fn remove_pod(&self, namespace: &str, name: &str) -> Result<()> {
        self.fixture()?.remove_raw("v1", "pods", namespace, name)?;
        Ok(())
    }

    /// A file that says how it is reached, for a client of this name.
    pub fn kubeconfig(&self, client: &str) -> Result<String> {
        let file = self.folder.path().join(client);
        fs::write(&file, self.cluster.kubeconfig(client))?;
        Ok(file.display().to_string())
    }

    /// What a client has asked for since the record was begun.
    pub fn requests(&self, client: &str) -> Result<Vec<Request>> {
        let requests = self.fixture()?.requests().into_iter();
        Ok(requests.filter(|it| it.client == client).collect())
    }

    /// Begins a new record.
    pub fn forget_requests(&self) -> Result<()> {
        self.fixture()?.forget_requests();
        Ok(())
    }

    /// Waits until a client has begun to write anything but a Lease.
    pub fn wait_until_writing(&self, client: &str, patience: Duration) -> Result<()> {
        let began = Instant::now();
        while !self.requests(client)?.iter().any(is_write) {
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
            let requests = self.requests(client)?;
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
