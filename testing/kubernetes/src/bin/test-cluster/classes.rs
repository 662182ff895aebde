//! Traffic classes of a node's uplink: the stories of Koordinator.

use std::time::{Duration, Instant};

use anyhow::ensure;
use netqos_kubernetes::cluster::run;
use serde_json::json;

use crate::context::{Context, eventually, expect};
use crate::pods::{Pod, Template, WINDOW, create};

const INTERNET: &str = "203.0.113.10";
/// The payload of a full uplink of 100 Mbit/s.
const FULL: f64 = 95.5;

/// A pod of the class latency-sensitive, and one of best-effort, on the first node.
fn pods(context: &Context) -> anyhow::Result<(Pod, Pod)> {
    let template = |namespace, name, class| Template {
        namespace,
        name,
        node: "node1",
        labels: json!({"koordinator.sh/qosClass": class}),
        annotations: json!({}),
    };
    let pods = [
        template("shop", "online", "LS"),
        template("work", "offline", "BE"),
    ];
    let pods = create(context.kubectl(), &pods)?;
    Ok((pods[0].clone(), pods[1].clone()))
}

/// Has uplinks carry 100 Mbit/s, of which each class is guaranteed 30.
fn divide(context: &Context) -> anyhow::Result<()> {
    let shares = json!({"enable": true, "ingressRequest": 30, "ingressLimit": 100,
        "egressRequest": 30, "egressLimit": 100});
    let qos = json!({"clusterStrategy": {
        "lsClass": {"networkQOS": shares}, "beClass": {"networkQOS": shares}}});
    let objects = json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "koordinator-system"}},
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "slo-controller-config", "namespace": "koordinator-system"},
            "data": {
                "system-config": r#"{"clusterStrategy": {"totalNetworkBandwidth": "100M"}}"#,
                "resource-qos-config": qos.to_string(),
            },
        },
    ]});
    context.kubectl().apply(&objects.to_string())
}

/// Takes the ConfigMap away, and waits until nothing is divided.
fn undivide(context: &Context) -> anyhow::Result<()> {
    context.kubectl().run(&[
        "delete",
        "namespace",
        "koordinator-system",
        "--wait=true",
        "--timeout=60s",
    ])?;
    Ok(())
}

/// Story 2: offline work has the whole uplink, and yields once an online service begins.
pub fn offline_yields(context: &mut Context) -> anyhow::Result<String> {
    let (online, offline) = pods(context)?;
    let began = Instant::now();
    divide(context)?;
    let kubectl = context.kubectl();
    let divided = eventually(Duration::from_secs(30), || {
        let tc = run(context.cluster.nodes[0]
            .command("tc")?
            .args(["class", "show", "dev", "eth0"]))?;
        ensure!(tc.contains("class htb"), "eth0 of node1 has no HTB classes");
        Ok(began.elapsed().as_secs_f64())
    })?;
    let internet = &context.cluster.internet;
    let addresses = [online.address, offline.address];

    let _offline = offline.send(kubectl, INTERNET, 14)?;
    let alone = internet.receives(&addresses, WINDOW);
    let alone = expect("offline alone", alone[1], FULL, 6.0)?;
    let flow = online.send(kubectl, INTERNET, 8)?;
    let both = internet.receives(&addresses, WINDOW);
    drop(flow);
    let sent = yields("sent", both[0], both[1])?;

    let _online = online.fetch(kubectl, INTERNET, 12)?;
    let _offline = offline.fetch(kubectl, INTERNET, 10)?;
    let received = std::thread::scope(|scope| {
        let online = scope.spawn(|| online.receives(kubectl));
        let offline = offline.receives(kubectl);
        let online = online.join().unwrap_or_else(|_| anyhow::bail!("panicked"));
        yields("received", online?, offline?)
    })?;
    Ok(format!(
        "divided after {divided:.1} s; {alone}; online and offline: {sent}, {received} Mbit/s"
    ))
}

/// Returns an error unless both have at least what their classes are guaranteed, and online most of the rest.
fn yields(direction: &str, online: f64, offline: f64) -> anyhow::Result<String> {
    ensure!(
        online > 60.0 && offline > 26.0,
        "{direction} by online {online:.1}, offline {offline:.1} Mbit/s, expected more than 60 and 26"
    );
    Ok(format!("{direction} {online:.1} and {offline:.1}"))
}

/// Story 3: one pod of a class is limited while it sends.
pub fn a_pod_is_limited(context: &mut Context) -> anyhow::Result<String> {
    let (_, offline) = pods(context)?;
    divide(context)?;
    let kubectl = context.kubectl();
    let annotate = |value: &str| {
        let annotation = format!("koordinator.sh/networkQOS{value}");
        kubectl.run(&[
            "-n",
            "work",
            "annotate",
            "--overwrite",
            "pod",
            "offline",
            &annotation,
        ])
    };
    let _flow = offline.send(kubectl, INTERNET, 25)?;
    let internet = &context.cluster.internet;
    annotate(
        r#"={"IngressRequest": "5M", "IngressLimit": "10M", "EgressRequest": "5M", "EgressLimit": "10M"}"#,
    )?;
    std::thread::sleep(Duration::from_secs(3));
    let limited = internet.receives(&[offline.address], WINDOW)[0];
    let limited = expect("limited", limited, 9.55, 8.0)?;
    annotate("-")?;
    std::thread::sleep(Duration::from_secs(3));
    let free = internet.receives(&[offline.address], WINDOW)[0];
    let free = expect("and no more", free, FULL, 8.0)?;
    undivide(context)?;
    Ok(format!("{limited}, {free} Mbit/s"))
}
