//! The controller of a cluster.
#![forbid(unsafe_code)]

use std::future::pending;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use clap::Parser;
use netqos_admission::Webhook;
use netqos_cluster::{Client, Connect};
use netqos_coexistence::{Enforce, Homes};
use netqos_controller::{Election, Leadership, Metrics, Options, Pace, Seen, run, serve};
use netqos_core::ObjectName;
use netqos_daemon::{LogArguments, Logs};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

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
#[command(name = "netqos-controller", version = netqos_version::VERSION)]
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
    /// Where to answer /livez, /readyz and /metrics, and from the machine itself /loglevel: an address,
    /// or off.
    #[arg(long, value_name = "ADDRESS", default_value_t = everywhere(9471))]
    listen: String,
    /// Where to serve the admission webhook, by HTTPS: an address, or off.
    #[arg(long, value_name = "ADDRESS", default_value_t = everywhere(9443))]
    webhook: String,
    /// Has the webhook refuse pods with bad bandwidth annotations, in place of a warning.
    #[arg(long)]
    strict_annotations: bool,
    /// Whether the agents enforce NetworkQoS, as they are told by their flag of this name: auto (unless
    /// OVN-Kubernetes does), always, never. Where they do not, no status is written.
    #[arg(
        long,
        value_name = "WHEN",
        env = "NETQOS_NETWORK_QOS",
        default_value = "auto"
    )]
    network_qos: Enforce,
    /// The namespaces of OVN-Kubernetes, with commas between them: a pod elsewhere is none of its,
    /// whatever its labels say. Agents are told the same.
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_values = Homes::OVN_KUBERNETES
    )]
    ovn_kubernetes_namespaces: Vec<String>,
    /// Whether it writes NodeSLO objects from the ConfigMap of Koordinator's manager: auto (where that
    /// manager is not at work), always, never.
    #[arg(
        long,
        value_name = "WHEN",
        env = "NETQOS_NODE_SLO",
        default_value = "auto"
    )]
    node_slo: Enforce,
    /// The ConfigMap that they are made of.
    #[arg(
        long,
        value_name = "NAMESPACE/NAME",
        default_value = "koordinator-system/slo-controller-config",
        value_parser = object_name
    )]
    slo_config: ObjectName,
    /// The namespaces of Koordinator, with commas between them: a pod elsewhere is none of its, whatever
    /// its labels say. Agents are told the same.
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_values = Homes::KOORDINATOR
    )]
    koordinator_namespaces: Vec<String>,
    #[command(flatten)]
    logs: LogArguments,
}

/// The Lease of whoever writes.
const LEASE: &str = "netqos-controller";

/// How long the numbers of pods and nodes in a status may be wrong. They are written after a minute where that costs no
/// more than one write for each pod that starts, together with what the pods cost that are peers; where it would cost
/// more, only then. Tests shorten it.
const COUNTS_WITHIN: Duration = Duration::from_secs(600);

fn counts_within() -> Duration {
    let seconds = std::env::var("NETQOS_COUNTS_WITHIN").ok();
    let seconds = seconds.and_then(|it| it.parse().ok());
    seconds.map_or(COUNTS_WITHIN, Duration::from_secs)
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let identity = arguments.identity.clone().unwrap_or_else(identity);
    let logs = match arguments.logs.begin("netqos-controller") {
        Ok(logs) => logs,
        Err(code) => return code,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let ended = runtime
        .context("start the runtime")
        .and_then(|runtime| runtime.block_on(control(&arguments, identity, logs)));
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            tracing::error!("{why:#}");
            ExitCode::FAILURE
        }
    }
}

async fn control(arguments: &Arguments, identity: String, logs: Logs) -> anyhow::Result<()> {
    let connect = Connect {
        kubeconfig: arguments.kubeconfig.clone(),
        context: arguments.context.clone(),
    };
    let client = connect.client().await?;
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
    let readiness = webhook.as_ref().map(Webhook::readiness);
    let (health, seen) = Seen::new(metrics.clone(), readiness, logs);
    let (election, leadership) = Election::new(
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
        version = netqos_version::VERSION,
        "started"
    );
    let options = Options {
        namespace: arguments.namespace.clone(),
        identity,
        counts_within: counts_within(),
        network_qos: arguments.network_qos,
        node_slo: arguments.node_slo,
        slo_config: arguments.slo_config.clone(),
        homes: Arc::new(Homes {
            ovn_kubernetes: arguments.ovn_kubernetes_namespaces.clone(),
            koordinator: arguments.koordinator_namespaces.clone(),
            ..Homes::default()
        }),
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
        () = give_defaults(client.clone(), leadership.clone()) => Err(anyhow::anyhow!("the work has ended")),
        () = run(client.clone(), options, leadership.clone(), metrics, health) => Err(anyhow::anyhow!("the work has ended")),
        ended = serving => ended,
        told = told_to_stop() => told,
    };
    let _ = stop.send(());
    let _ = election.await;
    tracing::info!("stopped; what is in force stays in force");
    ended
}

/// Gives namespaces the policies that are their default, as long as this replica leads.
async fn give_defaults(client: Client, mut leadership: Leadership) {
    let client = leadership.fence(client);
    while leadership.began().await {
        let mut term = leadership.clone();
        netqos_admission::inject(client.clone(), async move { term.ended().await }).await;
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

fn object_name(text: &str) -> Result<ObjectName, String> {
    match text.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() => {
            Ok(ObjectName::new(namespace, name))
        }
        _ => Err(format!("{text:?} is no NAMESPACE/NAME")),
    }
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
