//! What the controller is beside its own work: the webhook's server, and who gives namespaces their
//! default policies.

use std::time::Duration;

use k8s_openapi::ByteString;
use netqos_admission::Certificates;
use serde_json::{Value, json};

use crate::world::{World, free_address};

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
    let _two = world.standby("two");
    let number = world.front.requests().len();
    world.eventually("it has no default", || {
        world.get(world.policies(), &name).is_some()
    });
    world.wait_for(&name, "Ready", "True", "Ready");
    world.delete(defaults, &name);
    world.eventually("the default stays", || {
        world.get(world.policies(), &name).is_none()
    });
    assert_eq!(world.writes_since("two", number).len(), 0);
}

/// Each is asked as an API server asks it: by the name of the Service, knowing the authority that was
/// published, and nobody else's.
#[test]
fn every_replica_serves_the_webhook_by_a_certificate_that_they_share() {
    let world = World::new();
    world.create_webhook_configurations();
    let quota = ("netqos.io/v1alpha1", "NetworkQoSQuota", "");
    world.create(
        quota.0,
        quota.1,
        "",
        json!({
            "metadata": {"name": "tenants"},
            "spec": {"namespaceSelector": {}, "priority": {"max": 50}}
        }),
    );
    let (first, second) = (free_address(), free_address());
    let _one = world.replica_with("one", &["--webhook", &first]);
    let _two = world.replica_with("two", &["--webhook", &second]);
    world.wait_for_authority();
    let bad = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a", "annotations": {"kubernetes.io/egress-bandwidth": "10Mbit"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]}
    });
    let high = json!({
        "apiVersion": "k8s.ovn.org/v1alpha1",
        "kind": "NetworkQoS",
        "metadata": {"name": "p", "namespace": world.namespace},
        "spec": {"priority": 90, "egress": [{"dscp": 10}]}
    });
    for address in [&first, &second] {
        let ask = |object: &Value| world.ask_webhook(address, object);
        world.eventually("it does not answer", || ask(&bad).is_ok());
        let response = ask(&bad).unwrap();
        assert_eq!(response["uid"], "question");
        assert_eq!(response["allowed"], true);
        let warning = response["warnings"][0].as_str().unwrap();
        assert!(
            warning.contains("kubernetes.io/egress-bandwidth"),
            "{warning}"
        );
        // What it has to know the cluster for.
        world.eventually("it does not refuse what is beyond the quota", || {
            ask(&high).unwrap()["allowed"] == false
        });
        let response = ask(&high).unwrap();
        assert_eq!(response["status"]["code"], 403, "{response}");
    }
    // And with another authority, nobody believes it.
    let own = ["netqos-webhook.netqos-system.svc".to_owned()];
    let other = Certificates::make(&own, Duration::from_secs(600), None).unwrap();
    let other = ByteString(other.authorities.into_bytes());
    let other = serde_json::to_value(other).unwrap();
    let refused = world.ask_webhook_knowing(&first, other.as_str().unwrap(), &bad);
    assert!(refused.unwrap_err().contains("certificate"));
}
