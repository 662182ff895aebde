//! The server, as a test holds it.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::Value;

use crate::faults::Fault;
use crate::listening::Listening;
use crate::record::Request;
use crate::shared::Shared;
use crate::state;

/// A running API server. It ends with this value.
///
/// It runs on a thread of its own, so that a test may block; and in the network namespace of the
/// thread that starts it, on that namespace's loopback.
pub struct ApiServer {
    shared: Arc<Shared>,
    listening: Listening,
}

/// How a server is.
#[derive(Clone, Debug)]
pub struct Options {
    /// How many changes of each resource are remembered for watches that begin in the past. Default
    /// 10,000.
    pub history: usize,
    /// How often a watch that takes bookmarks gets one. Default 60 s. It also gets one 2 s before
    /// it ends by its own time-out.
    pub bookmarks: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            history: 10_000,
            bookmarks: Duration::from_secs(60),
        }
    }
}

/// A resource that the server does not serve.
#[derive(Debug, thiserror::Error)]
#[error("the server does not serve {plural} of {api_version}")]
pub struct NotServed {
    api_version: String,
    plural: String,
}

impl ApiServer {
    /// Starts a server on a port of the kernel's choice.
    ///
    /// # Errors
    /// There is no loopback, or no thread can be made.
    pub fn start() -> io::Result<Self> {
        Self::start_with(&Options::default())
    }

    /// As [`start`](Self::start), otherwise than by default.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_with(options: &Options) -> io::Result<Self> {
        let shared = Arc::new(Shared::new(options.history, options.bookmarks));
        let listening = Listening::start("apiserver", shared.clone())?;
        Ok(Self { shared, listening })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.listening.address()
    }

    /// `http://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address())
    }

    /// A kubeconfig, for a client that is recorded under this name. It is JSON, which is YAML.
    pub fn kubeconfig(&self, client: &str) -> String {
        self.listening.kubeconfig(client)
    }

    /// How a client that is recorded under this name reaches the server. It does not repeat what is
    /// refused by itself, as kube's clients do by default with 429, 503 and 504.
    ///
    /// # Errors
    /// None that a test would not have found.
    pub async fn config(&self, client: &str) -> anyhow::Result<kube::Config> {
        let kubeconfig = Kubeconfig::from_yaml(&self.kubeconfig(client))?;
        let options = KubeConfigOptions::default();
        let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await?;
        config.default_retry = false;
        Ok(config)
    }

    /// A client that is recorded under this name.
    ///
    /// # Errors
    /// As [`config`](Self::config).
    pub async fn client(&self, client: &str) -> anyhow::Result<kube::Client> {
        Ok(kube::Client::try_from(self.config(client).await?)?)
    }

    /// Every request since the start, or since [`forget_requests`](Self::forget_requests), in the
    /// order in which they came.
    pub fn requests(&self) -> Vec<Request> {
        self.shared.record.requests()
    }

    /// Begins a new record. Watches that are open are not in it.
    pub fn forget_requests(&self) {
        self.shared.record.clear();
    }

    /// Makes something go wrong from now on.
    pub fn inject(&self, fault: Fault) {
        self.shared.faults.inject(fault);
    }

    /// Ends all faults that were injected.
    pub fn heal(&self) {
        self.shared.faults.clear();
    }

    /// Puts an object in as it is, past all checks: one that a client cannot decode, say. It needs
    /// a name, and a namespace where the resource has them.
    ///
    /// # Errors
    /// There is no such resource.
    pub fn put_raw(&self, api_version: &str, plural: &str, object: Value) -> Result<(), NotServed> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        self.shared.change(|state| {
            let resource = state.registry.get(group, version, plural);
            let resource = resource.ok_or_else(|| NotServed {
                api_version: api_version.to_owned(),
                plural: plural.to_owned(),
            })?;
            state.put_raw(&resource, object);
            Ok(())
        })
    }

    /// Takes an object away at once, past all checks, finalizers and grace. True: it was there.
    /// `namespace` is empty for what is in none.
    ///
    /// # Errors
    /// There is no such resource.
    pub fn remove_raw(
        &self,
        api_version: &str,
        plural: &str,
        namespace: &str,
        name: &str,
    ) -> Result<bool, NotServed> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        self.shared.change(|state| {
            let resource = state.registry.get(group, version, plural);
            let resource = resource.ok_or_else(|| NotServed {
                api_version: api_version.to_owned(),
                plural: plural.to_owned(),
            })?;
            let key = state::key(namespace, name);
            Ok(state.end(&resource, &key).is_some())
        })
    }
}
