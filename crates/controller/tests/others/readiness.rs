//! Whether a replica can be asked, as its `/readyz` says.

use netqos_faults::Fault;
use serde_json::json;

use crate::world::{HOME, Replica, World, free_address, http};

const CONFIGURATION: (&str, &str, &str) = (
    "admissionregistration.k8s.io/v1",
    "ValidatingWebhookConfiguration",
    "",
);

/// A replica that serves the webhook, and what its `/readyz` says of it.
fn replica(world: &World, name: &str) -> (Replica, impl Fn() -> Option<(u16, String)>) {
    let listen = free_address();
    let replica = world.replica_with(name, &["--webhook", &free_address(), "--listen", &listen]);
    let readiness = move || {
        let (code, text) = http(&listen, "GET", "/readyz?verbose", "")?;
        let mut lines = text.lines();
        let line = lines.find(|line| line.get(3..).is_some_and(|it| it.starts_with("webhook")));
        Some((code, line?.to_owned()))
    };
    (replica, readiness)
}

#[test]
fn it_is_ready_when_its_webhook_can_be_asked() {
    let world = World::new();
    world.create_webhook_configurations();
    let (_one, readiness) = replica(&world, "one");
    let ready = Some((200, "[+]webhook ok".to_owned()));
    world.eventually("it is not ready", || readiness() == ready);
    // What it is ready for.
    let secret = world.get(("v1", "Secret", HOME), "netqos-webhook-certificate");
    let configuration = world.get(CONFIGURATION, "netqos").unwrap();
    let authority = &secret.unwrap()["data"]["ca.crt"];
    assert!(authority.is_string());
    for webhook in configuration["webhooks"].as_array().unwrap() {
        assert_eq!(webhook["clientConfig"]["caBundle"], *authority);
    }
}

/// And each of them is tried again within seconds, where in order it is looked once a minute.
#[test]
fn it_is_not_ready_without_a_certificate_or_while_nobody_knows_its_authority() {
    let world = World::new();
    world.create_webhook_configurations();
    let configurations = "validatingwebhookconfigurations";
    for (name, verb, resource, says) in [
        (
            "one",
            "get",
            "secrets",
            "there is no certificate yet: the Secret: ",
        ),
        (
            "two",
            "patch",
            configurations,
            "API servers do not know its authority: write its authority into the webhook",
        ),
        (
            "three",
            "get",
            configurations,
            "API servers do not know its authority: read the webhook configurations: ",
        ),
    ] {
        let fault = Fault::status(500).on(verb, resource).of(name);
        world.front.inject(fault);
        // Each has to tell of it.
        let removed = json!({"webhooks": null});
        world.merge(CONFIGURATION, "netqos", &removed);
        world.merge(CONFIGURATION, "netqos", &world.webhooks());
        let (replica, readiness) = replica(&world, name);
        let failed = format!("[-]webhook failed: {says}");
        let mut last = None;
        world.eventually(&format!("{name} does not say that it is not ready"), || {
            last = readiness();
            last.as_ref()
                .is_some_and(|(code, line)| *code == 503 && line.starts_with(&failed))
        });
        world.front.heal();
        let ready = Some((200, "[+]webhook ok".to_owned()));
        world.eventually(&format!("{name} does not try again soon: {last:?}"), || {
            readiness() == ready
        });
        drop(replica);
    }
}
