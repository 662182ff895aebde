//! Faults: agents, controllers, the API server and etcd are killed, a node is rebooted, pods come and go.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use netqos_kubernetes::cluster::{INTERNET, Kubectl, Node, run};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::context::{Context, NETQOS, eventually, expect};
use crate::install::rolled_out;
use crate::pods::{self, Template, create, find};
use crate::{limits, rules};

/// Connects again and again, ten times a second, until told to stop.
const CONNECT: &str = "\
rm -f /stop
while [ ! -e /stop ]; do echo hello | timeout 2 nc 203.0.113.10 5001; sleep 0.1; done";
/// The time that etcd and the API server are away.
const AWAY: Duration = Duration::from_secs(20);

/// Packets that arrive each second at least, while connections are made.
const PACKETS: f64 = 10.0;

/// Causes a fault while a pod sends marked packets, and returns how many arrived.
///
/// # Errors
/// Returns an error if a packet was not marked, or few arrived.
pub fn no_packet_unmarked(
    context: &mut Context,
    fault: impl FnOnce(&mut Context) -> anyhow::Result<()>,
) -> anyhow::Result<u64> {
    let (paid, _) = rules::players(context)?;
    limits::pods(context)?;
    rules::mark(context, &rules::internet_peer())?;
    // Not a child of kubectl's, which ends with the API server.
    let connect = format!("({CONNECT}) >/dev/null 2>&1 &");
    paid.shell(context.kubectl(), &connect)?;
    std::thread::sleep(Duration::from_secs(1));
    context.internet()?.reset()?;
    let began = Instant::now();
    let caused = fault(context);
    let seconds = began.elapsed().as_secs_f64();
    let seen = rules::expect_all(context.internet()?, &paid, INTERNET.parse()?, "ef");
    let stopped = paid.shell(context.kubectl(), "touch /stop");
    caused.and(stopped)?;
    let packets = seen?;
    ensure!(
        packets as f64 >= PACKETS * seconds,
        "{packets} packets in {seconds:.0} s"
    );
    Ok(packets)
}

/// The processes of a name, in the cgroups of pods whose UID contains a text.
fn processes(name: &str, uid: &str) -> anyhow::Result<Vec<Pid>> {
    let mut processes = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let entry = entry?;
        let read = |file: &str| fs::read_to_string(entry.path().join(file)).unwrap_or_default();
        // A process's name has at most 15 bytes here.
        if read("comm").trim() != &name[..name.len().min(15)] || !read("cgroup").contains(uid) {
            continue;
        }
        let id = entry.file_name().to_string_lossy().parse().ok();
        processes.extend(id.and_then(Pid::from_raw));
    }
    Ok(processes)
}

/// Kills all processes of a name. Returns their number.
fn kill(name: &str) -> anyhow::Result<usize> {
    let processes = processes(name, "")?;
    for process in &processes {
        kill_process(*process, Signal::KILL)?;
    }
    Ok(processes.len())
}

/// The identity of the leader.
fn holder(context: &Context) -> anyhow::Result<String> {
    lease(context, "holderIdentity")
}

/// A field of the controllers' lease.
fn lease(context: &Context, field: &str) -> anyhow::Result<String> {
    let get = format!("get lease -o jsonpath={{.items[0].spec.{field}}}");
    context.kubectl().line_in(NETQOS, &get)
}

/// The leader is stopped (SIGSTOP) until another one leads, and continued.
pub fn leader_stopped(context: &mut Context) -> anyhow::Result<String> {
    let kubectl = context.kubectl();
    let stopped = holder(context)?;
    // Its identity is the name of the pod, and the process ID.
    let pod = stopped.split('_').next().unwrap_or_default();
    let get = format!("get pod {pod} -o jsonpath={{.metadata.uid}}");
    let uid = kubectl.line_in(NETQOS, &get)?;
    let leader = processes("netqos-controller", &uid)?;
    ensure!(leader.len() == 1, "{} processes of {stopped}", leader.len());
    kill_process(leader[0], Signal::STOP)?;
    let began = Instant::now();
    let other = eventually(Duration::from_secs(60), || {
        let other = holder(context)?;
        ensure!(other != stopped, "{stopped} still holds the lease");
        Ok(other)
    });
    let takeover = began.elapsed().as_secs_f64();
    kill_process(leader[0], Signal::CONT)?;
    let other = other?;
    // The other one's policies become Ready, and the lease stays its own.
    let (paid, _) = rules::players(context)?;
    rules::mark(context, &rules::internet_peer())?;
    rules::expect_dscp(context, &paid, INTERNET, "ef")?;
    std::thread::sleep(Duration::from_secs(10));
    let now = holder(context)?;
    ensure!(now == other, "{now} leads, expected {other}");
    rolled_out(context)?;
    Ok(format!(
        "another leads after {takeover:.1} s, and still does once the stopped one continues"
    ))
}

/// The instant at which the leader renewed its lease.
fn led(context: &Context) -> anyhow::Result<String> {
    lease(context, "renewTime")
}

/// All agents and controllers are killed (SIGKILL).
pub fn killed(context: &mut Context) -> anyhow::Result<String> {
    let mut agents = 0;
    let mut takeover = 0.0;
    let packets = no_packet_unmarked(context, |context| {
        agents = kill("netqos-agent")?;
        let nodes = context.nodes.len();
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
        let control_plane = &mut context.cluster_mut()?.control_plane;
        control_plane.api_server.kill()?;
        control_plane.etcd.kill()?;
        std::thread::sleep(AWAY);
        control_plane.etcd.start()?;
        control_plane.api_server.start()?;
        eventually(Duration::from_secs(60), || {
            context.kubectl().line("get --raw /readyz")
        })?;
        context.cluster_mut()?.wait_until_ready()?;
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
    expect("limited pod", rate, 10.0)
}

/// The restarts of a pod's first container.
fn restarts(kubectl: &Kubectl, namespace: &str, pod: &str) -> anyhow::Result<u64> {
    let pod = kubectl.json(&["-n", namespace, "get", pod])?;
    let count = &pod["status"]["containerStatuses"][0]["restartCount"];
    count.as_u64().context("no restart count")
}

/// The first node loses its power. Its disk keeps the data, its pods start again, with their limits and marks.
pub fn reboot(context: &mut Context) -> anyhow::Result<String> {
    let (limited, _) = limits::pods(context)?;
    let (paid, _) = rules::players(context)?;
    rules::mark(context, &rules::internet_peer())?;
    let agent = context.agent("node1")?;
    let of_pod = format!("pod/{}", limited.name);
    let pods = [(limits::NAMESPACE, &of_pod), (NETQOS, &agent)];
    let before = pods.map(|(namespace, pod)| restarts(context.kubectl(), namespace, pod));
    let began = Instant::now();
    context.cluster_mut()?.nodes[0].stop()?;
    std::thread::sleep(Duration::from_secs(1));
    context.cluster_mut()?.nodes[0].start()?;
    let kubectl = context.kubectl();
    // Until then the API server has the state from before.
    for ((namespace, pod), before) in pods.into_iter().zip(before) {
        let before = before?;
        eventually(Duration::from_secs(120), || {
            let after = restarts(kubectl, namespace, pod)?;
            ensure!(after > before, "{pod} has not restarted");
            Ok(())
        })?;
    }
    let restarted = began.elapsed().as_secs_f64();
    let wait = format!("wait --for=condition=Ready --timeout=60s {agent}");
    kubectl.line_in(NETQOS, &wait)?;
    find(kubectl, limits::NAMESPACE, &limited.name)?;
    let still = still_limited(context)?;
    let paid = find(kubectl, &paid.namespace, &paid.name)?;
    rules::expect_dscp(context, &paid, INTERNET, "ef")?;
    Ok(format!(
        "pods restarted after {restarted:.1} s; {still}, DSCP 46"
    ))
}

/// Pods with limits come and go, and leave no kernel object or file.
pub fn churn(context: &mut Context) -> anyhow::Result<String> {
    const PODS: usize = 50;
    let kubectl = context.kubectl();
    // One staying pod per node, so that objects shared by all pods exist before and after.
    let names = context.cluster()?.nodes.iter().map(Node::name);
    let stay = names.map(|node| Template::limited("churn", node, node));
    create(context, &stay.collect::<Vec<_>>())?;
    let before = eventually(Duration::from_secs(30), || {
        let first = inventory(context)?;
        std::thread::sleep(Duration::from_secs(2));
        let second = inventory(context)?;
        ensure!(first == second, "what nodes have changes");
        Ok(second)
    })?;
    let labels = json!({"app": "churn"});
    let deployment = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "churn", "namespace": "churn"},
        "spec": {
            "replicas": PODS,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels, "annotations": pods::limits()},
                "spec": pods::spec(&context.pod_image, json!({})),
            },
        },
    });
    kubectl.apply(&deployment.to_string())?;
    let began = Instant::now();
    kubectl.line_in("churn", "rollout status deployment/churn --timeout=300s")?;
    let ready = began.elapsed().as_secs_f64();
    let limiters = |inventory: &[String]| inventory.iter().filter(|it| it.contains("tbf")).count();
    let made = limiters(&inventory(context)?) - limiters(&before);
    ensure!(
        made >= PODS,
        "{PODS} pods with limits have {made} TBF qdiscs"
    );
    kubectl.line("-n churn delete deployment churn")?;
    as_before(&before, || inventory(context))?;
    kubectl.line("delete namespace churn --timeout=60s")?;
    Ok(format!(
        "0..{PODS}..0, Ready after {ready:.1} s; {} kernel objects and files as before",
        before.len()
    ))
}

/// Waits until the lines are those of before.
///
/// # Errors
/// Returns an error that names the difference after two minutes, or if the lines cannot be read.
pub fn as_before(
    before: &[String],
    read: impl Fn() -> anyhow::Result<Vec<String>>,
) -> anyhow::Result<()> {
    eventually(Duration::from_secs(120), || {
        let after = read()?;
        let more: Vec<&String> = after.iter().filter(|it| !before.contains(it)).collect();
        let less: Vec<&String> = before.iter().filter(|it| !after.contains(it)).collect();
        ensure!(
            more.is_empty() && less.is_empty(),
            "left: {more:#?}, missing: {less:#?}"
        );
        Ok(())
    })
}

/// Links, qdiscs, filters, pins, records, nftables rules and ipsets of all nodes, one per line.
///
/// # Errors
/// Returns an error if one of them cannot be listed.
pub fn inventory(context: &Context) -> anyhow::Result<Vec<String>> {
    const LIST: &str = r"
set -eu -o pipefail
ip -o link | sed -E 's/^[0-9]+: ([^:@]+).*/link \1/'
tc qdisc show | sed -E 's/ (refcnt|direct_packets_stat) [0-9]+//g; s/ [0-9a-f]+:( dev)/\1/; s/^/qdisc /'
for link in $(ip -o link | sed -E 's/^[0-9]+: ([^:@]+).*/\1/'); do
  for hook in ingress egress root; do
    { tc filter show dev $link $hook 2>/dev/null || true; } | sed -E 's/ id [0-9]+//; s/^/filter '$link' /'
  done
done
for directory in /sys/fs/bpf /run/netqos /var/lib/netqos; do
  [ ! -d $directory ] || find $directory -mindepth 1 -not -name '*.debug' | sed 's/^/file /'
done
nft list tables | while read -r table; do
  case $table in *' kube-proxy' | *' arrivals') continue ;; esac
  nft -s list $table | sed 's/^/nft /'
done
ipset list -n | sed 's/^/ipset /'
";
    let mut lines = Vec::new();
    for node in &context.cluster()?.nodes {
        let text = run(node.command("bash")?.args(["-c", LIST]))?;
        lines.extend(text.lines().map(|it| format!("{} {it}", node.name())));
    }
    lines.sort();
    Ok(lines)
}
