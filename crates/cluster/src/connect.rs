//! The way to an API server.

use std::path::PathBuf;
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use crate::client::client;

/// How an API server is found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Connect {
    /// A kubeconfig. `None`: that of `KUBECONFIG` or `~/.kube/config`, else the one that the cluster
    /// gives to each pod.
    pub kubeconfig: Option<PathBuf>,
    /// Which of its contexts; `None`: its current one.
    pub context: Option<String>,
}

/// Why there is no way to it.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// A kubeconfig that cannot be read, or names what is not in it.
    #[error("{path}: {source}", path = path.display())]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: kube::config::KubeconfigError,
    },
    /// A context that is in none of the kubeconfigs that were found.
    #[error("context {name:?}: {source}")]
    Context {
        /// Its name.
        name: String,
        /// What is wrong.
        source: kube::config::KubeconfigError,
    },
    /// Nothing says where an API server is.
    #[error("no API server is known: run it in a pod, or name a kubeconfig ({0})")]
    Nowhere(#[source] kube::config::InferConfigError),
    /// Certificates or keys that cannot be used.
    #[error("connect to the API server: {0}")]
    Client(#[source] kube::Error),
}

/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(5);

impl Connect {
    /// A client, which has asked for nothing yet.
    ///
    /// # Errors
    /// Nothing says where the server is, or with what to prove who one is.
    pub async fn client(&self) -> Result<Client, ConnectError> {
        let options = KubeConfigOptions {
            context: self.context.clone(),
            ..KubeConfigOptions::default()
        };
        let mut config = match &self.kubeconfig {
            Some(path) => {
                let failed = |source| ConnectError::Kubeconfig {
                    path: path.clone(),
                    source,
                };
                let file = Kubeconfig::read_from(path).map_err(failed)?;
                Config::from_custom_kubeconfig(file, &options)
                    .await
                    .map_err(failed)?
            }
            None => match &self.context {
                // Whoever names a context means a kubeconfig's.
                Some(name) => {
                    let failed = |source| ConnectError::Context {
                        name: name.clone(),
                        source,
                    };
                    Config::from_kubeconfig(&options).await.map_err(failed)?
                }
                None => Config::infer().await.map_err(ConnectError::Nowhere)?,
            },
        };
        config.connect_timeout = Some(CONNECT);
        client(config).map_err(ConnectError::Client)
    }
}
