//! Traffic classes of a node's uplink: the stories of Koordinator.

use std::time::{Duration, Instant};

use anyhow::ensure;
use netqos_kubernetes::cluster::{INTERNET, Node, run};
use serde_json::{Value, json};

use crate::context::{Context, NETQOS, eventually, expect};
use crate::install::{deployed, rolled_out};
use crate::pods::{Pod, Template, WINDOW, create, find};

/// Measured rate of a full uplink of 100 Mbit/s: GRO merges packets, and the counters see one header of them.
const FULL: f64 = 97.5;
/// The time until uplinks are as configured.
const PATIENCE: Duration = Duration::from_secs(30);
/// The label of a node that names its class backend.
const LABEL: &str = "netqos.io/class-backend";

/// A pod of the class latency-sensitive, and one of best-effort.
pub struct Pods {
    pub online: Pod,
    pub offline: Pod,
}

pub fn pods(context: &Context, node: &str) -> anyhow::Result<Pods> {
    let (online, offline) = (format!("online-{node}"), format!("offline-{node}"));
    let template = |namespace, name, class| Template {
        namespace,
        name,
        node,
        labels: json!({"koordinator.sh/qosClass": class}),
        annotations: json!({}),
    };
    let templates = [
        template("shop", &online, "LS"),
        template("work", &offline, "BE"),
    ];
    let pods = create(context, &templates)?;
    Ok(Pods {
        online: pods[0].clone(),
        offline: pods[1].clone(),
    })
}

/// Has uplinks carry 100 Mbit/s, of which each of the two classes is guaranteed 30.
pub fn divide(context: &Context) -> anyhow::Result<()> {
    start_dividing(context)?;
    for node in &context.cluster()?.nodes {
        eventually(PATIENCE, || has_htb(node, true))?;
    }
    Ok(())
}

fn start_dividing(context: &Context) -> anyhow::Result<()> {
    let shares = json!({"networkQOS": {"enable": true, "ingressRequest": 30, "ingressLimit": 100,
        "egressRequest": 30, "egressLimit": 100}});
    configure(context, json!({"lsClass": shares, "beClass": shares}))
}

/// Writes Koordinator's ConfigMap with a strategy for all nodes.
fn configure(context: &Context, strategy: Value) -> anyhow::Result<()> {
    let strategy = json!({"clusterStrategy": strategy}).to_string();
    let objects = json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "koordinator-system"}},
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "slo-controller-config", "namespace": "koordinator-system"},
            "data": {
                "system-config": r#"{"clusterStrategy": {"totalNetworkBandwidth": "100M"}}"#,
                "resource-qos-config": strategy,
            },
        },
    ]});
    context.kubectl().apply(&objects.to_string())
}

/// Has uplinks be unshared, as docs/node-slo.md says.
pub fn undivide(context: &Context) -> anyhow::Result<()> {
    configure(context, json!({"policies": {"netQOSPolicy": "none"}}))?;
    for node in &context.cluster()?.nodes {
        eventually(PATIENCE, || has_htb(node, false))?;
    }
    let kubectl = context.kubectl();
    let namespace = ["delete", "namespace", "koordinator-system"];
    kubectl.run(&[&namespace[..], &["--timeout=60s"]].concat())?;
    kubectl.run(&["delete", "nodeslos", "--all"])?;
    Ok(())
}

/// Returns an error unless the uplink of a node has HTB classes, or has none.
fn has_htb(node: &Node, expected: bool) -> anyhow::Result<()> {
    let classes = run(node.command("tc")?.args(["class", "show", "dev", "eth0"]))?;
    ensure!(
        classes.contains("class htb") == expected,
        "HTB classes of eth0 on {}: {classes}",
        node.name()
    );
    Ok(())
}

/// Story 2: offline work has the whole uplink, and yields once an online service begins.
pub fn offline_yields(context: &mut Context) -> anyhow::Result<String> {
    let pods = pods(context, "node1")?;
    let began = Instant::now();
    start_dividing(context)?;
    let cluster = context.cluster()?;
    eventually(PATIENCE, || has_htb(&cluster.nodes[0], true))?;
    let divided = began.elapsed().as_secs_f64();
    let sent = send(context, &pods)?;
    let received = receive(context, &pods)?;
    Ok(format!("divided after {divided:.1} s; {sent}, {received}"))
}

/// Returns an error unless online has more than 60, offline more than 26, and both together less than 102 Mbit/s.
pub fn expect_both(direction: &str, online: f64, offline: f64) -> anyhow::Result<String> {
    ensure!(
        online > 60.0 && offline > 26.0 && online + offline < 102.0,
        "{direction} by online {online:.1}, offline {offline:.1} Mbit/s, expected more than 60 and 26, at most 102"
    );
    Ok(format!("{direction} {online:.1} and {offline:.1}"))
}

/// Offline work sends alone, and beside an online service.
fn send(context: &Context, pods: &Pods) -> anyhow::Result<String> {
    let kubectl = context.kubectl();
    let Pods { online, offline } = pods;
    let addresses = [online.address, offline.address];
    let internet = context.internet()?;
    let _offline = offline.send(kubectl, INTERNET)?;
    let alone = internet.rates(&addresses, WINDOW)?;
    let alone = expect("offline alone", alone[1], FULL, 6.0)?;
    let _online = online.send(kubectl, INTERNET)?;
    let sent = internet.rates(&addresses, WINDOW)?;
    let sent = expect_both("sent", sent[0], sent[1])?;
    Ok(format!("{alone}; online and offline: {sent} Mbit/s"))
}

/// A pod of best effort on the host's network, which the backend knows by net_cls, sends beside an online service.
fn send_from_host(context: &Context, pods: &Pods) -> anyhow::Result<String> {
    let kubectl = context.kubectl();
    let online = &pods.online;
    let template = Template {
        namespace: "work",
        name: "on-host-network",
        node: &online.node,
        labels: json!({"koordinator.sh/qosClass": "BE"}),
        annotations: json!({}),
    };
    let mut pod = template.manifest(&context.pod_image);
    pod["spec"]["hostNetwork"] = json!(true);
    kubectl.apply(&pod.to_string())?;
    let host = find(kubectl, "work", "on-host-network")?;
    let _host = host.send(kubectl, INTERNET)?;
    let _online = online.send(kubectl, INTERNET)?;
    let sent = context
        .internet()?
        .rates(&[online.address, host.address], WINDOW)?;
    let sent = expect_both("beside the host's network: sent", sent[0], sent[1])?;
    Ok(format!("{sent} Mbit/s"))
}

/// Both receive.
fn receive(context: &Context, pods: &Pods) -> anyhow::Result<String> {
    let kubectl = context.kubectl();
    let Pods { online, offline } = pods;
    let _online = online.fetch(kubectl, INTERNET)?;
    let _offline = offline.fetch(kubectl, INTERNET)?;
    std::thread::scope(|scope| {
        let online = scope.spawn(|| online.receives(kubectl));
        let offline = offline.receives(kubectl);
        let online = online.join().unwrap_or_else(|_| anyhow::bail!("panicked"));
        expect_both("received", online?, offline?)
    })
}

/// Story 3: one pod of a class is limited while it sends.
pub fn a_pod_is_limited(context: &mut Context) -> anyhow::Result<String> {
    let Pods { offline, .. } = pods(context, "node1")?;
    divide(context)?;
    let kubectl = context.kubectl();
    let annotate = |value: &str| {
        let annotation = format!("koordinator.sh/networkQOS{value}");
        let annotate = ["-n", "work", "annotate", "--overwrite", "pod"];
        kubectl.run(&[&annotate[..], &[&offline.name, &annotation]].concat())
    };
    let _flow = offline.send(kubectl, INTERNET)?;
    let internet = context.internet()?;
    annotate(
        r#"={"IngressRequest": "5M", "IngressLimit": "10M", "EgressRequest": "5M", "EgressLimit": "10M"}"#,
    )?;
    std::thread::sleep(Duration::from_secs(3));
    let limited = internet.rates(&[offline.address], WINDOW)?[0];
    let limited = expect("limited", limited, 9.8, 8.0)?;
    annotate("-")?;
    std::thread::sleep(Duration::from_secs(3));
    let free = internet.rates(&[offline.address], WINDOW)?[0];
    let free = expect("without annotation", free, FULL, 8.0)?;
    Ok(format!("{limited}, {free} Mbit/s"))
}

/// Story 4: a node has another class backend, ipset and iptables, and holds the same for what is sent.
pub fn backend_per_node(context: &mut Context) -> anyhow::Result<String> {
    let last = context.nodes.len() - 1;
    let node = context.nodes[last].clone();
    let pods = pods(context, &node)?;
    divide(context)?;
    let kubectl = context.kubectl();
    let chart = deployed("helm/netqos");
    let upgrade = ["upgrade", "netqos", &chart, "-n", NETQOS, "--reuse-values"];
    let tag = kubectl.helm(&["show", "chart", &chart])?;
    let tag = tag.lines().find_map(|it| it.strip_prefix("appVersion: "));
    let tag = tag.unwrap_or_default().trim_matches('"');
    let values = format!("image.tag={tag}-tc,agent.classBackends={{tc}}");
    kubectl.helm(&[&upgrade[..], &["--set", &values]].concat())?;
    rolled_out(context)?;
    kubectl.run(&["label", "node", &node, &format!("{LABEL}=tc")])?;
    let sets = || run(context.cluster()?.nodes[last].command("ipset")?.arg("list"));
    eventually(PATIENCE, || {
        ensure!(!sets()?.is_empty(), "{node} has no ipset");
        has_htb(&context.cluster()?.nodes[last], true)
    })?;
    // This backend divides what is sent.
    let sent = send(context, &pods)?;
    let net_cls = context
        .node(&node)?
        .command("test")?
        .args(["-d", "/sys/fs/cgroup/net_cls"])
        .status()?;
    let host = match net_cls.success() {
        true => send_from_host(context, &pods)?,
        false => {
            eprintln!("this machine has no net_cls: no pod on the host's network is tested");
            "no net_cls".to_owned()
        }
    };
    kubectl.run(&["label", "node", &node, &format!("{LABEL}-")])?;
    undivide(context)?;
    eventually(PATIENCE, || {
        let sets = sets()?;
        ensure!(sets.is_empty(), "{node} still has {sets}");
        Ok(())
    })?;
    let values = "image.tag=,agent.classBackends=null";
    kubectl.helm(&[&upgrade[..], &["--set", values]].concat())?;
    rolled_out(context)?;
    Ok(format!("tc on {node}: {sent}; {host}"))
}
