//! Who shares the node's lines follows from objects, and from the node itself.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use netqos_testkit::{Node, Pod};
use netqos_traffic::{Server, TcpTest};

use super::cgroup::{Driver, Tree};
use super::config_map::outside;
use super::stage::{self, Agent};

const UID: &str = "e2b7d960-13a8-4f7c-b2c5-58f90c4d7a3b";

pub(crate) fn put_config(be: u8, total: &str) {
    let class = |request: u8| json!({"networkQOS": {"enable": true, "ingressRequest": request, "egressRequest": request}});
    let resources = json!({"clusterStrategy": {"lsClass": class(30), "beClass": class(be)}});
    put_config_map(&resources, total);
}

/// The ConfigMap as a whole: what it says of resources, and of what a line has altogether.
pub(crate) fn put_config_map(resources: &Value, total: &str) {
    let system = json!({"clusterStrategy": {"totalNetworkBandwidth": total}});
    let config = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "slo-controller-config", "namespace": "koordinator-system"},
        "data": {
            "resource-qos-config": resources.to_string(), "system-config": system.to_string()
        }
    });
    stage::put("config.json", &config.to_string());
}

pub(crate) fn state() -> Value {
    serde_json::from_str(&stage::ask("/debug/state")).unwrap()
}

/// What best-effort pods have guaranteed of what the line sends, in Mbit/s.
pub(crate) fn guaranteed() -> Option<u64> {
    let status = stage::status();
    let line = status.lines.iter().find(|line| line.name == "up0")?;
    let mut shares = line.shares.iter();
    let share = shares.find(|it| it.direction == "egress" && it.class == "best-effort")?;
    Some(share.min / 1_000_000)
}

pub(crate) fn classes(node: &Node) -> String {
    node.run("tc", &["class", "show", "dev", "up0"]).unwrap()
}

/// True when best-effort pods have so many Mbit/s of what the line sends, in the kernel.
pub(crate) fn is_divided(node: &Node, megabits: u64) -> bool {
    classes(node).contains(&format!(
        "class htb 6e71:4 parent 6e71:1 rate {megabits}Mbit"
    ))
}

/// The problems of lines and classes.
pub(crate) fn problems() -> Vec<String> {
    let problems = stage::status().problems.into_iter();
    let ours = problems.filter(|it| it.reason != "PinsNotOnNode");
    ours.map(|it| format!("{} {}: {}: {}", it.kind, it.name, it.reason, it.message))
        .collect()
}

#[test]
fn as_a_folder_says_and_as_it_said_last_where_it_is_wrong() {
    let Some(node) = stage::node() else { return };
    stage::line(&node);
    let (a, _b) = stage::pods(&node);
    put_config(20, "1000M");
    let asked = json!({"koordinator.sh/networkQOS": r#"{"egressRequest": 10, "QoSClass": "BE"}"#});
    stage::put("a.json", &stage::manifest(&a, asked));
    let _agent = Agent::start();
    assert_eq!(guaranteed(), Some(200));
    assert_eq!(problems(), [""; 0]);
    let state = state();
    let pod = &state["desiredLines"]["pods"]["games/a"];
    assert_eq!(pod["class"], "best-effort", "{state:#}");
    assert_eq!(pod["asked"]["egress"]["min"], 100_000_000);
    assert_eq!(pod["place"]["addresses"], json!([a.address()]));
    assert_eq!(pod["place"]["hostLinks"], json!([a.host_link()]));
    assert!(stage::eventually(|| is_divided(&node, 200)));
    let status = stage::status();
    assert_eq!(status.class_backend, "kernel");
    assert!(stage::eventually(|| stage::status().lines[0]
        .failing
        .is_empty()));

    let metrics = stage::ask("/metrics");
    for sample in [
        r#"netqos_line_shared{line="up0",backend="kernel"} 1"#,
        r#"netqos_line_guaranteed_bytes_per_second{line="up0",direction="egress",class="best-effort"} 25000000.0"#,
        r#"netqos_line_limit_bytes_per_second{line="up0",direction="ingress",class="system"} 125000000.0"#,
    ] {
        assert!(metrics.contains(sample), "{sample} is not in {metrics}");
    }

    // Who is sent to need not answer.
    let far = "neighbour add 192.0.2.1 lladdr 02:00:00:00:00:01 dev up0";
    let words: Vec<&str> = far.split(' ').collect();
    node.run("ip", &words).unwrap();
    let socket = std::net::UdpSocket::bind("192.0.2.2:0").unwrap();
    for _ in 0..7 {
        socket.send_to(&[0; 958], "192.0.2.1:9").unwrap();
    }
    let counted = |what: &str| {
        let labels = r#"line="up0",direction="egress",class="system""#;
        let sample = format!("netqos_class_{what}_total{{{labels}}} ");
        let metrics = stage::ask("/metrics");
        let value = metrics.lines().find_map(|it| it.strip_prefix(&sample))?;
        value.parse::<u64>().ok()
    };
    // The last may still be in the queue, and the node may say something of its own accord, too.
    assert!(stage::eventually(|| counted("packets") >= Some(7)));
    assert!(counted("packets") < Some(50));
    assert!(counted("bytes") >= Some(7_000));
    assert_eq!(counted("dropped_packets"), Some(0));

    // A change is followed at once, a mistake is told of, and what goes away stays.
    put_config(25, "1000M");
    assert!(stage::eventually(|| guaranteed() == Some(250)));
    assert!(stage::eventually(|| is_divided(&node, 250)));
    let request = |percent: u8| json!({"networkQOS": {"enable": true, "ingressRequest": percent, "egressRequest": percent}});
    let strategy = json!({"lsClass": request(40), "beClass": request(80)});
    put_config_map(&json!({"clusterStrategy": strategy}), "1000M");
    let said = |text: &str| problems().iter().any(|it| it.contains(text));
    assert!(stage::eventually(|| said(
        "Node node1: InvalidClasses: up0, which carries 1 Gbit/s: egress: requests of 1.2 Gbit/s"
    )));
    assert_eq!(guaranteed(), Some(250));
    std::fs::remove_file("/run/objects/config.json").unwrap();
    assert!(stage::eventually(|| said(
        "slo-controller-config is there any more"
    )));
    assert_eq!(guaranteed(), Some(250));
    assert!(is_divided(&node, 250));
    put_config(20, "2000M");
    assert!(stage::eventually(
        || guaranteed() == Some(400) && problems().is_empty()
    ));
    assert!(stage::has_logged(&["InvalidClasses", "requests of"]));

    // A backend that no object can mean, and nobody in the place of the one that is.
    let label = |name: &str| {
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": "node1", "labels": {"netqos.io/class-backend": name}}
        });
        stage::put("node.json", &node.to_string());
    };
    label("cake");
    assert!(stage::eventually(|| said("\"cake\" divides no lines")));
    assert_eq!(stage::status().class_backend, "kernel");
    label("none");
    assert!(stage::eventually(|| problems().is_empty()));
    assert!(stage::eventually(|| !classes(&node).contains("htb")));
}

#[test]
fn a_line_that_goes_away_keeps_its_shares_and_is_taken_up_again() {
    let Some(node) = stage::node() else { return };
    stage::line(&node);
    put_config(20, "1000M");
    let _agent = Agent::start();
    assert_eq!(guaranteed(), Some(200));
    assert!(stage::eventually(|| is_whole(&node)));
    let told = |text: &str| problems().iter().any(|it| it.contains(text));
    for round in 0..3 {
        node.run("ip", &["link", "delete", "up0"]).unwrap();
        at_once("it is told", || {
            told("LineNotDivided: the node has no default route")
                && told("LineNotDivided: up0: there is no link up0")
        });
        assert_eq!(guaranteed(), Some(200));
        assert!(!stage::status().lines[0].failing.is_empty());
        stage::line(&node);
        at_once("the new one is divided", || is_whole(&node));
        at_once("nothing is told any more", || problems().is_empty());
        assert_eq!(guaranteed(), Some(200), "{round}");
    }
}

/// True when there is a tree for each direction on the line that there is now.
fn is_whole(node: &Node) -> bool {
    let tree = |link: &str| node.run("tc", &["class", "show", "dev", link]);
    let has_tree = |link: &str, class| tree(link).is_ok_and(|it| it.contains(class));
    let shown = node.run("ip", &["-o", "link", "show", "up0"]);
    let number = shown
        .ok()
        .and_then(|it| Some(it.split_once(':')?.0.to_owned()));
    number.is_some_and(|it| {
        has_tree("up0", "class htb 6e71:4 parent")
            && has_tree(&format!("netqos-l{it}"), "class htb 6e72:4 parent")
    })
}

/// Sooner than anything that is only looked at from time to time.
fn at_once(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        let problems = problems();
        assert!(
            began.elapsed() < Duration::from_secs(5),
            "{what}: {problems:?}"
        );
        thread::sleep(Duration::from_millis(10));
    }
}

/// Its speed is not to be read, as of virtual links.
#[test]
fn a_line_of_unknown_speed_has_no_guarantees_and_limits_hold() {
    let Some(node) = stage::node() else { return };
    let far = outside(&node);
    let (a, b) = stage::pods(&node);
    put_config(20, "0");
    let asked = json!({
        "QoSClass": "BE", "egressLimit": "50M", "egressRequest": "10M", "ingressLimit": 60,
    });
    let asked = json!({"koordinator.sh/networkQOS": asked.to_string()});
    stage::put("a.json", &stage::manifest(&a, asked));
    let limit = json!({"kubernetes.io/egress-bandwidth": "80M"});
    stage::put("b.json", &stage::manifest(&b, limit));
    let _agent = Agent::start();
    let begins = [
        "Node node1: LineSpeedUnknown: up0: what it carries is not said",
        "Pod games/a: LineSpeedUnknown: its limit of 60 % of ingress is not in force",
        "Pod games/a: GuaranteeReduced: 0 bit/s of the 10 Mbit/s of egress that it asks for are guaranteed on \
         up0: what that carries is not known",
    ];
    let found = problems();
    assert_eq!(found.len(), begins.len(), "{found:?}");
    for begin in begins {
        assert!(
            found.iter().any(|it| it.starts_with(begin)),
            "{begin}: {found:?}"
        );
    }
    assert!(stage::eventually(|| is_whole(&node)));
    assert_eq!(guaranteed(), Some(0));
    let limits = stage::pod_status("b").unwrap().limits;
    assert!(limits[0].in_force, "{limits:?}");

    let sent = |pod: &Pod| {
        let address = SocketAddr::from(([192, 0, 2, 1], 0));
        let server = far.inside(|| Server::bind(address).unwrap()).unwrap();
        let test = TcpTest {
            duration: Duration::from_secs(2),
            ..TcpTest::new(server.local_addr())
        };
        let report = pod.inside(|| test.run(|_| ()).unwrap()).unwrap();
        report.goodput.rate.bits_per_second() as f64 / 1e6
    };
    // A busy machine may leave less.
    let found = sent(&a);
    assert!((15.0..55.0).contains(&found), "{found}");

    // Once it is known all else holds, too.
    put_config(20, "1000M");
    assert!(
        stage::eventually(|| problems().is_empty()),
        "{:?}",
        problems()
    );
    assert_eq!(guaranteed(), Some(200));
    assert!(stage::eventually(|| is_divided(&node, 200)));
}

#[test]
fn a_pod_on_the_hosts_network_is_known_by_its_cgroup() {
    let Some(tree) = Tree::of_v2() else { return };
    let Some(node) = stage::node() else { return };
    stage::line(&node);
    put_config(20, "1000M");
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "h", "namespace": "games", "uid": UID},
        "spec": {"nodeName": "node1", "hostNetwork": true, "containers": [{"name": "c"}]},
        "status": {"qosClass": "Burstable", "podIP": "192.0.2.2", "podIPs": [{"ip": "192.0.2.2"}]},
    });
    stage::put("h.json", &pod.to_string());
    let _agent = Agent::start_with(&["--cgroup-root", tree.path()]);
    let place = || state()["desiredLines"]["pods"][UID]["place"].clone();
    assert_eq!(
        place(),
        json!({"hostNetwork": true, "addresses": [], "hostLinks": []})
    );
    let sandbox = tree.sandbox(UID, Driver::Systemd);
    let slice = "kubepods.slice/kubepods-burstable.slice/\
                 kubepods-burstable-pode2b7d960_13a8_4f7c_b2c5_58f90c4d7a3b.slice";
    let name = std::path::Path::new(tree.path())
        .file_name()
        .unwrap()
        .to_str()
        .unwrap();
    let cgroup = json!(format!("/{name}/{slice}"));
    assert!(
        stage::eventually(|| place()["cgroup"] == cgroup),
        "{}",
        place()
    );
    assert_eq!(
        state()["desiredLines"]["pods"][UID]["class"],
        "latency-sensitive"
    );
    sandbox.remove();
    assert!(stage::eventually(|| place()["cgroup"].is_null()));
}

#[test]
fn agent_that_starts_keeps_what_a_wrong_configuration_left_and_ends_what_a_silent_one_does_not_mean()
 {
    let Some(node) = stage::node() else { return };
    stage::line(&node);
    let tc = json!({"clusterStrategy": {
        "policies": {"netQOSPolicy": "kernel"}, "beClass": {"networkQOS": {"egressRequest": 20}},
    }});
    put_config_map(&tc, "1000M");
    // Another backend would take the place of what is recorded.
    let other = ["--class-backend", "none"];
    let agent = Agent::start_with(&other);
    assert!(stage::eventually(|| is_divided(&node, 200)));
    agent.kill();
    for kept in [true, false] {
        put_config_map(&tc, "1000");
        let shares = "/run/netqos/class-shares.json";
        if !kept {
            // As an agent before this version left it.
            std::fs::remove_file(shares).unwrap();
        }
        let agent = Agent::start_with(&other);
        let says = "for 1000 Mbit/s write 1000M; what it said before stays in force";
        assert!(
            problems().iter().any(|it| it.ends_with(says)),
            "{:?}",
            problems()
        );
        thread::sleep(Duration::from_secs(1));
        assert!(is_divided(&node, 200), "{kept}: {}", stage::log());
        assert_eq!(guaranteed(), kept.then_some(200));
        agent.kill();
    }
    let cpu = json!({"clusterStrategy": {"beClass": {"cpuQOS": {"enable": true}}}});
    put_config_map(&cpu, "0");
    let _agent = Agent::start();
    assert!(stage::eventually(|| !classes(&node).contains("htb")));
    assert_eq!(problems(), [""; 0]);
    let said = stage::log()
        .matches("the uplinks are no longer divided")
        .count();
    assert_eq!(said, 1, "{}", stage::log());
    put_config_map(&tc, "1000M");
    assert!(stage::eventually(|| is_divided(&node, 200)));
}

/// The first shares may come on all nodes of a cluster at once.
#[test]
fn agent_stays_ready_while_it_divides_uplink_for_the_first_time() {
    let Some(node) = stage::node() else { return };
    stage::line(&node);
    let _agent = Agent::start();
    put_config(20, "1000M");
    let began = Instant::now();
    let mut asked = 0;
    while !is_divided(&node, 200) {
        assert!(
            began.elapsed() < Duration::from_secs(20),
            "{}",
            stage::log()
        );
        for _ in 0..5 {
            // Panics unless it is 200.
            stage::ask("/readyz");
            asked += 1;
        }
    }
    let took = began.elapsed();
    eprintln!("the uplink was divided after {took:?}, {asked} times ready");
    stage::ask("/readyz");
}
