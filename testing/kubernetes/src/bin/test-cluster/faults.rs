//! What stops: agents, the leader, the API server and etcd, a node; and pods that come and go.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use netqos_kubernetes::cluster::Node;
use serde_json::json;

use crate::context::{Context, NETQOS, eventually, expect};
use crate::install::rolled_out;
use crate::pods::{self, Template, create, find};
use crate::{limits, rules};

/// One mark for what a pod sends to the Internet.
const MARK: &str = r#"{
  "apiVersion": "k8s.ovn.org/v1alpha1", "kind": "NetworkQoS",
  "metadata": {"name": "marked", "namespace": "games"},
  "spec": {"priority": 1, "podSelector": {"matchLabels": {"user-type": "paid"}}, "egress": [
    {"dscp": 46, "classifier": {"to": [{"ipBlock": {"cidr": "203.0.113.0/24"}}]}}]}
}"#;
const INTERNET: &str = "203.0.113.10";
/// Connects again and again, ten times a second, until told to stop.
const CONNECT: &str = "\
rm -f /stop
while [ ! -e /stop ]; do echo hello | timeout 2 nc 203.0.113.10 5001; sleep 0.1; done";
/// The time that etcd and the API server are away.
const AWAY: Duration = Duration::from_secs(20);

/// Does something while a pod sends marked packets, and returns how many there were. Each has to be marked.
pub fn no_packet_unmarked(
    context: &mut Context,
    fault: impl FnOnce(&mut Context) -> anyhow::Result<()>,
) -> anyhow::Result<u64> {
    let (paid, _) = rules::players(context)?;
    rules::apply(context, "games", MARK)?;
    let address = paid.address.to_string();
    context.cluster.internet.seen(&address, INTERNET)?;
    // Not a child of kubectl's, which ends with the API server.
    let connect = format!("({CONNECT}) >/dev/null 2>&1 &");
    paid.shell(context.kubectl(), &connect)?;
    std::thread::sleep(Duration::from_secs(1));
    fault(context)?;
    let seen = context.cluster.internet.seen(&address, INTERNET)?;
    paid.shell(context.kubectl(), "touch /stop")?;
    match seen.as_slice() {
        [(dscp, packets)] if dscp == "ef" => Ok(*packets),
        _ => anyhow::bail!("packets by DSCP: {seen:?}, expected ef alone"),
    }
}

/// Kills all processes of a name. Returns how many.
fn kill(name: &str) -> anyhow::Result<usize> {
    let mut killed = 0;
    for entry in fs::read_dir("/proc")? {
        let entry = entry?;
        // A process's name has at most 15 bytes here.
        let comm = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        let Ok(id) = entry.file_name().to_string_lossy().parse::<i32>() else {
            continue;
        };
        if comm.trim() == &name[..name.len().min(15)]
            && let Some(id) = rustix::process::Pid::from_raw(id)
        {
            rustix::process::kill_process(id, rustix::process::Signal::KILL)?;
            killed += 1;
        }
    }
    Ok(killed)
}

/// When the leader has last said so.
fn led(context: &Context) -> anyhow::Result<String> {
    let lease = ["-n", NETQOS, "get", "lease", "-o"];
    let renewed = "jsonpath={.items[0].spec.renewTime}";
    context.kubectl().run(&[&lease[..], &[renewed]].concat())
}

/// All agents and controllers are killed (SIGKILL).
pub fn killed(context: &mut Context) -> anyhow::Result<String> {
    let mut agents = 0;
    let mut takeover = 0.0;
    let packets = no_packet_unmarked(context, |context| {
        agents = kill("netqos-agent")?;
        let nodes = context.cluster.nodes.len();
        ensure!(agents == nodes, "{agents} agents were there");
        ensure!(kill("netqos-controller")? > 0, "no controllers were there");
        let (before, began) = (led(context)?, Instant::now());
        takeover = eventually(Duration::from_secs(90), || {
            ensure!(led(context)? != before, "no controller leads");
            Ok(began.elapsed().as_secs_f64())
        })?;
        std::thread::sleep(Duration::from_secs(2));
        rolled_out(context)
    })?;
    let limited = still_limited(context)?;
    Ok(format!(
        "{agents} agents and all controllers; one leads after {takeover:.1} s; {packets} packets, 0 unmarked; {limited}"
    ))
}

/// etcd and the API server are away for a while.
pub fn api_server_away(context: &mut Context) -> anyhow::Result<String> {
    let packets = no_packet_unmarked(context, |context| {
        let control_plane = &mut context.cluster.control_plane;
        control_plane.api_server.kill()?;
        control_plane.etcd.kill()?;
        std::thread::sleep(AWAY);
        control_plane.etcd.start()?;
        control_plane.api_server.start()?;
        eventually(Duration::from_secs(60), || {
            context.kubectl().run(&["get", "--raw", "/readyz"])
        })?;
        context.cluster.wait_until_ready()?;
        rolled_out(context)
    })?;
    let limited = still_limited(context)?;
    Ok(format!(
        "etcd and kube-apiserver, {} s; {packets} packets, 0 unmarked; {limited}",
        AWAY.as_secs()
    ))
}

/// Returns an error unless the pod of [`limits`] has the limit of its annotations.
pub fn still_limited(context: &Context) -> anyhow::Result<String> {
    let (limited, free) = limits::pods(context)?;
    let rate = free.receives_from(context.kubectl(), &limited)?;
    expect("limited pod", rate, 10.0, 6.0)
}

/// The first node loses its power: what is on its disk stays, and its pods start again.
pub fn reboot(context: &mut Context) -> anyhow::Result<String> {
    let (limited, _) = limits::pods(context)?;
    let agent = context.agent("node1")?;
    let node = &mut context.cluster.nodes[0];
    let began = Instant::now();
    node.stop()?;
    std::thread::sleep(Duration::from_secs(1));
    context.cluster.nodes[0].start()?;
    let kubectl = context.kubectl();
    // The API server does not know yet that the node was away.
    let restarted = eventually(Duration::from_secs(120), || {
        let pod = kubectl.json(&["-n", limits::NAMESPACE, "get", "pod", &limited.name])?;
        let status = &pod["status"]["containerStatuses"][0];
        ensure!(status["restartCount"] != 0, "the pod has not restarted");
        Ok(began.elapsed().as_secs_f64())
    })?;
    eventually(Duration::from_secs(60), || {
        kubectl.run(&[
            "-n",
            NETQOS,
            "wait",
            "--for=condition=Ready",
            &agent,
            "--timeout=60s",
        ])
    })?;
    find(kubectl, limits::NAMESPACE, &limited.name)?;
    let still = still_limited(context)?;
    Ok(format!("pods restarted after {restarted:.1} s; {still}"))
}

/// Pods with limits come and go; what they had of the kernel goes with them.
pub fn churn(context: &mut Context) -> anyhow::Result<String> {
    const PODS: usize = 50;
    let kubectl = context.kubectl();
    let limits = json!({
        "kubernetes.io/ingress-bandwidth": "10M",
        "kubernetes.io/egress-bandwidth": "10M",
    });
    // One on each node, for what there is once for all.
    let names = context.cluster.nodes.iter().map(Node::name);
    let stay: Vec<Template> = names
        .map(|node| Template {
            namespace: "churn",
            name: node,
            node,
            labels: json!({}),
            annotations: limits.clone(),
        })
        .collect();
    create(kubectl, &stay)?;
    let before = inventory(context)?;
    let labels = json!({"app": "churn"});
    let deployment = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "churn", "namespace": "churn"},
        "spec": {
            "replicas": PODS,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels, "annotations": limits},
                "spec": pods::spec(json!({})),
            },
        },
    });
    kubectl.apply(&deployment.to_string())?;
    let rollout = ["-n", "churn", "rollout", "status", "deployment/churn"];
    let began = Instant::now();
    kubectl.run(&[&rollout[..], &["--timeout=300s"]].concat())?;
    let ready = began.elapsed().as_secs_f64();
    let among = inventory(context)?;
    ensure!(among != before, "pods with limits left no trace");
    kubectl.run(&["-n", "churn", "delete", "deployment", "churn"])?;
    eventually(Duration::from_secs(120), || {
        let after = inventory(context)?;
        let more: Vec<&String> = after.iter().filter(|it| !before.contains(it)).collect();
        let less: Vec<&String> = before.iter().filter(|it| !after.contains(it)).collect();
        ensure!(
            more.is_empty() && less.is_empty(),
            "left: {more:#?}, missing: {less:#?}"
        );
        Ok(())
    })?;
    kubectl.run(&["delete", "namespace", "churn", "--wait=false"])?;
    Ok(format!(
        "0..{PODS}..0, Ready after {ready:.1} s; {} kernel objects and files as before",
        before.len()
    ))
}

/// Links, qdiscs, pins, records and rules of all nodes, a line each.
pub fn inventory(context: &Context) -> anyhow::Result<Vec<String>> {
    const LIST: &str = r"
ip -o link | sed -E 's/^[0-9]+: ([^:@]+).*/link \1/'
tc qdisc show | sed -E 's/ (refcnt|direct_packets_stat) [0-9]+//g; s/ [0-9a-f]+:( dev)/\1/; s/^/qdisc /'
find /sys/fs/bpf /run/netqos /var/lib/netqos -mindepth 1 -not -name '*.debug' 2>/dev/null | sed 's/^/file /'
nft list tables | sed 's/^/nft /'
";
    let mut lines = Vec::new();
    for node in &context.cluster.nodes {
        let output = node.command("sh")?.args(["-c", LIST]).output()?;
        let text = String::from_utf8(output.stdout).context("not UTF-8")?;
        lines.extend(text.lines().map(|it| format!("{} {it}", node.name())));
    }
    lines.sort();
    Ok(lines)
}
