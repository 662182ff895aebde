//! `netqos pod`: the kubelet's role, for one pod.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use netqos_cni::CniResult;
use netqos_cni::kubelet::{Kubelet, KubeletError, Pod, Sandbox};
use netqos_cni::runtime::{AttachmentRequest, NetworkConfigList, Runtime, RuntimeError};
use netqos_core::Limits;
use netqos_k8s::documents;
use netqos_netlink::Namespace;
use serde::{Deserialize, Serialize};

use crate::output::{self, BAD_INPUT, ENVIRONMENT, FAILED, Format};

/// What to do with the pod.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Joins the pod to the network, held to its annotations.
    #[command(
        after_help = "Example: netqos pod add -f pod.yaml --conf-dir /etc/cni/net.d\n\n\
        Without --netns a namespace is made, and named so that `ip netns exec` enters it.\n\
        A pod that is up already is refused: `netqos pod del` first."
    )]
    Add(Arguments),
    /// Removes the pod from the network; the namespace too, when `add` made it.
    #[command(after_help = "Example: netqos pod del -f pod.yaml")]
    Del(Arguments),
    /// Says whether everything is as `add` left it.
    #[command(after_help = "Example: netqos pod check -f pod.yaml")]
    Check(Arguments),
}

/// Which pod, and which network.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The pod, as YAML or JSON.
    #[arg(short, long, value_name = "FILE")]
    filename: PathBuf,
    /// The pod's network namespace [default: one named after the pod].
    #[arg(long, value_name = "PATH")]
    netns: Option<PathBuf>,
    /// Where the CNI configuration is.
    #[arg(long, value_name = "DIR", default_value = "/etc/cni/net.d")]
    conf_dir: PathBuf,
    /// The network [default: the first by file name].
    #[arg(long, value_name = "NAME")]
    network: Option<String>,
    /// Where the CNI plugins are; may be given more than once.
    #[arg(long, value_name = "DIR", default_value = "/opt/cni/bin")]
    bin_dir: Vec<PathBuf>,
    /// Where results are remembered.
    #[arg(long, value_name = "DIR", default_value = "/var/lib/cni")]
    cache_dir: PathBuf,
    /// How to print it.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// What of a Pod matters here; the rest may be anything.
#[derive(Deserialize)]
struct Manifest {
    kind: String,
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
    #[serde(default)]
    namespace: Option<String>,
    #[serde(default)]
    uid: Option<String>,
    #[serde(default)]
    annotations: Option<std::collections::BTreeMap<String, String>>,
}

/// Why a pod cannot be handled.
#[derive(Debug, thiserror::Error)]
enum PodError {
    /// The file cannot be read.
    #[error("{path}: {source}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The failure.
        source: std::io::Error,
    },
    /// The file does not describe a pod.
    #[error("{path}: not a Pod: {why}", path = path.display())]
    NotAPod {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// The CNI configuration cannot be used.
    #[error(transparent)]
    Configuration(RuntimeError),
    /// `add` for a pod that `add` has joined to the network before. No plugin was called: they
    /// would refuse, and undoing that would take the network away from a pod that lives.
    #[error(
        "pod {pod} is on network {network:?} already, in {netns}: take it off with `netqos pod del` first",
        netns = netns.display()
    )]
    IsUp {
        /// The pod, with its namespace in Kubernetes.
        pod: String,
        /// The network's name.
        network: String,
        /// The pod's network namespace.
        netns: PathBuf,
    },
    /// The namespace cannot be made or removed.
    #[error(transparent)]
    Namespace(#[from] netqos_netlink::Error),
    /// The kubelet's role failed.
    #[error(transparent)]
    Kubelet(#[from] KubeletError),
    /// The same, and the namespace that was made for it is still there.
    #[error("{why}; and the namespace that was made for it cannot be removed: {removal}")]
    AndNamespace {
        /// What failed.
        why: Box<KubeletError>,
        /// Why the namespace is still there.
        removal: netqos_netlink::Error,
    },
}

/// What `add` prints for machines.
#[derive(Serialize)]
struct Added<'a> {
    netns: &'a Path,
    limits: Limits,
    warnings: Vec<String>,
    result: &'a CniResult,
}

/// What is done with a task.
type Act = fn(&Task<'_>) -> Result<(), PodError>;

/// Does it.
pub fn run(command: &Command) -> ExitCode {
    let (arguments, act): (_, Act) = match command {
        Command::Add(arguments) => (arguments, add),
        Command::Del(arguments) => (arguments, del),
        Command::Check(arguments) => (arguments, check),
    };
    match prepare(arguments, act) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => output::failure(exit_code(&why), &why),
    }
}

fn exit_code(error: &PodError) -> u8 {
    match error {
        PodError::Read { .. } | PodError::NotAPod { .. } | PodError::Configuration(_) => BAD_INPUT,
        PodError::Namespace(_) => ENVIRONMENT,
        PodError::IsUp { .. } => FAILED,
        PodError::Kubelet(why) => exit_code_of_kubelet(why),
        PodError::AndNamespace { why, .. } => exit_code_of_kubelet(why),
    }
}

fn exit_code_of_kubelet(error: &KubeletError) -> u8 {
    match error {
        KubeletError::Annotation(_)
        | KubeletError::UnknownUnit { .. }
        | KubeletError::UnitsDiffer { .. } => BAD_INPUT,
        KubeletError::Runtime(_) => FAILED,
    }
}

/// A pod, and everything to handle it with.
struct Task<'a> {
    runtime: &'a Runtime,
    list: &'a NetworkConfigList,
    kubelet: Kubelet<'a>,
    pod: Pod,
    sandbox: Sandbox,
    netns: PathBuf,
    /// True when the namespace is ours to make and remove.
    makes_netns: bool,
    output: Format,
}

fn prepare(arguments: &Arguments, act: Act) -> Result<(), PodError> {
    let pod = read(&arguments.filename)?;
    let list = match &arguments.network {
        Some(name) => NetworkConfigList::load(&arguments.conf_dir, name),
        None => NetworkConfigList::load_default(&arguments.conf_dir),
    };
    let list = list.map_err(PodError::Configuration)?;
    let runtime = Runtime::new(arguments.bin_dir.clone(), &arguments.cache_dir);
    // An underscore, which Kubernetes allows in neither part: no two pods share an id.
    let id = format!("{}_{}", pod.namespace, pod.name);
    let default = Path::new("/run/netns").join(format!("netqos-{id}"));
    let netns = arguments.netns.clone().unwrap_or(default);
    act(&Task {
        runtime: &runtime,
        list: &list,
        kubelet: Kubelet::new(&runtime, &list),
        sandbox: Sandbox::new(id, &netns),
        pod,
        netns,
        makes_netns: arguments.netns.is_none(),
        output: arguments.output,
    })
}

fn add(task: &Task<'_>) -> Result<(), PodError> {
    // Before the namespace is made: a pod that is refused leaves nothing.
    netqos_api::pod_limits(&task.pod.annotations).map_err(KubeletError::Annotation)?;
    refuse_if_up(task)?;
    forget_what_is_gone(task)?;
    let made = task.makes_netns && !task.netns.exists();
    if made {
        Namespace::create(&task.netns)?;
    }
    let setup = match task.kubelet.set_up(&task.pod, &task.sandbox) {
        Ok(setup) => setup,
        Err(why) => {
            if made && let Err(removal) = Namespace::remove(&task.netns) {
                let why = Box::new(why);
                return Err(PodError::AndNamespace { why, removal });
            }
            return Err(why.into());
        }
    };
    let warnings: Vec<String> = setup.warnings.iter().map(ToString::to_string).collect();
    match task.output {
        Format::Json => {
            output::json(&Added {
                netns: &task.netns,
                limits: setup.limits,
                warnings,
                result: &setup.result,
            });
        }
        Format::Table => {
            let rate = |limit: Option<netqos_core::Limit>| {
                limit.map_or_else(|| "unlimited".to_owned(), |limit| limit.rate.to_string())
            };
            let addresses: Vec<String> = setup
                .result
                .ips
                .iter()
                .map(|ip| ip.address.to_string())
                .collect();
            println!("pod {}/{} is up", task.pod.namespace, task.pod.name);
            println!("  namespace  {}", task.netns.display());
            println!("  addresses  {}", addresses.join(", "));
            println!("  ingress    {}", rate(setup.limits.ingress));
            println!("  egress     {}", rate(setup.limits.egress));
            for warning in warnings {
                eprintln!("netqos: {warning}");
            }
        }
    }
    Ok(())
}

/// A pod is up when its attachment is remembered and the namespace that it was made in is there:
/// the memory alone may be of before a reboot.
fn refuse_if_up(task: &Task<'_>) -> Result<(), PodError> {
    let request = AttachmentRequest::new(&task.sandbox.id, &task.sandbox.ifname);
    let Some(cached) = task.runtime.cached_attachment(task.list, &request) else {
        return Ok(());
    };
    let netns = cached.netns.unwrap_or_else(|| task.netns.clone());
    if !netns.exists() {
        return Ok(());
    }
    Err(PodError::IsUp {
        pod: format!("{}/{}", task.pod.namespace, task.pod.name),
        network: task.list.name.clone(),
        netns,
    })
}

/// What is remembered of a pod whose namespace is gone was never deleted: the plugins hold its
/// address, and would refuse to give another to the same pod.
fn forget_what_is_gone(task: &Task<'_>) -> Result<(), PodError> {
    let request = AttachmentRequest::new(&task.sandbox.id, &task.sandbox.ifname);
    if task
        .runtime
        .cached_attachment(task.list, &request)
        .is_none()
    {
        return Ok(());
    }
    let gone = Sandbox {
        netns: None,
        ..task.sandbox.clone()
    };
    Ok(task.kubelet.tear_down(&task.pod, &gone)?)
}

fn del(task: &Task<'_>) -> Result<(), PodError> {
    let mut sandbox = task.sandbox.clone();
    if !task.netns.exists() {
        sandbox.netns = None;
    }
    task.kubelet.tear_down(&task.pod, &sandbox)?;
    if task.makes_netns {
        Namespace::remove(&task.netns)?;
    }
    Ok(())
}

fn check(task: &Task<'_>) -> Result<(), PodError> {
    Ok(task.kubelet.check(&task.pod, &task.sandbox)?)
}

fn read(path: &Path) -> Result<Pod, PodError> {
    let text = fs::read_to_string(path).map_err(|source| PodError::Read {
        path: path.to_owned(),
        source,
    })?;
    let not_a_pod = |why: String| PodError::NotAPod {
        path: path.to_owned(),
        why,
    };
    let mut documents = documents(&text);
    let document = match (documents.pop(), &*documents) {
        (Some(document), []) => document.value.map_err(not_a_pod)?,
        _ => return Err(not_a_pod("it holds no object, or several".to_owned())),
    };
    let manifest: Manifest =
        serde_json::from_value(document).map_err(|why| not_a_pod(why.to_string()))?;
    if manifest.kind != "Pod" {
        return Err(not_a_pod(format!("kind is {:?}", manifest.kind)));
    }
    Ok(Pod {
        namespace: manifest
            .metadata
            .namespace
            .unwrap_or_else(|| "default".to_owned()),
        name: manifest.metadata.name,
        uid: manifest.metadata.uid.unwrap_or_default(),
        annotations: manifest.metadata.annotations.unwrap_or_default(),
    })
}
