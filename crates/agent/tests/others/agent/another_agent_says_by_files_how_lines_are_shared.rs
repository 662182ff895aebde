//! Koordinator's files `node` and `pods`: what another agent writes there is in force, and what netqos'
//! own backend writes there is not taken for another's.

use std::fs;
use std::path::{Path, PathBuf};

use netqos_testkit::Pod;
use serde_json::{Value, json};

use super::stage::{self, Agent};
use super::the_nodes_lines_are_planned::{
    classes, guaranteed, is_divided, problems, put_config, state,
};

/// Where they are by default.
const NET: &str = "/var/run/koordinator/net";

/// A line of 100 Mbit/s of which l2 has so many guaranteed; `tx` is what the node sends.
fn shares(l2: &Value) -> String {
    let total = 12_500_000;
    json!({
        "hw_tx_bps_max": total, "l1_tx_bps_min": 3_750_000, "l1_tx_bps_max": total,
        "hw_rx_bps_max": total, "l1_rx_bps_min": 3_750_000, "l1_rx_bps_max": total,
        "l2_tx_bps_min": l2, "l2_tx_bps_max": total,
        "l2_rx_bps_min": 2_500_000, "l2_rx_bps_max": total,
    })
    .to_string()
}

fn megabits(l2: u64) -> String {
    shares(&json!(l2 * 125_000))
}

/// Another agent.
struct Another(PathBuf);

impl Another {
    fn at(folder: &str) -> Self {
        Self(folder.into())
    }

    /// Puts a file there at once.
    fn put(&self, name: &str, text: &str) {
        fs::create_dir_all(&self.0).unwrap();
        let fresh = self.0.join(".new");
        fs::write(&fresh, text).unwrap();
        fs::rename(fresh, self.0.join(name)).unwrap();
    }

    /// Writes over what stands there, as koordlet does.
    fn overwrite(&self, name: &str, text: &str) {
        fs::write(self.0.join(name), text).unwrap();
    }

    fn remove(&self, name: &str) {
        fs::remove_file(self.0.join(name)).unwrap();
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.0.join(name)).unwrap_or_default()
    }
}

fn has_problem(text: &str) -> bool {
    problems().iter().any(|it| it.contains(text))
}

fn is_nothing_wrong() -> bool {
    problems().is_empty()
}

/// The class of the pod of this name.
fn class_of(pod: &Pod) -> Value {
    let key = format!("games/{}", pod.name());
    state()["desiredLines"]["pods"][key]["class"].clone()
}

/// A pod that Kubernetes has for Burstable, which is l1.
fn burstable(pod: &Pod, labels: &Value) -> String {
    let mut object: Value = serde_json::from_str(&stage::manifest(pod, json!({}))).unwrap();
    object["metadata"]["labels"] = labels.clone();
    object["spec"]["containers"] =
        json!([{"name": "c", "resources": {"requests": {"cpu": "100m"}}}]);
    object.to_string()
}

#[test]
fn what_they_say_is_in_force_and_what_they_said_last_where_they_are_wrong() {
    let Some(node) = stage::node() else { return };
    stage::line(&node);
    let (a, _b) = stage::pods(&node);
    stage::put("a.json", &burstable(&a, &json!({})));
    let folder = "/run/told/net";
    let another = Another::at(folder);
    let told = ["--koordinator-net-files", folder];
    let agent = Agent::start_with(&told);
    assert_eq!(guaranteed(), None);
    assert_eq!(problems(), [""; 0]);

    // The folder comes, and so does a change.
    another.put("node", &megabits(20));
    assert!(stage::eventually(|| is_divided(&node, 20)));
    assert_eq!(guaranteed(), Some(20));
    another.overwrite("node", &megabits(25));
    assert!(stage::eventually(|| is_divided(&node, 25)));
    assert_eq!(problems(), [""; 0]);

    // A pod's class, and its part in it.
    assert_eq!(class_of(&a), "latency-sensitive");
    let entry = json!({
        "cgroup": "", "priority": 2, "pod": "games/a", "podUID": "1-2-3",
        "qos-config": {"egress": [
            {"matchs": [{"type": "port", "expr": "=80"}],
             "actions": [{"action": "qos-class", "value": "l0"},
                         {"action": "bandwidth_max", "value": "250000"}]},
            {"matchs": [], "actions": [{"action": "bandwidth_min", "value": "1250000"},
                                       {"action": "bandwidth_max", "value": "5000000"}]}
        ]}
    });
    another.put("pods", &entry.to_string());
    let has_class = |words: [&str; 2]| {
        let classes = classes(&node);
        let mut lines = classes.lines();
        lines.any(|line| words.iter().all(|word| line.contains(word)))
    };
    let is_divided_below = || {
        has_class(["parent 6e71:4 ", "rate 10Mbit ceil 40Mbit"])
            && has_class(["parent 6e71:2 ", "ceil 2Mbit"])
    };
    assert!(stage::eventually(is_divided_below), "{}", classes(&node));
    assert_eq!(class_of(&a), "best-effort");

    // What is wrong is told of by file and field.
    another.put("node", &shares(&json!("25M")));
    let expected = format!(
        "Node node1: InvalidClasses: {folder}/node: l2_tx_bps_min: \"25M\" is no number of bytes per \
         second; what it said before stays in force"
    );
    assert!(
        stage::eventually(|| has_problem(&expected)),
        "{:?}",
        problems()
    );
    another.put("pods", "[{}]");
    let expected = format!("{folder}/pods: pods[0]: missing field");
    assert!(
        stage::eventually(|| has_problem(&expected)),
        "{:?}",
        problems()
    );
    assert_eq!(guaranteed(), Some(25));
    assert!(is_divided(&node, 25) && is_divided_below());
    another.put("node", &megabits(20));
    another.put("pods", "[]");
    assert!(stage::eventually(is_nothing_wrong));
    assert!(stage::eventually(|| is_divided(&node, 20)));
    assert!(stage::eventually(|| class_of(&a) == "latency-sensitive"));

    // Objects go before them.
    put_config(20, "1000M");
    assert!(stage::eventually(|| is_divided(&node, 200)));
    fs::remove_file("/run/objects/config.json").unwrap();
    assert!(stage::eventually(|| is_divided(&node, 20)));
    assert_eq!(problems(), [""; 0]);

    // Gone, it stays; also when the agent is started anew.
    another.remove("node");
    assert!(stage::eventually(|| has_problem(
        "/node is not there any more"
    )));
    assert_eq!(guaranteed(), Some(20));
    assert!(is_divided(&node, 20));
    agent.kill();
    let agent = Agent::start_with(&told);
    assert_eq!((guaranteed(), problems()), (None, vec![]));
    assert!(is_divided(&node, 20));
    another.put("node", &megabits(25));
    assert!(stage::eventually(|| is_divided(&node, 25)));

    agent.kill();
    let _agent = Agent::start_with(&["--koordinator-net-files", ""]);
    assert_eq!(guaranteed(), None);
}

#[test]
fn what_its_own_backend_wrote_is_nobodys_word() {
    let Some(node) = stage::node() else { return };
    stage::line(&node);
    let (a, _b) = stage::pods(&node);
    let another = Another::at(NET);
    fs::create_dir_all("/var/lib/terway/qos").unwrap();
    put_config(20, "1000M");
    let labelled = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "node1", "labels": {"netqos.io/class-backend": "terway-qos"}}
    });
    stage::put("node.json", &labelled.to_string());
    stage::put(
        "a.json",
        &burstable(&a, &json!({"koordinator.sh/qosClass": "BE"})),
    );
    let agent = Agent::start();
    let is_written = |priority: u8| {
        let pods = another.read("pods");
        pods.contains(&format!("\"priority\":{priority}")) && pods.contains("games/a")
    };
    assert!(stage::eventually(|| is_written(2)));
    let text = another.read("node");
    assert!(text.contains("\"l2_tx_bps_min\": 25000000"), "{text}");

    // It is of the class that it says itself, and not of the one that it had in the file.
    stage::put("a.json", &burstable(&a, &json!({})));
    assert!(
        stage::eventually(|| is_written(1)),
        "{}",
        another.read("pods")
    );
    assert_eq!(class_of(&a), "latency-sensitive");

    // An agent that finds nothing but what that backend has left.
    agent.kill();
    for file in ["config.json", "node.json"] {
        fs::remove_file(Path::new(stage::MANIFESTS).join(file)).unwrap();
    }
    fs::remove_file("/run/netqos/class-shares.json").unwrap();
    assert!(is_written(1));
    let _agent = Agent::start();
    assert!(stage::eventually(|| !Path::new(NET).exists()));
    assert_eq!((guaranteed(), problems()), (None, vec![]));
    assert!(!classes(&node).contains("htb"));

    // From then on they are another's.
    another.put("node", &megabits(20));
    assert!(stage::eventually(|| is_divided(&node, 20)));
}
