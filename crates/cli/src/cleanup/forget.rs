//! `netqos cleanup --forget`: the administrator gives up a sandbox whose DEL by `netqos-multinet` fails.

use std::path::PathBuf;
use std::process::ExitCode;

use netqos_datapath::FileLock;
use serde::Serialize;

use super::{Arguments, confirmed, multinet_state};
use crate::install_plugin::{LeftAttachment, Sandboxes, state_directories};
use crate::output::{self, BAD_INPUT, FAILED};

/// A sandbox, and what may be left of it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Left {
    sandbox: String,
    pod: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    netns: Option<PathBuf>,
    record: PathBuf,
    /// The error of the last DEL.
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<String>,
    attachments: Vec<LeftAttachment>,
}

/// Prints what may be left of a sandbox, asks, and gives it up.
pub(super) fn run(sandbox: &str, arguments: &Arguments) -> ExitCode {
    forget(sandbox, arguments).unwrap_or_else(|why| {
        eprintln!("netqos: cannot give up sandbox {sandbox}: {why}");
        ExitCode::from(FAILED)
    })
}

fn forget(sandbox: &str, arguments: &Arguments) -> Result<ExitCode, String> {
    let sandboxes = find(sandbox, arguments)?;
    let path = sandboxes.lock(sandbox);
    let lock = FileLock::attempt(&path)
        .map_err(|why| format!("{}: {why}; try again after a call for it", path.display()))?;
    let record = sandboxes.record(sandbox);
    let healthy = record.as_ref().filter(|it| it.failure.is_none());
    let netns = healthy.and_then(|it| it.netns.as_deref());
    if let Some(netns) = netns.filter(|it| it.exists()) {
        return Err(format!(
            "no DEL of it has failed, and its network namespace {} is there: the pod may run; delete the pod first, \
             and give the sandbox up if netqos check lists it then",
            netns.display()
        ));
    }
    let left = Left {
        sandbox: sandbox.to_owned(),
        pod: sandboxes.name(sandbox),
        netns: record.as_ref().and_then(|it| it.netns.clone()),
        record: sandboxes.file(sandbox),
        failure: record.and_then(|it| it.failure),
        attachments: sandboxes.left(sandbox),
    };
    let printed = output::data(arguments.output, &left, print);
    if !confirmed(arguments, "Give up what may be left?") {
        return Ok(ExitCode::from(BAD_INPUT));
    }
    let given_up = sandboxes.give_up(sandbox, &lock);
    given_up.map_err(|why| why.to_string())?;
    eprintln!("netqos: sandbox {sandbox} is given up: its next DEL calls no plugin");
    Ok(printed)
}

/// The state that has the sandbox.
fn find(sandbox: &str, arguments: &Arguments) -> Result<Sandboxes, String> {
    let state = multinet_state(&arguments.state_dir);
    for directory in state_directories(&arguments.conf_dir, &state)? {
        let sandboxes = Sandboxes::new(&directory);
        let containers = sandboxes.containers().map_err(|why| why.to_string())?;
        if containers.iter().any(|it| it == sandbox) || !sandboxes.left(sandbox).is_empty() {
            return Ok(sandboxes);
        }
    }
    Err("it has no record and no result; netqos check lists sandboxes whose DEL fails".to_owned())
}

fn print(left: &Left) {
    println!("sandbox {} of {}", left.sandbox, left.pod);
    println!("record {}", left.record.display());
    if let Some(netns) = &left.netns {
        let state = if netns.exists() {
            ""
        } else {
            ", which is gone"
        };
        println!("network namespace {}{state}", netns.display());
    }
    if let Some(failure) = &left.failure {
        println!("DEL failed: {failure}");
    }
    for it in &left.attachments {
        println!(
            "may be left of network {}: {} in the pod",
            it.network, it.interface
        );
        for (what, texts) in [
            ("links", &it.links),
            ("addresses", &it.addresses),
            ("plugins", &it.plugins),
        ] {
            println!("  {what}: {}", texts.join(", "));
        }
    }
}
