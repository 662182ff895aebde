//! NetworkQoS: the stories of OKEP-4380.

use std::time::Duration;

use anyhow::ensure;
use serde_json::json;

use crate::context::{Context, expect, expect_between};
use crate::pods::{Pod, Template, WINDOW, create};

const STORY_1: &str =
    include_str!("../../../../../examples/networkqos-story1-marks/networkqos.yaml");
const STORY_2: &str =
    include_str!("../../../../../examples/networkqos-story2-free-is-limited/networkqos.yaml");
const STORY_3: &str =
    include_str!("../../../../../examples/networkqos-story3-priorities/networkqos.yaml");
const INTERNET: &str = "203.0.113.10";
const S3: &str = "52.216.10.10";
const PRIVATE: &str = "10.99.0.10";
/// The time over which connections that share a rule are measured.
const SHARED: Duration = Duration::from_secs(8);

/// A player who pays, and one who does not.
pub fn players(context: &Context) -> anyhow::Result<(Pod, Pod)> {
    let player = |name| Template {
        namespace: "games",
        name,
        node: "node1",
        labels: json!({"user-type": name}),
        annotations: json!({}),
    };
    let pods = create(context, &[player("paid"), player("free")])?;
    Ok((pods[0].clone(), pods[1].clone()))
}

/// Applies policies, and waits until all of the namespace are Ready.
pub fn apply(context: &Context, namespace: &str, policies: &str) -> anyhow::Result<()> {
    context.kubectl().apply(policies)?;
    context.kubectl().run(&[
        "-n",
        namespace,
        "wait",
        "--for=condition=Ready",
        "--timeout=120s",
        "networkqos",
        "--all",
    ])?;
    Ok(())
}

/// Deletes all policies of a namespace.
pub fn delete(context: &Context, namespace: &str) -> anyhow::Result<()> {
    let all = ["-n", namespace, "delete", "networkqos", "--all"];
    context.kubectl().run(&all)?;
    Ok(())
}

/// Connects from a pod to an address, and returns the DSCP of all packets, as `nft` names it.
fn dscp(context: &Context, pod: &Pod, to: &str) -> anyhow::Result<String> {
    let internet = &context.cluster()?.internet;
    let address = pod.address.to_string();
    internet.seen(&address, to)?;
    pod.shell(
        context.kubectl(),
        &format!("echo hello | nc -w 2 {to} 5001"),
    )?;
    let seen = internet.seen(&address, to)?;
    ensure!(!seen.is_empty(), "no packet from {} to {to}", pod.name);
    let marks: Vec<String> = seen.into_iter().map(|(dscp, _)| dscp).collect();
    Ok(marks.join(" and "))
}

/// Returns an error unless all packets from a pod to an address have this DSCP, as `nft` names it.
pub fn expect_dscp(context: &Context, pod: &Pod, to: &str, expected: &str) -> anyhow::Result<()> {
    let dscp = dscp(context, pod, to)?;
    ensure!(
        dscp == expected,
        "{} to {to}: DSCP {dscp}, expected {expected}",
        pod.name
    );
    Ok(())
}

/// Story 1: what players send to the Internet is marked by what they pay.
pub fn marks(context: &mut Context) -> anyhow::Result<String> {
    let (paid, free) = players(context)?;
    apply(context, "games", STORY_1)?;
    // 20, 11 and 0.
    expect_dscp(context, &paid, INTERNET, "af22")?;
    expect_dscp(context, &free, INTERNET, "11")?;
    expect_dscp(context, &paid, PRIVATE, "cs0")?;
    expect_dscp(context, &free, "192.168.99.10", "cs0")?;
    delete(context, "games")?;
    Ok("DSCP paid 20, free 11, to private ranges 0".to_owned())
}

/// Story 2: free players are limited.
pub fn free_is_limited(context: &mut Context) -> anyhow::Result<String> {
    let (paid, free) = players(context)?;
    delete(context, "games")?;
    apply(context, "games", STORY_2)?;
    let receives = |pod: &Pod, to: &str, time: Duration| -> anyhow::Result<f64> {
        let _flow = pod.send(context.kubectl(), to)?;
        // Its burst is a megabit.
        std::thread::sleep(Duration::from_secs(2));
        let rates = context.cluster()?.internet.receives(&[pod.address], time)?;
        Ok(rates[0])
    };
    // Its burst of a megabit may pass in this time, too.
    let limited = receives(&free, INTERNET, Duration::from_secs(10))?;
    let limited = expect_between("free", limited, 0.85, 1.12)?;
    let unlimited = receives(&paid, INTERNET, WINDOW)?;
    let private = receives(&free, PRIVATE, WINDOW)?;
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
    let template = |name| Template {
        namespace: "ns1",
        name,
        node: "node1",
        labels: json!({}),
        annotations: json!({}),
    };
    let pods = create(context, &[template("pod1"), template("pod2")])?;
    apply(context, "ns1", STORY_3)?;
    let addresses = [pods[0].address, pods[1].address];
    let both = |to: &str| -> anyhow::Result<f64> {
        let _first = pods[0].send(context.kubectl(), to)?;
        let _second = pods[1].send(context.kubectl(), to)?;
        let rates = context.cluster()?.internet.receives(&addresses, SHARED)?;
        Ok(rates.iter().sum())
    };
    // Of the payload: headers are 4 % of it, and two connections repeat what was dropped.
    let internet = expect("two pods to the Internet", both(INTERNET)?, 10.0, 15.0)?;
    let s3 = expect("to S3", both(S3)?, 100.0, 15.0)?;
    delete(context, "ns1")?;
    Ok(format!("{internet}, {s3} Mbit/s"))
}
