use std::time::{Duration, Instant};

use netqos_netlink::{Handle, Socket};
use netqos_testkit::Pod;
use serde_json::{Value, json};

use crate::stage::{self, Agent};

const LONGEST: Duration = Duration::from_secs(1);

/// The object of the pod `a` with this uid, limited to 10 Mbit/s.
fn put(pod: &Pod, uid: &str) {
    let annotations = json!({"kubernetes.io/ingress-bandwidth": "10M"});
    let mut object: Value = serde_json::from_str(&stage::manifest(pod, annotations)).unwrap();
    object["metadata"]["name"] = "a".into();
    object["metadata"]["uid"] = uid.into();
    stage::put("a.json", &object.to_string());
}

fn is_limited(pod: &Pod) -> bool {
    let mut socket = Socket::open().unwrap();
    let link = socket.link_by_name(pod.host_link()).unwrap();
    let root = socket.qdisc_at(&link, Handle::ROOT).unwrap();
    root.is_some_and(|root| root.tbf().is_some())
}

/// Where no plugin made the limit. The name is that of the pod before, whose object is known.
#[test]
fn without_a_plugin() {
    let Some(node) = stage::node() else { return };
    let first = node.pod("s0").unwrap();
    stage::remember_sandbox(&first, "a", "0", json!({}));
    put(&first, "0");
    let _agent = Agent::start();
    let mut took = Vec::new();
    for number in 1..=20 {
        let uid = number.to_string();
        let pod = node.pod(&format!("s{uid}")).unwrap();
        let is_object_first = number % 2 == 0;
        if is_object_first {
            put(&pod, &uid);
        }
        stage::remember_sandbox(&pod, "a", &uid, json!({}));
        if !is_object_first {
            std::thread::sleep(Duration::from_millis(50));
            assert!(!is_limited(&pod), "by the object of the pod before");
            put(&pod, &uid);
        }
        let began = Instant::now();
        assert!(stage::eventually(|| is_limited(&pod)));
        took.push(began.elapsed());
    }
    took.sort();
    eprintln!("from object and sandbox to the limit: {took:?}");
    assert!(took[took.len() - 1] < LONGEST, "{took:?}");
}
