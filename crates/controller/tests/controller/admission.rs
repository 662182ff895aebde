//! What the controller is beside its own work: the webhook's server, and who gives namespaces their
//! default policies.

use std::net::TcpListener;

use serde_json::json;

use crate::world::{HOME, World};

#[test]
fn who_leads_gives_namespaces_their_default() {
    let world = World::new();
    let selected = json!({"kubernetes.io/metadata.name": world.namespace});
    let defaults = ("netqos.io/v1alpha1", "NetworkQoSDefault", "");
    let name = format!("free-{}", world.namespace);
    world.create(
        defaults.0,
        defaults.1,
        "",
        json!({
            "metadata": {"name": name},
            "spec": {
                "namespaceSelector": {"matchLabels": selected},
                "template": {"spec": {"priority": 1, "egress": [{"bandwidth": {"rate": 10000}}]}}
            }
        }),
    );
    let _one = world.replica("one");
    world.wait_for_leader("one");
    let _two = world.replica("two");
    world.eventually("it has no default", || {
        world.get(world.policies(), &name).is_some()
    });
    world.wait_for(&name, "Ready", "True", "Ready");
    world.delete(defaults, &name);
    world.eventually("the default stays", || {
        world.get(world.policies(), &name).is_none()
    });
    if world.cluster.as_fixture().is_some() {
        let written = world.requests("two").into_iter();
        let mut written = written.filter(|(verb, _)| verb == "create" || verb == "delete");
        assert_eq!(written.next(), None);
    }
}

#[test]
fn every_replica_serves_the_webhook_by_a_certificate_that_they_share() {
    let world = World::new();
    let address = || {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        free.local_addr().unwrap().to_string()
    };
    let (first, second) = (address(), address());
    let _one = world.replica_with("one", &["--webhook", &first]);
    let _two = world.replica_with("two", &["--webhook", &second]);
    let secret = || world.get(("v1", "Secret", HOME), "netqos-webhook-certificate");
    world.eventually("there is no certificate", || secret().is_some());
    for address in [&first, &second] {
        world.eventually("it does not listen", || {
            std::net::TcpStream::connect(address).is_ok()
        });
    }
}
