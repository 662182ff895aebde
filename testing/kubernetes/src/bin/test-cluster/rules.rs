//! NetworkQoS: the stories of OKEP-4380.

use std::net::IpAddr;
use std::time::Duration;

use anyhow::{bail, ensure};
use netqos_kubernetes::cluster::Counters;
use serde_json::{Value, json};

use crate::context::{Context, expect_between};
use crate::external_hosts::{Destination, ExternalHosts};
use crate::pods::{Pod, Template, WINDOW, create};

const STORY_1: &str =
    include_str!("../../../../../examples/networkqos-story1-marks/networkqos.yaml");
const STORY_2: &str =
    include_str!("../../../../../examples/networkqos-story2-free-is-limited/networkqos.yaml");
const STORY_3: &str =
    include_str!("../../../../../examples/networkqos-story3-priorities/networkqos.yaml");
/// The time over which connections that share a rule are measured.
const SHARED: Duration = Duration::from_secs(8);

/// A player who pays, and one who does not.
pub fn players(context: &Context) -> anyhow::Result<(Pod, Pod)> {
    let player = |name| Template {
        labels: json!({"user-type": name}),
        ..Template::plain("games", name, &context.nodes[0])
    };
    let pods = create(context, &[player("paid"), player("free")])?;
    Ok((pods[0].clone(), pods[1].clone()))
}

/// A policy that marks what paid players send to this peer with DSCP 46.
pub fn marked(to: &Value) -> Value {
    json!({
        "apiVersion": "k8s.ovn.org/v1alpha1",
        "kind": "NetworkQoS",
        "metadata": {"name": "marked", "namespace": "games"},
        "spec": {
            "priority": 1,
            "podSelector": {"matchLabels": {"user-type": "paid"}},
            "egress": [{"dscp": 46, "classifier": {"to": [to]}}],
        },
    })
}

/// Marks what paid players send to this peer, and nothing else.
pub fn mark(context: &Context, to: &Value) -> anyhow::Result<()> {
    delete(context, "games")?;
    apply(context, "games", &marked(to).to_string())
}

/// The peer of a rule for the Internet.
pub fn internet_peer() -> Value {
    json!({"ipBlock": {"cidr": "203.0.113.0/24"}})
}

/// Applies policies, and waits until all of the namespace are Ready.
pub fn apply(context: &Context, namespace: &str, policies: &str) -> anyhow::Result<()> {
    context.kubectl().apply(policies)?;
    let wait = "wait --for=condition=Ready --timeout=120s networkqos --all";
    context.kubectl().line_in(namespace, wait)?;
    Ok(())
}

/// Deletes all policies of a namespace.
pub fn delete(context: &Context, namespace: &str) -> anyhow::Result<()> {
    let delete = "delete networkqos --all";
    context.kubectl().line_in(namespace, delete)?;
    Ok(())
}

/// Returns an error unless packets arrived from a pod at an address, all with this DSCP, as `nft` names it; and their
/// number.
pub fn expect_all(
    counters: &Counters,
    pod: &Pod,
    to: IpAddr,
    expected: &str,
) -> anyhow::Result<u64> {
    let seen = counters.seen(pod.address_to(to)?, to)?;
    match seen.as_slice() {
        [(dscp, packets)] if dscp == expected => Ok(*packets),
        _ => bail!(
            "{} to {to}: packets by DSCP {seen:?}, expected {expected} alone",
            pod.name
        ),
    }
}

/// Connects from a pod to an address outside, and returns an error unless all packets have this DSCP, as `nft` names
/// it.
pub fn expect_dscp(context: &Context, pod: &Pod, to: &str, expected: &str) -> anyhow::Result<()> {
    let internet = context.internet()?;
    internet.reset()?;
    let connect = format!("echo hello | nc -w 2 {to} 5001");
    pod.shell(context.kubectl(), &connect)?;
    expect_all(internet, pod, to.parse()?, expected)?;
    Ok(())
}

/// Story 1: what players send to the Internet is marked by what they pay.
pub fn marks(context: &mut Context) -> anyhow::Result<String> {
    let (paid, free) = players(context)?;
    let hosts = ExternalHosts::of(context)?;
    apply(context, "games", &hosts.policies(STORY_1))?;
    for (pod, to, dscp) in [
        (&paid, Destination::Internet, 20),
        (&free, Destination::Internet, 11),
        (&paid, Destination::Private, 0),
        (&free, Destination::OtherPrivate, 0),
    ] {
        hosts.expect_dscp(context.kubectl(), pod, to, dscp)?;
    }
    delete(context, "games")?;
    Ok("DSCP paid 20, free 11, to private ranges 0".to_owned())
}

/// Story 2: free players are limited.
pub fn free_is_limited(context: &mut Context) -> anyhow::Result<String> {
    let (paid, free) = players(context)?;
    let hosts = ExternalHosts::of(context)?;
    delete(context, "games")?;
    apply(context, "games", &hosts.policies(STORY_2))?;
    let kubectl = context.kubectl();
    let receives = |pod: &Pod, to, time| -> anyhow::Result<f64> {
        let _flow = pod.send(kubectl, &hosts.address(to))?;
        // Its burst is a megabit.
        std::thread::sleep(Duration::from_secs(2));
        Ok(hosts.rates(kubectl, &[(pod, to)], time)?[0])
    };
    // Its burst of a megabit may pass in this time, too.
    let limited = receives(&free, Destination::Internet, Duration::from_secs(10))?;
    let limited = expect_between("free", limited, 0.85, 1.12)?;
    let unlimited = receives(&paid, Destination::Internet, WINDOW)?;
    let private = receives(&free, Destination::Private, WINDOW)?;
    ensure!(
        unlimited > 50.0 && private > 50.0,
        "paid {unlimited:.1}, to a private range {private:.1} Mbit/s, expected more than 50"
    );
    delete(context, "games")?;
    Ok(format!(
        "{limited} Mbit/s, paid {unlimited:.0}, free to a private range {private:.0}"
    ))
}

/// Story 3: of two rules the one of higher priority decides.
pub fn priorities(context: &mut Context) -> anyhow::Result<String> {
    let template = |name| Template::plain("ns1", name, &context.nodes[0]);
    let pods = create(context, &[template("pod1"), template("pod2")])?;
    let hosts = ExternalHosts::of(context)?;
    apply(context, "ns1", &hosts.policies(STORY_3))?;
    let kubectl = context.kubectl();
    let both = |to| {
        let address = hosts.address(to);
        let _first = pods[0].send(kubectl, &address)?;
        let _second = pods[1].send(kubectl, &address)?;
        hosts.total(kubectl, &pods, to, SHARED)
    };
    // Of the payload: headers are 4 % of it, and two connections repeat what was dropped.
    let internet = both(Destination::Internet)?;
    let internet = expect_between("two pods to the Internet", internet, 8.5, 10.3)?;
    let s3 = expect_between("to S3", both(Destination::S3)?, 85.0, 103.0)?;
    delete(context, "ns1")?;
    Ok(format!("{internet}, {s3} Mbit/s"))
}
