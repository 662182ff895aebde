//! The agent of a lab's node: the real one, told the objects of the folder and the pods as they came
//! to be.

use std::env;
use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use netqos_agent::{Status, client, places};
use netqos_api::multinet::PodRecord;
use netqos_api::npwg::{NETWORK_STATUS, write_status};
use netqos_core::ObjectName;
use netqos_datapath::Documents;
use serde_json::{Value, json};

use crate::change::put;
use crate::manifest::{Manifests, PodManifest};
use crate::network::Files;
use crate::node::{LivePod, Node};
use crate::process::Process;
use crate::standing::Standing;
use crate::{LabError, netns};

/// The variable that names the agent's executable.
pub const AGENT: &str = "NETQOS_AGENT";
/// What it is called.
const NAME: &str = "netqos-agent";
/// How long it may take to be ready.
const PATIENCE: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(10);
/// How much of its log is shown when it fails.
const LAST_LINES: usize = 8;

/// Where the executable is: where somebody says, else beside this program.
pub(crate) fn executable(named: Option<&Path>) -> Result<PathBuf, LabError> {
    let beside = || {
        let program = env::current_exe().ok()?;
        Some(program.parent()?.join(NAME))
    };
    let path = named
        .map(Path::to_owned)
        .or_else(|| env::var_os(AGENT).map(PathBuf::from))
        .or_else(beside)
        .unwrap_or_else(|| NAME.into());
    match path.is_file() {
        true => Ok(path),
        false => Err(LabError::NoAgent(path)),
    }
}

/// Starts it on a node, and waits until what the objects say is in force, on the pods that stand.
pub(crate) fn start(
    lab: &Standing,
    node: &Node,
    manifests: &Manifests,
    executable: &Path,
) -> Result<Process, LabError> {
    write_objects(node, manifests)?;
    write_pods(node, manifests)?;
    let lines: Vec<&str> = match manifests.objects.shares {
        true => node.lines().collect(),
        false => Vec::new(),
    };
    let process = lab.change(|_| (), |_| spawn(node, executable, &lines))?;
    // One that is not recorded yet is found by its namespace.
    lab.change(
        |lab| {
            if let Some(node) = lab.nodes.last_mut() {
                node.agent = Some(process);
            }
        },
        |_| Ok(()),
    )?;
    wait(&node.files, process)?;
    Ok(process)
}

/// Tells it of the pods of its node, and waits until it has programmed what the objects say of them.
pub(crate) fn add_pods(
    node: &Node,
    manifests: &Manifests,
    process: Process,
) -> Result<(), LabError> {
    write_pods(node, manifests)?;
    let interfaces = node.pods().iter().map(|pod| pod.interfaces.len());
    let expected = [
        ("Pod", node.pods().len()),
        ("LocalInterface", interfaces.sum()),
    ];
    let expected = expected.map(|(kind, many)| (kind, many as u64));
    // An answer is given between two changes: what it knows is programmed.
    wait_until(&node.files, process, || {
        let known = status(&node.files).map_err(|why| why.to_string())?;
        let many = |kind: &str| known.objects.get(kind).copied().unwrap_or_default();
        let missing = expected.iter().find(|(kind, least)| many(kind) < *least);
        match missing {
            None => Ok(()),
            Some((kind, least)) => Err(format!(
                "it knows {} of {least} objects of kind {kind}",
                many(kind)
            )),
        }
    })
}

/// What it has in force.
pub(crate) fn status(files: &Files) -> Result<Status, LabError> {
    client::status(&files.run()).map_err(|why| failed(files, why.to_string()))
}

fn spawn(node: &Node, executable: &Path, lines: &[&str]) -> Result<Process, LabError> {
    let files = &node.files;
    let path = files.agent_log();
    let log = File::create(&path).map_err(LabError::io("make file", &path))?;
    let errors = log.try_clone().map_err(LabError::io("open", &path))?;
    let mut command = Command::new(executable);
    command
        .arg("--manifests")
        .arg(files.objects())
        .args(["--node", &node.name, "--listen", "off"])
        .arg("--cni-cache")
        .arg(files.cache())
        .arg("--cni-cache")
        .arg(files.multinet())
        .arg("--state-dir")
        .arg(files.state())
        .args(lines.iter().flat_map(|line| ["--line", line]))
        .env("NETQOS_RUN_DIR", files.run())
        .env("NETQOS_BPFFS", files.bpffs())
        .stdin(Stdio::null())
        .stdout(log)
        .stderr(errors)
        .process_group(0);
    let child = netns::inside(&node.namespace, "start the agent", || command.spawn())?;
    let mut child = child.map_err(LabError::io("start", executable))?;
    let process = Process::of(i32::try_from(child.id()).unwrap_or_default());
    // Somebody has to wait for it, or its end would never be seen.
    thread::spawn(move || child.wait());
    Ok(process)
}

/// Until it is ready: then it has once done all that the objects say.
fn wait(files: &Files, process: Process) -> Result<(), LabError> {
    wait_until(files, process, || {
        match client::request(&files.run(), "GET", "/readyz", "") {
            Ok((200, _)) => Ok(()),
            Ok((_, body)) => Err(body.trim().to_owned()),
            Err(why) => Err(why.to_string()),
        }
    })
}

/// Until it is so, or the agent ends, or takes too long.
fn wait_until(
    files: &Files,
    process: Process,
    is_so: impl Fn() -> Result<(), String>,
) -> Result<(), LabError> {
    let began = Instant::now();
    loop {
        let Err(last) = is_so() else {
            return Ok(());
        };
        if !process.is_alive() {
            return Err(failed(files, "has ended".to_owned()));
        }
        if began.elapsed() > PATIENCE {
            return Err(failed(files, format!("does not become ready: {last}")));
        }
        thread::sleep(PAUSE);
    }
}

fn failed(files: &Files, why: String) -> LabError {
    let log = fs::read_to_string(files.agent_log()).unwrap_or_default();
    let lines: Vec<_> = log.lines().collect();
    let last = lines.get(lines.len().saturating_sub(LAST_LINES)..);
    LabError::Agent {
        why,
        log: last.unwrap_or_default().join("\n"),
    }
}

/// What classes and shares of lines it works by: `lines` and `pods`, as `/debug/state` has them.
pub(crate) fn desired_lines(files: &Files) -> Result<Value, LabError> {
    let asked = client::request(&files.run(), "GET", "/debug/state", "");
    let (_, body) = asked.map_err(|why| failed(files, why.to_string()))?;
    let state: Value = serde_json::from_str(&body).map_err(|why| failed(files, why.to_string()))?;
    Ok(state["desiredLines"].clone())
}

/// The file of an object in the folder that it reads.
pub(crate) fn object_file(files: &Files, kind: &str, name: &ObjectName) -> PathBuf {
    let (kind, ObjectName { namespace, name }) = (kind.to_lowercase(), name);
    files
        .objects()
        .join(format!("{kind}_{namespace}_{name}.json"))
}

/// One file for each object.
fn write_objects(node: &Node, manifests: &Manifests) -> Result<(), LabError> {
    let files = &node.files;
    let folder = files.objects();
    fs::create_dir_all(&folder).map_err(LabError::io("make folder", &folder))?;
    for object in &manifests.objects.all {
        let others = manifests.objects.all.iter();
        let definitions =
            others.filter_map(|it| it.value.pointer("/spec/config").and_then(Value::as_str));
        let value = files.adopt_object(&object.kind, &object.value, definitions);
        write(files, &object.kind, &object.name, &value)?;
    }
    Ok(())
}

/// One file for each pod that stands.
fn write_pods(node: &Node, manifests: &Manifests) -> Result<(), LabError> {
    for (manifest, pod) in manifests.pods_of(&node.name).zip(node.pods()) {
        let name = ObjectName::new(&manifest.pod.namespace, &manifest.pod.name);
        let object = pod_object(&node.files, manifest, pod)?;
        write(&node.files, "Pod", &name, &object)?;
    }
    Ok(())
}

fn write(files: &Files, kind: &str, name: &ObjectName, object: &Value) -> Result<(), LabError> {
    put(&object_file(files, kind, name), &format!("{object:#}\n"))
}

/// The pod as a cluster would show it once it runs.
fn pod_object(files: &Files, manifest: &PodManifest, pod: &LivePod) -> Result<Value, LabError> {
    let mut object = manifest.value.clone();
    let mut set = |path: &[&str], value: Value| {
        let mut at = &mut object;
        for name in path {
            if !at.is_object() {
                *at = json!({});
            }
            at = &mut at[*name];
        }
        *at = value;
    };
    set(&["apiVersion"], "v1".into());
    set(
        &["metadata", "namespace"],
        manifest.pod.namespace.as_str().into(),
    );
    set(&["metadata", "uid"], manifest.pod.uid.as_str().into());
    set(&["spec", "nodeName"], manifest.node.as_str().into());
    let addresses = pod.interfaces.first().map(|one| &one.addresses);
    let addresses = addresses.into_iter().flatten();
    let ips: Vec<_> = addresses.map(|ip| json!({"ip": ip})).collect();
    set(
        &["status"],
        json!({"phase": "Running", "podIP": pod.address, "podIPs": ips}),
    );
    // As the agent of a cluster writes it, by the record of netqos-multinet.
    let records = Documents::new(files.state().join(places::MULTINET_RECORDS));
    let record = records.read::<PodRecord>(&pod.netns).map_err(|why| {
        LabError::io("read the records in", records.folder())(io::Error::other(why))
    })?;
    if let Some(status) = record.and_then(|it| it.status) {
        let text = write_status(&status);
        set(&["metadata", "annotations", NETWORK_STATUS], text.into());
    }
    Ok(object)
}
