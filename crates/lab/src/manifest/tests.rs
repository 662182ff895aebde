//! What is understood, and what is said of what is not.

mod nodes;

use proptest::prelude::*;

use super::*;

const SCENARIO: &str = "
apiVersion: lab.netqos.io/v1alpha1
kind: Scenario
metadata: {name: s}
spec:
  compare: true
  measurements:
  - {name: a, kind: tcp, from: node, to: slow, duration: 2s, expect: {heldTo: ingress}}
  - {name: b, kind: udp, from: slow, to: node, rate: 20M, dscp: EF, expect: {heldTo: egress, tolerance: 2.5}}
  - {name: c, kind: latency, from: node, to: slow, interval: 5ms, underLoad: {from: node, to: slow},
     compare: false, expect: {p99AtMost: 30ms}}
";

const POD: &str = "
apiVersion: v1
kind: Pod
metadata:
  name: slow
  annotations: {kubernetes.io/ingress-bandwidth: 10M, kubernetes.io/egress-bandwidth: 10M}
spec:
  containers:
  - name: main
    image: busybox
    command: [sleep]
    args: [$(HOW_LONG)]
    env: [{name: HOW_LONG, value: infinity}]
";

fn pods(text: &str) -> Result<Vec<PodManifest>, ManifestError> {
    parse(Path::new("pod.yaml"), text)?
        .iter()
        .map(PodManifest::from_document)
        .collect()
}

fn scenario(text: &str) -> Result<Scenario, ManifestError> {
    let documents = parse(Path::new("scenario.yaml"), text)?;
    Scenario::from_document(&documents[0], &pods(POD)?, &Objects::default())
}

#[test]
fn a_scenario_is_read_with_its_defaults() {
    let scenario = scenario(SCENARIO).unwrap();
    let [tcp, udp, latency] = &scenario.measurements[..] else {
        panic!("{scenario:?}")
    };
    assert_eq!(
        (&tcp.from, tcp.omit.as_secs(), tcp.duration.as_secs()),
        (&Place::Node, 1, 2)
    );
    assert!(tcp.compare && udp.compare && !latency.compare);
    let What::Udp {
        rate, size, dscp, ..
    } = udp.what
    else {
        panic!("{udp:?}")
    };
    assert_eq!(
        (rate.bits_per_second(), size, dscp.value()),
        (20_000_000, 1400, 46)
    );
    assert_eq!(udp.expect.tolerance, 2.5);
    assert_eq!(latency.load.as_ref().unwrap().what.kind(), "tcp");
}

#[test]
fn a_pod_is_read_as_kubernetes_writes_it() {
    let pods = pods(POD).unwrap();
    assert_eq!(pods[0].pod.namespace, "default");
    assert_eq!(pods[0].containers[0].command, ["sleep", "infinity"]);
    // The design document's own example has neither a version nor a spec.
    let seed = r#"{"kind": "Pod", "metadata": {"name": "iperf-slow", "annotations": {
        "kubernetes.io/ingress-bandwidth": "10M", "kubernetes.io/egress-bandwidth": "10M"}}}"#;
    assert_eq!(self::pods(seed).unwrap()[0].pod.annotations.len(), 2);
}

#[test]
fn a_mistake_in_a_pod_is_named_with_file_and_field() {
    for (from, to, message) in [
        (
            "annotations:",
            "anotations:",
            "pod.yaml: metadata.anotations: unknown field",
        ),
        (
            "command:",
            "comand:",
            "pod.yaml: spec.containers[0].comand: unknown field",
        ),
        (
            "containers:",
            "container:",
            "pod.yaml: spec.container: unknown field",
        ),
        ("spec:", "spce:", "pod.yaml: spce: unknown field"),
        ("bandwidth: 10M,", "bandwidth: 10,", "expected a string"),
        (
            "value: infinity",
            "valueFrom: {}",
            "spec.containers[0].env[0].valueFrom",
        ),
        ("name: slow", "name: ../slow", "\"../slow\" is not a name"),
        (
            "    command: [sleep]\n",
            "",
            "spec.containers[0].args: there is no command",
        ),
        (
            "apiVersion: v1",
            "apiVersion: v2",
            "pod.yaml: apiVersion: a Pod is of v1",
        ),
        (
            "  containers:",
            "  hostNetwork: true\n  containers:",
            "spec.hostNetwork",
        ),
        ("kind: Pod", "kind: [Pod", "pod.yaml: "),
    ] {
        let text = POD.replace(from, to);
        assert_ne!(text, POD, "{from}");
        let error = pods(&text).unwrap_err().to_string();
        assert!(error.contains(message), "{to}: {error}");
        assert!(error.starts_with("pod.yaml: "), "{error}");
    }
}

#[test]
fn a_mistake_in_a_scenario_is_named_with_file_and_field() {
    for (from, to, message) in [
        (
            "duration: 2s",
            "durations: 2s",
            "spec.measurements[0].durations: unknown field",
        ),
        (
            "duration: 2s",
            "duration: soon",
            "spec.measurements[0].duration: \"soon\" is not a duration",
        ),
        (
            "duration: 2s",
            "duration: 0s",
            "spec.measurements[0].duration: ",
        ),
        (
            "to: slow, duration",
            "to: fast, duration",
            "spec.measurements[0].to: there is no pod \"fast\"; there are node, slow",
        ),
        (
            "to: slow, duration",
            "to: node, duration",
            "spec.measurements[0].to: ",
        ),
        ("rate: 20M, ", "", "spec.measurements[1].rate: missing"),
        (
            "rate: 20M",
            "rate: 20Q",
            "spec.measurements[1].rate: \"20Q\" is not a rate",
        ),
        (
            "dscp: EF",
            "dscp: XF",
            "spec.measurements[1].dscp: \"XF\" is not a DSCP",
        ),
        (
            "p99AtMost: 30ms",
            "dividedBy: cake",
            "spec.measurements[2].expect.dividedBy: \"cake\" divides no lines",
        ),
        (
            "tolerance: 2.5",
            "tolerance: 250",
            "expect.tolerance: 250 is not a percentage",
        ),
        (
            "kind: latency",
            "kind: jitter",
            "spec.measurements[2].kind: unknown variant `jitter`",
        ),
        (
            "interval: 5ms",
            "streams: 2",
            "spec.measurements[2].streams: only measurements of tcp",
        ),
        (
            "heldTo: ingress",
            "heldTo: egress",
            "spec.measurements[0].expect.heldTo: egress is that of the pod at `from`",
        ),
        (
            "heldTo: ingress",
            "p99AtMost: 1ms",
            "spec.measurements[0].expect.p99AtMost: a measurement of tcp",
        ),
        (
            "name: b",
            "name: a",
            "spec.measurements[1].name: there are two measurements \"a\"",
        ),
        (
            "underLoad: {from",
            "underLoad: {kind: latency, from",
            "spec.measurements[2].underLoad.kind",
        ),
        (
            "v1alpha1",
            "v1",
            "apiVersion: a Scenario is of lab.netqos.io/v1alpha1",
        ),
    ] {
        let text = SCENARIO.replace(from, to);
        assert_ne!(text, SCENARIO, "{from}");
        let error = scenario(&text).unwrap_err().to_string();
        assert!(error.starts_with("scenario.yaml: "), "{error}");
        assert!(error.contains(message), "{to}: {error}");
    }
}

#[test]
fn a_folder_needs_one_scenario_and_one_network() {
    let folder = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    let refused = |words: &str| {
        let message = Manifests::read(folder.path()).unwrap_err().to_string();
        assert!(message.contains(words), "{message}");
    };
    put("pod.yaml", POD);
    refused("there is no Scenario document");
    put("scenario.yaml", SCENARIO);
    refused("there is no *.conflist file");
    put("net.conflist", "{}");
    refused("net.conflist");
    put(
        "net.conflist",
        r#"{"cniVersion": "1.0.0", "name": "n", "plugins": [{"type": "ptp"}]}"#,
    );
    assert_eq!(Manifests::read(folder.path()).unwrap().pods.len(), 1);

    put("more.yaml", POD);
    refused("there are two pods \"slow\"");
    put("more.yaml", SCENARIO);
    refused("there are 2 Scenario documents");
    put("more.yaml", "kind: Deployment");
    refused("kind: a Deployment is nothing to build");
    put("more.yaml", "---\n---\n");
    assert!(Manifests::read(folder.path()).is_ok());
}

/// The objects beside the pods, and a scenario that names them.
const OBJECTS: &str = r#"
apiVersion: k8s.ovn.org/v1alpha1
kind: NetworkQoS
metadata: {name: free, namespace: games}
spec:
  priority: 1
  egress:
  - {dscp: 11}
  - {bandwidth: {rate: 1000}, classifier: {to: [{ipBlock: {cidr: 0.0.0.0/0}}]}}
---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: storage}
spec: {config: '{"cniVersion": "1.0.0", "type": "macvlan"}'}
---
apiVersion: v1
kind: Pod
metadata:
  name: a
  namespace: games
  annotations: {k8s.v1.cni.cncf.io/networks: "default/storage@disk0, default/storage"}
---
{apiVersion: v1, kind: Pod, metadata: {name: b, namespace: games}}
---
apiVersion: lab.netqos.io/v1alpha1
kind: Scenario
metadata: {name: s}
spec:
  outside: [{name: internet, addresses: [203.0.113.10, "2001:db8::10"]}]
  measurements:
  - {name: shared, kind: tcp, from: [a, b], to: internet, family: ipv6, expect: {heldTo: "games/free[1]"}}
  - {name: rate, kind: udp, rate: 9M, from: a, to: node, expect: {rate: 5M}}
  - {name: free, kind: tcp, from: a, to: node, expect: {notHeldTo: "games/free[1]"}}
"#;

fn folder(text: &str) -> Result<Manifests, ManifestError> {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("all.yaml"), text).unwrap();
    let network = r#"{"cniVersion": "1.0.0", "name": "n", "plugins": [{"type": "ptp"}]}"#;
    fs::write(folder.path().join("net.conflist"), network).unwrap();
    Manifests::read(folder.path())
}

#[test]
fn objects_for_the_agent_are_read_and_completed() {
    let manifests = folder(OBJECTS).unwrap();
    let kinds = manifests.objects.all.iter();
    let kinds: Vec<_> = kinds
        .map(|one| format!("{} {}", one.kind, one.name))
        .collect();
    assert_eq!(
        kinds,
        [
            "NetworkQoS games/free",
            "NetworkAttachmentDefinition default/storage",
            "Namespace /games"
        ]
    );
    let label = "/metadata/labels/kubernetes.io~1metadata.name";
    assert_eq!(
        manifests.objects.all[2].value.pointer(label).unwrap(),
        "games"
    );
    assert_eq!(manifests.objects.networks[0].list.name, "storage");
    let networks = manifests.pods[0].networks.iter();
    let networks: Vec<_> = networks.map(|one| one.interface.as_str()).collect();
    assert_eq!(networks, ["disk0", "net2"]);
    let [shared, rate, free] = &manifests.scenario.measurements[..] else {
        panic!("{:?}", manifests.scenario)
    };
    assert_eq!(shared.senders().count(), 2);
    let Some(HeldTo::Rule(rule, bits)) = &shared.expect.held_to else {
        panic!("{shared:?}")
    };
    assert_eq!(rule.to_string(), "games/free[1]");
    assert_eq!(bits.bits_per_second(), 1_000_000);
    assert!(matches!(rate.expect.held_to, Some(HeldTo::Rate(_))));
    let (rule, bits) = free.expect.not_held_to.as_ref().unwrap();
    assert_eq!(
        (rule.to_string().as_str(), bits.bits_per_second()),
        ("games/free[1]", 1_000_000)
    );
}

#[test]
fn a_mistake_in_objects_and_what_names_them_is_told() {
    for (from, to, message) in [
        ("dscp: 11", "dscp: 64", "spec.egress[0].dscp"),
        (
            "games/free[1]",
            "games/free[0]",
            "rules with a bandwidth are games/free[1]",
        ),
        (
            "notHeldTo: \"games/free[1]\"",
            "notHeldTo: ingress",
            "expect.notHeldTo: \"ingress\" is none of them: rules with a bandwidth are games/free[1]",
        ),
        (
            "rate: 5M",
            "notHeldTo: \"games/free[1]\"",
            "expect.notHeldTo: a measurement of udp does not tell this",
        ),
        (
            "networks: \"default/",
            "networks: \"games/",
            "pod a asks for games/storage",
        ),
        ("@disk0", "@eth0", "interface name \"eth0\" is taken"),
        ("to: internet", "to: moon", "there are node, a, b, internet"),
        ("from: [a, b]", "from: [a, a]", "\"a\" is there twice"),
        (
            "from: [a, b]",
            "from: []",
            "measurements[0].from: there is none",
        ),
        (
            "family: ipv6",
            "interface: disk0",
            "internet is not on the networks",
        ),
        ("\"2001:db8::10\"]", "203.0.113.11]", "is taken"),
        (
            "name: internet",
            "name: a",
            "spec.outside[0].name: there are two",
        ),
        ("'{\"cniVersion\"", "'{cniVersion", "spec.config"),
    ] {
        let text = OBJECTS.replacen(from, to, 1);
        assert_ne!(text, OBJECTS, "{from}");
        let error = folder(&text).unwrap_err().to_string();
        assert!(error.contains(message), "{to}: {error}");
    }
}

/// A limit of an interface is in its entry of the annotation.
#[test]
fn limit_of_an_interface_is_that_of_its_network() {
    let limited = r#"'[{"name": "storage", "namespace": "default", "interface": "disk0",
        "bandwidth": {"egressRate": 1000000}}]'"#;
    let text = OBJECTS
        .replacen("\"default/storage@disk0, default/storage\"", limited, 1)
        .replacen(
            "{name: b, namespace: games}",
            "{name: b, namespace: games, annotations: {k8s.v1.cni.cncf.io/networks: default/storage@disk0}}",
            1,
        );
    let expecting = |way: &str| {
        let to = format!("to: b, interface: disk0, expect: {{{way}}}");
        folder(&text.replacen("to: node, expect: {rate: 5M}", &to, 1))
    };
    let manifests = expecting("heldTo: egress").unwrap();
    let limit = manifests.pods[0].networks[0].limits.egress.unwrap();
    assert_eq!(limit.rate.bits_per_second(), 1_000_000);
    let error = expecting("heldTo: ingress").unwrap_err().to_string();
    assert!(
        error.contains("pod b requests no ingress bandwidth of disk0"),
        "{error}"
    );
}

#[test]
fn pods_that_select_networks_need_an_agent() {
    let (_, text) = OBJECTS.split_once("---\n").unwrap();
    let text = text
        .replace("{heldTo: \"games/free[1]\"}", "{rate: 1M}")
        .replace("{notHeldTo: \"games/free[1]\"}", "{rate: 1M}");
    assert!(folder(&text).unwrap().need_an_agent());
    let text = text.replace("k8s.v1.cni.cncf.io/networks", "other");
    assert!(!folder(&text).unwrap().need_an_agent());
}

proptest! {
    /// Also texts that are nearly right.
    #[test]
    fn reading_never_panics(text in ".{0,200}", at in 0_usize..400, with in "[a-z:{}\\[\\]\n -]{0,8}") {
        let _ = pods(&text);
        let mut nearly = SCENARIO.to_owned();
        nearly.insert_str(at.min(nearly.len()), &with);
        let _ = scenario_or_nothing(&nearly);
    }
}

fn scenario_or_nothing(text: &str) -> Option<Scenario> {
    let documents = parse(Path::new("scenario.yaml"), text).ok()?;
    Scenario::from_document(documents.first()?, &[], &Objects::default()).ok()
}
