//! `netqos status`, asked of the agent as it is.

use std::fs;
use std::path::Path;
use std::process::Output;
use std::time::Duration;

use netqos_agent::client;
use netqos_testkit::Pod;
use serde_json::{Value, json};

use crate::stage::{self, Agent, Flow, RUN};
use crate::{assert_code, run, stderr, stdout};

const EVERY: Duration = Duration::from_millis(1);
/// The only datagrams that the rules are for are those that the tests send.
const RULES: &str =
    "[{dscp: 46, bandwidth: {rate: 20000}, classifier: {ports: [{protocol: UDP, port: 5000}]}}]";

fn status(form: &str) -> Output {
    run(&["status", "-o", form])
}

/// Limits and rules for a pod: those that are in force, and others that only count.
fn put_objects(a: &Pod) {
    let limit = json!({"kubernetes.io/egress-bandwidth": "80M"});
    stage::put("a.json", &stage::manifest(a, limit));
    stage::put("p.yaml", &stage::policy("p", "a", RULES));
    let tried = stage::policy("tried", "a", &RULES.replace("46", "10"))
        .replace("priority: 1", "priority: 2")
        .replace(
            "namespace: games",
            "namespace: games, annotations: {netqos.io/mode: shadow}",
        );
    stage::put("tried.yaml", &tried);
}

/// The words of the line of a table that these are in.
fn line_with(table: &str, words: &[&str]) -> Vec<String> {
    let mut lines = table.lines();
    let line = lines.find(|line| words.iter().all(|word| line.contains(word)));
    let line = line.unwrap_or_else(|| panic!("no {words:?} in {table}"));
    line.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn status_tells_of_each_pod_and_rule_what_is_in_force_and_what_it_did() {
    let Some(node) = stage::node() else { return };
    let (a, b) = stage::pods(&node);
    put_objects(&a);
    let _agent = Agent::start();
    let flow = Flow::begin(&a, &b, EVERY);
    for _ in 0..50 {
        flow.wait_for(46);
    }
    let sent = 50 + flow.end().len() as u64;

    let output = status("json");
    assert_code(&output, 0);
    let all: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(all["node"], "node1");
    assert_eq!(all["problems"], json!([]));
    let pods = all["pods"].as_array().unwrap();
    assert_eq!(pods.len(), 1, "{pods:?}");
    let links = json!({"rules": 2, "limits": 0, "uplinks": 0, "mostOfRules": 1024});
    assert_eq!(all["links"], links);
    let pod = &pods[0];
    for (field, value) in [
        ("namespace", "games"),
        ("name", "a"),
        ("interface", "eth0"),
        ("failing", ""),
    ] {
        assert_eq!(pod[field], value, "{field} of {pod}");
    }
    assert_eq!(pod["hookOn"], a.host_link());
    assert_eq!(pod["limits"][0]["rate"], 80_000_000);
    assert_eq!(pod["limits"][0]["inForce"], true);
    let [tried, rule] = pod["rules"].as_array().unwrap().as_slice() else {
        panic!("{pod}");
    };
    assert_eq!(
        (&tried["rule"], &tried["shadow"]),
        (&json!("games/tried[0]"), &json!(true))
    );
    assert_eq!(
        (&rule["rule"], &rule["shadow"]),
        (&json!("games/p[0]"), &json!(false))
    );
    assert_eq!(
        (&rule["dscp"], &rule["rate"]),
        (&json!(46), &json!(20_000_000))
    );
    for rule in [tried, rule] {
        assert_eq!(rule["counts"]["packets"], sent, "{rule}");
        assert_eq!(rule["counts"]["markedPackets"], sent, "{rule}");
        // An Ethernet header, one of IP, one of UDP, and a number.
        assert_eq!(rule["counts"]["bytes"], sent * (14 + 20 + 8 + 4), "{rule}");
        assert_eq!(rule["polices"], false, "{rule}");
    }
    // The queue is there, and what only counts has none.
    let queue = rule["queue"].as_str().unwrap();
    let discipline = node.run("tc", &["qdisc", "show", "dev", queue]).unwrap();
    assert!(
        discipline.contains("tbf") && discipline.contains("rate 20Mbit"),
        "{discipline}"
    );
    assert_eq!(tried.get("queue"), None);

    let output = status("yaml");
    assert_code(&output, 0);
    let yaml: Value = serde_saphyr::from_str(&stdout(&output)).unwrap();
    assert_eq!(yaml["pods"][0]["rules"], pod["rules"]);
    assert_eq!(yaml["checks"], all["checks"]);

    let output = status("table");
    assert_code(&output, 0);
    let table = stdout(&output);
    assert!(table.starts_with("node node1, agent "), "{table}");
    assert!(
        table.lines().next().unwrap().ends_with(": ready"),
        "{table}"
    );
    let links = "links: 2 of 1024 for rules, 0 for limits, 0 for uplinks\n";
    assert!(table.contains(links), "{table}");
    let sent = sent.to_string();
    let cells = line_with(&table, &["games/a", "eth0", "in force"]);
    assert_eq!(
        cells[..6],
        ["games/a", "default", "eth0", "-", "80", "Mbit/s"]
    );
    let cells = line_with(&table, &["games/a", "games/tried[0]"]);
    assert!(
        cells.ends_with(&[sent.clone(), "0".to_owned()]),
        "{cells:?}"
    );
    assert!(cells.contains(&"shadow".to_owned()), "{cells:?}");
    let cells = line_with(&table, &["games/a", "games/p[0]"]);
    assert!(cells.ends_with(&[sent, "0".to_owned()]), "{cells:?}");
    for cell in ["enforce", queue, "46", "20"] {
        assert!(
            cells.contains(&cell.to_owned()),
            "{cell} is not in {cells:?}"
        );
    }
}

/// A macvlan has no end on the node that packets could be put back from.
#[test]
fn status_says_where_a_rate_is_policed() {
    let Some(node) = stage::node() else { return };
    node.parent_link("parent").unwrap();
    let a = node.macvlan_pod("a", "parent").unwrap();
    stage::remember(&a, json!({}));
    stage::put("a.json", &stage::manifest(&a, json!({})));
    stage::put("p.yaml", &stage::policy("p", "a", RULES));
    let _agent = Agent::start();
    let all: Value = serde_json::from_slice(&status("json").stdout).unwrap();
    let rule = &all["pods"][0]["rules"][0];
    assert_eq!((rule.get("queue"), &rule["polices"]), (None, &json!(true)));
    let cells = line_with(&stdout(&status("table")), &["games/p[0]"]);
    assert!(cells.contains(&"policer".to_owned()), "{cells:?}");
}

#[test]
fn status_ends_with_1_where_something_is_not_in_force_and_with_3_where_nobody_answers() {
    let Some(node) = stage::node() else { return };
    let (a, _b) = stage::pods(&node);
    put_objects(&a);
    stage::put("bad.yaml", &stage::policy("bad", "a", "[{dscp: 64}]"));
    let agent = Agent::start();
    for form in ["json", "yaml", "table"] {
        let output = status(form);
        assert_code(&output, 1);
        let said = stdout(&output);
        assert!(said.contains("spec.egress[0].dscp"), "{said}");
        // All else is.
        assert!(said.contains("games/p[0]"), "{said}");
    }
    let table = stdout(&status("table"));
    let (_, problems) = table.split_once("\nproblems:\n").unwrap();
    assert!(
        problems.starts_with("  NetworkQoS games/bad: Invalid: "),
        "{table}"
    );
    agent.kill();
    let output = status("table");
    assert_code(&output, 3);
    assert_eq!(stdout(&output), "");
    assert!(stderr(&output).contains("start netqos-agent"), "{output:?}");
}

/// No program can be loaded, since a file stands where the BPF file system should be.
#[test]
fn status_says_what_the_agent_waits_for() {
    let Some(node) = stage::node() else { return };
    let (a, _b) = stage::pods(&node);
    put_objects(&a);
    std::fs::write("/run/obstacle", "").unwrap();
    let _agent = Agent::spawn_where(&[("NETQOS_BPFFS", "/run/obstacle/bpf")]);
    let fails = || {
        client::status(Path::new(RUN)).is_ok_and(|it| it.pods.len() == 1 && !it.problems.is_empty())
    };
    assert!(stage::eventually(fails));
    let output = status("table");
    assert_code(&output, 1);
    let table = stdout(&output);
    assert!(
        table.lines().next().unwrap().ends_with(": NOT READY"),
        "{table}"
    );
    assert!(
        table.contains("\n  rules: no rule can be put in force: "),
        "{table}"
    );
    line_with(&table, &["games/a", "eth0", "rules are not in force"]);
}

/// Also of a pod that nothing is for, of which there is a record only. The second attachment is being made.
#[test]
fn status_of_a_pod_lists_its_networks() {
    let Some(node) = stage::node() else { return };
    let (a, _b) = stage::pods(&node);
    let attachment = |nad: Value, interface: &str, list: Value, requested: Value| {
        json!({"driver": "cni", "nad": nad, "interface": interface, "list": list, "args": [],
            "capabilityArgs": requested})
    };
    let limited = json!({"name": "lan", "plugins": [
        {"type": "bridge"}, {"type": "bandwidth", "capabilities": {"bandwidth": true}}]});
    let requested = json!({"bandwidth": {"egressRate": 8_000_000, "egressBurst": 800_000}});
    let mut record = json!({
        "containerId": a.name(), "netns": a.netns(), "made": 1,
        "pod": {"namespace": "games", "name": "elsewhere"},
        "attachments": [
            attachment(Value::Null, "eth0", json!({"name": "pods", "plugins": []}), json!({})),
            attachment(json!("games/lan"), "net1", limited, requested),
        ],
    });
    let records = Path::new("/var/lib/netqos/multinet/pods");
    fs::create_dir_all(records).unwrap();
    let write = |record: &Value| {
        let fresh = records.join("fresh");
        fs::write(&fresh, record.to_string()).unwrap();
        fs::rename(fresh, records.join(format!("{}.json", a.name()))).unwrap();
    };
    write(&record);
    let _agent = Agent::start();
    let shown = || {
        let output = run(&["status", "--pod", "games/elsewhere"]);
        assert_code(&output, 0);
        stdout(&output)
    };
    let of = |table: &str, network: &str| line_with(table, &[network]).join(" ");
    let first = shown();
    assert_eq!(of(&first, "pods "), "pods eth0 - - - cni attached");
    let being = "games/lan net1 - - 8 Mbit/s cni being attached";
    assert_eq!(of(&first, "games/lan"), being);

    record["made"] = json!(2);
    record["status"] = json!([
        {"name": "pods", "interface": "eth0", "ips": ["10.1.0.9"], "default": true, "dns": {}},
        {"name": "games/lan", "interface": "net1", "ips": ["10.2.0.9", "fd00::9"], "dns": {}},
    ]);
    write(&record);
    let made = shown();
    assert_eq!(of(&made, "pods "), "pods eth0 10.1.0.9 - - cni attached");
    let attached = "games/lan net1 10.2.0.9, fd00::9 - 8 Mbit/s cni attached";
    assert_eq!(of(&made, "games/lan"), attached);

    record["netns"] = json!("/run/netns/gone");
    write(&record);
    let gone = "its sandbox is gone, and the runtime has not called DEL";
    assert!(shown().contains(gone), "{}", shown());
}
