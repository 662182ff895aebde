//! Traffic classes of a node's uplink: the stories of Koordinator.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use netqos_kubernetes::cluster::{INTERNET, run};
use serde_json::{Value, json};

use crate::context::{Context, NETQOS, eventually, expect};
use crate::external_hosts::{Destination, ExternalHosts};
use crate::install::{deployed, rolled_out};
use crate::pods::{Pod, Template, WINDOW, create, find};

/// Measured rate of a full uplink of 100 Mbit/s: GRO merges packets, and the counters see one header of them.
const FULL: f64 = 97.5;
/// The time until uplinks are as configured.
const PATIENCE: Duration = Duration::from_secs(30);
/// The label of a node that names its class backend.
pub const LABEL: &str = "netqos.io/class-backend";
/// The namespace of Koordinator's ConfigMap.
pub const KOORDINATOR: &str = "koordinator-system";

/// A pod of the class latency-sensitive, and one of best-effort.
pub struct Pods {
    pub online: Pod,
    pub offline: Pod,
}

pub fn pods(context: &Context, node: &str) -> anyhow::Result<Pods> {
    let (online, offline) = (format!("online-{node}"), format!("offline-{node}"));
    let template = |namespace, name, class| Template {
        labels: json!({"koordinator.sh/qosClass": class}),
        ..Template::plain(namespace, name, node)
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

/// The nodes whose uplinks are divided: those of the sandbox. On an existing cluster it is the first one, since the
/// last one receives.
fn divided_nodes(context: &Context) -> &[String] {
    match context.machine {
        Some(_) => &context.nodes,
        None => &context.nodes[..1],
    }
}

/// Has uplinks carry 100 Mbit/s, of which each of the two classes is guaranteed 30.
pub fn divide(context: &Context) -> anyhow::Result<()> {
    start_dividing(context)?;
    for node in divided_nodes(context) {
        eventually(PATIENCE, || is_divided(context, node, true))?;
    }
    Ok(())
}

fn start_dividing(context: &Context) -> anyhow::Result<()> {
    let shares = json!({"networkQOS": {"enable": true, "ingressRequest": 30, "ingressLimit": 100,
        "egressRequest": 30, "egressLimit": 100}});
    configure(context, json!({"lsClass": shares, "beClass": shares}))
}

/// Writes Koordinator's ConfigMap with a strategy for the nodes that are divided.
fn configure(context: &Context, strategy: Value) -> anyhow::Result<()> {
    let names = divided_nodes(context);
    let of_nodes = |mut strategy: Value| {
        if context.machine.is_some() {
            return json!({"clusterStrategy": strategy}).to_string();
        }
        strategy["nodeSelector"] = json!({"matchExpressions": [
            {"key": "kubernetes.io/hostname", "operator": "In", "values": names},
        ]});
        json!({"nodeStrategies": [strategy]}).to_string()
    };
    let objects = json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": KOORDINATOR}},
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "slo-controller-config", "namespace": KOORDINATOR},
            "data": {
                "system-config": of_nodes(json!({"totalNetworkBandwidth": "100M"})),
                "resource-qos-config": of_nodes(strategy),
            },
        },
    ]});
    context.kubectl().apply(&objects.to_string())
}

/// Ends a story: other people's traffic shares the uplinks of an existing cluster, also after a step that failed.
fn end(context: &Context, held: anyhow::Result<String>) -> anyhow::Result<String> {
    let undivided = match context.machine {
        Some(_) => Ok(()),
        None => undivide(context),
    };
    let held = held?;
    undivided?;
    Ok(held)
}

/// Has uplinks be unshared, as docs/node-slo.md says.
pub fn undivide(context: &Context) -> anyhow::Result<()> {
    configure(context, json!({"policies": {"netQOSPolicy": "none"}}))?;
    for node in divided_nodes(context) {
        eventually(PATIENCE, || is_divided(context, node, false))?;
    }
    let kubectl = context.kubectl();
    kubectl.line(&format!("delete namespace {KOORDINATOR} --timeout=60s"))?;
    kubectl.line("delete nodeslos --all")?;
    Ok(())
}

/// Returns an error unless the uplink of a node has HTB classes, or has none. On an existing cluster the status tells.
fn is_divided(context: &Context, node: &str, expected: bool) -> anyhow::Result<()> {
    let (shown, divided) = match context.machine {
        Some(_) => {
            let mut tc = context.node(node)?.command("tc")?;
            let shown = run(tc.args(["class", "show", "dev", "eth0"]))?;
            let divided = shown.contains("class htb");
            (shown, divided)
        }
        None => {
            let shown = context.status(node)?;
            let divided = ["shared by kernel", "tc divides what"]
                .iter()
                .any(|it| shown.contains(it));
            (shown, divided)
        }
    };
    ensure!(
        divided == expected,
        "the uplink of {node} is divided: {divided}, expected: {expected}\n{shown}"
    );
    Ok(())
}

/// Story 2: offline work has the whole uplink, and yields once an online service begins.
pub fn offline_yields(context: &mut Context) -> anyhow::Result<String> {
    end(context, offline_and_online(context))
}

fn offline_and_online(context: &Context) -> anyhow::Result<String> {
    let node = &context.nodes[0];
    let pods = pods(context, node)?;
    let began = Instant::now();
    start_dividing(context)?;
    eventually(PATIENCE, || is_divided(context, node, true))?;
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
    let hosts = ExternalHosts::of(context)?;
    let (offline, online) = (
        (&pods.offline, Destination::Internet),
        (&pods.online, Destination::S3),
    );
    let _offline = offline.0.send(kubectl, &hosts.address(offline.1))?;
    let alone = hosts.rates(kubectl, &[offline], WINDOW)?[0];
    let alone = expect("offline alone", alone, FULL)?;
    let _online = online.0.send(kubectl, &hosts.address(online.1))?;
    let sent = hosts.rates(kubectl, &[online, offline], WINDOW)?;
    let sent = expect_both("sent", sent[0], sent[1])?;
    Ok(format!("{alone}; online and offline: {sent} Mbit/s"))
}

/// A pod of best effort on the host's network, which the backend knows by net_cls, sends beside an online service.
fn send_from_host(context: &Context, pods: &Pods) -> anyhow::Result<String> {
    let kubectl = context.kubectl();
    let online = &pods.online;
    let template = Template {
        labels: json!({"koordinator.sh/qosClass": "BE"}),
        ..Template::plain("work", "on-host-network", &online.node)
    };
    let mut pod = template.manifest(&context.pod_image);
    pod["spec"]["hostNetwork"] = json!(true);
    kubectl.apply(&pod.to_string())?;
    let host = find(kubectl, "work", "on-host-network")?;
    let internet = context.internet()?;
    let _host = host.send(kubectl, INTERNET)?;
    let _online = online.send(kubectl, INTERNET)?;
    let sent = internet.rates(&[online.address, host.address], WINDOW)?;
    let sent = expect_both("beside the host's network: sent", sent[0], sent[1])?;
    Ok(format!("{sent} Mbit/s"))
}

/// Both receive.
fn receive(context: &Context, pods: &Pods) -> anyhow::Result<String> {
    let kubectl = context.kubectl();
    let Pods { online, offline } = pods;
    let hosts = ExternalHosts::of(context)?;
    let _online = online.fetch(kubectl, &hosts.address(Destination::Internet))?;
    let _offline = offline.fetch(kubectl, &hosts.address(Destination::S3))?;
    std::thread::scope(|scope| {
        let online = scope.spawn(|| online.receives(kubectl));
        let offline = offline.receives(kubectl);
        let online = online.join().unwrap_or_else(|_| anyhow::bail!("panicked"));
        expect_both("received", online?, offline?)
    })
}

/// Story 3: one pod of a class is limited while it sends.
pub fn a_pod_is_limited(context: &mut Context) -> anyhow::Result<String> {
    end(context, limited_and_free(context))
}

fn limited_and_free(context: &Context) -> anyhow::Result<String> {
    let Pods { offline, .. } = pods(context, &context.nodes[0])?;
    let hosts = ExternalHosts::of(context)?;
    divide(context)?;
    let kubectl = context.kubectl();
    let annotate = |value: &str| {
        let annotation = format!("koordinator.sh/networkQOS{value}");
        let annotate = ["-n", "work", "annotate", "--overwrite", "pod"];
        kubectl.run(&[&annotate[..], &[&offline.name, &annotation]].concat())
    };
    let to = Destination::Internet;
    let _flow = offline.send(kubectl, &hosts.address(to))?;
    let arrives = || hosts.rates(kubectl, &[(&offline, to)], WINDOW);
    annotate(
        r#"={"IngressRequest": "5M", "IngressLimit": "10M", "EgressRequest": "5M", "EgressLimit": "10M"}"#,
    )?;
    std::thread::sleep(Duration::from_secs(3));
    let limited = arrives()?[0];
    let limited = expect("limited", limited, 9.8)?;
    annotate("-")?;
    std::thread::sleep(Duration::from_secs(3));
    let free = arrives()?[0];
    let free = expect("without annotation", free, FULL)?;
    Ok(format!("{limited}, {free} Mbit/s"))
}

/// Story 4: a node has another class backend, ipset and iptables, and holds the same for what is sent.
pub fn backend_per_node(context: &mut Context) -> anyhow::Result<String> {
    end(context, on_other_backend(context))
}

fn on_other_backend(context: &Context) -> anyhow::Result<String> {
    // Not the node that receives.
    let node = divided_nodes(context).last().context("no node")?.clone();
    let with_tc = context.values_with_tc.as_deref();
    let with_tc = with_tc.context("no image with ipset and iptables")?;
    let pods = pods(context, &node)?;
    divide(context)?;
    let kubectl = context.kubectl();
    let chart = deployed("helm/netqos");
    let upgrade = ["upgrade", "netqos", &chart, "-n", NETQOS, "--reuse-values"];
    let values = format!("{with_tc},agent.classBackends={{tc}}");
    kubectl.helm(&[&upgrade[..], &["--set", &values]].concat())?;
    rolled_out(context)?;
    kubectl.run(&["label", "node", &node, &format!("{LABEL}=tc")])?;
    // Others may have sets, too.
    let sets = || -> anyhow::Result<Vec<String>> {
        let agent = context.agent(&node)?;
        let list = format!("exec {agent} -- /usr/sbin/ipset list -name");
        let names = kubectl.line_in(NETQOS, &list)?;
        let is_of_backend = |it: &&str| it.ends_with("_class") || it.ends_with("_class_v6");
        Ok(names
            .lines()
            .filter(is_of_backend)
            .map(str::to_owned)
            .collect())
    };
    eventually(PATIENCE, || {
        ensure!(!sets()?.is_empty(), "{node} has no ipset");
        is_divided(context, &node, true)
    })?;
    // This backend divides what is sent.
    let sent = send(context, &pods)?;
    let host = match has_net_cls(context, &node)? {
        true => send_from_host(context, &pods)?,
        false => {
            eprintln!("no pod on the host's network is tested: no net_cls, or an existing cluster");
            "no pod on the host's network".to_owned()
        }
    };
    kubectl.run(&["label", "node", &node, &format!("{LABEL}-")])?;
    undivide(context)?;
    eventually(PATIENCE, || {
        let sets = sets()?;
        ensure!(sets.is_empty(), "{node} still has {sets:?}");
        Ok(())
    })?;
    let values = format!("image.tag=,agent.classBackends=null,{}", context.values);
    kubectl.helm(&[&upgrade[..], &["--set", values.trim_end_matches(',')]].concat())?;
    rolled_out(context)?;
    Ok(format!("tc on {node}: {sent}; {host}"))
}

/// Returns true for a node of the sandbox where the machine has net_cls.
fn has_net_cls(context: &Context, node: &str) -> anyhow::Result<bool> {
    if context.machine.is_none() {
        return Ok(false);
    }
    let mut test = context.node(node)?.command("test")?;
    Ok(test
        .args(["-d", "/sys/fs/cgroup/net_cls"])
        .status()?
        .success())
}
