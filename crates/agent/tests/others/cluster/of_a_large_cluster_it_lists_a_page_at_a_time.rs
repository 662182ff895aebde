use std::time::Duration;

use netqos_apiserver::Request;
use serde_json::{Value, json};

use super::controller::apps;
use super::stage::Flow;
use super::world::World;

/// More than a page has.
const PODS: usize = 600;

fn elsewhere(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "games", "labels": {"app": name}},
        "spec": {"nodeName": "node2", "containers": [{"name": "c", "image": "none"}]}
    })
}

/// What is on the last page is known as what is on the first is, and then heard of.
#[test]
fn and_misses_nothing() {
    let Some(mut world) = World::new() else {
        return;
    };
    world.flags = vec!["--peers", "pods"];
    let far = (0..PODS).map(|number| elsewhere(&format!("far{number}")));
    world.create_all("v1", "Pod", "games", far);
    // Lists are by name.
    let last = world.node.pod("z").unwrap();
    world.create("v1", "Pod", "games", elsewhere(last.name()));
    let address = last.address();
    let status = json!({"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]});
    world.patch_status(last.name(), &json!({"status": status}));
    world.mark_to("p", 1, 10, &apps(&["z"]));
    world.start_agent();
    let flow = Flow::begin(&world.a, &last, Duration::from_millis(1));
    flow.wait_for(10);

    let of_pods = |verb: &str| {
        let requests = world.asked().into_iter();
        let of_pods = requests.filter(|it| it.resource == "pods" && it.verb == verb);
        of_pods.collect::<Vec<Request>>()
    };
    let pages: Vec<bool> = of_pods("list").iter().map(|it| it.is_continued).collect();
    assert_eq!(pages, [false, true]);
    // A further one is asked for by where the one before it ended, and not by a state.
    let lists = of_pods("list");
    assert!(
        lists.iter().all(|it| it.resource_version.is_none()),
        "{lists:?}"
    );
    assert!(of_pods("watch").iter().all(|it| it.takes_bookmarks));

    // From there on it is told, and lists nothing again.
    let other = json!({"metadata": {"labels": {"app": "other"}}});
    world.patch("v1", "Pod", last.name(), &other);
    flow.wait_for_after(10, 0);
    assert_eq!(of_pods("list").len(), pages.len());
    assert_eq!(of_pods("watch").len(), 1);
    drop(flow.end());
}
