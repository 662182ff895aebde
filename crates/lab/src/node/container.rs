//! Containers: programs from the host's file system, in a pod's network namespace.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::thread;

use super::LivePod;
use crate::manifest::{Container, PodManifest};
use crate::network::Files;
use crate::process::Process;
use crate::standing::Standing;
use crate::{LabError, netns};

/// What containers find when they bring nothing of their own.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Starts what the pod's containers say, each as the leader of a process group.
pub(super) fn start_all(
    lab: &Standing,
    files: &Files,
    manifest: &PodManifest,
    pod: &LivePod,
) -> Result<(), LabError> {
    for container in &manifest.containers {
        let Some((program, arguments)) = container.command.split_first() else {
            continue;
        };
        let process = start(files, pod, container, program, arguments)?;
        // One that is not recorded yet is found by its namespace.
        lab.change(
            |lab| {
                let pods = lab.nodes.last_mut().map(|node| &mut node.pods);
                if let Some(record) = pods.and_then(|pods| pods.last_mut()) {
                    record.processes.push(process);
                }
            },
            |_| Ok(()),
        )?;
    }
    Ok(())
}

fn start(
    files: &Files,
    pod: &LivePod,
    container: &Container,
    program: &str,
    arguments: &[String],
) -> Result<Process, LabError> {
    let path = files.log(&pod.name, &container.name);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(LabError::io("make folder", folder))?;
    }
    let log = File::create(&path).map_err(LabError::io("make file", &path))?;
    let errors = log.try_clone().map_err(LabError::io("open", &path))?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .env("PATH", PATH)
        .env("HOME", "/root")
        .env("HOSTNAME", &pod.name)
        .envs(container.env.iter().map(|(name, value)| (name, value)))
        .current_dir(container.working_dir.as_deref().unwrap_or("/".as_ref()))
        .stdin(Stdio::null())
        .stdout(log)
        .stderr(errors)
        .process_group(0);
    let child = netns::inside(&pod.namespace, "start a container", || command.spawn())?;
    let mut child = child.map_err(|source| LabError::Command {
        pod: pod.name.clone(),
        container: container.name.clone(),
        program: program.to_owned(),
        source,
    })?;
    let process = Process::of(i32::try_from(child.id()).unwrap_or_default());
    // Somebody has to wait for it, or its end would never be seen.
    thread::spawn(move || child.wait());
    Ok(process)
}
