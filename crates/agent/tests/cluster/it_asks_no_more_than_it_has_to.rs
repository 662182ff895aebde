use std::collections::{BTreeMap, BTreeSet};
use std::thread::sleep;
use std::time::Duration;

use netqos_apiserver::{Request, Roles};
use serde_json::json;

use crate::manifests;
use crate::stage;
use crate::world::{AGENT, World};

/// What its ClusterRole lets it do.
fn allowed() -> Roles {
    Roles::among([manifests::object("agent-rbac.yaml", "ClusterRole")]).unwrap()
}

/// It lists and watches, reads nothing for a pod that comes, and writes its report alone.
#[test]
fn of_the_api_server() {
    let Some(mut world) = World::with_fixture() else {
        return;
    };
    let flow = world.marked(10);
    let asked = |world: &World| {
        let server = world.fixture().unwrap();
        let requests = server.requests().into_iter();
        requests
            .filter(|request| request.client == AGENT)
            .collect::<Vec<_>>()
    };
    let before = asked(&world).len();
    let late = world.node.pod("late").unwrap();
    world.create_pod(&late, json!({"kubernetes.io/ingress-bandwidth": "5M"}));
    assert!(stage::eventually(|| stage::pod_status("late").is_some()));
    world.mark("p", 20);
    flow.wait_for(20);
    drop(flow.end());
    let has_written = || asked(&world).iter().any(Request::is_write);
    assert!(stage::eventually(has_written));
    // Kinds that do not exist are asked for again, by and by.
    let requests = asked(&world);
    let requests_since = requests[before..].iter();
    let more = requests_since.filter(|it| it.status != 404 && !it.is_write());
    let more: Vec<_> = more.map(|it| (it.verb, it.path.clone())).collect();
    assert_eq!(more, []);
    let allowed = allowed();
    assert_eq!(allowed.refused(&requests), BTreeSet::new(), "not allowed");
    // Kinds that do not exist are listed, and never watched.
    let unknown = requests.iter();
    let unknown = unknown.filter(|it| it.status == 404 && it.verb == "list");
    let unknown: BTreeSet<String> = unknown.map(Request::qualified_resource).collect();
    let mut unused = allowed.unused(&requests);
    unused.retain(|it| !(it.verb == "watch" && unknown.contains(&it.resource)));
    let unused: Vec<String> = unused.iter().map(ToString::to_string).collect();
    let elsewhere = [
        // Of who makes an object by applying it, a real server asks whether it may create one.
        "create networkqosnodereports.netqos.io */*",
        // For agents that a controller tells of peers.
        "list networkqospeerslices.netqos.io */*",
        "watch networkqospeerslices.netqos.io */*",
    ];
    assert_eq!(unused, elsewhere, "allowed and never asked for");
    let nodes = requests.iter().filter(|it| it.resource == "nodes");
    for request in nodes {
        let only = Some("metadata.name=node1".to_owned());
        assert_eq!(request.field_selector, only);
    }
}

/// Thousands of agents on clusters without OVN-Kubernetes ask for its kinds.
#[test]
fn and_more_and_more_seldom_for_what_is_not_there() {
    let Some(mut world) = World::with_fixture() else {
        return;
    };
    world.start_agent();
    sleep(Duration::from_secs(9));
    let requests = world.fixture().unwrap().requests();
    let mut asked: BTreeMap<String, usize> = BTreeMap::new();
    let unknown = requests
        .iter()
        .filter(|it| it.client == AGENT && it.status == 404);
    for request in unknown {
        *asked.entry(request.qualified_resource()).or_default() += 1;
    }
    assert_eq!(asked.len(), 4, "{asked:?}");
    // After 0.8 s, and after twice as long each time.
    assert!(
        asked.values().all(|times| (2..=6).contains(times)),
        "{asked:?}"
    );
}
