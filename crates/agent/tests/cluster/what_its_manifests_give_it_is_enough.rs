use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use serde_json::json;

use crate::manifests::{object, words};
use crate::stage;
use crate::the_nodes_lines_are_as_its_node_slo_says::{definition, node_slo};
use crate::world::{KUBECONFIG, World};

/// The agent of `deploy/kustomize/base`, with its flags and its capabilities, less these.
fn installed(less: &[&str]) -> Command {
    let mut command = confined(less);
    command.arg(stage::executable());
    arguments(&mut command);
    command.args(["--kubeconfig", KUBECONFIG]);
    command
}

/// The same that sees of the node no more than is mounted, by the base and this component of it; what is
/// mounted elsewhere than where it is on the node is.
fn with_its_mounts(component: &str) -> Command {
    let mut mounts = BTreeMap::new();
    let mut volumes = BTreeMap::new();
    let base = object("agent-daemonset.yaml", "DaemonSet");
    let patch = format!("../components/{component}/patch-agent-daemonset.yaml");
    for daemons in [base, object(&patch, "DaemonSet")] {
        let pod = &daemons["spec"]["template"]["spec"];
        let container = &pod["containers"][0];
        for mount in container["volumeMounts"].as_array().unwrap() {
            let is_read_only = mount["readOnly"] == true;
            let place = mount["mountPath"].as_str().unwrap().to_owned();
            mounts.insert(place, (mount["name"].clone(), is_read_only));
        }
        for volume in pod["volumes"].as_array().unwrap() {
            let path = volume["hostPath"]["path"].as_str().unwrap();
            volumes.insert(volume["name"].to_string(), path.to_owned());
        }
    }
    let mut script = String::from("set -e; mkdir -p /run/root; mount -t tmpfs root /run/root\n");
    // What the executable of a test needs, which is not static, and what every container has.
    for place in [
        "/usr", "/lib", "/lib64", "/bin", "/proc", "/dev", "/etc", "/sys",
    ] {
        script += &format!(
            "[ -e {place} ] && mkdir -p /run/root{place} && mount --rbind {place} /run/root{place}\n"
        );
    }
    for (place, (volume, is_read_only)) in &mounts {
        let path = &volumes[&volume.to_string()];
        script += &format!(
            "[ -e {path} ] || mkdir -p {path}; mkdir -p /run/root{place}; \
             mount --rbind {path} /run/root{place}\n"
        );
        if *is_read_only {
            script += &format!("mount -o remount,bind,ro /run/root{place}\n");
        }
    }
    let executable = stage::executable();
    script += &format!(
        "cp {} {KUBECONFIG} /run/root/; exec chroot /run/root \"$@\"",
        executable.display()
    );
    let mut command = Command::new("unshare");
    command.args([
        "--mount",
        "--propagation",
        "slave",
        "sh",
        "-c",
        &script,
        "sh",
    ]);
    command.args(["/usr/bin/setpriv", "--bounding-set", &bounds(&[])]);
    command.args(["--inh-caps", "-all", "/netqos-agent"]);
    arguments(&mut command);
    command.args(["--kubeconfig", "/kubeconfig"]);
    command
}

fn bounds(less: &[&str]) -> String {
    let daemons = object("agent-daemonset.yaml", "DaemonSet");
    let container = &daemons["spec"]["template"]["spec"]["containers"][0];
    let added = words(&container["securityContext"]["capabilities"]["add"]).into_iter();
    let added = added.filter(|name| !less.contains(&name.as_str()));
    let bounds = added.map(|name| format!(",+{}", name.to_lowercase()));
    ["-all".to_owned()].into_iter().chain(bounds).collect()
}

/// What root may have when it executes something: no more than these.
fn confined(less: &[&str]) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set", &bounds(less), "--inh-caps", "-all"]);
    command
}

fn arguments(command: &mut Command) {
    let daemons = object("agent-daemonset.yaml", "DaemonSet");
    let container = &daemons["spec"]["template"]["spec"]["containers"][0];
    command.args(words(&container["args"]));
    command.env("NODE_NAME", "node1");
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

/// A line, and how it is divided.
fn divided(world: &World) {
    stage::line(&world.node);
    world.define(&definition());
    world.apply(
        "slo.koordinator.sh/v1alpha1",
        "NodeSLO",
        &node_slo("node1", 20),
    );
}

/// By what these backends need of the node, and no more.
#[test]
fn for_dividing_lines_by_kernel_and_by_terway_qos() {
    let Some(mut world) = World::new() else {
        return;
    };
    divided(&world);
    fs::create_dir_all("/var/lib/terway/qos").unwrap();
    world.start_agent_by(&mut with_its_mounts("class-backend-terway-qos"));
    let classes = || world.node.run("tc", &["class", "show", "dev", "up0"]);
    let is_divided = || {
        let classes = classes().unwrap();
        classes.contains("class htb 6e71:4 parent 6e71:1 rate 200Mbit")
    };
    assert!(stage::eventually(is_divided), "{}", stage::log());
    let choose = |backend: &str| {
        let metadata = json!({"name": "node1", "labels": {"netqos.io/class-backend": backend}});
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata});
        world.apply("v1", "Node", &node);
    };
    choose("terway-qos");
    let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let global = || text("/var/lib/terway/qos/global_bps_config");
    let is_written = || global().contains("l2_tx_bps_min 25000000\n");
    assert!(stage::eventually(is_written), "{}", stage::log());
    let node = || text("/var/run/koordinator/net/node");
    assert!(
        stage::eventually(|| node().contains("125000000")),
        "{}",
        node()
    );
    assert!(!is_divided());
    choose("kernel");
    assert!(stage::eventually(is_divided), "{}", stage::log());
    assert_eq!(node(), "");
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
