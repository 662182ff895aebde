//! From a folder of manifests to the plan, and what is wrong on the way.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::Arc;

use netqos_api::koordinator::BackendKind;
use netqos_core::classes::{Ask, ClassPlan, TrafficClass};
use netqos_core::{BitRate, Direction};
use serde_json::{Value, json};

use super::*;
use crate::Folder;

mod files;
mod node_slos;
mod several_lines;

/// A node that reads a folder.
struct Scene {
    place: tempfile::TempDir,
    folder: Folder,
    knowledge: Knowledge,
    speeds: BTreeMap<Arc<str>, Option<BitRate>>,
    cards: Option<BitRate>,
    plan: ClassPlan,
}

const fn mbit(megabits: u64) -> BitRate {
    BitRate::from_bits_per_second(megabits * 1_000_000)
}

fn config(resources: &str, system: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "slo-controller-config", "namespace": "koordinator-system"},
        "data": {"resource-qos-config": resources, "system-config": system, "other": "{"}
    })
}

/// What a class gets, in both directions.
fn network_qos(request: &Value, limit: &Value) -> Value {
    json!({"networkQOS": {
        "enable": true, "ingressRequest": request, "ingressLimit": limit,
        "egressRequest": request, "egressLimit": limit,
    }})
}

fn shares(ls: &Value, be: &Value) -> Value {
    json!({"clusterStrategy": {
        "lsClass": network_qos(ls, &json!(100)), "beClass": network_qos(be, &json!(100))
    }})
}

fn total(total: &str) -> String {
    json!({"clusterStrategy": {"totalNetworkBandwidth": total}}).to_string()
}

fn good() -> Value {
    config(&shares(&json!(30), &json!(20)).to_string(), &total("1000M"))
}

fn node(labels: Value, annotations: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "node1", "labels": labels, "annotations": annotations}
    })
}

fn pod(name: &str, labels: Value, annotation: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "games", "uid": name, "labels": labels,
            "annotations": {"koordinator.sh/networkQOS": annotation},
        },
        "spec": {"nodeName": "node1", "containers": [{"name": "c"}]},
        "status": {"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]},
    })
}

impl Scene {
    fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        Self {
            folder: Folder::open(place.path()).unwrap(),
            place,
            knowledge: Knowledge::new("node1", BackendKind::Kernel),
            speeds: BTreeMap::from([("eth0".into(), None)]),
            cards: None,
            plan: ClassPlan::default(),
        }
    }

    /// What is wrong when a file says this; `null`: when it is gone.
    fn say(&mut self, file: &str, object: &Value) -> Vec<String> {
        let path = self.place.path().join(format!("{file}.json"));
        match object {
            Value::Null => fs::remove_file(path).unwrap(),
            object => fs::write(path, object.to_string()).unwrap(),
        }
        self.read()
    }

    /// What is wrong now.
    fn read(&mut self) -> Vec<String> {
        let batch = self.folder.read();
        let input = batch.classes.unwrap();
        self.knowledge.hear(&input);
        let mut problems = batch.problems;
        problems.extend(self.knowledge.problems().iter().cloned());
        if let Some(division) = self.knowledge.division() {
            let pods = input.pods.values().filter(|pod| &*pod.node == "node1");
            let pods = pods.map(|pod| self.knowledge.pod(pod, stated_place(pod)).unwrap());
            let (plan, found) = plan(
                "node1",
                division,
                &self.speeds,
                self.cards,
                pods,
                &self.plan,
            );
            self.plan = plan;
            problems.extend(found);
        }
        problems.iter().map(ToString::to_string).collect()
    }

    /// What the classes are guaranteed of what `eth0` sends, in Mbit/s.
    fn guaranteed(&self) -> Option<[u64; 3]> {
        let egress = self.plan.lines.get("eth0")?.of(Direction::Egress);
        Some(TrafficClass::ALL.map(|class| egress.of(class).min.bits_per_second() / 1_000_000))
    }
}

#[test]
fn what_a_folder_says_is_planned() {
    let mut scene = Scene::new();
    assert_eq!(scene.say("config", &good()), [""; 0]);
    assert_eq!(scene.guaranteed(), Some([500, 300, 200]));
    assert_eq!(scene.knowledge.backend(), BackendKind::Kernel);
    let asked = json!({
        "ingressRequest": 10, "egressRequest": "5M", "egressLimit": 50,
        "PortsNetworkQOS": [
            {"port": 443, "QoSClass": "LS"},
            {"port": 80, "egressLimit": "1M"},
            {"port": 81}
        ]
    });
    let pods = [
        (
            "a",
            pod(
                "a",
                json!({"koordinator.sh/qosClass": "BE"}),
                &asked.to_string(),
            ),
        ),
        ("b", pod("b", json!({}), "{}")),
        (
            "c",
            pod(
                "c",
                json!({"koordinator.sh/qosClass": "BE"}),
                r#"{"QoSClass": "SYSTEM"}"#,
            ),
        ),
    ];
    for (name, pod) in &pods {
        assert_eq!(scene.say(name, pod), [""; 0]);
    }
    let a = &scene.plan.pods["a"];
    assert_eq!(a.class, TrafficClass::BestEffort);
    assert_eq!(
        (a.asked.ingress.min, a.asked.egress.min),
        (mbit(100), mbit(5))
    );
    assert_eq!(
        (a.asked.ingress.max, a.asked.egress.max),
        (None, Some(mbit(500)))
    );
    let addresses: BTreeSet<_> = ["10.0.0.1", "fd00::1"].map(|it| it.parse().unwrap()).into();
    assert_eq!(a.place.addresses, addresses);
    let flows: Vec<_> = a
        .flows
        .iter()
        .map(|it| (it.flow.port.clone().unwrap(), it.direction, it.class))
        .collect();
    let ls = Some(TrafficClass::LatencySensitive);
    assert_eq!(
        flows,
        [
            (443..=443, Direction::Ingress, ls),
            (443..=443, Direction::Egress, ls),
            (80..=80, Direction::Egress, None)
        ]
    );
    assert_eq!(
        a.flows[2].ask,
        Ask {
            min: mbit(0),
            max: Some(mbit(1))
        }
    );
    // By what Kubernetes says of a pod without a label, and by its annotation before its label.
    assert_eq!(scene.plan.pods["b"].class, TrafficClass::BestEffort);
    assert_eq!(scene.plan.pods["c"].class, TrafficClass::System);

    // Of another node, of the host's network, ended.
    let mut other = pods[0].1.clone();
    other["spec"]["nodeName"] = json!("node2");
    scene.say("a", &other);
    let mut host = pods[1].1.clone();
    host["spec"]["hostNetwork"] = json!(true);
    scene.say("b", &host);
    let mut ended = pods[2].1.clone();
    ended["status"]["phase"] = json!("Succeeded");
    scene.say("c", &ended);
    let here: Vec<&str> = scene.plan.pods.keys().map(|uid| &**uid).collect();
    assert_eq!(here, ["b"]);
    let place = &scene.plan.pods["b"].place;
    assert_eq!((place.host_network, place.addresses.len()), (true, 0));
}

#[test]
fn what_is_said_nearer_to_the_node_goes_first() {
    let mut scene = Scene::new();
    scene.speeds = BTreeMap::from([("eth0".into(), Some(mbit(100)))]);
    let resources = shares(&json!(30), &json!(20)).to_string();
    scene.say("config", &config(&resources, "{}"));
    assert_eq!(scene.guaranteed(), Some([50, 30, 20]));
    scene.say("config", &good());
    assert_eq!(scene.guaranteed(), Some([500, 300, 200]));
    let annotated = json!({"node.koordinator.sh/network-bandwidth": "200M"});
    assert_eq!(
        scene.say("node", &node(json!({}), annotated.clone())),
        [""; 0]
    );
    assert_eq!(scene.guaranteed(), Some([100, 60, 40]));
    let mut slo = json!({
        "apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeSLO", "metadata": {"name": "node1"},
        "spec": {
            "resourceQOSStrategy": {
                "policies": {"netQOSPolicy": "terway-qos"},
                "beClass": network_qos(&json!(10), &json!(100)),
            },
            "systemStrategy": {"totalNetworkBandwidth": "1G"},
            "resourceUsedThresholdWithBE": {"enable": true}
        }
    });
    assert_eq!(scene.say("slo", &slo), [""; 0]);
    assert_eq!(scene.guaranteed(), Some([120, 60, 20]));
    assert_eq!(scene.knowledge.backend(), BackendKind::TerwayQos);
    let label = json!({"netqos.io/class-backend": "tc"});
    scene.say("node", &node(label, json!({})));
    assert_eq!(scene.guaranteed(), Some([600, 300, 100]));
    assert_eq!(scene.knowledge.backend(), BackendKind::Tc);
    // Of another node.
    slo["metadata"]["name"] = json!("node2");
    scene.say("slo", &slo);
    assert_eq!(scene.guaranteed(), Some([500, 300, 200]));
}

/// Each is told of by name, and what was right before stays in force.
#[test]
fn what_is_wrong_changes_nothing() {
    let percent = shares(&json!(130), &json!(20)).to_string();
    let above_limit = json!({"clusterStrategy": {
        "lsClass": network_qos(&json!(50), &json!(40)),
        "beClass": network_qos(&json!(20), &json!(100)),
    }});
    let above_total = shares(&json!("900M"), &json!("200M")).to_string();
    let fine = shares(&json!(30), &json!(20)).to_string();
    let annotated = |text| {
        node(
            json!({}),
            json!({"node.koordinator.sh/network-bandwidth": text}),
        )
    };
    for (file, object, expected) in [
        (
            "config",
            config(&percent, &total("1000M")),
            &[
                "resource-qos-config.clusterStrategy.lsClass.networkQOS.ingressRequest: must be percentage value just in 0-100: 130 is no percentage",
            ][..],
        ),
        (
            "config",
            config(&above_limit.to_string(), &total("1000M")),
            &[
                "eth0, which carries 1 Gbit/s: ingress: latency-sensitive: a request of 500 Mbit/s is above",
                "eth0, which carries 1 Gbit/s: egress: latency-sensitive: a request of 500 Mbit/s is above",
            ],
        ),
        (
            "config",
            config(&above_total, &total("1000M")),
            &[
                "requests of 1.1 Gbit/s together are above the total of 1 Gbit/s; it is shared as before",
            ],
        ),
        (
            "config",
            config("{\"clusterStrategy\": ", &total("1000M")),
            &[
                "ConfigMap koordinator-system/slo-controller-config: data.resource-qos-config: is no JSON object",
            ],
        ),
        (
            "config",
            config(&fine, &total("fast")),
            &["system-config.clusterStrategy.totalNetworkBandwidth: \"fast\""],
        ),
        (
            "config",
            config(&fine, &total("0")),
            &["LineSpeedUnknown: eth0: what it carries is not said, and its speed cannot be read"],
        ),
        (
            "config",
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": 7}),
            &[
                "config.json",
                "slo-controller-config is there any more; what it said stays",
            ],
        ),
        (
            "config",
            Value::Null,
            &["neither a NodeSLO of this node nor slo-controller-config is there any more"],
        ),
        (
            "node",
            annotated("-5M"),
            &[
                "metadata.annotations.node.koordinator.sh/network-bandwidth: \"-5M\" is less than nothing",
            ],
        ),
        (
            "node",
            node(json!({"netqos.io/class-backend": "cake"}), json!({})),
            &["metadata.labels[netqos.io/class-backend]: \"cake\" divides no lines"],
        ),
        (
            "slo",
            json!({
                "apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeSLO",
                "metadata": {"name": "node1"},
                "spec": {"resourceQOSStrategy": {"policies": {"netQOSPolicy": "cake"}}}
            }),
            &[
                "NodeSLO node1: spec.resourceQOSStrategy.policies.netQOSPolicy: there are the policies",
            ],
        ),
        (
            "a",
            pod(
                "a",
                json!({"koordinator.sh/qosClass": "LLS"}),
                r#"{"egressLimit": "5M"}"#,
            ),
            &[
                "Pod games/a: InvalidPodClass: metadata.labels[koordinator.sh/qosClass]: \"LLS\" is no class",
            ],
        ),
        (
            "a",
            pod(
                "a",
                json!({"koordinator.sh/qosClass": "LS"}),
                r#"{"egressLimit": 500}"#,
            ),
            &[
                "Pod games/a: InvalidPodClass: metadata.annotations.koordinator.sh/networkQOS.egressLimit: must be percentage value just in 0-100: 500 is no",
            ],
        ),
        (
            "a",
            pod(
                "a",
                json!({"koordinator.sh/qosClass": "LS"}),
                r#"{"egressLimit": 5"#,
            ),
            &["koordinator.sh/networkQOS: is no JSON object"],
        ),
    ] {
        let mut scene = Scene::new();
        let right = pod(
            "a",
            json!({"koordinator.sh/qosClass": "LS"}),
            r#"{"egressLimit": "5M"}"#,
        );
        scene.say("config", &good());
        scene.say("node", &node(json!({}), json!({})));
        assert_eq!(scene.say("a", &right), [""; 0]);
        let (before, backend) = (scene.plan.clone(), scene.knowledge.backend());
        assert_eq!(scene.guaranteed(), Some([500, 300, 200]));

        let problems = scene.say(file, &object);
        for text in expected {
            assert!(
                problems.iter().any(|problem| problem.contains(text)),
                "{file} {object}: {text} is not in {problems:#?}"
            );
        }
        assert_eq!(scene.plan, before, "{file} {object}");
        assert_eq!(scene.knowledge.backend(), backend);

        // And once it is right again, nothing is wrong.
        let again = match file {
            "config" => good(),
            "node" => node(json!({}), json!({})),
            "slo" => Value::Null,
            _ => right,
        };
        assert_eq!(scene.say(file, &again), [""; 0], "{file} {object}");
        assert_eq!(scene.plan, before);
    }
}

#[test]
fn what_was_never_right_is_not_in_force() {
    let mut scene = Scene::new();
    let fine = shares(&json!(30), &json!(20)).to_string();
    assert_eq!(scene.say("config", &config("{", &total("1000M"))).len(), 1);
    assert!(scene.knowledge.division().is_none());
    // Nobody can say what a virtual line carries.
    assert_eq!(scene.say("config", &config(&fine, "{}")).len(), 1);
    assert_eq!(scene.guaranteed(), Some([0, 0, 0]));
    assert_eq!(scene.say("config", &good()), [""; 0]);
    assert_eq!(scene.guaranteed(), Some([500, 300, 200]));
}

#[test]
fn who_gets_less_than_it_asks_for_is_told() {
    let mut scene = Scene::new();
    scene.say("config", &good());
    let be = json!({"koordinator.sh/qosClass": "BE"});
    scene.say("a", &pod("a", be.clone(), r#"{"egressRequest": "150M"}"#));
    let ports = r#"{"PortsNetworkQOS": [{"port": 80, "egressRequest": "250M"}]}"#;
    let problems = scene.say("b", &pod("b", be.clone(), ports));
    assert_eq!(
        problems,
        [
            "Pod games/a: GuaranteeReduced: 75 Mbit/s of the 150 Mbit/s of egress that it asks for are \
             guaranteed on eth0: the pods of its class, best-effort, ask for more together than that \
             has guaranteed",
            "Pod games/b: GuaranteeReduced: 125 Mbit/s of the 250 Mbit/s of egress that it asks for for \
             port 80 are guaranteed on eth0: the pods of its class, best-effort, ask for more together \
             than that has guaranteed",
        ]
    );
    scene.say("b", &Value::Null);
    // A percentage and a rate: only the line tells that one is above the other.
    let problems = scene.say(
        "a",
        &pod("a", be, r#"{"egressRequest": "150M", "egressLimit": 10}"#),
    );
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(
        problems[0].ends_with("on eth0: its limit is 100 Mbit/s"),
        "{problems:?}"
    );
}
