//! The agent of a node.
#![forbid(unsafe_code)]

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::Context as _;
use clap::Parser;
use netqos_agent::classes::{CGROUPS, DEFAULT_CLASS_BACKEND};
use netqos_agent::multinet::StatusAnnotations;
use netqos_agent::{
    CgroupOptions, ClassOptions, ClusterOptions, Engine, Event, Listen, LogArguments, Logs,
    NetFileOptions, NetworkCatalog, Options, agent_lock, places,
};
use netqos_api::koordinator::BackendKind;
use netqos_api::{EgressWay, HookChoice};
use netqos_classes::Tunnels;
use netqos_cluster::Connect;
use netqos_coexistence::{Choice, Enforce, Homes};
use netqos_core::NodeReport;
use netqos_core::classes::TrafficClass;
use netqos_datapath::{Paths, Records};
use netqos_index::PeerSource;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tokio::sync::watch::{self, Receiver};

#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Keeps the pods of a node as NetworkQoS objects and bandwidth annotations say.
///
/// Objects come from a folder (--manifests), or else from the API server of the cluster. What is in
/// force stays in force when it ends; `netqos cleanup` removes it.
#[derive(Debug, Parser)]
#[command(name = "netqos-agent", version = netqos_version::VERSION)]
#[command(after_help = "\
Examples:
  netqos-agent --manifests /etc/netqos/objects --node node1
  netqos-agent --node node1                       in a pod of the cluster
  netqos-agent --node node1 --kubeconfig FILE     from outside

NETQOS_RUN_DIR and NETQOS_BPFFS move /run/netqos and /sys/fs/bpf.
Exit codes: 0 told to stop, 1 it cannot run (the message says why), 2 wrong usage.")]
struct Arguments {
    /// The folder of objects: all *.yaml, *.yml and *.json in it, not in folders below.
    /// Without it, they are those of the cluster.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["kubeconfig", "context"])]
    manifests: Option<PathBuf>,
    /// How to reach the API server. Without it: $KUBECONFIG, ~/.kube/config, or the service account
    /// of the pod that this runs in.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Which context of the kubeconfig; without it, its current one.
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// The namespace of the controller, where it publishes peers of several namespaces.
    #[arg(long, value_name = "NAME", default_value = "netqos-system")]
    controller_namespace: String,
    /// What must outlive a reboot: what the cluster said last, for when its API server is away.
    #[arg(long, value_name = "DIR", default_value = places::STATE)]
    state_dir: PathBuf,
    /// The name of this node, as in the `nodeName` of its pods.
    #[arg(long, value_name = "NAME", env = "NODE_NAME")]
    node: String,
    /// The name of the pod that it runs in, which its report says: when that is gone, and no other one
    /// of an agent is on the node, the controller knows that nothing new is in force there.
    #[arg(long, value_name = "NAME", env = "POD_NAME")]
    pod: Option<String>,
    /// The namespace of that pod, without which the report does not say it.
    #[arg(long, value_name = "NAMESPACE", env = "POD_NAMESPACE")]
    pod_namespace: Option<String>,
    /// Where to answer /livez, /readyz, /metrics and /debug/state: an address, or off.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9470")]
    listen: String,
    /// Where runtimes remember their CNI results; may be given more than once.
    #[arg(long, value_name = "DIR", default_value = "/var/lib/cni")]
    cni_cache: Vec<PathBuf>,
    /// The cgroups of pods, by which those are found that no cache knows: where they are mounted, or
    /// off.
    #[arg(
        long,
        value_name = "DIR",
        env = "NETQOS_CGROUP_ROOT",
        default_value = "/sys/fs/cgroup"
    )]
    cgroup_root: String,
    /// Where the processes of the host are to be seen.
    #[arg(long, value_name = "DIR", env = "NETQOS_PROC", default_value = "/proc")]
    proc: PathBuf,
    /// How programs are attached.
    #[arg(long, value_enum, env = "NETQOS_HOOK", default_value_t)]
    hook: Hook,
    /// Where a limit that no plugin has made queues what a pod sends.
    #[arg(long, value_enum, env = "NETQOS_EGRESS", default_value_t)]
    egress: Egress,
    /// Whether it enforces NetworkQoS: auto (unless OVN-Kubernetes does), always, never.
    #[arg(
        long,
        value_name = "WHEN",
        env = "NETQOS_NETWORK_QOS",
        default_value = "auto"
    )]
    network_qos: Enforce,
    /// Whether it enforces bandwidth annotations: auto (unless Cilium's bandwidth manager, Calico
    /// or OVN-Kubernetes does), always, never.
    #[arg(
        long,
        value_name = "WHEN",
        env = "NETQOS_ANNOTATIONS",
        default_value = "auto"
    )]
    annotations: Enforce,
    /// The namespaces of OVN-Kubernetes, with commas between them: a pod elsewhere is none of its,
    /// whatever its labels say.
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_values = Homes::OVN_KUBERNETES
    )]
    ovn_kubernetes_namespaces: Vec<String>,
    /// The same of Koordinator.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_values = Homes::KOORDINATOR)]
    koordinator_namespaces: Vec<String>,
    /// Who divides the node's lines among classes of pods, where neither the node's label
    /// netqos.io/class-backend nor netQOSPolicy says another: kernel, tc, terway-qos, none.
    #[arg(
        long,
        value_name = "NAME",
        env = "NETQOS_CLASS_BACKEND",
        default_value_t = DEFAULT_CLASS_BACKEND
    )]
    class_backend: BackendKind,
    /// A line of the node's: the name of a link; may be given more than once. Without it, the links
    /// that default routes leave by.
    #[arg(long = "line", value_name = "NAME")]
    lines: Vec<String>,
    /// Packets wait in their classes also on a line that carries less than a quarter of what it may; there,
    /// they would pass beside them, which costs least.
    #[arg(long)]
    divide_idle_lines: bool,
    /// The class of what WireGuard carries between nodes: which pod it is of is encrypted.
    #[arg(long, value_name = "CLASS", value_enum, default_value_t)]
    wireguard_class: WireGuardClass,
    /// Where another agent may say how the lines are shared, by the files `node` and `pods` of
    /// Koordinator's proposal; what objects say goes before it. Empty: nowhere.
    #[arg(
        long,
        value_name = "DIR",
        default_value = netqos_classes::terway::NET_FOLDER
    )]
    koordinator_net_files: String,
    /// Leaves the names of pods out of the metrics.
    #[arg(long)]
    no_pod_labels: bool,
    #[command(flatten)]
    logs: LogArguments,
}

#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
enum Hook {
    /// What is quickest.
    #[default]
    Auto,
    /// Filters on clsact.
    Clsact,
    /// tcx links.
    Tcx,
}

#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
enum Egress {
    /// On the pod's own interface.
    #[default]
    Pod,
    /// On an ifb of the host's.
    Ifb,
}

#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
enum WireGuardClass {
    /// That of the node's own traffic.
    System,
    /// That of pods which are neither system nor best-effort.
    #[default]
    LatencySensitive,
    /// That which waits for the others.
    BestEffort,
}

impl From<WireGuardClass> for TrafficClass {
    fn from(class: WireGuardClass) -> Self {
        match class {
            WireGuardClass::System => Self::System,
            WireGuardClass::LatencySensitive => Self::LatencySensitive,
            WireGuardClass::BestEffort => Self::BestEffort,
        }
    }
}

/// How often the report of what is in force is written again where nothing has changed: so long one that somebody has
/// deleted is missing. Tests shorten it.
const REPORT_REFRESH: Duration = Duration::from_secs(600);

fn report_refresh() -> Duration {
    let seconds = std::env::var("NETQOS_REPORT_REFRESH").ok();
    let seconds = seconds.and_then(|it| it.parse().ok());
    seconds.map_or(REPORT_REFRESH, Duration::from_secs)
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let logs = match arguments.logs.begin("netqos-agent") {
        Ok(logs) => logs,
        Err(code) => return code,
    };
    match run(&arguments, logs) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            tracing::error!("{why:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments, logs: Logs) -> anyhow::Result<()> {
    let paths = Paths::from_variables(|name| std::env::var(name).ok());
    let _lock = agent_lock(paths.run())?;
    let listen = Listen {
        address: match arguments.listen.as_str() {
            "off" => None,
            text => {
                let address: SocketAddr = text
                    .parse()
                    .with_context(|| format!("--listen {text:?} is neither an address nor off"))?;
                Some(address)
            }
        },
        run: paths.run().to_owned(),
        pod_labels: !arguments.no_pod_labels,
    };
    let (sender, events) = mpsc::channel();
    let networks = NetworkCatalog::new(&arguments.node);
    let (annotations, annotated) = watch::channel(StatusAnnotations::new());
    let cgroups = arguments.cgroups(&paths);
    let net_files = arguments.net_files(&paths);
    let mut sources = match &arguments.manifests {
        Some(_) => vec!["manifests", "attachments"],
        None => vec!["cluster", "attachments"],
    };
    sources.extend(cgroups.as_ref().map(|_| "cgroups"));
    sources.extend(net_files.as_ref().map(|_| "net-files"));
    let (reports, reported) = watch::channel(NodeReport::default());
    let engine = Engine::new(Options {
        node: arguments.node.clone(),
        pod: arguments.pod(),
        paths: paths.clone(),
        proc: arguments.proc.clone(),
        caches: arguments.cni_cache.clone(),
        multinet_records: arguments.state_dir.join(places::MULTINET_RECORDS),
        hook: match arguments.hook {
            Hook::Auto => HookChoice::Auto,
            Hook::Clsact => HookChoice::Clsact,
            Hook::Tcx => HookChoice::Tcx,
        },
        egress: match arguments.egress {
            Egress::Pod => EgressWay::Pod,
            Egress::Ifb => EgressWay::Ifb,
        },
        peers: arguments.peer_source(),
        enforce: Choice {
            network_qos: arguments.network_qos,
            annotations: arguments.annotations,
        },
        classes: ClassOptions {
            backend: arguments.class_backend,
            lines: arguments.lines.clone(),
            divides_idle_lines: arguments.divide_idle_lines,
            tunnels: Tunnels {
                opaque_class: arguments.wireguard_class.into(),
                ..Tunnels::default()
            },
            cgroups: match arguments.cgroup_root.as_str() {
                "off" => CGROUPS.into(),
                root => root.into(),
            },
        },
        reports: arguments.manifests.is_none().then_some(reports),
        sources,
    });
    match &arguments.manifests {
        Some(folder) => {
            netqos_agent::watch_manifests(folder.clone(), networks.clone(), sender.clone())?;
        }
        None => {
            let options = arguments.cluster(
                reported,
                annotated,
                networks.clone(),
                netqos_agent::has_rules(&paths),
            );
            netqos_agent::watch_cluster(options, sender.clone())?;
        }
    }
    let locator = netqos_agent::Locator::new(arguments.cni_cache.clone())
        .with_attached(paths.pods())
        .with_limits(Records::new(paths.attachments()))
        .with_records(arguments.state_dir.join(places::MULTINET_RECORDS));
    netqos_agent::watch_attachments(locator, annotations, sender.clone())?;
    if let Some(cgroups) = cgroups {
        netqos_agent::watch_cgroups(cgroups, sender.clone())?;
    }
    if let Some(files) = net_files {
        netqos_agent::watch_net_files(files, sender.clone())?;
    }
    netqos_agent::watch_links(sender.clone())?;
    let pods = places::multinet_pods_directory(paths.run());
    netqos_agent::write_pod_files(pods, networks.clone(), sender.clone())?;
    let seen = engine.seen();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("start the runtime of the server")?;
    let bound = runtime.block_on(listen.bind())?;
    let (runs, ended) = oneshot::channel();
    let work = move || {
        // Let go of however the engine ends.
        let _runs: oneshot::Sender<()> = runs;
        engine.run(&events);
    };
    let engine = thread::Builder::new()
        .name("engine".into())
        .spawn(work)
        .context("start the engine")?;
    tracing::info!(
        node = arguments.node,
        manifests = arguments
            .manifests
            .as_ref()
            .map(|it| it.display().to_string()),
        listen = arguments.listen,
        version = netqos_version::VERSION,
        "started"
    );
    let answering = netqos_agent::serve(&listen, bound, seen, sender.clone(), networks, logs);
    let ended = runtime.block_on(async {
        tokio::select! {
            ended = answering => ended.context("serve"),
            told = told_to_stop(ended) => told,
        }
    });
    stop(&sender, engine);
    tracing::info!("stopped; what is in force stays in force");
    ended
}

impl Arguments {
    fn cluster(
        &self,
        reports: Receiver<NodeReport>,
        statuses: Receiver<StatusAnnotations>,
        networks: NetworkCatalog,
        has_rules: bool,
    ) -> ClusterOptions {
        ClusterOptions {
            node: self.node.clone(),
            connect: Connect {
                kubeconfig: self.kubeconfig.clone(),
                context: self.context.clone(),
            },
            state: self.state_dir.clone(),
            controller: self.controller_namespace.as_str().into(),
            has_rules,
            reports: Some(reports),
            statuses: Some(statuses),
            report_refresh: report_refresh(),
            homes: Arc::new(Homes {
                ovn_kubernetes: self.ovn_kubernetes_namespaces.clone(),
                koordinator: self.koordinator_namespaces.clone(),
                ..Homes::default()
            }),
            networks,
        }
    }

    /// The pods of a directory are the peers; on a cluster the controller publishes them.
    fn peer_source(&self) -> PeerSource {
        match self.manifests {
            Some(_) => PeerSource::Pods,
            None => PeerSource::Slices {
                controller: self.controller_namespace.as_str().into(),
            },
        }
    }

    /// The pod that it runs in, as far as it is known.
    fn pod(&self) -> Option<Arc<str>> {
        let (namespace, name) = (self.pod_namespace.as_deref()?, self.pod.as_deref()?);
        Some(format!("{namespace}/{name}").into())
    }

    /// `None`: nothing is looked for by cgroups.
    fn cgroups(&self, paths: &Paths) -> Option<CgroupOptions> {
        (self.cgroup_root != "off").then(|| CgroupOptions {
            root: self.cgroup_root.clone().into(),
            proc: self.proc.clone(),
            paths: paths.clone(),
        })
    }

    /// `None`: no other agent is listened to.
    fn net_files(&self, paths: &Paths) -> Option<NetFileOptions> {
        let folder = &self.koordinator_net_files;
        (!folder.is_empty()).then(|| NetFileOptions {
            folder: folder.into(),
            run: paths.run().to_owned(),
        })
    }
}

/// Ends when somebody says so, or the engine has ended by itself.
async fn told_to_stop(engine: oneshot::Receiver<()>) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("hear of SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("hear of SIGINT")?;
    tokio::select! {
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
        _ = engine => anyhow::bail!("the engine has ended"),
    }
}

/// Waits for what the engine is doing: nothing is left half made that need not be.
fn stop(events: &Sender<Event>, engine: JoinHandle<()>) {
    let _ = events.send(Event::Stop);
    if engine.join().is_err() {
        tracing::error!("the engine has panicked");
    }
}
