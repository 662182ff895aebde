use std::process::Command;

use serde_json::json;

use crate::manifests::{object, words};
use crate::stage;
use crate::world::{KUBECONFIG, World};

/// The agent of `deploy/kustomize/base`, with its flags and its capabilities, less these.
fn installed(less: &[&str]) -> Command {
    let daemons = object("agent-daemonset.yaml", "DaemonSet");
    let container = &daemons["spec"]["template"]["spec"]["containers"][0];
    let added = words(&container["securityContext"]["capabilities"]["add"]).into_iter();
    let added = added.filter(|name| !less.contains(&name.as_str()));
    let bounds = added.map(|name| format!(",+{}", name.to_lowercase()));
    let bounds: String = ["-all".to_owned()].into_iter().chain(bounds).collect();
    // What root may have when it executes something: no more than these.
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set", &bounds, "--inh-caps", "-all"]);
    command.arg(stage::executable());
    command.args(words(&container["args"]));
    command.args(["--kubeconfig", KUBECONFIG]);
    command.env("NODE_NAME", "node1");
    command
}

/// A pod with limits both ways, and a rule that marks and has a rate.
fn asked(world: &World) {
    let annotations = json!({
        "kubernetes.io/ingress-bandwidth": "10M",
        "kubernetes.io/egress-bandwidth": "20M",
    });
    let patch = json!({"metadata": {"annotations": annotations}});
    world.patch("v1", "Pod", "a", &patch);
    let policy = json!({
        "metadata": {"name": "p", "namespace": world.namespace},
        "spec": {
            "priority": 1,
            "podSelector": {"matchLabels": {"app": "a"}},
            "egress": [{"dscp": 10, "bandwidth": {"rate": 5000}}],
        },
    });
    let namespace = world.namespace.clone();
    world.create("k8s.ovn.org/v1alpha1", "NetworkQoS", &namespace, policy);
}

/// Which directions of the pod's limits are in force.
fn in_force() -> Vec<String> {
    let pod = stage::pod_status("a").unwrap();
    let limits = pod.limits.into_iter().filter(|limit| limit.in_force);
    limits.map(|limit| limit.direction).collect()
}

/// With no more than the DaemonSet's capabilities, everything is in force.
#[test]
fn for_all_that_it_does() {
    let Some(mut world) = World::new() else {
        return;
    };
    asked(&world);
    world.start_agent_by(&mut installed(&[]));
    let flow = world.flow();
    flow.wait_for(10);
    drop(flow.end());
    assert!(stage::eventually(|| in_force() == ["ingress", "egress"]));
    let pod = stage::pod_status("a").unwrap();
    assert!(pod.rules[0].queue.is_some(), "{:?}", pod.rules);
    assert_eq!(world.problems(), []);
}

/// Without entering pods it cannot tell which interface is whose, says so, and goes on.
#[test]
fn without_sys_admin_it_says_what_it_cannot_do() {
    let Some(mut world) = World::new() else {
        return;
    };
    asked(&world);
    world.start_agent_by(&mut installed(&["SYS_ADMIN", "SYS_PTRACE"]));
    let told = || {
        let problems = world.problems().into_iter();
        let mut reasons = problems.map(|(reason, _)| reason);
        reasons.any(|reason| reason == "EndpointUnreachable")
    };
    assert!(stage::eventually(told), "{:?}", world.problems());
    assert!(stage::pod_status("a").is_none_or(|pod| !pod.failing.is_empty()));
}
