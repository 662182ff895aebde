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
    // What is said of pods while these send all that they can.
    let while_sending = |pods: &[&netqos_testkit::Pod], asked: &[&str]| -> Vec<String> {
        let test = TcpTest {
            streams: 2,
            omit: Duration::ZERO,
            duration: Duration::from_secs(8),
            ..TcpTest::new(server.local_addr())
        };
        thread::scope(|scope| {
            for pod in pods {
                let test = &test;
                scope.spawn(move || pod.inside(|| drop(test.run(|_| ()).unwrap())).unwrap());
            }
            thread::sleep(Duration::from_millis(1500));
            of("games/a");
            thread::sleep(Duration::from_millis(2000));
            asked.iter().map(|pod| of(pod)).collect()
        })
    };
    let has = |text: &str, words: &[&str]| {
        for word in words {
            assert!(text.contains(word), "no {word:?} in {text}");
        }
    };
    let slow = while_sending(&[&b], &["games/b"]).remove(0);
    has(
        &slow,
        &[
            "games/b is best-effort, by annotation koordinator.sh/networkQOS",
            "up0 egress:",
            "has a part of its own of best-effort: 5 Mbit/s guaranteed, at most 15 Mbit/s",
            "held back by the limit of its class, 15 Mbit/s",
            b.host_link(),
        ],
    );

    put((30, 50), (10, 80));
    assert!(
        stage::eventually(|| divided("10Mbit ceil 80Mbit")),
        "{}",
        stage::log()
    );
    let both = while_sending(&[&a, &b], &["games/a", "games/b"]);
    has(
        &both[0],
        &[
            "games/a is latency-sensitive, by label koordinator.sh/qosClass",
            "has no part of its own: all of latency-sensitive together are guaranteed 30 Mbit/s",
            "held back by the limit of its class, 50 Mbit/s",
            "of 100 Mbit/s, full",
        ],
    );
    has(
        &both[1],
        &[
            "held back by others: the line is full",
            "never more than its own limit, 60 Mbit/s",
        ],
    );

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
