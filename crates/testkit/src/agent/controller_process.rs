//! `netqos-controller` itself, beside the agent.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use netqos_apiserver::Account;

use super::controller::NAMESPACE;
use super::world::World;
use crate::executable;

/// What it is recorded as.
pub const CONTROLLER: &str = "controller";
const KUBECONFIG: &str = "/run/controller-kubeconfig";

/// The controller's process; killed when it is dropped.
pub struct Process(Child);

impl Process {
    pub fn start(program: &Path) -> Self {
        let child = Command::new(program)
            .args(["--kubeconfig", KUBECONFIG, "--namespace", NAMESPACE])
            .args(["--listen", "off", "--webhook", "off"])
            .stderr(Stdio::null())
            .spawn();
        Self(child.unwrap())
    }

    pub fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A cluster whose agents are told of peers, and the program that tells them.
pub fn begin() -> Option<(World, PathBuf)> {
    let program = executable("netqos-controller", "netqos-controller").unwrap();
    let (world, _) = World::sliced()?;
    world.identify(CONTROLLER, Account::Controller);
    fs::write(KUBECONFIG, world.front.kubeconfig(CONTROLLER)).unwrap();
    Some((world, program))
}
