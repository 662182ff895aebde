//! The agent beside `netqos-controller` itself, which stands in the folder of the agent's executable
//! where the whole workspace is tested.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::controller::{NAMESPACE, apps};
use crate::stage;
use crate::world::World;

const KUBECONFIG: &str = "/run/controller-kubeconfig";

/// The controller's process; killed when it is dropped.
struct Process(Child);

impl Process {
    fn start(program: &Path) -> Self {
        let child = Command::new(program)
            .args(["--kubeconfig", KUBECONFIG, "--namespace", NAMESPACE])
            .args(["--listen", "off", "--webhook", "off"])
            .stderr(Stdio::null())
            .spawn();
        Self(child.unwrap())
    }

    fn kill(mut self) {
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
fn begin() -> Option<(World, PathBuf)> {
    let program = Path::new(env!("CARGO_BIN_EXE_netqos-agent")).with_file_name("netqos-controller");
    if !program.is_file() {
        eprintln!("skipped: netqos-controller is not built (cargo test --workspace builds it)");
        return None;
    }
    let (world, _) = World::sliced()?;
    fs::write(KUBECONFIG, world.cluster.kubeconfig("controller")).unwrap();
    Some((world, program))
}

/// The condition Ready of a policy: status and message.
fn ready(world: &World, name: &str) -> Option<(String, String)> {
    let policies = world.list("k8s.ovn.org/v1alpha1", "NetworkQoS");
    let policy = policies
        .into_iter()
        .find(|it| it["metadata"]["name"] == name)?;
    let conditions = policy["status"]["conditions"].as_array()?.clone();
    let ready = conditions.into_iter().find(|it| it["type"] == "Ready")?;
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    Some((text(&ready["status"]), text(&ready["message"])))
}

#[test]
fn a_peer_is_marked_to_and_the_status_says_so_and_stays_true() {
    let Some((mut world, program)) = begin() else {
        return;
    };
    let controller = Process::start(&program);
    world.mark_to("p", 1, 10, &apps(&["b"]));
    world.start_agent();
    let flow = world.flow();
    flow.wait_for(10);
    let is_ready = |world: &World, status: &str| {
        let end = Instant::now() + Duration::from_secs(30);
        while ready(world, "p").is_none_or(|(is, _)| is != status) {
            assert!(Instant::now() < end, "{:?}", ready(world, "p"));
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    is_ready(&world, "True");
    assert_eq!(ready(&world, "p").unwrap().1, "in force on 1 of 1 node");

    // A peer that is none any more, and is one again.
    let label = |app: &str| json!({"metadata": {"labels": {"app": app}}});
    world.patch("v1", "Pod", "b", &label("other"));
    flow.wait_for_after(10, 0);
    world.patch("v1", "Pod", "b", &label("b"));
    flow.wait_for_after(0, 10);

    // Killed, it takes nothing with it; and what it has missed is made up for by the next.
    controller.kill();
    world.mark_to("p", 1, 20, &apps(&["b"]));
    flow.wait_for_after(10, 20);
    world.mark_to("p", 1, 30, &apps(&["b", "c"]));
    let waits = || {
        let problems = world.problems();
        problems.iter().any(|(reason, _)| reason == "PeersUnknown")
    };
    assert!(stage::eventually(waits));
    // It waits for the end of the dead one's lease; meanwhile every datagram is as it was.
    let _next = Process::start(&program);
    let end = Instant::now() + Duration::from_secs(15);
    while !world.problems().is_empty() {
        assert!(Instant::now() < end, "{:?}", world.problems());
        std::thread::sleep(Duration::from_millis(50));
    }
    flow.wait_for_after(20, 30);
    is_ready(&world, "True");
    let seen = flow.end_after(500);
    stage::assert_no_loss(&seen);
}
