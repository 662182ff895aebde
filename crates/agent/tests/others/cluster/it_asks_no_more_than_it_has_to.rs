use std::collections::BTreeSet;
use std::thread::sleep;
use std::time::Duration;

use netqos_faults::{Request, Roles};
use serde_json::json;

use super::controller::apps;
use super::manifests;
use super::stage;
use super::world::World;

/// What its ClusterRole and its Role let it do.
fn allowed() -> Roles {
    let kinds = ["ClusterRole", "Role"];
    Roles::among(kinds.map(|kind| manifests::object("agent-rbac.yaml", kind))).unwrap()
}

/// The resource that agents watch while a kind does not exist.
const CRDS: &str = "customresourcedefinitions";

/// What is allowed and was not asked for. Kinds that do not exist are listed, and never watched; the CRDs of
/// those alone are.
fn unused(allowed: &Roles, requests: &[Request]) -> Vec<String> {
    let unknown = requests.iter();
    let unknown = unknown.filter(|it| it.status == 404 && it.verb == "list");
    let unknown: BTreeSet<String> = unknown.map(Request::qualified_resource).collect();
    let exists = |name: &Option<String>| name.as_ref().is_some_and(|it| !unknown.contains(it));
    let mut unused = allowed.unused(requests);
    unused.retain(|it| !(it.verb == "watch" && unknown.contains(&it.resource)));
    unused.retain(|it| !(it.resource.starts_with(CRDS) && exists(&it.name)));
    unused.iter().map(ToString::to_string).collect()
}

/// It lists and watches, reads nothing for a pod that comes, and writes its report alone; and nothing is allowed that
/// is never asked for.
#[test]
fn of_the_api_server() {
    let Some((mut world, mut controller)) = World::with_controller() else {
        return;
    };
    // It waits until somebody publishes whom the policy means, and asks who leads.
    world.mark_to("p", 1, 10, &apps(&["b"]));
    world.spawn_agent();
    let has_asked = |what: &str| {
        let mut requests = world.asked().into_iter();
        requests.any(|it| it.qualified_resource() == what)
    };
    assert!(stage::eventually(|| {
        has_asked("leases.coordination.k8s.io")
    }));
    controller.publish(&world);
    let flow = world.flow();
    flow.wait_for(10);
    let before = world.asked().len();
    let late = world.node.pod("late").unwrap();
    world.create_pod(&late, json!({"kubernetes.io/ingress-bandwidth": "5M"}));
    assert!(stage::eventually(|| stage::pod_status("late").is_some()));
    world.mark_to("p", 1, 20, &apps(&["b"]));
    flow.wait_for(20);
    drop(flow.end());
    let has_written = || world.asked().iter().any(Request::is_write);
    assert!(stage::eventually(has_written));
    // The CRDs of kinds that do not exist may be listed only now.
    let requests = world.asked();
    let requests_since = requests[before..].iter();
    let more = requests_since.filter(|it| it.resource != CRDS && !it.is_write());
    let more: Vec<_> = more.map(|it| (it.verb, it.path.clone())).collect();
    assert_eq!(more, []);
    let allowed = allowed();
    assert_eq!(allowed.refused(&requests), BTreeSet::new(), "not allowed");
    // Of who makes an object by applying it, a real server asks whether it may create one.
    let elsewhere = ["create networkqosnodereports.netqos.io */*"];
    assert_eq!(unused(&allowed, &requests), elsewhere, "never asked for");
    let selectors = [
        ("nodes", "metadata.name=node1"),
        ("pods", "spec.nodeName=node1"),
    ];
    for (resource, own) in selectors {
        for request in requests.iter().filter(|it| it.resource == resource) {
            assert_eq!(request.field_selector.as_deref(), Some(own));
        }
    }
    let watches = requests.iter().filter(|it| it.verb == "watch");
    for watch in watches {
        assert!(watch.takes_bookmarks, "{}", watch.path);
    }
    // Thousands of them ask the watch cache, and not the database.
    let lists = requests.iter().filter(|it| it.verb == "list");
    for list in lists {
        assert_eq!(list.resource_version.as_deref(), Some("0"), "{}", list.path);
    }
}

/// A watch that ends goes on where the last bookmark was, and not where something of its kind was changed
/// last, which a server may have forgotten since: then all would be listed again.
#[test]
fn and_lists_nothing_again_where_a_bookmark_said_how_far_it_has_come() {
    let Some(mut world) = World::new() else {
        return;
    };
    world.start_agent();
    let lists = |world: &World| {
        let requests = world.asked().into_iter();
        requests.filter(|it| it.verb == "list").count()
    };
    // What no agent watches.
    let told = json!({"metadata": {"name": "told", "namespace": "games"}});
    world.create("v1", "ConfigMap", "games", told);
    let told = world.list("v1", "ConfigMap").pop().unwrap();
    let version = |text: &str| text.parse::<u64>().unwrap();
    let by_then = version(told["metadata"]["resourceVersion"].as_str().unwrap());
    sleep(Duration::from_secs(2));
    world.front.bookmark(by_then);
    sleep(Duration::from_secs(1));
    let before = lists(&world);
    let known = world.asked().len();
    world.front.end_watches();
    let again = || {
        let again = world.asked().split_off(known).into_iter();
        let again = again.filter(|it| it.verb == "watch");
        again.collect::<Vec<Request>>()
    };
    let kinds = || {
        let kinds: BTreeSet<String> = again().iter().map(Request::qualified_resource).collect();
        kinds
    };
    assert!(stage::eventually(|| kinds().len() >= 6), "{:?}", kinds());
    for watch in again() {
        let from = watch.resource_version.as_deref().unwrap_or_default();
        assert!(version(from) >= by_then, "{}: {from}", watch.path);
    }
    assert_eq!(lists(&world), before);
}

/// As on clusters without OVN-Kubernetes, Multus and Koordinator.
#[test]
fn agent_without_optional_crds_sends_no_periodic_requests() {
    let Some(mut world) = World::new() else {
        return;
    };
    world.start_agent();
    sleep(Duration::from_secs(2));
    let requests = world.asked();
    let of_absent = requests.iter().filter(|it| it.status == 404);
    let of_absent: Vec<String> = of_absent.map(Request::qualified_resource).collect();
    let distinct: BTreeSet<&String> = of_absent.iter().collect();
    assert_eq!((of_absent.len(), distinct.len()), (4, 4), "{of_absent:?}");
    let of_crds = requests.iter().filter(|it| it.resource == CRDS);
    let verbs: Vec<&str> = of_crds.map(|it| it.verb).collect();
    let count = |verb: &str| verbs.iter().filter(|it| **it == verb).count();
    assert_eq!((count("list"), count("watch")), (4, 4));
    sleep(Duration::from_secs(20));
    let since = world.asked().split_off(requests.len()).into_iter();
    // Its report is written within five seconds of the start.
    let since = since.filter(|it| !it.is_write());
    let since: Vec<_> = since.map(|it| (it.verb, it.path)).collect();
    assert_eq!(since, []);
}
