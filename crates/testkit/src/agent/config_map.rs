//! What the ConfigMap says of shares, and what connections that go on while that changes get of the line.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use netqos_traffic::{Goodput, Server, TcpTest};
use serde_json::{Value, json};

use super::stage;
use crate::{Baseline, Node, Pod};

/// What the line carries, in Mbit/s: so little that also a busy machine sends all of it.
const LINE: f64 = 20.0;
/// What of frames is payload: 1448 of 1514 bytes.
const PAYLOAD: f64 = 1448.0 / 1514.0;
/// How far the parts of both may be from what was said, of what both get.
const TOLERANCE: f64 = 0.1;
/// The time from one change to the next, and how much of its beginning is not counted.
const PHASE: Duration = Duration::from_secs(3);
const SETTLES: Duration = Duration::from_millis(1200);

/// What the ConfigMap says of what is sent: requests and limits in percent of the line.
struct Says {
    ls: (u8, u8),
    be: (u8, u8),
    /// What pods get of the line that both want all of: latency-sensitive, best-effort.
    gets: [f64; 2],
}

/// What nobody is guaranteed goes to the higher class.
const SAID: [Says; 3] = [
    Says {
        ls: (30, 100),
        be: (30, 100),
        gets: [70.0, 30.0],
    },
    Says {
        ls: (10, 100),
        be: (50, 100),
        gets: [50.0, 50.0],
    },
    Says {
        ls: (10, 40),
        be: (10, 15),
        gets: [40.0, 15.0],
    },
];

/// The ConfigMap, of a line of 100 Mbit/s.
pub fn config_map(ls: (u8, u8), be: (u8, u8)) -> Value {
    let class = |(request, limit): (u8, u8)| {
        json!({"networkQOS": {
            "enable": true, "ingressRequest": 10, "ingressLimit": 100,
            "egressRequest": request, "egressLimit": limit,
        }})
    };
    let resources = json!({"clusterStrategy": {"lsClass": class(ls), "beClass": class(be)}});
    let system = json!({"clusterStrategy": {"totalNetworkBandwidth": "100M"}});
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "slo-controller-config", "namespace": "koordinator-system"},
        "data": {
            "resource-qos-config": resources.to_string(), "system-config": system.to_string(),
        }
    })
}

impl Says {
    fn object(&self) -> Value {
        let of_line = config_map(self.ls, self.be).to_string();
        serde_json::from_str(&of_line.replace("100M", &format!("{LINE}M"))).unwrap()
    }
}

/// A line to a host outside, by which the default route leaves.
pub fn outside(node: &Node) -> Pod {
    let far = node.empty_pod("far").unwrap();
    let run = |command: &str| {
        let words: Vec<&str> = command.split(' ').collect();
        node.run("ip", &words).unwrap();
    };
    run("link add up0 type veth peer name far0 netns far");
    run("address add 192.0.2.2/24 dev up0");
    run("link set up0 up");
    run("-n far address add 192.0.2.1/24 dev far0");
    run("-n far link set far0 up");
    run("-n far link set lo up");
    run("-n far route add default via 192.0.2.2");
    run("route add default via 192.0.2.1 dev up0");
    far
}

/// Both send all that they can while the ConfigMap is changed; what arrived of each, and when it was
/// changed, both from the first byte on.
fn sent(far: &Pod, pods: [&Pod; 2], put: impl Fn(&Value)) -> ([Goodput; 2], Vec<Duration>) {
    let servers = [(); 2].map(|()| {
        let address: SocketAddr = "192.0.2.1:0".parse().unwrap();
        far.inside(|| Server::bind(address).unwrap()).unwrap()
    });
    let began = Instant::now();
    thread::scope(|scope| {
        let flows = [0, 1].map(|which: usize| {
            let (pod, server) = (pods[which], servers[which].local_addr());
            scope.spawn(move || {
                let test = TcpTest {
                    streams: 4,
                    omit: Duration::ZERO,
                    duration: PHASE * SAID.len() as u32,
                    congestion_control: Some("cubic".to_owned()),
                    ..TcpTest::new(server)
                };
                pod.inside(|| test.run(|_| ()).unwrap().goodput).unwrap()
            })
        });
        let mut changed = Vec::new();
        for says in &SAID[1..] {
            thread::sleep(PHASE);
            changed.push(began.elapsed());
            put(&says.object());
        }
        (flows.map(|flow| flow.join().unwrap()), changed)
    })
}

/// Mbit/s of payload in the intervals that end in this time.
fn rate(goodput: &Goodput, from: Duration, to: Duration) -> f64 {
    let within = goodput
        .samples
        .iter()
        .filter(|sample| from < sample.at && sample.at <= to);
    let (mut bytes, mut seconds) = (0, 0.0);
    for sample in within {
        bytes += sample.received.bytes();
        seconds += sample.elapsed.as_secs_f64();
    }
    bytes as f64 * 8.0 / 1e6 / seconds
}

/// The annotation that says of which class a pod is.
pub fn of_class(class: &str) -> Value {
    json!({"koordinator.sh/networkQOS": json!({"QoSClass": class}).to_string()})
}

/// Asserts that two pods, latency-sensitive and best-effort, have of the line what the ConfigMap says,
/// while somebody `puts` it in force.
pub fn assert_followed(node: &Node, far: &Pod, pods: [&Pod; 2], put: impl Fn(&Value)) {
    let is_as_said = || {
        let classes = node.run("tc", &["class", "show", "dev", "up0"]).unwrap();
        classes.contains("class htb 6e71:4 parent 6e71:1 rate 6Mbit ceil 20Mbit")
    };
    put(&SAID[0].object());
    assert!(stage::eventually(is_as_said), "{}", stage::log());
    let baseline = Baseline::new(node).unwrap();
    let ((goodputs, changed), parts) = baseline.beside(|| sent(far, pods, put));
    let begins = [Duration::ZERO].into_iter().chain(changed.clone());
    let ends = changed.into_iter().chain([PHASE * SAID.len() as u32]);
    for (says, (begin, end)) in SAID.iter().zip(begins.zip(ends)) {
        let is = goodputs.each_ref().map(|it| rate(it, begin + SETTLES, end));
        let payload = |percent: f64| percent / 100.0 * LINE * PAYLOAD;
        let should = says.gets.map(payload);
        let what = format!("{is:.2?} Mbit/s of {should:.2?}, not {parts:.2?}");
        eprintln!("{what}");
        // A limit and no more: what the machine keeps one from sending is the other's.
        let most = [says.ls.1, says.be.1].map(|limit| payload(limit.into()));
        for which in [0, 1] {
            let is_kept = parts.start * should[which]..parts.end * most[which];
            assert!(is_kept.contains(&is[which]), "{what}");
        }
        let part = |of: [f64; 2]| of[0] / (of[0] + of[1]);
        assert!((part(is) - part(should)).abs() < TOLERANCE, "{what}");
    }
}
