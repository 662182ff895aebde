//! Taking a lab away: everything that its record names, whoever made it and however that ended.

use std::fs;
use std::io;
use std::path::Path;

use netqos_cni::kubelet::{Kubelet, Pod, Sandbox};
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
    let namespace = Namespace::open(netns_path(&name)).ok();
    // It would put right what is taken away.
    if let Some(agent) = node.agent
        && !agent.end()
    {
        problems.push(format!("the agent, process {}, does not end", agent.pid));
    }
    for pod in node.pods.iter().rev() {
        end_processes(pod, problems);
        if let Some(namespace) = &namespace {
            let mut leave = Leave {
                files: &files,
                node,
                pod,
                namespace,
                problems,
            };
            leave.other_networks();
            leave.network(&files.network(), &pod.pod(), pod.sandbox());
        }
        note(netns::remove(&pod.netns), problems);
    }
    for host in node.outside.iter().rev() {
        kill_all_in(&netns_path(&host.netns));
        if let Some(namespace) = &namespace {
            let mut leave = Leave {
                files: &files,
                node,
                pod: host,
                namespace,
                problems,
            };
            leave.other_networks();
        }
        note(netns::remove(&host.netns), problems);
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

/// A pod that goes.
struct Leave<'a> {
    files: &'a Files,
    node: &'a NodeRecord,
    pod: &'a PodRecord,
    namespace: &'a Namespace,
    problems: &'a mut Vec<String>,
}

impl Leave<'_> {
    fn other_networks(&mut self) {
        for joined in self.pod.networks.iter().rev() {
            let path = self.files.other_network(&joined.file);
            let sandbox = self.pod.sandbox_for(&joined.interface);
            self.network(&path, &self.pod.plain_pod(), sandbox);
        }
    }

    /// Leaves the network of this file, unless that was not written yet.
    fn network(&mut self, path: &Path, pod: &Pod, mut sandbox: Sandbox) {
        let Ok(network) = NetworkConfigList::from_file(path) else {
            return;
        };
        let runtime = self.files.runtime(self.node);
        sandbox.netns = sandbox.netns.filter(|path| Namespace::open(path).is_ok());
        let left = netns::inside(self.namespace, "take a pod from its network", || {
            Kubelet::new(&runtime, &network).tear_down(pod, &sandbox)
        });
        match left {
            Ok(Ok(())) => {}
            Ok(Err(error)) => self.note(&error),
            Err(error) => self.note(&error),
        }
    }

    fn note(&mut self, error: &dyn std::fmt::Display) {
        self.problems
            .push(format!("pod {}: {error}", self.pod.name));
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
