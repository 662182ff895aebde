//! From the ConfigMap to the packet: what it says of shares is what pods' connections get of the line,
//! and when it says something else, connections that go on get that.

use crate::config_map::{assert_followed, of_class, outside};
use crate::stage::{self, Agent};

#[test]
fn before_a_change_and_after_it() {
    let Some(node) = stage::node() else { return };
    let far = outside(&node);
    let (online, offline) = stage::pods(&node);
    for (pod, class) in [(&online, "LS"), (&offline, "BE")] {
        let file = format!("{}.json", pod.name());
        stage::put(&file, &stage::manifest(pod, of_class(class)));
    }
    let put = |config: &serde_json::Value| stage::put("config.json", &config.to_string());
    let _agent = Agent::start();
    assert_followed(&node, &far, [&online, &offline], put);
}
