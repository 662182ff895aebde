//! What an agent exports, and that nothing else depends on it.

use std::time::{Duration, Instant};

use netqos_testkit::{Node, Pod};
use serde_json::json;

use crate::collector::{Collector, Manner, Span};
use crate::stage::{self, Agent};
use crate::the_nodes_lines_are_planned::{is_divided, put_config};

/// Sends what there is at once; the collector gets it by some other means than a flag.
const SOON: (&str, &str) = ("OTEL_BSP_SCHEDULE_DELAY", "50");
/// How long an agent may take to end: what is left of traces has two seconds.
const ENDS: Duration = Duration::from_secs(4);
/// A limit is in force within this, whoever collects traces.
const HELD: Duration = Duration::from_secs(1);

fn limited(pod: &Pod, rate: &str) -> String {
    stage::manifest(pod, json!({"kubernetes.io/egress-bandwidth": rate}))
}

fn is_held(node: &Node, pod: &Pod, rate: &str) -> bool {
    let shown = pod
        .run(node, "tc", &["qdisc", "show", "dev", "eth0"])
        .unwrap();
    shown.contains(&format!("rate {rate} "))
}

/// The sync in which a policy came.
fn sync_of(collector: &Collector, policy: &str) -> Option<Span> {
    let mut syncs = collector.named("sync").into_iter();
    syncs.find(|span| span.says("netqos.policies") == policy)
}

#[test]
fn a_policy_is_followed_into_the_kernel() {
    let Some(node) = stage::node() else { return };
    let (a, b) = stage::pods(&node);
    for pod in [&a, &b] {
        stage::put(
            &format!("{}.json", pod.name()),
            &stage::manifest(pod, json!({})),
        );
    }
    let collector = Collector::start(Manner::Takes);
    let agent = Agent::spawn_where(&[
        ("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.endpoint()),
        ("OTEL_EXPORTER_OTLP_HEADERS", "tenant=net%20qos"),
        (
            "OTEL_RESOURCE_ATTRIBUTES",
            "deployment.environment.name=test",
        ),
        ("POD_NAME", "netqos-agent-x"),
        ("POD_NAMESPACE", "netqos-system"),
        SOON,
    ]);
    agent.wait_until_ready();
    stage::put(
        "p.yaml",
        &stage::policy("p", "a", "[{dscp: 10, bandwidth: {rate: 20000}}]"),
    );
    let found = || sync_of(&collector, "games/p").is_some();
    assert!(stage::eventually(found), "{:?}", collector.spans());
    let sync = sync_of(&collector, "games/p").unwrap();
    assert!(sync.parent.is_empty());
    assert_eq!(sync.says("netqos.first"), "false");
    assert_eq!(sync.says("netqos.again"), "false");
    assert_ne!(sync.says("netqos.writes"), "0");
    assert_eq!(sync.error, None);
    let below = |parent: &Span, name: &str| -> Span {
        let mut found = collector.below(parent).into_iter();
        let one = found.find(|it| it.name == name);
        let one = one.unwrap_or_else(|| panic!("no {name}: {:#?}", collector.spans()));
        assert_eq!(one.trace, sync.trace);
        assert!(parent.from <= one.from && one.from <= one.to && one.to <= parent.to);
        one
    };
    let heard = below(&sync, "hear");
    assert_eq!(heard.says("netqos.source"), "manifests");
    assert_eq!(heard.says("netqos.changes"), "1");
    let plan = below(&sync, "plan");
    assert_eq!(plan.says("netqos.chains"), "1");
    assert_eq!(plan.says("netqos.endpoints"), "1");
    let rules = below(&sync, "rules");
    assert_eq!(rules.says("netqos.writes"), sync.says("netqos.writes"));
    let meter = below(&rules, "meter");
    assert_eq!(meter.says("netqos.rule"), "games/p[0]");
    let switch = below(&rules, "switch");
    assert_eq!(switch.says("k8s.pod.name"), "a");
    assert_eq!(switch.says("k8s.namespace.name"), "games");
    assert_eq!(switch.says("netqos.interface"), a.host_link());
    assert_eq!(switch.error, None);
    // Of which agent it is.
    let resource = &sync.resource;
    for (name, value) in [
        ("service.name", "netqos-agent"),
        ("service.version", env!("CARGO_PKG_VERSION")),
        ("service.instance.id", "node1"),
        ("k8s.node.name", "node1"),
        ("k8s.pod.name", "netqos-agent-x"),
        ("k8s.namespace.name", "netqos-system"),
        ("deployment.environment.name", "test"),
    ] {
        assert_eq!(
            resource.get(name).map(String::as_str),
            Some(value),
            "{resource:?}"
        );
    }
    let headers = collector.headers();
    assert!(
        headers.contains(&"POST /v1/traces HTTP/1.1".to_owned()),
        "{headers:?}"
    );
    assert!(
        headers.contains(&"tenant: net qos".to_owned()),
        "{headers:?}"
    );
    // What came first is a sync, too: the one that has made everything.
    let first = |span: &&Span| span.says("netqos.first") == "true";
    assert_eq!(collector.named("sync").iter().filter(first).count(), 1);
    // The log is none the longer for it.
    assert!(
        !stage::has_logged(&["sync{"]) && !stage::has_logged(&["hear{"]),
        "{}",
        stage::log()
    );
    assert!(stage::has_logged(&[
        "traces are exported",
        &collector.endpoint()
    ]));
    assert_eq!(agent.terminate(), Some(0));
}

#[test]
fn a_limit_is_shown_with_its_pod_and_a_failure_with_its_reason() {
    let Some(node) = stage::node() else { return };
    let (a, b) = stage::pods(&node);
    let collector = Collector::start(Manner::Takes);
    // What only the end sends.
    let delay = ("OTEL_BSP_SCHEDULE_DELAY", "3600000");
    let node1 = ["--node", "node1", "--manifests", stage::MANIFESTS];
    let agent = Agent::spawn_on(
        &node1,
        &["--otlp-endpoint", &collector.endpoint()],
        &[delay, ("OTEL_SERVICE_NAME", "mine")],
    );
    agent.wait_until_ready();
    stage::put("a.json", &limited(&a, "10M"));
    assert!(stage::eventually(|| is_held(&node, &a, "10Mbit")));
    // One that somebody else holds.
    let theirs = ["qdisc", "add", "dev", "eth0", "root", "handle", "7:", "htb"];
    b.run(&node, "tc", &theirs).unwrap();
    stage::put("b.json", &limited(&b, "10M"));
    let failed = || stage::has_logged(&["games/b", "hold it to its limits"]);
    assert!(stage::eventually(failed), "{}", stage::log());
    assert_eq!(collector.spans().len(), 0);
    assert_eq!(agent.terminate(), Some(0));
    // What was left when it ended was sent.
    let holds = collector.named("hold");
    let of = |pod: &str| holds.iter().find(|span| span.says("k8s.pod.name") == pod);
    let (of_a, of_b) = (of("a").unwrap(), of("b").unwrap());
    assert_eq!(of_a.error, None);
    assert_eq!(of_a.says("netqos.interface"), "eth0");
    assert!(of_a.events.contains(&"limits set".to_owned()), "{of_a:?}");
    assert!(of_b.error.as_ref().unwrap().contains("htb"), "{of_b:?}");
    assert_eq!(of_a.resource["service.name"], "mine");
    let spans = collector.spans();
    let parent = |span: &Span| {
        spans
            .iter()
            .find(|it| it.id == span.parent)
            .unwrap()
            .clone()
    };
    let limits = parent(of_b);
    assert_eq!(limits.name, "limits");
    let sync = parent(&limits);
    assert_eq!((sync.name.as_str(), sync.error.is_some()), ("sync", true));
}

/// What another thread does belongs to the change that has asked for it; that it looks after what is in
/// force, every ten seconds, is no change.
#[test]
fn a_change_of_shares_is_followed_to_the_line() {
    let Some(node) = stage::node() else { return };
    stage::line(&node);
    let collector = Collector::start(Manner::Takes);
    let agent = Agent::spawn_where(&[("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.endpoint()), SOON]);
    agent.wait_until_ready();
    put_config(20, "1000M");
    assert!(stage::eventually(|| is_divided(&node, 200)));
    let lines = || collector.named("line");
    assert!(stage::eventually(|| lines().len() == 2), "{:?}", lines());
    assert!(stage::eventually(|| collector.named("divide").len() == 1));
    let divide = &collector.named("divide")[0];
    assert_eq!(divide.says("netqos.class_backend"), "kernel");
    assert_eq!(divide.says("netqos.lines"), "1");
    assert_ne!(divide.says("netqos.writes"), "0");
    assert_eq!(divide.error, None);
    let mut directions: Vec<String> = Vec::new();
    for line in collector
        .below(divide)
        .iter()
        .filter(|it| it.name == "line")
    {
        assert_eq!(line.says("netqos.line"), "up0");
        assert_ne!(line.says("netqos.writes"), "0");
        directions.push(line.says("netqos.direction").to_owned());
    }
    assert_eq!(directions, ["egress", "ingress"]);
    let syncs = || collector.named("sync").into_iter();
    let sync = || syncs().find(|sync| sync.trace == divide.trace);
    assert!(stage::eventually(|| sync().is_some()));
    let above = collector.named("lines").into_iter();
    let above = above.filter(|it| it.id == divide.parent);
    let parents: Vec<Vec<u8>> = above.map(|it| it.parent).collect();
    assert_eq!(parents, [sync().unwrap().id]);
    // It has looked by then.
    std::thread::sleep(Duration::from_secs(11));
    assert_eq!(collector.named("divide").len(), 1);
}

/// One that is not there, and one that takes a request and never answers it.
#[test]
fn whatever_becomes_of_the_collector_limits_are_in_force_in_time_and_it_ends() {
    let Some(node) = stage::node() else { return };
    let (a, _b) = stage::pods(&node);
    let hangs = Collector::start(Manner::Hangs);
    // A port that nobody listens on.
    let away = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    };
    for endpoint in [hangs.endpoint(), away] {
        stage::put("a.json", &stage::manifest(&a, json!({})));
        let variables = [
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", endpoint.as_str()),
            // Soon full.
            ("OTEL_BSP_MAX_QUEUE_SIZE", "8"),
            ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "4"),
            SOON,
        ];
        let agent = Agent::spawn_where(&variables);
        agent.wait_until_ready();
        for rate in 10..30 {
            stage::put("a.json", &limited(&a, &format!("{rate}M")));
            let asked = Instant::now();
            let rate = format!("{rate}Mbit");
            assert!(
                stage::eventually(|| is_held(&node, &a, &rate)),
                "{endpoint}"
            );
            assert!(asked.elapsed() < HELD, "{endpoint}: {:?}", asked.elapsed());
        }
        // It has been tried by then.
        let is_tried = || match endpoint == hangs.endpoint() {
            true => hangs.headers().contains(&"POST / HTTP/1.1".to_owned()),
            false => stage::has_logged(&["traces are lost", "onnect"]),
        };
        assert!(stage::eventually(is_tried), "{}", stage::log());
        let told = Instant::now();
        assert_eq!(agent.terminate(), Some(0));
        assert!(told.elapsed() < ENDS, "{endpoint}: {:?}", told.elapsed());
        // Not once for each batch.
        let log = stage::log();
        assert!(log.matches("traces are lost,").count() <= 1, "{log}");
        assert!(is_held(&node, &a, "29Mbit"));
    }
}

#[test]
fn unless_it_is_asked_to_it_exports_nothing() {
    let Some(node) = stage::node() else { return };
    let (a, _b) = stage::pods(&node);
    stage::put("a.json", &limited(&a, "10M"));
    let collector = Collector::start(Manner::Takes);
    let endpoint = collector.endpoint();
    let address = endpoint.strip_prefix("http://").unwrap();
    let threads = |agent: &Agent| -> Vec<String> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", agent.pid())).unwrap();
        let mut names: Vec<String> = tasks
            .map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")).unwrap())
            .collect();
        names.sort();
        names
    };
    let plain = Agent::start();
    let usual = threads(&plain);
    assert!(
        !usual.iter().any(|name| name.starts_with("OpenTelemetry")),
        "{usual:?}"
    );
    drop(plain);
    let grpc = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
    ];
    let off = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()),
        ("OTEL_SDK_DISABLED", "true"),
    ];
    let wrong = [("OTEL_EXPORTER_OTLP_ENDPOINT", address)];
    let cases: [(&[(&str, &str)], &str); 3] = [
        // What the environment of a cluster says wrongly keeps no limit from being in force.
        (
            &grpc,
            "OTEL_EXPORTER_OTLP_PROTOCOL \"grpc\": traces are sent by http/protobuf alone",
        ),
        (&off, ""),
        (&wrong, "OTEL_EXPORTER_OTLP_ENDPOINT"),
    ];
    for (variables, said) in cases {
        let mut variables = variables.to_vec();
        variables.push(SOON);
        let agent = Agent::spawn_where(&variables);
        agent.wait_until_ready();
        assert!(is_held(&node, &a, "10Mbit"));
        assert!(stage::has_logged(&[said]), "{}", stage::log());
        assert_eq!(
            said.is_empty(),
            !stage::has_logged(&["no traces are exported"])
        );
        assert_eq!(threads(&agent), usual);
        assert_eq!(agent.terminate(), Some(0));
    }
    assert_eq!(collector.connections(), 0);
    // Who gives the flag is there to be told.
    let agent = Agent::spawn(&["--otlp-endpoint", address]);
    assert_eq!(agent.ends(), Some(2));
    assert!(
        stage::has_logged(&["--otlp-endpoint", "is no http://HOST:PORT"]),
        "{}",
        stage::log()
    );
}
