use std::collections::BTreeMap;
use std::fs;
use std::future::ready;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use futures_util::stream::{AbortHandle, Abortable, StreamExt as _, select_all};
use netqos_cluster::{Connect, Kind, Listing, Selection, watch};
use netqos_faults::Request;
use serde_json::{Value, json};

use super::controller::{Controller, apps};
use super::stage;
use super::world::{AGENT, World};

/// How many pods elsewhere change.
const CHANGES: usize = 60;
/// Deployments elsewhere, each behind a Service in a namespace of its own, with a policy that goes to it.
/// The node needs one.
const APPS: usize = 20;
/// As many as one EndpointSlice has.
const ENDPOINTS: usize = 100;

/// A client that watches all pods of the cluster, all policies, and what stands behind all Services.
const EVERYTHING: &str = "everything";
const KINDS: [Kind; 4] = [
    Kind::Pod,
    Kind::NetworkQoS,
    Kind::Service,
    Kind::EndpointSlice,
];

/// Watches everything, as an agent watches what it needs, until it is aborted.
fn watch_everything(world: &World) -> (JoinHandle<()>, AbortHandle) {
    let kubeconfig = "/run/everything-kubeconfig";
    fs::write(kubeconfig, world.front.kubeconfig(EVERYTHING)).unwrap();
    let connect = Connect {
        kubeconfig: Some(kubeconfig.into()),
        ..Connect::default()
    };
    let (handle, registration) = AbortHandle::new_pair();
    let watching = thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build().unwrap();
        runtime.block_on(async {
            let client = connect.client().await.unwrap();
            let watches = KINDS.map(|kind| {
                let all = Selection::all(kind);
                watch(client.clone(), &all, Listing::Cached, |_, _| ()).boxed()
            });
            let events = Abortable::new(select_all(watches), registration);
            events.for_each(|_| ready(())).await;
        });
    });
    let is_watching = || {
        let requests = world.front.requests().into_iter();
        let watches = requests.filter(|it| it.client == EVERYTHING && it.verb == "watch");
        watches.count() >= KINDS.len()
    };
    assert!(stage::eventually(is_watching));
    (watching, handle)
}

/// Bytes that watches sent to a client, by resource.
fn sent(world: &World, client: &str) -> BTreeMap<String, u64> {
    let mut sent = BTreeMap::new();
    let requests = world.front.requests();
    let of_client = requests.iter().filter(|it| it.client == client);
    for request in of_client.filter(|it| it.verb == "watch") {
        *sent.entry(request.resource.clone()).or_default() += request.sent;
    }
    sent
}

/// The namespace of an app. That of the node's own pods has the one that they go to.
fn home(app: usize) -> String {
    match app {
        0 => "games".to_owned(),
        _ => format!("shop{app}"),
    }
}

/// What stands behind the Service of an app, as its last endpoint has changed so often.
fn endpoints(app: usize, changes: usize) -> Value {
    let endpoints = (0..ENDPOINTS).map(|number| {
        let name = format!("far{app}-7d9c8b7f6-{number:05}");
        let last = number + 1 == ENDPOINTS;
        let address = format!("10.{}.{app}.{number}", if last { 80 + changes } else { 79 });
        json!({
            "addresses": [address], "nodeName": "node2", "zone": "a",
            "conditions": {"ready": true, "serving": true, "terminating": false},
            "targetRef": {"kind": "Pod", "namespace": home(app), "name": name, "uid": name}
        })
    });
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {
            "name": format!("far{app}-abcde"), "namespace": home(app),
            "labels": {"kubernetes.io/service-name": format!("far{app}")}
        },
        "addressType": "IPv4", "endpoints": endpoints.collect::<Vec<_>>(),
        "ports": [{"name": "web", "port": 8080, "protocol": "TCP"}]
    })
}

/// A pod elsewhere, of a size that pods are of.
fn far(world: &World, number: usize) {
    let (name, home) = (format!("far{number}"), home(number % APPS));
    let environment: Vec<_> = (0..30)
        .map(|it| json!({"name": format!("SETTING_{it}"), "value": "of the length that values are of"}))
        .collect();
    let container = json!({
        "name": "c", "image": "registry.example.com/shop/service:1.2.3", "env": environment,
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": 8080}}
    });
    let pod = json!({
        "metadata": {
            "name": name, "namespace": home,
            "labels": {"app": format!("far{}", number % APPS), "pod-template-hash": "7d9c8b7f6"}
        },
        "spec": {"nodeName": "node2", "containers": [container]},
    });
    world.create("v1", "Pod", &home, pod);
    let address = format!("10.77.0.{number}");
    let condition = |name: &str| {
        json!({
            "type": name, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"
        })
    };
    let conditions = ["PodScheduled", "Initialized", "ContainersReady", "Ready"].map(condition);
    let status = json!({"status": {
        "phase": "Running", "podIP": address, "podIPs": [{"ip": address}],
        "conditions": conditions
    }});
    world.patch_status_in(&home, &name, &status);
    let behind = endpoints(number % APPS, number / APPS + 1);
    world.apply("discovery.k8s.io/v1", "EndpointSlice", &behind);
}

/// What watches tell an agent, and a client that watches everything, while pods elsewhere come.
fn told() -> Option<[BTreeMap<String, u64>; 2]> {
    let (mut world, mut controller) = World::with_controller()?;
    world.mark_to("p", 1, 10, &apps(&["b", "far0"]));
    for app in 0..APPS {
        let (name, home) = (format!("far{app}"), home(app));
        if app > 0 {
            world.create("v1", "Namespace", "", json!({"metadata": {"name": home}}));
        }
        let service = json!({
            "metadata": {"name": name, "namespace": home},
            "spec": {
                "selector": {"app": name}, "clusterIP": format!("10.96.1.{app}"),
                "ports": [{"name": "web", "port": 80, "targetPort": 8080, "protocol": "TCP"}]
            }
        });
        world.create("v1", "Service", &home, service);
        let behind = endpoints(app, 0);
        world.apply("discovery.k8s.io/v1", "EndpointSlice", &behind);
    }
    for app in 1..APPS {
        let object = json!({
            "metadata": {"name": format!("p{app}"), "namespace": home(app)},
            "spec": {
                "priority": 1,
                "podSelector": {"matchLabels": {"app": "elsewhere"}},
                "egress": [{"dscp": 1, "classifier": {"to": [apps(&[&format!("far{app}")])]}}]
            }
        });
        world.create("k8s.ovn.org/v1alpha1", "NetworkQoS", &home(app), object);
    }
    controller.publish(&world);
    world.start_agent();
    let (watching, handle) = watch_everything(&world);
    let clients = [AGENT, EVERYTHING];
    let before = clients.map(|client| sent(&world, client));
    for number in 0..CHANGES {
        far(&world, number);
        controller.publish(&world);
    }
    // What is told last is heard.
    let flow = world.flow();
    world.mark_to("p", 1, 20, &apps(&["b", "far0"]));
    flow.wait_for(20);
    drop(flow.end());
    // By then the other client has heard of it, too.
    thread::sleep(Duration::from_millis(500));
    let mut told = clients.map(|client| sent(&world, client));
    for (told, before) in told.iter_mut().zip(&before) {
        for (resource, sent) in &mut *told {
            *sent -= before.get(resource).copied().unwrap_or_default();
        }
        // That last change.
        told.remove("networkqoses");
    }
    handle.abort();
    watching.join().unwrap();
    Some(told)
}

/// Events of watches as they are on the wire, of those that watching everything takes.
#[test]
fn at_a_twentieth_of_the_bytes_at_most() {
    let Some([own, all]) = told() else {
        return;
    };
    let per_change = |told: &BTreeMap<String, u64>| told.values().sum::<u64>() / CHANGES as u64;
    println!(
        "bytes per pod that comes elsewhere: {} of everything ({all:?})",
        per_change(&all)
    );
    println!("{} to the agent ({own:?})", per_change(&own));
    // Less than one event of a pod: the API server sends a bookmark each minute.
    assert!(
        own["pods"] * (CHANGES as u64) < all["pods"],
        "{own:?}, {all:?}"
    );
    assert!(own["networkqospeerslices"] > 0, "{own:?}");
    // Of one namespace in twenty.
    let of_services = |told: &BTreeMap<String, u64>| told["endpointslices"];
    assert!(of_services(&own) > 0, "{own:?}");
    assert!(of_services(&own) * (APPS as u64 - 1) <= of_services(&all));
    assert!(per_change(&own) * 20 <= per_change(&all));
}

/// Its pods, the policies of their namespaces, and the slices that they need; a pod that needs
/// nothing new asks for nothing.
#[test]
fn and_asks_for_no_more() {
    let Some((mut world, mut controller)) = World::with_controller() else {
        return;
    };
    world.create(
        "v1",
        "Namespace",
        "",
        json!({"metadata": {"name": "other"}}),
    );
    world.mark_to("p", 1, 10, &apps(&["b"]));
    controller.publish(&world);
    world.start_agent();
    let flow = world.flow();
    flow.wait_for(10);
    let requests = world.asked();
    let of = |resource: &str| {
        let of_it = requests.iter().filter(|it| it.resource == resource);
        of_it.cloned().collect::<Vec<_>>()
    };
    let only = Some("spec.nodeName=node1");
    assert!(
        of("pods")
            .iter()
            .all(|it| it.field_selector.as_deref() == only)
    );
    let policies = of("networkqoses");
    let slices = of("networkqospeerslices");
    let services = [of("services"), of("endpointslices")].concat();
    assert_eq!(services.len(), 4, "{services:?}");
    for request in policies.iter().chain(&slices).chain(&services) {
        assert_eq!(request.namespace.as_deref(), Some("games"), "{request:?}");
    }
    let label = |it: &Request| it.label_selector.clone().unwrap_or_default();
    let all = slices.iter().map(label);
    assert!({ all }.all(|it| it.starts_with("netqos.io/peer-set in (") && it.len() < 50));
    assert_eq!(slices.len(), 2, "a list and a watch: {slices:?}");

    // One that the policies of before are for, or none.
    let before = requests.len();
    for name in ["late", "later"] {
        let pod = world.node.pod(name).unwrap();
        world.create_pod(&pod, json!({"kubernetes.io/ingress-bandwidth": "5M"}));
        assert!(stage::eventually(|| stage::pod_status(name).is_some()));
        world.delete("v1", "Pod", name);
    }
    let more = |world: &World, before: usize| {
        let requests = world.asked().split_off(before).into_iter();
        // Kinds that do not exist are asked for again, by and by.
        // What is in force is told from time to time.
        let requests = requests.filter(|it| it.status != 404 && !it.is_write());
        let requests = requests.map(|it| (it.verb, it.resource, it.namespace.is_some()));
        requests.collect::<Vec<_>>()
    };
    assert_eq!(more(&world, before), []);
    // A set that is new: one list, and one watch.
    world.mark_to("p", 1, 20, &apps(&["b", "c"]));
    controller.publish(&world);
    flow.wait_for_after(10, 20);
    let slices = |verb| (verb, "networkqospeerslices".to_owned(), true);
    let new = more(&world, before);
    assert_eq!(new, [slices("list"), slices("watch")]);
    drop(flow.end());
    drop::<Controller>(controller);
}
