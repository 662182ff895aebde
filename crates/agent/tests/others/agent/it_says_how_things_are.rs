use std::io::Write as _;
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use netqos_agent::client;
use serde_json::{Value, json};

use super::stage::{self, Agent, Flow, RUN};

#[test]
fn to_probes_and_prometheus_and_people() {
    let Some(node) = stage::node() else { return };
    let (a, b) = stage::pods(&node);
    let limit = json!({"kubernetes.io/egress-bandwidth": "80M"});
    stage::put("a.json", &stage::manifest(&a, limit));
    stage::put("p.yaml", &stage::policy("p", "a", "[{dscp: 46}]"));
    let _agent = Agent::start();
    let flow = Flow::begin(&a, &b, Duration::from_millis(1));
    for _ in 0..50 {
        flow.wait_for(46);
    }
    let marked = 50 + flow.end().len() as u64;

    assert_eq!(stage::ask("/livez"), "ok\n");
    assert_eq!(stage::ask("/readyz"), "ok\n");
    assert_eq!(
        stage::ask("/readyz?verbose"),
        "[+]manifests ok\n[+]attachments ok\n[+]cgroups ok\n[+]net-files ok\n[+]sync ok\n\
         [+]rules ok\n[+]limits ok\nreadyz check passed\n"
    );
    let pod = stage::pod_status("a").unwrap();
    assert_eq!((pod.interface.as_str(), pod.failing.as_str()), ("eth0", ""));
    assert_eq!(pod.rules[0].rule, "games/p[0]");
    assert_eq!(pod.rules[0].dscp, Some(46));
    assert!(
        pod.rules[0].counts.marked_packets >= marked,
        "{:?}, not {marked}",
        pod.rules[0]
    );

    let metrics = stage::ask("/metrics");
    let of = "namespace=\"games\",pod=\"a\",interface=\"eth0\",direction=\"egress\"";
    for line in [
        &format!("netqos_pod_rate_limit_bytes_per_second{{{of},rule=\"\"}} 10000000.0"),
        "netqos_build_info{version=",
        "netqos_reconcile_duration_seconds_count",
        "netqos_objects{kind=\"NetworkQoS\"} 1",
        "netqos_objects{kind=\"Pod\"} 1",
        "netqos_endpoints{state=\"in_force\"} 1",
        "# EOF",
    ] {
        assert!(metrics.contains(line), "{line} is not in {metrics}");
    }
    for name in ["bytes", "packets", "marked_packets"] {
        let line = format!("netqos_pod_{name}_total{{{of},rule=\"games/p[0]\"}} ");
        let value = metrics.split(&line).nth(1);
        let value = value.unwrap_or_else(|| panic!("{line} is not in {metrics}"));
        let value: u64 = value.lines().next().unwrap().parse().unwrap();
        assert!(value >= marked, "{name}: {value}, not {marked}");
    }

    let state: Value = serde_json::from_str(&stage::ask("/debug/state")).unwrap();
    assert_eq!(state["desired"]["endpoints"].as_object().unwrap().len(), 1);
    assert_eq!(
        state["actual"]["rules"]["endpoints"]
            .as_object()
            .unwrap()
            .len(),
        1
    );
    assert_eq!(state["problems"], json!([]));

    // What the kernel has is found out when it is quiet.
    for feature in [
        "qdisc tbf",
        "qdisc htb",
        "programs of rules",
        "programs of classes",
    ] {
        let metric =
            format!("netqos_datapath_feature_info{{feature=\"{feature}\",works=\"true\"}} 1");
        let is_measured = || stage::ask("/metrics").contains(&metric);
        assert!(stage::eventually(is_measured), "{feature}");
    }
}

#[test]
fn without_names_of_pods_where_they_are_not_wanted() {
    let Some(node) = stage::node() else { return };
    let (a, _b) = stage::pods(&node);
    stage::put("a.json", &stage::manifest(&a, json!({})));
    stage::put("p.yaml", &stage::policy("p", "a", "[{dscp: 46}]"));
    let _agent = Agent::start_with(&["--no-pod-labels"]);
    let metrics = stage::ask("/metrics");
    assert!(!metrics.contains("pod=\""), "{metrics}");
    let line = "netqos_pod_packets_total{direction=\"egress\",rule=\"games/p[0]\"}";
    assert!(metrics.contains(line), "{metrics}");
}

#[test]
fn and_says_more_when_it_is_told_to_while_it_runs() {
    let Some(_node) = stage::node() else { return };
    let _agent = Agent::start_with(&["--listen", "127.0.0.1:9999"]);
    let put = |level: &str| client::request(Path::new(RUN), "PUT", "/loglevel", level).unwrap();
    assert_eq!(
        put("netqos_agent=trace,info"),
        (200, "netqos_agent=trace,info\n".to_owned())
    );
    assert_eq!(stage::ask("/loglevel"), "netqos_agent=trace,info\n");
    assert_eq!(put("netqos=loud").0, 400);
    // The address is for reading.
    let over_tcp = |request: &str| {
        use std::io::Read as _;
        let mut stream = std::net::TcpStream::connect("127.0.0.1:9999").unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    assert!(over_tcp("GET /readyz HTTP/1.0\r\n\r\n").starts_with("HTTP/1.0 200"));
    let refused = over_tcp("PUT /loglevel HTTP/1.0\r\nContent-Length: 5\r\n\r\ndebug");
    assert!(refused.starts_with("HTTP/1.0 404"), "{refused}");
}

/// The second one says who is there already, and changes nothing.
#[test]
fn to_whoever_starts_a_second_one() {
    let Some(node) = stage::node() else { return };
    let (a, b) = stage::pods(&node);
    stage::put("a.json", &stage::manifest(&a, json!({})));
    stage::put("p.yaml", &stage::policy("p", "a", "[{dscp: 46}]"));
    let agent = Agent::start();
    let flow = Flow::begin(&a, &b, Duration::from_millis(1));
    flow.wait_for(46);
    std::thread::sleep(Duration::from_millis(1500));
    let before = node.state(&[&a]).unwrap();
    // One that would lift all of it.
    std::fs::create_dir("/run/empty").unwrap();
    let second = Agent::spawn_on(&["--node", "node1", "--manifests", "/run/empty"], &[], &[]);
    assert_eq!(second.ends(), Some(1));
    let holder = format!("process {} holds /run/netqos/agent.lock", agent.pid());
    assert!(
        stage::has_logged(&[&holder, "stop that one first"]),
        "{}",
        stage::log()
    );
    assert_eq!(stage::ask("/livez"), "ok\n");
    node.state(&[&a])
        .unwrap()
        .assert_is(&before, "there was a second one");
    let seen = flow.end_after(100);
    assert!(seen.iter().all(|seen| seen.dscp == 46));
    // With the first one the lock is gone.
    assert_eq!(agent.terminate(), Some(0));
    drop(Agent::start());
}

/// Somebody writes to a file when it starts: what that will say is waited for, and nothing is in
/// force meanwhile.
#[test]
fn and_that_it_is_not_ready_before_the_folder_was_read() {
    let Some(_node) = stage::node() else { return };
    let path = Path::new(stage::MANIFESTS).join("p.yaml");
    let mut file = std::fs::File::create(path).unwrap();
    let (enough, told) = mpsc::channel::<()>();
    let writer = std::thread::spawn(move || {
        while told.recv_timeout(Duration::from_millis(5)) == Err(RecvTimeoutError::Timeout) {
            file.write_all(b"# not whole yet\n").unwrap();
        }
    });
    let _agent = Agent::spawn(&[]);
    let mut first = None;
    assert!(stage::eventually(|| {
        first = client::request(Path::new(RUN), "GET", "/readyz", "").ok();
        first.is_some()
    }));
    let (code, text) = first.unwrap();
    assert_eq!(code, 503, "{text}");
    for line in [
        "[-]manifests failed: not read yet\n",
        "[-]sync failed: the plan was not put in force yet\n",
        "readyz check failed\n",
    ] {
        assert!(text.contains(line), "{text}");
    }
    assert_eq!(stage::ask("/livez"), "ok\n");
    drop(enough);
    writer.join().unwrap();
    assert!(stage::eventually(|| stage::status().is_ready()));
    assert_eq!(stage::ask("/readyz"), "ok\n");
}

#[test]
fn and_nothing_where_there_is_no_folder() {
    let Some(_node) = stage::node() else { return };
    std::fs::remove_dir(stage::MANIFESTS).unwrap();
    assert_eq!(Agent::spawn(&[]).ends(), Some(1));
}

/// A folder that goes leaves what it said in force, and is told of.
#[test]
fn and_that_the_folder_is_gone() {
    let Some(node) = stage::node() else { return };
    let (a, b) = stage::pods(&node);
    stage::put("a.json", &stage::manifest(&a, json!({})));
    stage::put("p.yaml", &stage::policy("p", "a", "[{dscp: 46}]"));
    let _agent = Agent::start();
    std::fs::rename(stage::MANIFESTS, "/run/aside").unwrap();
    assert!(stage::eventually(|| stage::status().problems.len() == 1));
    let flow = Flow::begin(&a, &b, Duration::from_millis(1));
    flow.wait_for(46);
    assert!(flow.end().iter().all(|seen| seen.dscp == 46));
    std::fs::rename("/run/aside", stage::MANIFESTS).unwrap();
    assert!(stage::eventually(|| stage::status().problems.is_empty()));
    stage::put("p.yaml", &stage::policy("p", "a", "[{dscp: 10}]"));
    let flow = Flow::begin(&a, &b, Duration::from_millis(1));
    flow.wait_for(10);
}
