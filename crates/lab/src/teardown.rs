//! Taking a lab away: everything that its record names, whoever made it and however that ended.

use std::fs;
use std::io;

use netqos_cni::kubelet::Kubelet;
use netqos_cni::runtime::NetworkConfigList;
use netqos_netlink::Namespace;

use crate::LabError;
use crate::netns;
use crate::network::Files;
use crate::process::kill_all_in;
use crate::record::{NodeRecord, PodRecord, Record, netns_path};

/// Takes the whole lab away. Goes on after an error, and may be repeated.
///
/// # Errors
///
/// [`LabError::LeftOver`] with everything that could not be done; the record is kept then.
pub(crate) fn tear_down(record: &Record) -> Result<(), LabError> {
    let mut problems = Vec::new();
    for node in record.nodes.iter().rev() {
        tear_down_node(record, node, &mut problems);
    }
    if problems.is_empty() {
        let folder = record.folder();
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                problems.push(LabError::io("remove", folder)(error).to_string());
            }
            _ => remove_parents(),
        }
    }
    if problems.is_empty() {
        return Ok(());
    }
    Err(LabError::LeftOver {
        run: record.run.clone(),
        problems,
    })
}

fn tear_down_node(record: &Record, node: &NodeRecord, problems: &mut Vec<String>) {
    let files = Files::of(record, node);
    let name = record.node_netns(node);
    // Without its network or its namespace there is nothing that a plugin could take away.
    let network = NetworkConfigList::from_file(&files.network()).ok();
    let namespace = Namespace::open(netns_path(&name)).ok();
    for pod in node.pods.iter().rev() {
        end_processes(pod, problems);
        if let (Some(network), Some(namespace)) = (&network, &namespace) {
            leave_network(&files, node, pod, network, namespace, problems);
        }
        note(netns::remove(&pod.netns), problems);
    }
    kill_all_in(&netns_path(&name));
    note(netns::remove(&name), problems);
    note(netns::unmount_all(&files.bpffs()), problems);
}

fn end_processes(pod: &PodRecord, problems: &mut Vec<String>) {
    for process in &pod.processes {
        if !process.end() {
            problems.push(format!(
                "process {} of pod {} does not end",
                process.pid, pod.name
            ));
        }
    }
    kill_all_in(&netns_path(&pod.netns));
}

fn leave_network(
    files: &Files,
    node: &NodeRecord,
    pod: &PodRecord,
    network: &NetworkConfigList,
    namespace: &Namespace,
    problems: &mut Vec<String>,
) {
    let runtime = files.runtime(node);
    let mut sandbox = pod.sandbox();
    sandbox.netns = sandbox.netns.filter(|path| Namespace::open(path).is_ok());
    let left = netns::inside(namespace, "take a pod from its network", || {
        Kubelet::new(&runtime, network).tear_down(&pod.pod(), &sandbox)
    });
    match left {
        Ok(Ok(())) => {}
        Ok(Err(error)) => problems.push(format!("pod {}: {error}", pod.name)),
        Err(error) => problems.push(format!("pod {}: {error}", pod.name)),
    }
}

fn note(result: Result<(), LabError>, problems: &mut Vec<String>) {
    if let Err(error) = result {
        problems.push(error.to_string());
    }
}

/// The folders above the last lab go with it, when nothing else is in them.
fn remove_parents() {
    for folder in [crate::record::LABS, "/run/netqos"] {
        if fs::remove_dir(folder).is_err() {
            break;
        }
    }
}
