//! What a replica exports.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::collector::{Collector, Manner, Span};
use crate::world::{ASKING, TRACE, World, free_address};

/// The request that was made for a span.
fn request(collector: &Collector, of: &Span) -> Option<Span> {
    let below = collector.below(of).into_iter();
    let mut requests = below.filter(|it| it.attributes.contains_key("http.method"));
    requests.next()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn what_is_written_and_asked_is_shown_with_the_requests_that_it_took() {
    let world = World::new();
    world.create_webhook_configurations();
    world.create_pod("a", "web", "node1", "10.0.0.1");
    world.create_pod("b", "db", "node1", "10.0.0.2");
    world.create_policy("p", "web", "db");
    let collector = Collector::start(Manner::Takes);
    let webhook = free_address();
    let arguments = [
        "--webhook",
        &webhook,
        "--otlp-endpoint",
        &collector.endpoint(),
    ];
    let variables = [
        ("OTEL_BSP_SCHEDULE_DELAY", "50".as_ref()),
        ("POD_NAME", "netqos-controller-x".as_ref()),
    ];
    let one = world.replica_where("one", &arguments, &variables);
    world.wait_for_leader("one");
    world.wait_for_peers(&[&["10.0.0.2"]]);
    world.report("node1", &[("p", 1)], &json!([]));
    world.wait_for("p", "Ready", "True", "Ready");

    // A policy that is refused, in a trace of whoever writes it.
    world.wait_for_authority();
    let bad = json!({
        "apiVersion": "k8s.ovn.org/v1alpha1",
        "kind": "NetworkQoS",
        "metadata": {"name": "bad", "namespace": world.namespace},
        "spec": {"priority": 1, "egress": [{"dscp": 99}]}
    });
    let ask = |object: &Value| world.ask_webhook(&webhook, object);
    world.eventually("it does not answer", || ask(&bad).is_ok());
    assert_eq!(ask(&bad).unwrap()["allowed"], false);

    world.eventually("no question is shown", || {
        !collector.named("validate").is_empty()
    });
    let asked = &collector.named("validate")[0];
    assert_eq!(
        (hex(&asked.trace), hex(&asked.parent)),
        (TRACE.to_owned(), ASKING.to_owned())
    );
    assert_eq!(asked.says("netqos.kind"), "NetworkQoS");
    assert_eq!(asked.says("netqos.object"), "bad");
    assert_eq!(asked.says("netqos.operation"), "create");
    assert_eq!(asked.says("netqos.allowed"), "false");
    assert_eq!(asked.error, None);

    let shown = |name: &str, resource: &str| -> Option<(Span, Span)> {
        let spans = collector.named(name);
        let writes = spans.iter().flat_map(|round| {
            let writes = collector.below(round).into_iter();
            writes.map(move |write| (round.clone(), write))
        });
        let mut of_resource = writes.filter(|(_, it)| it.says("netqos.resource") == resource);
        of_resource.next()
    };
    for (name, resource, method) in [
        ("slices", "networkqospeerslices", "POST"),
        ("statuses", "networkqoses/status", "PATCH"),
    ] {
        world.eventually(&format!("no {name} are shown"), || {
            shown(name, resource).is_some()
        });
        let (round, write) = shown(name, resource).unwrap();
        assert!(round.parent.is_empty());
        assert_ne!(round.says("netqos.writes"), "0");
        assert_eq!(write.error, None);
        let request = request(&collector, &write).unwrap();
        assert_eq!(request.says("http.method"), method, "{request:?}");
        assert!(
            request.says("http.status_code").starts_with("20"),
            "{request:?}"
        );
        assert!(
            round.from <= request.from && request.to <= round.to,
            "{request:?}"
        );
    }
    let leads = |span: &&Span| span.says("netqos.leads") == "true";
    let lease = collector
        .named("lease")
        .iter()
        .find(leads)
        .cloned()
        .unwrap();
    assert_eq!(lease.says("netqos.identity"), "one");
    assert!(
        request(&collector, &lease)
            .unwrap()
            .says("http.url")
            .contains("/leases")
    );
    // A watch is nobody's.
    let spans = collector.spans();
    let requests = spans
        .iter()
        .filter(|it| it.attributes.contains_key("http.method"));
    assert!(
        requests.clone().all(|it| !it.parent.is_empty()),
        "{spans:#?}"
    );
    for (name, value) in [
        ("service.name", "netqos-controller"),
        ("service.instance.id", "one"),
        ("k8s.pod.name", "netqos-controller-x"),
    ] {
        assert_eq!(lease.resource[name], value);
    }
    assert!(!lease.resource.contains_key("k8s.node.name"));
    let log = world.log(&one);
    assert!(!log.contains("lease{") && !log.contains("HTTP{"), "{log}");
    assert_eq!(one.stop(), Some(0));
}

#[test]
fn a_collector_that_hangs_keeps_nobody() {
    let world = World::new();
    let collector = Collector::start(Manner::Hangs);
    let one = world.replica_with("one", &["--otlp-endpoint", &collector.endpoint()]);
    world.wait_for_leader("one");
    world.create_policy("p", "web", "db");
    world.create_pod("b", "db", "node1", "10.0.0.2");
    world.wait_for_peers(&[&["10.0.0.2"]]);
    world.eventually("it sends nothing", || collector.connections() > 0);
    let told = Instant::now();
    assert_eq!(one.stop(), Some(0));
    assert!(
        told.elapsed() < Duration::from_secs(5),
        "{:?}",
        told.elapsed()
    );
}
