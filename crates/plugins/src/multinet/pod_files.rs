//! The agent's files about the pods of its node, for runtimes that pass no annotations.
//!
//! A pod whose file selects no networks starts also while the agent is away.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use netqos_api::multinet::{PodFile, PodName};
use netqos_cni::CniError;
use netqos_datapath::Documents;

use super::agent::try_again;

/// The longest wait for a pod's file. The API server tells the kubelet and the agent of a pod at the same time.
const PATIENCE: Duration = Duration::from_secs(10);
/// The time between two looks.
const PAUSE: Duration = Duration::from_millis(20);

/// Waits for the file of a pod.
///
/// # Errors
/// Returns an error of code 11, for which runtimes try again, if it does not come in time.
pub fn wait(directory: &Path, pod: &PodName) -> Result<PodFile, CniError> {
    let documents = Documents::new(directory.to_owned());
    let name = PodFile::document(&pod.namespace, &pod.name);
    let end = Instant::now() + PATIENCE;
    loop {
        let found: Option<PodFile> = documents.peek(&name);
        // That of an earlier pod of the name may still be there.
        if let Some(file) = found.filter(|file| file.is(pod)) {
            return Ok(file);
        }
        if Instant::now() >= end {
            return Err(try_again(format!(
                "the runtime does not pass the annotations of pods, and netqos-agent has not written those of pod {}/{} to {} \
                 within {} s; does it run on this node?",
                pod.namespace,
                pod.name,
                directory.display(),
                PATIENCE.as_secs()
            )));
        }
        thread::sleep(PAUSE);
    }
}
