//! OVN-Kubernetes on the node enforces NetworkQoS and annotations, Cilium's bandwidth manager
//! annotations: neither is enforced twice, and the node's report says so.

use std::path::Path;

use netqos_k8s::{NetworkQoSNodeReport, convert};
use netqos_netlink::{Handle, Socket};
use netqos_testkit::cilium_throttle;
use serde_json::{Value, json};

use super::stage;
use super::world::{World, has_written};

/// Where OVN-Kubernetes lives.
const HOME: &str = "ovn-kubernetes";

fn create_home(world: &World) {
    let home = json!({"metadata": {"name": HOME}});
    world.create("v1", "Namespace", "", home);
}

/// A pod as OVN-Kubernetes' of a node, with NetworkQoS switched on or off.
fn create_ovn_pod_in(world: &World, namespace: &str, node: &str, network_qos: &str) {
    let env = json!([{"name": "OVN_NETWORK_QOS_ENABLE", "value": network_qos}]);
    let container = json!({"name": "ovnkube-controller", "image": "i", "env": env});
    create_pod_of_ovn(world, namespace, node, &container);
}

fn create_ovn_pod(world: &World, node: &str, network_qos: &str) {
    create_ovn_pod_in(world, HOME, node, network_qos);
}

fn create_pod_of_ovn(world: &World, namespace: &str, node: &str, container: &Value) {
    let pod = json!({
        "metadata": {
            "name": format!("ovnkube-{node}"), "namespace": namespace,
            "labels": {"app": "ovnkube-node"},
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "ovnkube-node",
                "uid": "11111111-1111-1111-1111-111111111111", "controller": true
            }]
        },
        "spec": {"nodeName": node, "hostNetwork": true, "containers": [container]}
    });
    world.create("v1", "Pod", namespace, pod);
}

fn reasons(world: &World) -> Vec<String> {
    let problems = world.problems().into_iter();
    problems.map(|(reason, _)| reason).collect()
}

/// What is told to the controller.
fn reported(world: &World) -> Vec<String> {
    let reports = world.list("netqos.io/v1alpha1", "NetworkQoSNodeReport");
    let report = reports.into_iter().next();
    let report = report.map(|it| serde_json::from_value::<NetworkQoSNodeReport>(it).unwrap());
    let report = report.map(|it| convert::node_report(&it).unwrap());
    let problems = report.into_iter().flat_map(|it| it.problems);
    problems.map(|problem| problem.reason).collect()
}

/// Bits per second that a pod is held to in a direction.
fn limit(pod: &str, direction: &str) -> Option<u64> {
    let limits = stage::pod_status(pod)?.limits.into_iter();
    let mut of_way = limits.filter(|it| it.direction == direction && it.in_force);
    of_way.next().map(|it| it.rate)
}

#[test]
fn ovn_kubernetes_has_the_rules_and_the_annotations_of_its_node_and_a_profile_is_ours() {
    let Some(mut world) = World::new() else {
        return;
    };
    world.patch(
        "v1",
        "Pod",
        "a",
        &json!({"metadata": {"annotations": {"kubernetes.io/egress-bandwidth": "10M"}}}),
    );
    create_home(&world);
    // Of another node.
    create_ovn_pod(&world, "node2", "true");
    let flow = world.marked(10);
    assert!(stage::eventually(
        || limit("a", "egress") == Some(10_000_000)
    ));
    assert_eq!(reasons(&world), [""; 0]);

    create_ovn_pod(&world, "node1", "true");
    flow.wait_for_after(10, 0);
    assert!(stage::eventually(|| limit("a", "egress").is_none()));
    let left = ["AnnotationsElsewhere", "NetworkQosElsewhere"];
    let sorted = |mut reasons: Vec<String>| {
        reasons.sort();
        reasons
    };
    assert!(stage::eventually(|| sorted(reasons(&world)) == left));
    assert!(stage::eventually(|| sorted(reported(&world)) == left));
    let profile = json!({
        "metadata": {"name": "all", "namespace": world.namespace},
        "spec": {"podSelector": {}, "ingress": {"rate": "5M"}, "egress": {"rate": "5M"}}
    });
    let namespace = world.namespace.clone();
    world.create(
        "netqos.io/v1alpha1",
        "BandwidthProfile",
        &namespace,
        profile,
    );
    assert!(stage::eventually(
        || limit("a", "ingress") == Some(5_000_000)
    ));
    assert_eq!(limit("a", "egress"), None);

    // An agent that comes while the server is away knows it from what was written down.
    assert!(stage::eventually(|| has_written("pods", "ovnkube-node1")));
    world.stop_agent();
    world.front.go_away().unwrap();
    world.start_agent();
    let told = sorted(reasons(&world));
    assert_eq!(told[..2], ["AnnotationsElsewhere", "ApiUnavailable"]);
    assert_eq!(told[2..], ["NetworkQosElsewhere"]);
    world.front.come_back().unwrap();
    drop(flow.end());

    // Unless somebody has chosen.
    world.flags = vec!["--network-qos", "always", "--annotations", "always"];
    world.start_agent();
    let flow = world.flow();
    flow.wait_for(10);
    assert!(stage::eventually(
        || limit("a", "egress") == Some(10_000_000)
    ));
    assert_eq!(reasons(&world), ["AnotherAtWork", "AnotherAtWork"]);
    drop(flow.end());
    world.flags = vec!["--network-qos", "never", "--annotations", "never"];
    world.start_agent();
    assert_eq!(sorted(reasons(&world)), left);
    let flow = world.flow();
    flow.wait_for(0);
    drop(flow.end());
}

/// Who may create pods in a namespace of their own lifts nobody's limits.
#[test]
fn a_tenants_pod_that_calls_itself_ovn_kubernetes_changes_nothing() {
    let Some(mut world) = World::new() else {
        return;
    };
    let limited = json!({"metadata": {"annotations": {"kubernetes.io/egress-bandwidth": "10M"}}});
    world.patch("v1", "Pod", "a", &limited);
    create_ovn_pod_in(&world, &world.namespace, "node1", "true");
    // The agent has seen it before it puts anything in force.
    let flow = world.marked(10);
    assert!(stage::eventually(
        || limit("a", "egress") == Some(10_000_000)
    ));
    assert!(stage::eventually(|| has_written("pods", "ovnkube-node1")));
    // One that comes while the agent runs, and what follows it.
    world.delete("v1", "Pod", "ovnkube-node1");
    create_ovn_pod_in(&world, &world.namespace, "node1", "true");
    world.mark("p", 20);
    flow.wait_for(20);
    drop(flow.end());
    assert_eq!(limit("a", "egress"), Some(10_000_000));
    assert_eq!(reasons(&world), [""; 0]);

    // Where an administrator says that this is where OVN-Kubernetes lives, it is.
    world.flags = vec!["--ovn-kubernetes-namespaces", "net,games"];
    world.start_agent();
    assert!(stage::eventually(|| limit("a", "egress").is_none()));
}

/// Where a ConfigMap says that NetworkQoS is switched on, no pod does; its statuses do.
#[test]
fn that_ovn_kubernetes_enforces_network_qos_is_known_by_the_status_that_it_writes() {
    let Some(mut world) = World::new() else {
        return;
    };
    create_home(&world);
    create_pod_of_ovn(&world, HOME, "node1", &json!({"name": "c", "image": "i"}));
    let flow = world.marked(10);
    assert_eq!(reasons(&world), ["AnnotationsElsewhere"]);
    world.apply_status("p", "node1", "Ready-In-Zone-node1");
    flow.wait_for_after(10, 0);
    drop(flow.end());
}

#[test]
fn the_direction_that_ciliums_bandwidth_manager_limits_is_left_to_it() {
    let Some(mut world) = World::new() else {
        return;
    };
    let both = json!({"metadata": {"annotations": {
        "kubernetes.io/egress-bandwidth": "10M", "kubernetes.io/ingress-bandwidth": "20M"
    }}});
    world.patch("v1", "Pod", "a", &both);
    cilium_throttle(&[(7, 0)]).unwrap();
    world.create_policy("p", 10);
    world.start_agent();
    assert!(stage::eventually(
        || limit("a", "ingress") == Some(20_000_000)
    ));
    assert_eq!(limit("a", "egress"), None);
    assert_eq!(reasons(&world), ["AnnotationsElsewhere"]);
    let flow = world.flow();
    flow.wait_for(10);
    drop(flow.end());
    // A version that limits what pods receive, too.
    cilium_throttle(&[(7, 0), (7, 1)]).unwrap();
    assert!(stage::eventually(|| limit("a", "ingress").is_none()));
    // It is switched off.
    std::fs::remove_file("/sys/fs/bpf/tc/globals/cilium_throttle").unwrap();
    assert!(stage::eventually(
        || limit("a", "egress") == Some(10_000_000)
    ));
    assert!(stage::eventually(
        || limit("a", "ingress") == Some(20_000_000)
    ));
    assert_eq!(reasons(&world), [""; 0]);
}

/// By the tag of its image, as its DaemonSet's pod of the node has it.
#[test]
fn annotations_are_left_to_a_calico_that_limits_pods() {
    let Some(mut world) = World::new() else {
        return;
    };
    let limited = json!({"metadata": {"annotations": {"kubernetes.io/ingress-bandwidth": "10M"}}});
    world.patch("v1", "Pod", "a", &limited);
    let home = "calico-system";
    world.create("v1", "Namespace", "", json!({"metadata": {"name": home}}));
    let node_pod = |tag: &str| {
        json!({
            "metadata": {
                "name": "calico-node-1", "namespace": home, "labels": {"k8s-app": "calico-node"},
                "ownerReferences": [{
                    "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "calico-node",
                    "uid": "11111111-1111-1111-1111-111111111111", "controller": true
                }]
            },
            "spec": {"nodeName": "node1", "hostNetwork": true, "containers": [
                {"name": "calico-node", "image": format!("quay.io/calico/node{tag}")}
            ]}
        })
    };
    world.create("v1", "Pod", home, node_pod(":v3.29.1"));
    world.start_agent();
    assert!(stage::eventually(
        || limit("a", "ingress") == Some(10_000_000)
    ));
    assert_eq!(reasons(&world), [""; 0]);
    world.delete_in(home, "v1", "Pod", "calico-node-1");
    world.create("v1", "Pod", home, node_pod(":v3.30.0"));
    assert!(stage::eventually(|| limit("a", "ingress").is_none()));
    let is_left = || reasons(&world) == ["AnnotationsElsewhere"];
    assert!(stage::eventually(is_left));
    let only_in_pod = Path::new("/run/netqos/ingress-only-in-pod");
    assert!(only_in_pod.exists());

    // Of a version that its image does not say: a queue at both ends.
    world.delete_in(home, "v1", "Pod", "calico-node-1");
    world.create("v1", "Pod", home, node_pod("@sha256:00"));
    assert!(stage::eventually(|| !only_in_pod.exists()));
    let none = json!({"metadata": {"annotations": {"kubernetes.io/ingress-bandwidth": null}}});
    world.patch("v1", "Pod", "a", &none);
    let profile = json!({
        "metadata": {"name": "all", "namespace": world.namespace},
        "spec": {"podSelector": {}, "ingress": {"rate": "5M"}}
    });
    let namespace = world.namespace.clone();
    world.create(
        "netqos.io/v1alpha1",
        "BandwidthProfile",
        &namespace,
        profile,
    );
    let is_in_pod = || {
        let limits = stage::pod_status("a").map_or_else(Vec::new, |pod| pod.limits);
        let mut limits = limits.iter().filter(|limit| limit.in_force);
        limits.any(|limit| limit.rate == 5_000_000 && limit.link.starts_with("nqi"))
    };
    assert!(stage::eventually(is_in_pod), "{}", stage::log());
    let mut socket = Socket::open().unwrap();
    let link = socket.link_by_name(world.a.host_link()).unwrap();
    let root = socket.qdisc_at(&link, Handle::ROOT).unwrap();
    assert!(root.is_some_and(|root| root.tbf().is_some()));
}
