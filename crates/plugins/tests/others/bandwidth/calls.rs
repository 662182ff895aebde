//! What a runtime says to the plugin.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use netqos_testkit::{Call, Node, Outcome, Pod, State, has_tcx};
use serde_json::{Value, json};

/// The network of all configurations that do not name another.
pub(crate) const NETWORK: &str = "net";
/// Every version of CNI that the plugin speaks.
pub(crate) const VERSIONS: [&str; 5] = ["0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"];
/// What is tested with one hook is tested with the other, and each with both ways of egress.
pub(crate) const WAYS: [(&str, &str); 4] = [
    ("clsact", "pod"),
    ("clsact", "ifb"),
    ("tcx", "pod"),
    ("tcx", "ifb"),
];
/// Those of [`WAYS`] whose hooks this kernel has.
pub(crate) fn ways() -> impl Iterator<Item = (&'static str, &'static str)> {
    WAYS.into_iter().filter(|(hook, _)| is_there(hook))
}

/// The hooks that this kernel has.
pub(crate) fn hooks() -> impl Iterator<Item = &'static str> {
    ["clsact", "tcx"].into_iter().filter(|hook| is_there(hook))
}

/// Returns true if this kernel has the hook.
pub(crate) fn is_there(hook: &str) -> bool {
    hook != "tcx" || has_tcx()
}

/// containerd's "no burst", in bits.
pub(crate) const CONTAINERD: u64 = 4_294_967_295;
/// CRI-O's.
pub(crate) const CRI_O: u64 = 34_359_738_359;

/// The plugin: the one that was built for the tests, or the one that is shipped, when a variable
/// names it.
pub(crate) fn plugin() -> &'static Path {
    static PLUGIN: LazyLock<PathBuf> = LazyLock::new(|| {
        let shipped = std::env::var_os("NETQOS_TEST_PLUGIN");
        shipped.map_or(env!("CARGO_BIN_EXE_bandwidth").into(), PathBuf::from)
    });
    &PLUGIN
}

/// The well-known plugin; where it is not installed, what is compared with it is skipped aloud.
pub(crate) fn original() -> Option<&'static Path> {
    let path = Path::new("/usr/lib/cni/bandwidth");
    if path.exists() {
        return Some(path);
    }
    eprintln!(
        "skipped: {} is not here to compare with (package containernetworking-plugins)",
        path.display()
    );
    None
}

/// A node; `None` where the test has to be skipped.
pub(crate) fn node() -> Option<Node> {
    Node::new().unwrap()
}

/// A node with a pod `a`; `None` where the test has to be skipped.
pub(crate) fn start() -> Option<(Node, Pod)> {
    let node = node()?;
    let pod = node.pod("a").unwrap();
    Some((node, pod))
}

/// A configuration for this pod, of 1.1.0 unless `more` says otherwise, with the result of a main
/// plugin that made its veth. What `more` says goes over the rest.
pub(crate) fn config(pod: &Pod, more: Value) -> Value {
    let version = more["cniVersion"].as_str().unwrap_or("1.1.0").to_owned();
    let mut config = json!({
        "cniVersion": version,
        "name": NETWORK,
        "type": "bandwidth",
        "capabilities": {"bandwidth": true},
        "prevResult": previous(pod, &version),
    });
    let all = config.as_object_mut().unwrap();
    all.extend(more.as_object().unwrap().clone());
    config
}

/// The same with 10 Mbit/s to the pod and 20 from it.
pub(crate) fn limited(pod: &Pod, more: Value) -> Value {
    limited_to(pod, 10_000_000, 20_000_000, more)
}

/// The same by this hook and way of egress.
pub(crate) fn limited_by(pod: &Pod, hook: &str, egress: &str) -> Value {
    limited(pod, json!({"hook": hook, "egress": egress}))
}

/// The same with other limits in bit/s each way, as containerd sends them.
pub(crate) fn limited_to(pod: &Pod, ingress: u64, egress: u64, more: Value) -> Value {
    let mut config = config(pod, more);
    config["runtimeConfig"] = bandwidth(ingress, egress, CONTAINERD);
    config
}

/// `runtimeConfig` with these limits, in bit/s, and this burst, in bits.
pub(crate) fn bandwidth(ingress: u64, egress: u64, burst: u64) -> Value {
    json!({"bandwidth": {
        "ingressRate": ingress, "ingressBurst": burst, "egressRate": egress, "egressBurst": burst,
    }})
}

/// What a main plugin that made the pod's interface answered in this version.
pub(crate) fn previous(pod: &Pod, version: &str) -> Value {
    let mut interfaces =
        vec![json!({"name": "eth0", "mac": "02:00:00:00:00:02", "sandbox": pod.netns()})];
    if !pod.host_link().is_empty() {
        interfaces.insert(
            0,
            json!({"name": pod.host_link(), "mac": "02:00:00:00:00:01"}),
        );
    }
    let mut address = json!({
        "address": "10.99.1.2/24", "gateway": "10.99.1.1", "interface": interfaces.len() - 1,
    });
    let mut result = json!({
        "cniVersion": version,
        "interfaces": interfaces,
        "routes": [{"dst": "0.0.0.0/0", "gw": "10.99.1.1"}],
    });
    // What 1.0.0 does not print any more.
    if version.starts_with("0.") {
        address["version"] = "4".into();
        result["dns"] = json!({});
    }
    result["ips"] = json!([address]);
    result
}

/// A call of the plugin.
pub(crate) fn call(command: &str, pod: &Pod, config: &Value) -> Call {
    Call::of(plugin(), command, pod, config)
}

/// ADD, which must succeed.
pub(crate) fn add(pod: &Pod, config: &Value) -> Value {
    call("ADD", pod, config).succeed().unwrap()
}

/// ADD and DEL, after which the node has what stays of a limit: the programs.
pub(crate) fn warm_up(pod: &Pod) {
    let config = limited(pod, json!({}));
    add(pod, &config);
    del(pod, &config);
}

/// What a call answers that must succeed.
#[track_caller]
pub(crate) fn succeeded(call: &Call) -> Outcome {
    let outcome = call.run().unwrap();
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    outcome
}

/// CHECK, which must succeed.
pub(crate) fn check(pod: &Pod, config: &Value) {
    call("CHECK", pod, config).succeed().unwrap();
}

/// DEL, which must succeed.
pub(crate) fn del(pod: &Pod, config: &Value) {
    call("DEL", pod, config).succeed().unwrap();
}

/// GC of a network with these attachments alive, which must succeed.
pub(crate) fn gc(network: &str, alive: Value) {
    let config = json!({
        "cniVersion": "1.1.0", "name": network, "type": "bandwidth",
        "cni.dev/valid-attachments": alive,
    });
    let call = Call::bare(plugin(), "GC").variable("CNI_PATH", "/opt/cni/bin");
    call.config(&config).succeed().unwrap();
}

/// What the kernel and the file systems of a node and a pod hold.
pub(crate) fn state(node: &Node, pod: &Pod) -> State {
    node.state(&[pod]).unwrap()
}

/// Runs commands, `; ` between them, on the node.
pub(crate) fn on_node(node: &Node, commands: &str) {
    for command in commands.split("; ") {
        let words: Vec<_> = command.split(' ').collect();
        node.run(words[0], &words[1..]).unwrap();
    }
}

/// The same inside of a pod.
pub(crate) fn inside(node: &Node, pod: &Pod, commands: &str) {
    for command in commands.split("; ") {
        let words: Vec<_> = command.split(' ').collect();
        pod.run(node, words[0], &words[1..]).unwrap();
    }
}
