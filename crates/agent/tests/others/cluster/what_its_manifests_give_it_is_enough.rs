use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use serde_json::json;

use super::image;
use super::manifests::{object, words};
use super::stage;
use super::the_nodes_lines_are_as_its_node_slo_says::{definition, node_slo};
use super::world::{KUBECONFIG, World, has_written};

/// The agent of `deploy/kustomize/base`, with its flags and its capabilities, less these.
fn installed(less: &[&str]) -> Command {
    let mut command = confined(less);
    command.arg(stage::executable());
    arguments(&mut command);
    command.args(["--kubeconfig", KUBECONFIG]);
    command
}

/// Makes of `/run/root` what this machine has, which nobody may write to, and every container.
fn of_this_machine() -> String {
    let places = ["/usr", "/lib", "/lib64", "/bin", "/etc"].into_iter();
    let places = places.map(|place| {
        let read_only = format!("[ ! -e {place} ] || mount -o remount,bind,ro /run/root{place}\n");
        bound(place) + &read_only
    });
    places.chain(ALWAYS.map(bound)).collect()
}

/// What every container has.
pub(crate) const ALWAYS: [&str; 3] = ["/proc", "/dev", "/sys"];

pub(crate) fn bound(place: &str) -> String {
    format!(
        "[ -e {place} ] && mkdir -p /run/root{place} && mount --rbind {place} /run/root{place}\n"
    )
}

/// The same that sees of the node no more than is mounted, by the base and this component of it, if any;
/// what is mounted elsewhere than where it is on the node is. `image` is the script that makes the rest,
/// which is read-only as the container's root is.
fn with_its_mounts(component: Option<&str>, image: &str) -> Command {
    let mut mounts = BTreeMap::new();
    let mut volumes = BTreeMap::new();
    let mut added = Vec::new();
    let base = object("agent-daemonset.yaml", "DaemonSet");
    let component = component.map(|name| {
        let patch = format!("../components/{name}/patch-agent-daemonset.yaml");
        object(&patch, "DaemonSet")
    });
    for daemons in [base].into_iter().chain(component) {
        let pod = &daemons["spec"]["template"]["spec"];
        let container = &pod["containers"][0];
        // A component has all of them, where it has more.
        let capabilities = &container["securityContext"]["capabilities"]["add"];
        if !capabilities.is_null() {
            added = words(capabilities);
        }
        for mount in container["volumeMounts"].as_array().unwrap() {
            let place = mount["mountPath"].as_str().unwrap().to_owned();
            mounts.insert(place, mount.clone());
        }
        for volume in pod["volumes"].as_array().unwrap() {
            let path = volume["hostPath"]["path"].as_str().unwrap();
            let is_file = volume["hostPath"]["type"] == "FileOrCreate";
            volumes.insert(volume["name"].to_string(), (path.to_owned(), is_file));
        }
    }
    let mut script = String::from("set -e; mkdir -p /run/root; mount -t tmpfs root /run/root\n");
    script += image;
    // As runtimes have it in containers that are not privileged.
    script += "mount -o remount,bind,ro /run/root/sys\n";
    for (place, mount) in &mounts {
        let (path, is_file) = &volumes[&mount["name"].to_string()];
        let make = if *is_file { "touch" } else { "mkdir -p" };
        script += &format!(
            "[ -e {path} ] || {make} {path}; mkdir -p $(dirname /run/root{place}); \
             {make} /run/root{place}; mount --rbind {path} /run/root{place}\n"
        );
        // Else what the node mounts later is not seen.
        if mount["mountPropagation"] != "HostToContainer" {
            script += &format!("mount --make-rprivate /run/root{place}\n");
        }
        if mount["readOnly"] == true {
            script += &format!("mount -o remount,bind,ro /run/root{place}\n");
        }
    }
    let executable = stage::executable();
    script += &format!(
        "cp {} {KUBECONFIG} /run/root/; mount -o remount,ro /run/root; exec chroot /run/root \"$@\"",
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
    command.args(["/usr/bin/setpriv", "--bounding-set", &bounds(&added)]);
    command.args(["--inh-caps", "-all", "/netqos-agent"]);
    arguments(&mut command);
    command.args(["--kubeconfig", "/kubeconfig"]);
    command
}

/// These capabilities, and no other.
fn bounds(added: &[String]) -> String {
    let bounds = added
        .iter()
        .map(|name| format!(",+{}", name.to_lowercase()));
    ["-all".to_owned()].into_iter().chain(bounds).collect()
}

/// What root may have when it executes something: no more than the base has, less these.
fn confined(less: &[&str]) -> Command {
    let daemons = object("agent-daemonset.yaml", "DaemonSet");
    let container = &daemons["spec"]["template"]["spec"]["containers"][0];
    let mut added = words(&container["securityContext"]["capabilities"]["add"]);
    added.retain(|name| !less.contains(&name.as_str()));
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set", &bounds(&added), "--inh-caps", "-all"]);
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
    assert_all_in_force(&world);
}

#[track_caller]
fn assert_all_in_force(world: &World) {
    let flow = world.flow();
    flow.wait_for(10);
    drop(flow.end());
    assert!(stage::eventually(|| in_force() == ["ingress", "egress"]));
    let pod = stage::pod_status("a").unwrap();
    assert!(pod.rules[0].queue.is_some(), "{:?}", pod.rules);
    assert_eq!(world.problems(), []);
}

/// And with no more of the node than the DaemonSet mounts, and a root that nobody may write to; also of
/// a pod that comes later.
#[test]
fn for_all_that_it_does_with_what_it_mounts() {
    let Some(mut world) = World::new() else {
        return;
    };
    asked(&world);
    // As on a node, where others learn of what is mounted there.
    world.node.run("mount", &["--make-shared", "/run"]).unwrap();
    world.start_agent_by(&mut with_its_mounts(None, &of_this_machine()));
    assert_all_in_force(&world);
    let late = world.node.pod("late").unwrap();
    world.create_pod(&late, json!({"kubernetes.io/ingress-bandwidth": "5M"}));
    let is_limited = || {
        let pod = stage::pod_status("late");
        pod.is_some_and(|pod| !pod.limits.is_empty() && pod.limits.iter().all(|it| it.in_force))
    };
    assert!(stage::eventually(is_limited), "{}", stage::log());
    // What it has to remember is on the node.
    assert!(stage::eventually(|| has_written(
        "networkqoses",
        "\"dscp\":10"
    )));
    let records = fs::read_dir("/run/netqos/rules").unwrap();
    assert!(records.count() > 0);
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

/// Has the node's lines divided by this backend.
fn choose(world: &World, backend: &str) {
    let metadata = json!({"name": "node1", "labels": {"netqos.io/class-backend": backend}});
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata});
    world.apply("v1", "Node", &node);
}

/// By what these backends need of the node, and no more.
#[test]
fn for_dividing_lines_by_kernel_and_by_terway_qos() {
    let Some(mut world) = World::new() else {
        return;
    };
    divided(&world);
    fs::create_dir_all("/var/lib/terway/qos").unwrap();
    world.start_agent_by(&mut with_its_mounts(
        Some("class-backend-terway-qos"),
        &of_this_machine(),
    ));
    let classes = || world.node.run("tc", &["class", "show", "dev", "up0"]);
    let is_divided = || {
        let classes = classes().unwrap();
        classes.contains("class htb 6e71:4 parent 6e71:1 rate 200Mbit")
    };
    assert!(stage::eventually(is_divided), "{}", stage::log());
    let choose = |backend: &str| choose(&world, backend);
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

/// By the programs that the image for it has, which are those of Debian's packages.
#[test]
fn for_dividing_lines_by_tc() {
    let Some(files) = image::with_tc() else {
        return;
    };
    let Some(mut world) = World::new() else {
        return;
    };
    divided(&world);
    let image = image::made_of(&files);
    world.start_agent_by(&mut with_its_mounts(Some("class-backend-tc"), &image));
    choose(&world, "tc");
    let run = |program: &str, words: &[&str]| world.node.run(program, words).unwrap();
    let classes = || run("tc", &["class", "show", "dev", "up0"]);
    let is_divided = || classes().contains("class htb 1:14 parent 1:1 rate 200Mbit");
    assert!(
        stage::eventually(is_divided),
        "{}\n{}",
        classes(),
        stage::log()
    );
    let members = || run("ipset", &["list"]);
    let all = [world.a.address(), world.b.address()];
    let has_all = || {
        all.iter()
            .all(|address| members().contains(address.as_str()))
    };
    assert!(
        stage::eventually(has_all),
        "{}\n{}",
        members(),
        stage::log()
    );
    choose(&world, "none");
    let is_gone = || !classes().contains("htb") && members().trim().is_empty();
    assert!(stage::eventually(is_gone), "{}\n{}", classes(), members());
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
