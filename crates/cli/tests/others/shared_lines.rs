//! Who shares the node's lines, and what a pod gets of them: asked of the agent as it is.

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use netqos_traffic::{Server, TcpTest};
use serde_json::{Value, json};

use crate::config_map::{config_map, outside};
use crate::stage::{self, Agent};
use crate::{assert_code, run, stdout};

/// Three o'clock in the morning: why is this pod so slow?
#[test]
fn status_says_what_a_pod_gets_and_what_holds_it_back() {
    let Some(node) = stage::node() else { return };
    let far = outside(&node);
    let (a, b) = stage::pods(&node);
    let mut online: Value = serde_json::from_str(&stage::manifest(&a, json!({}))).unwrap();
    online["metadata"]["labels"]["koordinator.sh/qosClass"] = "LS".into();
    stage::put("a.json", &online.to_string());
    let asks = json!({"QoSClass": "BE", "egressRequest": "5M", "egressLimit": "60M"});
    let asks = json!({"koordinator.sh/networkQOS": asks.to_string()});
    stage::put("b.json", &stage::manifest(&b, asks));
    let put = |ls, be| stage::put("config.json", &config_map(ls, be).to_string());
    put((30, 100), (10, 15));
    let _agent = Agent::start();
    let divided = |rate: &str| {
        let classes = node.run("tc", &["class", "show", "dev", "up0"]).unwrap();
        classes.contains(&format!("class htb 6e71:4 parent 6e71:1 rate {rate}"))
    };
    assert!(
        stage::eventually(|| divided("10Mbit ceil 15Mbit")),
        "{}",
        stage::log()
    );
    let of = |pod: &str| stdout(&run(&["status", "--pod", pod]));
    let server = far.inside(|| Server::bind("192.0.2.1:0".parse::<SocketAddr>().unwrap()).unwrap());
    let server = server.unwrap();
    // Waits until this is said of pods while these send all that they can: a busy machine does not always fill a line.
    let while_sending = |pods: &[&netqos_testkit::Pod], said: &[(&str, &[&str])]| {
        let test = TcpTest {
            streams: 2,
            omit: Duration::ZERO,
            duration: Duration::from_secs(10),
            ..TcpTest::new(server.local_addr())
        };
        let lacks = |(pod, words): &(&str, &[&str])| {
            let text = of(pod);
            let lacked = words.iter().find(|it| !text.contains(**it))?;
            Some(format!("no {lacked:?} in {text}"))
        };
        thread::scope(|scope| {
            for pod in pods {
                let test = &test;
                scope.spawn(move || pod.inside(|| drop(test.run(|_| ()).unwrap())).unwrap());
            }
            let mut lacking = None;
            for _ in 0..8 {
                thread::sleep(Duration::from_secs(1));
                lacking = said.iter().find_map(lacks);
                if lacking.is_none() {
                    break;
                }
            }
            assert_eq!(lacking, None);
        });
    };
    let slow = [
        "games/b is best-effort, by annotation koordinator.sh/networkQOS",
        "up0 egress:",
        "has a part of its own of best-effort: 5 Mbit/s guaranteed, at most 15 Mbit/s",
        "held back by the limit of its class, 15 Mbit/s",
        b.host_link(),
    ];
    while_sending(&[&b], &[("games/b", &slow)]);

    put((30, 50), (10, 80));
    assert!(
        stage::eventually(|| divided("10Mbit ceil 80Mbit")),
        "{}",
        stage::log()
    );
    let of_a = [
        "games/a is latency-sensitive, by label koordinator.sh/qosClass",
        "has no part of its own: all of latency-sensitive together are guaranteed 30 Mbit/s",
        "held back by the limit of its class, 50 Mbit/s",
        "of 100 Mbit/s, full",
    ];
    let of_b = [
        "held back by others: the line is full",
        "never more than its own limit, 60 Mbit/s",
    ];
    while_sending(&[&a, &b], &[("games/a", &of_a), ("games/b", &of_b)]);

    let output = run(&["status", "--pod", "games/b", "-o", "json"]);
    let status: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(status["podClasses"].as_array().unwrap().len(), 1);
    let direction = &status["lines"][0]["directions"][1];
    assert_eq!(
        (&direction["direction"], &direction["total"]),
        (&json!("egress"), &json!(100_000_000))
    );
    assert!(direction["rate"].is_u64(), "{direction}");
    let table = stdout(&run(&["status"]));
    let row = table
        .lines()
        .find(|line| line.contains("games/b") && line.contains("up0"));
    let row = row.unwrap_or_else(|| panic!("{table}"));
    assert!(
        row.contains("best-effort") && row.contains("5 Mbit/s..60 Mbit/s"),
        "{table}"
    );
    assert!(table.contains("CARRIES"), "{table}");
    let nobody = run(&["status", "--pod", "games/nobody"]);
    assert_code(&nobody, 1);
    // No cluster knows it.
    let elsewhere = run(&["status", "--cluster", "--pod", "games/b"]);
    assert_code(&elsewhere, 2);
}
