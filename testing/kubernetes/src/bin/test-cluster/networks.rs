//! Networks of pods: both families, Services by kube-proxy, and a VXLAN network between the nodes.

use std::net::IpAddr;
use std::time::Duration;

use anyhow::ensure;
use netqos_kubernetes::cluster::{INTERNET, INTERNET6, Node};
use serde_json::{Value, json};

use crate::context::{Context, eventually, expect};
use crate::pods::{Flow, Pod, Template, WINDOW, create};
use crate::rules::{expect_all, expect_dscp, mark};
use crate::{classes, limits, rules};

/// Connections to a Service with two pods.
const CONNECTIONS: usize = 20;
/// Connections of an online service: one alone does not always have a packet in the queue of its class.
const ONLINE: usize = 4;

/// Both families count towards one limit, and rules know destinations of both.
pub fn dual_stack(context: &mut Context) -> anyhow::Result<String> {
    let (limited, _) = limits::pods(context)?;
    let (kubectl, internet) = (context.kubectl(), context.internet()?);
    let addresses = [limited.address, limited.address_to(INTERNET6.parse()?)?];
    let sent = {
        let _flow = limited.send(kubectl, INTERNET6)?;
        internet.rates(&addresses, WINDOW)?[1]
    };
    let sent = expect("IPv6 egress", sent, 10.0)?;
    let received = {
        let _flow = limited.fetch(kubectl, INTERNET6)?;
        limited.receives(kubectl)?
    };
    let received = expect("ingress", received, 10.0)?;
    let both = {
        let _flow = limited.send(kubectl, INTERNET)?;
        let _flow6 = limited.send(kubectl, INTERNET6)?;
        internet.rates(&addresses, WINDOW)?.into_iter().sum()
    };
    let both = expect("both families", both, 10.0)?;

    let (paid, _) = rules::players(context)?;
    mark(context, &json!({"ipBlock": {"cidr": "2001:db8::/32"}}))?;
    expect_dscp(context, &paid, INTERNET6, "ef")?;
    expect_dscp(context, &paid, INTERNET, "cs0")?;
    rules::delete(context, "games")?;
    Ok(format!(
        "{sent}, {received}, {both} Mbit/s; DSCP to an IPv6 prefix 46, to IPv4 0"
    ))
}

/// A pod on the node of the players, one on another node, and the addresses of their Service.
pub struct Backends {
    near: Pod,
    pub far: Pod,
    addresses: Vec<IpAddr>,
}

impl Backends {
    pub fn create(context: &Context, near: &str) -> anyhow::Result<Self> {
        let far = context.nodes.iter().find(|it| *it != near);
        let template = |name, node| Template {
            labels: json!({"app": "backend"}),
            ..Template::plain("backends", name, node)
        };
        let Some(far) = far else {
            anyhow::bail!("two nodes are needed");
        };
        let pods = create(context, &[template("near", near), template("far", far)])?;
        let service = json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "backends", "namespace": "backends"},
            "spec": {
                "selector": {"app": "backend"},
                "ipFamilyPolicy": "RequireDualStack",
                "ports": [{"port": 5001}],
            },
        });
        let kubectl = context.kubectl();
        kubectl.apply(&service.to_string())?;
        let service = kubectl.json(&["-n", "backends", "get", "service", "backends"])?;
        let addresses = service["spec"]["clusterIPs"]
            .as_array()
            .into_iter()
            .flatten();
        let addresses = addresses
            .filter_map(|it| it.as_str()?.parse().ok())
            .collect();
        Ok(Self {
            near: pods[0].clone(),
            far: pods[1].clone(),
            addresses,
        })
    }

    /// The peer of a rule.
    fn peer() -> Value {
        json!({
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "backends"}},
            "podSelector": {"matchLabels": {"app": "backend"}},
        })
    }
}

/// kube-proxy leads connections to a Service to pods that a rule is for: they are marked, and those of other pods are
/// not.
pub fn services(context: &mut Context) -> anyhow::Result<String> {
    let (paid, free) = rules::players(context)?;
    let backends = Backends::create(context, &paid.node)?;
    ensure!(backends.addresses.len() == 2, "{:?}", backends.addresses);
    mark(context, &Backends::peer())?;
    let kubectl = context.kubectl();
    let near = context.node(&backends.near.node)?.count()?;
    let far = context.node(&backends.far.node)?.count()?;
    let mut packets = Vec::new();
    for to in &backends.addresses {
        // Until kube-proxy has programmed the Service.
        eventually(Duration::from_secs(20), || {
            paid.shell(kubectl, &format!("echo hello | nc -w 1 {to} 5001"))
        })?;
        near.reset()?;
        far.reset()?;
        let connect = format!(
            "for n in $(seq {CONNECTIONS}); do echo hello | timeout 2 nc {to} 5001; done; true"
        );
        paid.shell(kubectl, &connect)?;
        free.shell(kubectl, &connect)?;
        packets.push(expect_all(&near, &paid, *to, "ef")?.to_string());
        expect_all(&near, &free, *to, "cs0")?;
        expect_all(&far, &paid, backends.far.address_to(*to)?, "ef")?;
    }
    rules::delete(context, "games")?;
    Ok(format!(
        "{} packets to an IPv4 and an IPv6 Service by kube-proxy, 0 unmarked",
        packets.join(" and ")
    ))
}

/// Limits, marks and classes hold in a VXLAN network between the nodes, which comes while netqos runs.
pub fn vxlan(context: &mut Context) -> anyhow::Result<String> {
    let held = tunnel(context, true).and_then(|()| through_tunnel(context));
    let back = tunnel(context, false);
    let held = held?;
    back?;
    Ok(held)
}

/// Has the VXLAN network carry the packets between pods of different nodes, or not.
fn tunnel(context: &Context, on: bool) -> anyhow::Result<()> {
    let nodes = &context.cluster()?.nodes;
    for node in nodes {
        let others: Vec<&Node> = nodes.iter().filter(|it| it.name() != node.name()).collect();
        node.tunnel(&others, on)?;
    }
    Ok(())
}

fn through_tunnel(context: &Context) -> anyhow::Result<String> {
    let (limited, free) = limits::pods(context)?;
    let kubectl = context.kubectl();
    let sent = expect("egress", free.receives_from(kubectl, &limited)?, 10.0)?;
    let received = expect("ingress", limited.receives_from(kubectl, &free)?, 10.0)?;

    let (paid, _) = rules::players(context)?;
    let far = Backends::create(context, &paid.node)?.far;
    mark(context, &Backends::peer())?;
    let arrived = context.node(&far.node)?.count()?;
    for to in [far.address, far.address_to(INTERNET6.parse()?)?] {
        paid.shell(kubectl, &format!("echo hello | nc -w 2 {to} 5001"))?;
        expect_all(&arrived, &paid, to, "ef")?;
    }
    let ends = [&paid.node, &far.node].map(|it| context.node(it).map(Node::address));
    let [near_end, far_end] = ends;
    let outer = arrived.seen(near_end?, far_end?)?;
    ensure!(!outer.is_empty(), "no packet came by the VXLAN network");
    rules::delete(context, "games")?;

    let pods = classes::pods(context, &paid.node)?;
    classes::divide(context)?;
    let shares = || -> anyhow::Result<String> {
        let to = far.address.to_string();
        let _offline = pods.offline.send(kubectl, &to)?;
        let online = (0..ONLINE).map(|_| pods.online.send(kubectl, &to));
        let _online: Vec<Flow> = online.collect::<anyhow::Result<_>>()?;
        let sources = [pods.online.address, pods.offline.address];
        let rates = arrived.rates(&sources, WINDOW)?;
        classes::expect_both("sent", rates[0], rates[1])
    };
    let shares = shares();
    classes::undivide(context)?;
    Ok(format!(
        "{sent}, {received} Mbit/s; DSCP 46; online and offline: {} Mbit/s",
        shares?
    ))
}
