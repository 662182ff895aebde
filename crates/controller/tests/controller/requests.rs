//! What the controller asks of the API server.

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use serde_json::json;

use crate::world::World;

/// What its ClusterRole and Role allow: docs/operate.md and deploy say the same.
const ALLOWED: [(&str, &str); 38] = [
    ("list", "namespaces"),
    ("watch", "namespaces"),
    ("list", "nodes"),
    ("watch", "nodes"),
    ("list", "pods"),
    ("watch", "pods"),
    ("list", "networkqoses"),
    ("watch", "networkqoses"),
    ("patch", "networkqoses/status"),
    // The policies that are a namespace's default.
    ("list", "networkqosdefaults"),
    ("watch", "networkqosdefaults"),
    ("create", "networkqoses"),
    ("update", "networkqoses"),
    ("delete", "networkqoses"),
    ("list", "networkqosquotas"),
    ("watch", "networkqosquotas"),
    // The webhook's certificate.
    ("get", "secrets"),
    ("create", "secrets"),
    ("update", "secrets"),
    ("list", "network-attachment-definitions"),
    ("watch", "network-attachment-definitions"),
    ("list", "userdefinednetworks"),
    ("watch", "userdefinednetworks"),
    ("list", "clusteruserdefinednetworks"),
    ("watch", "clusteruserdefinednetworks"),
    ("list", "networkqospeerslices"),
    ("watch", "networkqospeerslices"),
    ("create", "networkqospeerslices"),
    ("update", "networkqospeerslices"),
    ("delete", "networkqospeerslices"),
    ("list", "networkqosnodereports"),
    ("watch", "networkqosnodereports"),
    ("delete", "networkqosnodereports"),
    ("create", "events"),
    ("patch", "events"),
    ("get", "leases"),
    ("create", "leases"),
    ("update", "leases"),
];

#[test]
fn it_asks_for_what_its_role_allows_and_reads_nothing_for_a_pod() {
    let Some(world) = World::with_fixture() else {
        return;
    };
    world.create_pod("a", "web", "node1", "10.0.0.1");
    world.create_pod("b", "db", "node1", "10.0.0.2");
    world.create_policy("p", "web", "db");
    world.report("node1", &[("p", 1)], &json!([]));
    let one = world.replica("one");
    world.wait_for("p", "Ready", "True", "Ready");
    world.wait_for_peers(&[&["10.0.0.2"]]);
    thread::sleep(Duration::from_secs(1));

    world.fixture().forget_requests();
    world.create_pod("c", "db", "node1", "10.0.0.3");
    world.wait_for_peers(&[&["10.0.0.2", "10.0.0.3"]]);
    thread::sleep(Duration::from_secs(3));
    let asked = world.requests("one").into_iter();
    let asked: Vec<_> = asked.filter(|(_, resource)| resource != "leases").collect();
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
    world.create("v1", "Node", "", json!({"metadata": {"name": "gone"}}));
    world.delete(world.policies(), "p");
    world.wait_for_peers(&[]);
    one.stop();
    let allowed: BTreeSet<(&str, &str)> = ALLOWED.into();
    let requests = world.fixture().requests().into_iter();
    for request in requests.filter(|it| it.client == "one") {
        let resource = match request.subresource.as_str() {
            "" => request.resource.clone(),
            part => format!("{}/{part}", request.resource),
        };
        let asked = (request.verb, resource.as_str());
        assert!(allowed.contains(&asked), "{asked:?} is not allowed");
    }
}
