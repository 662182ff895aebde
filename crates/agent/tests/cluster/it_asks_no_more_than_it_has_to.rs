use std::collections::{BTreeMap, BTreeSet};
use std::thread::sleep;
use std::time::Duration;

use serde_json::json;

use crate::stage;
use crate::world::{AGENT, World};

/// What docs/agent.md says that its ClusterRole needs.
const READ: [&str; 11] = [
    "bandwidthprofiles.netqos.io",
    "clusteruserdefinednetworks.k8s.ovn.org",
    "endpointslices.discovery.k8s.io",
    "namespaces",
    "network-attachment-definitions.k8s.cni.cncf.io",
    "networkqoses.k8s.ovn.org",
    "networkqosquotas.netqos.io",
    "nodes",
    "pods",
    "services",
    "userdefinednetworks.k8s.ovn.org",
];

/// It lists and watches, reads nothing for a pod that comes, and writes nothing.
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
    // Kinds that do not exist are asked for again, by and by.
    let requests = asked(&world);
    let more = requests[before..].iter().filter(|it| it.status != 404);
    let more: Vec<_> = more.map(|it| (it.verb, it.path.clone())).collect();
    assert_eq!(more, []);
    let verbs: BTreeSet<&str> = requests.iter().map(|it| it.verb).collect();
    assert_eq!(verbs, BTreeSet::from(["list", "watch"]));
    let read = requests.iter().map(|it| it.qualified_resource());
    let read: BTreeSet<String> = read.collect();
    assert_eq!(read, READ.map(str::to_owned).into());
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
    assert_eq!(asked.len(), 3, "{asked:?}");
    // After 0.8 s, and after twice as long each time.
    assert!(
        asked.values().all(|times| (2..=6).contains(times)),
        "{asked:?}"
    );
}
