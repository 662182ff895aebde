//! The commands around the agent: what it would do, why, and how to be rid of it.

use std::path::Path;
use std::process::Output;

use netqos_api::{EgressWay, HookChoice};
use netqos_core::plan::{Attach, Chain, ChainRule, Endpoint, Interface, NodePlan, Peers, RuleId};
use netqos_core::{
    Attachment, Bandwidth, BitRate, Dscp, EndpointId, Limit, Limits, Mode, NetworkKey, ObjectName,
    PodId, Priority,
};
use netqos_datapath::rules::RuleDatapath;
use netqos_datapath::{HostLinks, LimitDatapath, Paths, Request};
use netqos_testkit::{Node, Pod};
use serde_json::Value;

use crate::{netqos, run, stderr, stdout};

const OBJECTS: &str = "\
apiVersion: v1
kind: Pod
metadata:
  {name: free, namespace: games, labels: {tier: free}, annotations: {kubernetes.io/egress-bandwidth: 10M}}
spec: {nodeName: node1}
status: {podIP: 10.1.0.2}
---
apiVersion: k8s.ovn.org/v1alpha1
kind: NetworkQoS
metadata: {name: free, namespace: games}
spec:
  priority: 5
  podSelector: {matchLabels: {tier: free}}
  egress:
  - {dscp: 11, classifier: {to: [{ipBlock: {cidr: 192.0.2.0/24}}], ports: [{protocol: TCP, port: 443}]}}
";

fn on_folder(text: &str, command: &str, more: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("objects.yaml"), text).unwrap();
    let folder = folder.path().display().to_string();
    run(&[&[command, "--manifests", &folder], more].concat())
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_plan_needs_neither_root_nor_interfaces() {
    let plan = on_folder(OBJECTS, "plan", &["--node", "node1", "-o", "json"]);
    assert_eq!(plan.status.code(), Some(0), "{plan:?}");
    assert!(plan.stderr.is_empty(), "{plan:?}");
    let plan = json(&plan);
    let endpoint = &plan["endpoints"]["games/free@default"];
    assert_eq!(endpoint["limits"]["egress"]["rate"], 10_000_000);
    assert_eq!(endpoint["attach"]["where"], "unsupported");
    assert_eq!(plan["chains"].as_object().unwrap().len(), 1);
    let other = on_folder(OBJECTS, "plan", &["--node", "node2", "-o", "json"]);
    assert_eq!(json(&other)["endpoints"], serde_json::json!({}));
    let table = on_folder(OBJECTS, "plan", &["--node", "node1"]);
    let table = stdout(&table);
    assert!(
        table.contains("games/free[0]") && table.contains("TCP/443"),
        "{table}"
    );
    let yaml = on_folder(OBJECTS, "plan", &["--node", "node1", "-o", "yaml"]);
    let yaml: Value = serde_saphyr::from_str(&stdout(&yaml)).unwrap();
    assert_eq!(yaml, plan);
}

#[test]
fn what_is_left_out_of_a_plan_is_said() {
    let bad = OBJECTS.replace("priority: 5", "priority: 101");
    let plan = on_folder(&bad, "plan", &["--node", "node1"]);
    assert_eq!(plan.status.code(), Some(1));
    let errors = stderr(&plan);
    assert!(
        errors.contains("games/free") && errors.contains("spec.priority"),
        "{errors}"
    );
    let nowhere = run(&["plan", "--manifests", "/nowhere", "--node", "node1"]);
    assert_eq!(nowhere.status.code(), Some(2));
}

#[test]
fn an_explanation_names_the_rule_that_decides() {
    let ask = |to: &str, more: &[&str]| {
        let packet = [
            "--from",
            "games/free",
            "--to",
            to,
            "--proto",
            "tcp",
            "--port",
            "443",
        ];
        on_folder(OBJECTS, "explain", &[&packet, more].concat())
    };
    let marked = json(&ask("192.0.2.7", &["-o", "json"]));
    assert_eq!(marked["outcome"]["dscp"], 11);
    let not = json(&ask("198.51.100.7", &["-o", "json"]));
    assert_eq!(not["outcome"]["winner"], Value::Null);
    let text = stdout(&ask("192.0.2.7", &[]));
    assert!(text.contains("games/free[0] decides: DSCP 11"), "{text}");
    assert_eq!(ask("games/nobody", &[]).status.code(), Some(1));
    assert_eq!(ask("free", &[]).status.code(), Some(2));
}

#[test]
fn cleaning_up_needs_root_and_says_so() {
    use std::os::unix::process::CommandExt as _;
    let mut command = netqos();
    if rustix::process::geteuid().is_root() {
        // Nobody.
        command.uid(65534);
    }
    let output = command.args(["cleanup", "--yes"]).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert!(stderr(&output).contains("as root"), "{output:?}");
}

#[test]
fn where_no_agent_runs_status_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let output = netqos()
        .arg("status")
        .env("NETQOS_RUN_DIR", folder.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3));
    let errors = stderr(&output);
    assert!(errors.contains("start netqos-agent"), "{errors}");
}

/// A limit and a metered rule on a pod, as plugin and agent make them.
fn enforce(pod: &Pod) {
    let paths = Paths::from_variables(|_| None);
    let limit = Limit::of(BitRate::from_bits_per_second(10_000_000));
    let attachment = Attachment::try_new("net", pod.name(), "eth0").unwrap();
    let netns = pod.netns();
    let limits = Limits {
        ingress: Some(limit),
        egress: Some(limit),
    };
    let request = Request {
        attachment: &attachment,
        netns: &netns,
        host_links: HostLinks::Unknown,
        limits,
        egress: EgressWay::Ifb,
        hook: HookChoice::Auto,
    };
    let mut datapath = LimitDatapath::open(paths.clone()).unwrap();
    datapath.apply(&request).unwrap();
    let name = ObjectName::new("games", pod.name());
    let chain = Chain {
        rules: vec![ChainRule {
            id: RuleId {
                policy: name.clone(),
                index: 0,
            },
            priority: Priority::MAX,
            to: Peers::Anywhere,
            ports: Default::default(),
            dscp: Some(Dscp::try_new(11).unwrap()),
            bandwidth: Some(Bandwidth {
                rate: BitRate::from_bits_per_second(20_000_000),
                burst: None,
            }),
            mode: Mode::Enforce,
        }],
    };
    let endpoint = Endpoint {
        pod: PodId {
            name,
            uid: "1".into(),
        },
        attach: Attach::HostVeth(Interface {
            container: pod.name().to_owned(),
            network: "net".to_owned(),
            name: "eth0".to_owned(),
            netns,
        }),
        addresses: Default::default(),
        limits,
        chain: Some(chain.id()),
    };
    let id = EndpointId {
        pod: "1".into(),
        network: NetworkKey::Default,
        ordinal: 0,
    };
    let mut plan = NodePlan::default();
    plan.chains.insert(chain.id(), chain);
    plan.endpoints.insert(id, endpoint);
    let outcome = RuleDatapath::open(paths, HookChoice::Auto)
        .unwrap()
        .sync(&plan);
    assert_eq!(outcome.problems, []);
}

#[test]
fn cleanup_leaves_nothing_and_asks_first() {
    let Some(node) = Node::new().unwrap() else {
        return;
    };
    let pod = node.pod("a").unwrap();
    let before = node.state(&[&pod]).unwrap();
    enforce(&pod);
    let enforced = node.state(&[&pod]).unwrap();
    assert_ne!(enforced, before);
    assert_eq!(run(&["cleanup"]).status.code(), Some(2));
    let after = node.state(&[&pod]).unwrap();
    after.assert_is(&enforced, "nobody said yes");
    // An agent that runs would put it back.
    let lock = netqos_agent::agent_lock(Path::new("/run/netqos")).unwrap();
    let refused = run(&["cleanup", "--yes"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("running already"));
    drop(lock);
    let done = run(&["cleanup", "--yes"]);
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    let after = node.state(&[&pod]).unwrap();
    after.assert_is(&before, "everything was cleaned up");
    assert!(
        !Path::new("/run/netqos").exists(),
        "{:?}",
        node.files("/run/netqos")
    );
    assert_eq!(run(&["cleanup", "--yes"]).status.code(), Some(0));
}
