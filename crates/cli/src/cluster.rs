//! The way to a cluster, and what is asked of it.

use std::path::PathBuf;
use std::process::ExitCode;

use netqos_analysis::{Extent, Snapshot};
use netqos_cluster::{Client, Connect, Kind, list};
use tokio::runtime::Runtime;

use crate::output::{self, ENVIRONMENT, FAILED};

/// Which cluster, and what of it.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Cluster")]
pub struct ClusterArguments {
    /// Ask the cluster, or do not. It is asked by default where one of the other options for it is
    /// given, and as kubectl netqos.
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true"
    )]
    pub cluster: Option<bool>,
    /// How to reach the API server. Without it: $KUBECONFIG, ~/.kube/config, or the service account of
    /// the pod that this runs in.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Which context of the kubeconfig; without it, its current one.
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Which namespace.
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,
}

/// Kinds that say what is to be enforced, and what is.
pub const ASKED: [Kind; 12] = [
    Kind::Namespace,
    Kind::Node,
    Kind::Pod,
    Kind::NetworkQoS,
    Kind::NetworkQoSQuota,
    Kind::NetworkQoSDefault,
    Kind::BandwidthProfile,
    Kind::NetworkAttachmentDefinition,
    Kind::NetworkAttachmentPolicy,
    Kind::UserDefinedNetwork,
    Kind::ClusterUserDefinedNetwork,
    Kind::NetworkQoSNodeReport,
];

/// A cluster that answers to whoever has this.
pub struct Cluster {
    runtime: Runtime,
    client: Client,
}

impl ClusterArguments {
    /// True where a cluster is asked: said so, or meant so.
    pub fn is_asked(&self, by_default: bool) -> bool {
        let Self {
            cluster,
            kubeconfig,
            context,
            namespace,
        } = self;
        let names_one = kubeconfig.is_some() || context.is_some() || namespace.is_some();
        cluster.unwrap_or(by_default || names_one)
    }

    /// The way to it. Nothing was asked yet.
    ///
    /// # Errors
    /// There is none, which was said.
    pub fn connect(&self) -> Result<Cluster, ExitCode> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = runtime.map_err(|why| output::failure(FAILED, &why))?;
        let connect = Connect {
            kubeconfig: self.kubeconfig.clone(),
            context: self.context.clone(),
        };
        let client = runtime.block_on(connect.client());
        let client = client.map_err(|why| output::failure(ENVIRONMENT, &why))?;
        Ok(Cluster { runtime, client })
    }
}

impl Cluster {
    /// The namespace that the kubeconfig's context is for.
    pub fn default_namespace(&self) -> &str {
        self.client.default_namespace()
    }

    /// Waits for an answer.
    pub fn wait<T>(&self, answer: impl Future<Output = T>) -> T {
        self.runtime.block_on(answer)
    }

    /// Who asks.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The objects of these kinds. What may not be listed is left out, and said on standard error; in one
    /// namespace it is tried then, where one is meant.
    ///
    /// # Errors
    /// The server does not answer, which was said.
    pub fn snapshot(&self, kinds: &[Kind], meant: Option<&str>) -> Result<Snapshot, ExitCode> {
        let mut snapshot = Snapshot::of_cluster();
        for kind in kinds {
            let everywhere = list(&self.client, *kind, None, |it| snapshot.put(&it));
            let mut told = self.wait(everywhere);
            if let (Err(why), Some(namespace)) = (&told, meant)
                && why.is_forbidden()
                && kind.is_namespaced()
            {
                let here = list(&self.client, *kind, Some(namespace), |it| snapshot.put(&it));
                let why = why.to_string();
                told = self.wait(here);
                if told.is_ok() {
                    eprintln!(
                        "netqos: of {} those of namespace {namespace} alone are looked at: {why}",
                        kind.plural()
                    );
                    snapshot.limit(kind.name(), Extent::Namespace(namespace.to_owned()));
                }
            }
            match told {
                Ok(()) => {}
                Err(why) if why.is_unknown_kind() => {
                    snapshot.set_absent(kind.name());
                    if *kind == Kind::NetworkQoS {
                        eprintln!("netqos: {why}: install its definition (deploy/crds)");
                    }
                }
                Err(why) if why.is_forbidden() => {
                    eprintln!(
                        "netqos: what depends on {} is left out: {why}",
                        kind.plural()
                    );
                    snapshot.limit(kind.name(), Extent::Nothing);
                }
                Err(why) => return Err(output::failure(ENVIRONMENT, &why)),
            }
        }
        Ok(snapshot)
    }
}
