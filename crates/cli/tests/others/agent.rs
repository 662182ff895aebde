//! The commands around the agent: what it would do, why, and how to be rid of it.

use std::fs::{self, Permissions};
use std::path::Path;
use std::process::Output;

use netqos_api::{EgressWay, HookChoice};
use netqos_core::plan::{Attach, Chain, ChainRule, Endpoint, Interface, NodePlan, Peers, RuleId};
use netqos_core::{
    Attachment, Bandwidth, BitRate, Dscp, EndpointId, Limit, Limits, Mode, NetworkKey, ObjectName,
    PodId, Priority,
};
use netqos_datapath::rules::RuleDatapath;
use netqos_datapath::{AttachedPod, AttachedPods, HostLinks, LimitDatapath, Paths, Request};
use netqos_testkit::Pod;
use serde_json::{Value, json};

use crate::{assert_code, netqos, node, run, run_as_nobody, stderr, stdout};

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

/// A server, and a Service in front of it.
const SERVER: &str = "\
---
apiVersion: v1
kind: Pod
metadata: {name: server, namespace: games, labels: {app: server}}
spec: {nodeName: node2}
status: {podIP: 10.1.0.3}
---
apiVersion: v1
kind: Service
metadata: {name: front, namespace: games}
spec: {clusterIP: 10.96.0.1, clusterIPs: [10.96.0.1], ports: [{protocol: TCP, port: 443, targetPort: 8443}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: front-x7, namespace: games, labels: {kubernetes.io/service-name: front}}
addressType: IPv4
endpoints: [{addresses: [10.1.0.3]}]
ports: [{protocol: TCP, port: 8443}]
---
apiVersion: k8s.ovn.org/v1alpha1
kind: NetworkQoS
metadata: {name: server, namespace: games}
spec:
  priority: 9
  podSelector: {}
  egress: [{dscp: 20, classifier: {to: [{podSelector: {matchLabels: {app: server}}}]}}]
";

/// What a command says of these objects to somebody who is not root.
fn on_folder(text: &str, command: &str, more: &[&str]) -> Output {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let for_all = Permissions::from_mode(0o755);
    fs::set_permissions(folder.path(), for_all).unwrap();
    fs::write(folder.path().join("objects.yaml"), text).unwrap();
    let path = folder.path().display().to_string();
    let arguments = [&[command, "--manifests", &path], more].concat();
    run_as_nobody(&arguments)
}

/// What becomes of a TCP packet of `games/free`.
fn explain(text: &str, to: &str, port: &str, more: &[&str]) -> Output {
    let tcp = ["--from", "games/free", "--proto", "tcp"];
    let packet = [&tcp[..], &["--to", to, "--port", port], more].concat();
    on_folder(text, "explain", &packet)
}

/// What is planned for a node.
fn plan(text: &str, more: &[&str]) -> Output {
    on_folder(text, "plan", &[&["--node", "node1"], more].concat())
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_plan_needs_neither_root_nor_interfaces() {
    let planned = plan(OBJECTS, &["-o", "json"]);
    assert_code(&planned, 0);
    assert!(planned.stderr.is_empty(), "{planned:?}");
    let planned = json(&planned);
    let endpoint = &planned["endpoints"]["games/free@default"];
    assert_eq!(endpoint["limits"]["egress"]["rate"], 10_000_000);
    assert_eq!(endpoint["attach"]["where"], "unsupported");
    assert_eq!(planned["chains"].as_object().unwrap().len(), 1);
    let other = on_folder(OBJECTS, "plan", &["--node", "node2", "-o", "json"]);
    assert_eq!(json(&other)["endpoints"], json!({}));
    let table = plan(OBJECTS, &[]);
    let table = stdout(&table);
    assert!(
        table.contains("games/free[0]") && table.contains("TCP/443"),
        "{table}"
    );
    let yaml = plan(OBJECTS, &["-o", "yaml"]);
    let yaml: Value = serde_saphyr::from_str(&stdout(&yaml)).unwrap();
    assert_eq!(yaml, planned);
}

#[test]
fn a_plan_says_how_lines_are_shared() {
    let config = r#"
kind: ConfigMap
apiVersion: v1
metadata: {name: slo-controller-config, namespace: koordinator-system}
data:
  system-config: '{"clusterStrategy": {"totalNetworkBandwidth": "1000M"}}'
  resource-qos-config: '{"clusterStrategy": {"beClass": {"networkQOS": {"egressLimit": 50}}}}'
"#;
    let objects = format!("{OBJECTS}---{config}");
    let planned = plan(&objects, &["-o", "json"]);
    assert_code(&planned, 0);
    let planned = json(&planned);
    assert!(planned["endpoints"].is_object());
    let best_effort = &planned["lines"]["eth0"]["egress"]["bestEffort"];
    assert_eq!(
        (&best_effort["min"], &best_effort["max"]),
        (&json!(300_000_000), &json!(500_000_000))
    );
    assert_eq!(
        planned["pods"]["games/free"]["class"], "system",
        "{planned:#}"
    );
    let table = plan(&objects, &["--line", "bond0"]);
    let table = stdout(&table);
    let row = table.lines().find(|it| it.contains("egress")).unwrap();
    let cells: Vec<&str> = row
        .split("  ")
        .map(str::trim)
        .filter(|it| !it.is_empty())
        .collect();
    assert_eq!(
        cells,
        [
            "bond0",
            "egress",
            "400 Mbit/s..1 Gbit/s",
            "300 Mbit/s..1 Gbit/s",
            "300 Mbit/s..500 Mbit/s"
        ]
    );
    // What is followed, and is hardly meant.
    let system = r#""systemClass": {"networkQOS": {"egressLimit": 50}}, "beClass""#;
    let limited = objects.replace(r#""beClass""#, system);
    let planned = plan(&limited, &[]);
    assert_code(&planned, 0);
    let says = "netqos: Node node1: systemClass.networkQOS.egressLimit: is not kept";
    assert!(stderr(&planned).starts_with(says), "{}", stderr(&planned));
    let wrong = objects.replace("1000M", "fast");
    let planned = plan(&wrong, &[]);
    assert_code(&planned, 1);
    assert!(
        stderr(&planned).contains("InvalidClasses"),
        "{}",
        stderr(&planned)
    );
}

#[test]
fn what_is_left_out_of_a_plan_is_said() {
    let bad = OBJECTS.replace("priority: 5", "priority: 101");
    let planned = plan(&bad, &[]);
    assert_code(&planned, 1);
    let errors = stderr(&planned);
    assert!(
        errors.contains("games/free") && errors.contains("spec.priority"),
        "{errors}"
    );
    let nowhere = run(&["plan", "--manifests", "/nowhere", "--node", "node1"]);
    assert_code(&nowhere, 2);
}

#[test]
fn an_explanation_names_the_rule_that_decides() {
    let ask = |to: &str, more: &[&str]| explain(OBJECTS, to, "443", more);
    let marked = json(&ask("192.0.2.7", &["-o", "json"]));
    assert_eq!(marked["outcome"]["dscp"], 11);
    let not = json(&ask("198.51.100.7", &["-o", "json"]));
    assert_eq!(not["outcome"]["winner"], Value::Null);
    let text = stdout(&ask("192.0.2.7", &[]));
    assert!(text.contains("games/free[0] decides: DSCP 11"), "{text}");
    assert_eq!(ask("games/nobody", &[]).status.code(), Some(1));
    assert_eq!(ask("free", &[]).status.code(), Some(2));
}

/// Of an address of the pod, and of one that kube-proxy rewrites to it.
#[test]
fn an_explanation_knows_pods_and_services() {
    let objects = format!("{OBJECTS}{SERVER}");
    let ask = |to: &str, port: &str, more: &[&str]| {
        let output = explain(&objects, to, port, more);
        assert_code(&output, 0);
        assert_eq!(stderr(&output), "");
        output
    };
    let to_pod = json(&ask("games/server", "8443", &["-o", "json"]));
    let server = json!({"policy": "games/server", "index": 0});
    assert_eq!(to_pod["outcome"]["winner"], server);
    assert_eq!(to_pod["outcome"]["dscp"], 20);
    assert_eq!(to_pod["cases"][0]["packet"]["destination"], "10.1.0.3");
    assert_eq!(to_pod["cases"][0]["pods"], json!(["games/server"]));
    let yaml = ask("games/server", "8443", &["-o", "yaml"]);
    let yaml: Value = serde_saphyr::from_str(&stdout(&yaml)).unwrap();
    assert_eq!(yaml, to_pod);

    let to_service = json(&ask("10.96.0.1", "443", &["-o", "json"]));
    assert_eq!(to_service["outcome"]["dscp"], 20);
    let [backend, virtual_address] = to_service["cases"].as_array().unwrap().as_slice() else {
        panic!("{to_service}");
    };
    assert_eq!(backend["via"]["backend"], "games/front");
    assert_eq!(backend["packet"]["destination"], "10.1.0.3");
    assert_eq!(backend["packet"]["port"], 8443);
    assert_eq!(virtual_address["via"]["virtualAddress"], "games/front");
    assert_eq!(virtual_address["outcome"]["winner"], Value::Null);
    let text = stdout(&ask("10.96.0.1", "443", &[]));
    for words in [
        "  => games/server[0] decides: DSCP 20\n",
        "  to 10.1.0.3:8443, behind Service games/front, pod games/server: ",
    ] {
        assert!(text.contains(words), "{words:?} is not in {text}");
    }
    // Another port of the address is nobody's.
    let other = json(&ask("10.96.0.1", "444", &["-o", "json"]));
    assert_eq!(other["outcome"]["winner"], Value::Null);
}

#[test]
fn cleaning_up_needs_root_and_says_so() {
    let output = run_as_nobody(&["cleanup", "--yes"]);
    assert_code(&output, 3);
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
    assert_code(&output, 3);
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
        ends: None,
        host_links: HostLinks::Unknown,
        limits,
        egress: EgressWay::Ifb,
        hook: HookChoice::Auto,
        is_running: false,
    };
    let mut datapath = LimitDatapath::open(paths.clone()).unwrap();
    datapath.apply(&request).unwrap();
    datapath.note_ingress_in_pod("a test").unwrap();
    datapath.apply_again(&attachment, None).unwrap();
    LimitDatapath::note_ingress_only_in_pod(&paths, Some("a test")).unwrap();
    let attached = AttachedPod {
        attachment: attachment.clone(),
        netns: netns.clone(),
        namespace: "games".to_owned(),
        name: pod.name().to_owned(),
        uid: None,
        addresses: Default::default(),
        ends: None,
        has_annotations: false,
    };
    AttachedPods::new(paths.pods()).write(&attached).unwrap();
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
            ends: None,
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
    let Some(node) = node() else { return };
    let pod = node.pod("a").unwrap();
    let before = node.state(&[&pod]).unwrap();
    enforce(&pod);
    // As an agent leaves what it has seen of a cluster.
    let state = Path::new("/var/lib/netqos");
    fs::create_dir_all(state.join("objects")).unwrap();
    fs::write(state.join("objects/pods.json"), "{}").unwrap();
    let enforced = node.state(&[&pod]).unwrap();
    assert_ne!(enforced, before);
    assert_eq!(run(&["cleanup"]).status.code(), Some(2));
    let after = node.state(&[&pod]).unwrap();
    after.assert_is(&enforced, "nobody said yes");
    // An agent that runs would put it back.
    let lock = netqos_agent::agent_lock(Path::new("/run/netqos")).unwrap();
    let refused = run(&["cleanup", "--yes"]);
    assert_code(&refused, 1);
    assert!(stderr(&refused).contains("running already"));
    drop(lock);
    let done = run(&["cleanup", "--yes"]);
    assert_code(&done, 0);
    let after = node.state(&[&pod]).unwrap();
    after.assert_is(&before, "everything was cleaned up");
    assert!(
        !Path::new("/run/netqos").exists(),
        "{:?}",
        node.files("/run/netqos")
    );
    assert!(!state.exists(), "{:?}", fs::read_dir(state.join("objects")));
    // Only what is netqos' own goes, wherever the agent was told to keep it.
    let (own, other) = (
        Path::new("/run/state/objects"),
        Path::new("/run/state/other"),
    );
    fs::create_dir_all(own).unwrap();
    fs::write(other, "").unwrap();
    let done = run(&["cleanup", "--yes", "--state-dir", "/run/state"]);
    assert_code(&done, 0);
    assert!(!own.exists() && other.exists());
}
