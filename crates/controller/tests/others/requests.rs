//! What the controller asks of the API server.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use netqos_faults::{Grant, Request, Roles};
use netqos_k8s::documents;
use serde_json::json;

use crate::world::{HOME, World, free_address};

const MUTATING: (&str, &str, &str) = (
    "admissionregistration.k8s.io/v1",
    "MutatingWebhookConfiguration",
    "",
);
/// Where the webhook's certificate is.
const CERTIFICATE: &str = "netqos-webhook-certificate";

/// What is allowed and may not be asked for here, and when it is.
const ELSEWHERE: [(&str, &str, &str); 3] = [
    (
        "create",
        "nodeslos.slo.koordinator.sh",
        "an object that is not there is applied: a real server asks for that, too",
    ),
    ("get", "events.events.k8s.io", "the same event occurs again"),
    (
        "update",
        "events.events.k8s.io",
        "the same event occurs again",
    ),
];

/// What its ClusterRole and its Role allow.
fn allowed() -> Roles {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../deploy/kustomize/base/controller-rbac.yaml"
    );
    let text = fs::read_to_string(path).unwrap();
    let objects = documents(&text).into_iter();
    Roles::among(objects.map(|document| document.value.unwrap())).unwrap()
}

/// Those that are peers cost their slice. Counts have what others leave over: here one pod does, which is
/// spent after a minute on what has been wrong for longest, for all pods at once.
#[test]
fn pods_that_are_peers_and_selected_or_one_of_both_cost_a_write_each_and_no_more() {
    const PODS: usize = 8;
    let world = World::new();
    world.create_pod("a", "web", "node1", "10.0.0.1");
    world.create_pod("old", "db", "node1", "10.0.1.1");
    // Whom they select they mean, too.
    world.create_policy("p", "web", "web");
    world.create_policy("q", "db", "db");
    world.create_policy("r", "idle", "db");
    world.create_pod("i", "idle", "node1", "10.0.4.1");
    let all = [("p", 1), ("q", 1), ("r", 1)];
    world.report("node1", &all, &json!([]));
    let _replica = world.replica("one");
    for policy in ["p", "q", "r"] {
        world.wait_for(policy, "Ready", "True", "Ready");
    }
    world.wait_for_peers(&[&["10.0.0.1"], &["10.0.1.1"]]);
    thread::sleep(Duration::from_secs(2));
    let selected =
        |name: &str| world.get(world.policies(), name).unwrap()["status"]["selectedPods"].clone();
    assert_eq!((selected("p"), selected("q")), (json!(1), json!(1)));

    let (before, statuses) = (world.requests("one").len(), world.status_writes("one"));
    let began = Instant::now();
    let mut right = vec!["10.0.0.1".to_owned()];
    for number in 0..PODS {
        let address = format!("10.0.2.{number}");
        world.create_pod(&format!("c{number}"), "web", "node1", &address);
        right.push(address);
        let right: Vec<&str> = right.iter().map(String::as_str).collect();
        world.wait_for_peers(&[&right, &["10.0.1.1"]]);
        thread::sleep(Duration::from_secs(1));
    }
    world.delete_pod("old");
    world.create_pod("new", "db", "node1", "10.0.1.2");
    world.create_pod("i2", "idle", "node1", "10.0.4.2");
    thread::sleep(Duration::from_secs(5));
    let writes = world.requests_for("one", "patch", "networkqoses");
    let writes = writes.iter().map(|it| format!("{} {}", it.path, it.status));
    let writes: Vec<String> = writes.collect();
    assert_eq!(writes.len(), statuses, "a write for one pod: {writes:#?}");
    while selected("p") != PODS + 1 {
        assert!(began.elapsed() < Duration::from_secs(100));
        thread::sleep(Duration::from_millis(200));
    }
    println!("counted after {:.1} s", began.elapsed().as_secs_f64());
    assert!(began.elapsed() > Duration::from_secs(50));
    // That of the pod that was replaced was wrong for a moment; for another one nothing is left.
    thread::sleep(Duration::from_secs(15));
    assert_eq!(world.status_writes("one"), statuses + 1);
    assert_eq!(selected("r"), 1);
    let asked = world.requests("one").into_iter().skip(before);
    let mut slices = 0;
    for (verb, resource) in asked {
        match (verb.as_str(), resource.as_str()) {
            ("update", "networkqospeerslices") => slices += 1,
            ("get", _) => panic!("{resource} is read"),
            _ => {}
        }
    }
    println!("{slices} writes of slices");
    // With that of the status: one for each that came, and one for the one that went.
    let (came, went) = (PODS + 2, 1);
    let writes = slices + 1;
    assert!(writes <= came + went, "{slices}");

    // While counts wait, what somebody waits for does not.
    world.create_pod("d", "web", "node1", "10.0.3.1");
    thread::sleep(Duration::from_secs(2));
    let failed = json!([{
        "kind": "NetworkQoS", "namespace": world.namespace, "name": "p",
        "reason": "UpdateFailed", "message": "m"
    }]);
    let told = Instant::now();
    world.report("node1", &all, &failed);
    world.wait_for("p", "Ready", "False", "UpdateFailed");
    assert!(told.elapsed() < Duration::from_secs(10));
}

/// As when a Deployment with one replica is restarted.
#[test]
fn only_pod_that_is_replaced_costs_no_status_write() {
    let world = World::new();
    world.create_pod("old", "db", "node1", "10.0.1.1");
    world.create_policy("q", "db", "db");
    world.report("node1", &[("q", 1)], &json!([]));
    let _replica = world.replica("one");
    world.wait_for("q", "Ready", "True", "Ready");
    let statuses = world.status_writes("one");
    world.delete_pod("old");
    // Statuses are looked at twice a second.
    thread::sleep(Duration::from_secs(2));
    world.create_pod("new", "db", "node1", "10.0.1.2");
    world.wait_for_peers(&[&["10.0.1.2"]]);
    thread::sleep(Duration::from_secs(2));
    assert_eq!(world.status_writes("one"), statuses);
    // Of one that has no pod any more it is said.
    world.delete_pod("new");
    world.wait_for("q", "Programmed", "True", "NoPods");
}

#[test]
fn counts_that_cost_too_much_are_right_in_the_end() {
    const WITHIN: Duration = Duration::from_secs(8);
    let world = World::new();
    world.create_pod("a", "web", "node1", "10.0.0.1");
    world.create_policy("p", "web", "web");
    world.report("node1", &[("p", 1)], &json!([]));
    let _replica = world.replica_where("one", &[], &[("NETQOS_COUNTS_WITHIN", Path::new("8"))]);
    world.wait_for("p", "Ready", "True", "Ready");
    thread::sleep(Duration::from_secs(1));
    let came = Instant::now();
    world.create_pod("b", "web", "node1", "10.0.0.2");
    world.wait_for_peers(&[&["10.0.0.1", "10.0.0.2"]]);
    world.eventually("it is not counted", || {
        world.get(world.policies(), "p").unwrap()["status"]["selectedPods"] == 2
    });
    assert!(came.elapsed() >= WITHIN, "after {:?}", came.elapsed());
    assert!(came.elapsed() < 2 * WITHIN, "after {:?}", came.elapsed());
}

#[test]
fn it_asks_for_what_its_role_allows_and_reads_nothing_for_a_pod() {
    let world = World::new();
    world.create_pod("a", "web", "node1", "10.0.0.1");
    world.create_pod("b", "db", "node1", "10.0.0.2");
    world.create_policy("p", "web", "db");
    world.report("node1", &[("p", 1)], &json!([]));
    // In the namespace that its role is made for.
    let home = "koordinator-system";
    world.define_node_slo();
    world.create("v1", "Namespace", "", json!({"metadata": {"name": home}}));
    let total = json!({"clusterStrategy": {"totalNetworkBandwidth": "1G"}});
    world.write_config_in(home, &json!({}), &total);
    let one = world.replica("one");
    world.wait_for("p", "Ready", "True", "Ready");
    world.wait_for_peers(&[&["10.0.0.2"]]);
    world.wait_for_slo(
        "node1",
        "/systemStrategy/totalNetworkBandwidth",
        &json!("1G"),
    );
    thread::sleep(Duration::from_secs(3));

    let before = world.requests("one").len();
    world.create_pod("c", "db", "node1", "10.0.0.3");
    world.wait_for_peers(&[&["10.0.0.2", "10.0.0.3"]]);
    thread::sleep(Duration::from_secs(3));
    let asked = world.requests("one").into_iter().skip(before);
    let absent = |resource: &str| resource.contains("definition") || resource.contains("defined");
    let asked = asked.filter(|(_, resource)| resource != "leases" && !absent(resource));
    let asked: Vec<_> = asked.collect();
    let update = ("update".to_owned(), "networkqospeerslices".to_owned());
    assert_eq!(
        asked,
        [update],
        "one write for a pod that starts, and no read"
    );

    // Whatever else it ever asks for.
    let of_pod = json!([{
        "kind": "Pod", "namespace": world.namespace, "name": "a",
        "reason": "InvalidBandwidth", "message": "m"
    }]);
    world.report("node1", &[("p", 1)], &of_pod);
    let defaults = ("netqos.io/v1alpha1", "NetworkQoSDefault", "");
    let default = |priority: u8| {
        json!({
            "metadata": {"name": "free"},
            "spec": {
                "namespaceSelector": {},
                "template": {"spec": {"priority": priority, "egress": [{"dscp": 1}]}}
            }
        })
    };
    world.create(defaults.0, defaults.1, "", default(1));
    world.wait_for("free", "Ready", "False", "Pending");
    world.merge(defaults, "free", &default(2));
    let priority = || world.get(world.policies(), "free").unwrap()["spec"]["priority"].clone();
    world.eventually("the default is not brought up to date", || priority() == 2);
    world.delete(defaults, "free");
    world.eventually("the default stays", || {
        world.get(world.policies(), "free").is_none()
    });
    world.create("v1", "Node", "", json!({"metadata": {"name": "gone"}}));
    world.report("gone", &[], &json!([]));
    world.delete(("v1", "Node", ""), "gone");
    world.delete(world.policies(), "p");
    world.wait_for_peers(&[]);
    let report = ("netqos.io/v1alpha1", "NetworkQoSNodeReport", "");
    let begin = Instant::now();
    while world.get(report, "gone").is_some() {
        assert!(begin.elapsed() < Duration::from_secs(60));
        thread::sleep(Duration::from_millis(200));
    }
    one.stop();
    // What belongs to the webhook, which another replica serves, and a certificate that is none.
    world.create_webhook_configurations();
    let options = netqos_admission::Options::default();
    let mutating = netqos_admission::mutating(&options, &netqos_admission::Reach::Service).unwrap();
    let mutating = serde_json::to_value(mutating).unwrap();
    world.create(MUTATING.0, MUTATING.1, MUTATING.2, mutating);
    let two = world.replica_with("two", &["--webhook", &free_address()]);
    world.wait_for_authority();
    world.eventually(
        "no authority is published to who asks the mutating one",
        || {
            let configuration = world.get(MUTATING, "netqos").unwrap();
            configuration["webhooks"][0]["clientConfig"]["caBundle"].is_string()
        },
    );
    two.stop();
    let secret = ("v1", "Secret", HOME);
    let spoilt = json!({"data": {"tls.crt": "c3BvaWx0"}});
    world.merge(secret, CERTIFICATE, &spoilt);
    let two = world.replica_with("two", &["--webhook", &free_address()]);
    world.eventually("its certificate is not made anew", || {
        world.get(secret, CERTIFICATE).unwrap()["data"]["tls.crt"] != spoilt["data"]["tls.crt"]
    });
    two.stop();

    let requests = world.front.requests().into_iter();
    let of_ours = requests.filter(|it| ["one", "two"].contains(&it.client.as_str()));
    let asked: Vec<Request> = of_ours.collect();
    let allowed = allowed();
    assert_eq!(allowed.refused(&asked), BTreeSet::new(), "not allowed");
    let mut unused = allowed.unused(&asked);
    for (verb, resource, when) in ELSEWHERE {
        let is_it = |it: &Grant| (it.verb.as_str(), it.resource.as_str()) == (verb, resource);
        let granted = allowed.unused(&[]).into_iter().filter(is_it).count();
        assert_eq!(granted, 1, "not allowed: {verb} {resource}, when {when}");
        unused.retain(|it| !is_it(it));
    }
    // There are none of OVN-Kubernetes' kinds to be watched.
    let absent = [
        "network-attachment-definitions.k8s.cni.cncf.io",
        "userdefinednetworks.k8s.ovn.org",
        "clusteruserdefinednetworks.k8s.ovn.org",
    ];
    unused.retain(|it| !(absent.contains(&it.resource.as_str()) && it.verb == "watch"));
    // The CRDs of absent kinds alone are watched.
    let exists = |name: &Option<String>| {
        let name = name.as_deref();
        name.is_some_and(|it| !absent.contains(&it))
    };
    unused.retain(|it| !(it.resource.starts_with("customresourcedefinitions") && exists(&it.name)));
    assert_eq!(unused, BTreeSet::new(), "allowed and never asked for");
}

/// Of a large cluster only a page is held as it came: a list of the most recent state, since the watch
/// cache of a server gives no pages.
#[test]
fn what_there_is_much_of_is_listed_in_pages() {
    const PODS: usize = 1_200;
    let world = World::new();
    for number in 0..PODS {
        let pod = json!({
            "metadata": {"name": format!("a{number}")},
            "spec": {"nodeName": "node1", "containers": [{"name": "c", "image": "i"}]}
        });
        world.create("v1", "Pod", &world.namespace, pod);
    }
    let one = world.standby("one");
    let requests = world.front.requests().into_iter();
    let lists = requests.filter(|it| (it.client.as_str(), it.verb) == ("one", "list"));
    let lists: Vec<Request> = lists.collect();
    let of_pods = lists.iter().filter(|it| it.resource == "pods");
    let pages: Vec<bool> = of_pods.map(|it| it.is_continued).collect();
    assert_eq!(pages, [false, true, true]);
    assert!(
        lists.iter().all(|it| it.resource_version.is_none()),
        "{lists:?}"
    );
    drop(one);
}
