//! The controller of a cluster.
#![forbid(unsafe_code)]

use std::future::pending;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser;
use netqos_admission::Webhook;
use netqos_cluster::{Client, Connect};
use netqos_controller::{Election, Metrics, Options, Pace, Seen, run, serve};
use netqos_daemon::{LogFormat, Logs};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{oneshot, watch};

#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Does for a whole cluster what need not be done on each node: finds out whom the selectors of
/// NetworkQoS objects mean, says on how many nodes they are in force, takes away what nodes that are
/// gone have left, gives namespaces their default policies, and serves the admission webhook.
///
/// Several may run: the one that holds the Lease netqos-controller writes, the others know the same
/// and take over. What is in force on nodes does not need it.
#[derive(Debug, Parser)]
#[command(name = "netqos-controller", version)]
#[command(after_help = "\
Examples:
  netqos-controller                               in a pod of the cluster
  netqos-controller --kubeconfig FILE             from outside

Exit codes: 0 told to stop, 1 it cannot run (the message says why), 2 wrong usage.")]
struct Arguments {
    /// How to reach the API server. Without it: $KUBECONFIG, ~/.kube/config, or the service account
    /// of the pod that this runs in.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Which context of the kubeconfig; without it, its current one.
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Its namespace: of the Lease, and of what belongs to no other one. Agents are told the same.
    #[arg(
        long,
        value_name = "NAME",
        env = "POD_NAMESPACE",
        default_value = "netqos-system"
    )]
    namespace: String,
    /// Its own name among the replicas. Without it: the name of the host, and the number of the
    /// process.
    #[arg(long, value_name = "NAME", env = "POD_NAME")]
    identity: Option<String>,
    /// Where to answer /livez, /readyz and /metrics: an address, or off.
    #[arg(long, value_name = "ADDRESS", default_value_t = everywhere(9471))]
    listen: String,
    /// Where to serve the admission webhook, by HTTPS: an address, or off.
    #[arg(long, value_name = "ADDRESS", default_value_t = everywhere(9443))]
    webhook: String,
    /// Has the webhook refuse pods with bad bandwidth annotations, in place of a warning.
    #[arg(long)]
    strict_annotations: bool,
    /// Gives each node a condition Ready-In-Zone-NODE in the status of a NetworkQoS, as
    /// OVN-Kubernetes does. For consumers that need it: in a large cluster it makes large objects.
    #[arg(long)]
    zone_conditions: bool,
    /// How lines of the log look.
    #[arg(long, value_enum, default_value_t)]
    log_format: LogFormat,
    /// How much is logged: error, warn, info, debug, trace, or parts with levels.
    #[arg(long, value_name = "LEVEL", env = "NETQOS_LOG", default_value = "info")]
    log_level: String,
}

/// The Lease of whoever writes.
const LEASE: &str = "netqos-controller";

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Err(why) = Logs::begin(arguments.log_format, &arguments.log_level) {
        eprintln!(
            "netqos-controller: --log-level {:?}: {why}",
            arguments.log_level
        );
        return ExitCode::from(2);
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let ended = runtime
        .context("start the runtime")
        .and_then(|runtime| runtime.block_on(control(&arguments)));
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            tracing::error!("{why:#}");
            ExitCode::FAILURE
        }
    }
}

async fn control(arguments: &Arguments) -> anyhow::Result<()> {
    let connect = Connect {
        kubeconfig: arguments.kubeconfig.clone(),
        context: arguments.context.clone(),
    };
    let client = connect.client().await?;
    let identity = arguments.identity.clone().unwrap_or_else(identity);
    let listener = match address("--listen", &arguments.listen)? {
        None => None,
        Some(address) => {
            let bound = TcpListener::bind(address).await;
            Some(bound.with_context(|| format!("listen on {address}"))?)
        }
    };
    let webhook = match address("--webhook", &arguments.webhook)? {
        None => None,
        Some(listen) => {
            let options = netqos_admission::Options {
                listen,
                namespace: arguments.namespace.clone(),
                strict_annotations: arguments.strict_annotations,
                ..netqos_admission::Options::default()
            };
            Some(Webhook::bind(options).await?)
        }
    };
    let metrics = Metrics::default();
    let (health, seen) = Seen::new(metrics.clone());
    let (election, leads) = Election::new(
        client.clone(),
        &arguments.namespace,
        LEASE,
        &identity,
        Pace::default(),
    );
    tracing::info!(
        identity,
        namespace = arguments.namespace,
        listen = arguments.listen,
        version = env!("CARGO_PKG_VERSION"),
        "started"
    );
    let options = Options {
        namespace: arguments.namespace.clone(),
        identity,
        zone_conditions: arguments.zone_conditions,
    };
    let (stop, stopped) = oneshot::channel::<()>();
    // The Lease is held beside the work, which may take its time.
    let election = tokio::spawn(election.run(async {
        let _ = stopped.await;
    }));
    let serving = async {
        match listener {
            Some(listener) => serve(listener, seen).await.context("serve"),
            None => pending().await,
        }
    };
    let answering = async {
        match webhook {
            Some(webhook) => webhook
                .serve(client.clone(), pending())
                .await
                .context("serve"),
            None => pending().await,
        }
    };
    let ended = tokio::select! {
        ended = answering => ended,
        () = give_defaults(client.clone(), leads.clone()) => Err(anyhow::anyhow!("the work has ended")),
        () = run(client.clone(), options, leads.clone(), metrics, health) => Err(anyhow::anyhow!("the work has ended")),
        ended = serving => ended,
        told = told_to_stop() => told,
    };
    let _ = stop.send(());
    let _ = election.await;
    tracing::info!("stopped; what is in force stays in force");
    ended
}

/// Gives namespaces the policies that are their default, as long as this replica leads.
async fn give_defaults(client: Client, mut leads: watch::Receiver<bool>) {
    while leads.wait_for(|leads| *leads).await.is_ok() {
        let mut deposed = leads.clone();
        let deposed = async move {
            let _ = deposed.wait_for(|leads| !*leads).await;
        };
        netqos_admission::inject(client.clone(), deposed).await;
    }
}

/// Every address of the machine, also where it knows no IPv6.
fn everywhere(port: u16) -> String {
    let all = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0));
    let address = match UdpSocket::bind(all) {
        Ok(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)),
        Err(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)),
    };
    address.to_string()
}

fn address(flag: &str, text: &str) -> anyhow::Result<Option<SocketAddr>> {
    if text == "off" {
        return Ok(None);
    }
    let address = text.parse();
    let address =
        address.with_context(|| format!("{flag} {text:?} is neither an address nor off"))?;
    Ok(Some(address))
}

/// A name that no other replica has.
fn identity() -> String {
    let host = rustix::system::uname();
    let host = host.nodename().to_string_lossy().into_owned();
    format!("{host}_{}", std::process::id())
}

async fn told_to_stop() -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("hear of SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("hear of SIGINT")?;
    tokio::select! {
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
    }
}
