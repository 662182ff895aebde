//! netqos is removed as docs/operate.md says, and nothing of it is left.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use netqos_kubernetes::cluster::run;

use crate::context::{Context, NETQOS, eventually};
use crate::faults::{inventory, still_limited};
use crate::install::deployed;
use crate::limits;
use crate::pods::Pod;

/// `helm upgrade --set leaving=true`, and `helm uninstall`.
pub fn by_helm(context: &mut Context) -> anyhow::Result<String> {
    let pods = limited_pods(context)?;
    let began = Instant::now();
    context.kubectl().helm(&[
        "upgrade",
        "netqos",
        &deployed("helm/netqos"),
        "-n",
        NETQOS,
        "--reset-then-reuse-values",
        "--set",
        "leaving=true",
    ])?;
    wait_for_agents(context)?;
    context
        .kubectl()
        .helm(&["uninstall", "netqos", "-n", NETQOS, "--wait"])?;
    left(context, &pods, began.elapsed())
}

/// `kubectl apply -k overlays/leaving`, and `kubectl delete -k`.
pub fn by_kustomize(context: &mut Context) -> anyhow::Result<String> {
    let pods = limited_pods(context)?;
    let began = Instant::now();
    let directory = deployed("kustomize/overlays/leaving");
    context
        .kubectl()
        .run(&["apply", "--server-side", "-k", &directory])?;
    wait_for_agents(context)?;
    context
        .kubectl()
        .run(&["delete", "-k", &directory, "--timeout=60s"])?;
    left(context, &pods, began.elapsed())
}

/// A pod that netqos limits, and one without a limit.
fn limited_pods(context: &Context) -> anyhow::Result<(Pod, Pod)> {
    let pods = limits::pods(context)?;
    still_limited(context)?;
    if context.machine.is_none() {
        return Ok(pods);
    }
    let inventory = inventory(context)?;
    ensure!(
        inventory.iter().any(|it| is_of_netqos(it)),
        "the inventory of the nodes shows nothing of netqos"
    );
    Ok(pods)
}

/// Looks for what is left, and whether a pod that was limited is free.
fn left(context: &Context, pods: &(Pod, Pod), time: Duration) -> anyhow::Result<String> {
    nothing_is_left(context)?;
    let (limited, free) = pods;
    let rate = free.receives_from(context.kubectl(), limited)?;
    ensure!(
        rate > 100.0,
        "the pod still has {rate:.1} Mbit/s, expected more than 100"
    );
    Ok(format!(
        "after {:.1} s; nothing is left, the pod that was limited has {rate:.0} Mbit/s",
        time.as_secs_f64()
    ))
}

fn wait_for_agents(context: &Context) -> anyhow::Result<()> {
    let status = "rollout status daemonset/netqos-agent --timeout=120s";
    context.kubectl().line_in(NETQOS, status)?;
    Ok(())
}

/// Returns true for a line of the inventory that netqos or its limits made.
fn is_of_netqos(line: &str) -> bool {
    let kinds = [
        "netqos",
        "koordinator",
        " tbf ",
        " htb ",
        " file ",
        " filter ",
        " ipset ",
        " link nq",
        " link bwp",
    ];
    kinds.iter().any(|kind| line.contains(kind))
}

/// Removes the namespace and the CRDs, and looks for what nodes still have.
fn nothing_is_left(context: &Context) -> anyhow::Result<()> {
    let kubectl = context.kubectl();
    let delete = format!("delete namespace {NETQOS} --ignore-not-found --timeout=60s");
    kubectl.line(&delete)?;
    let crds = kubectl.line("get crd -o name")?;
    let crds = crds.lines().filter(|it| {
        let groups = [".netqos.io", ".k8s.ovn.org", ".koordinator.sh"];
        let is_of_netqos = groups.iter().any(|group| it.ends_with(group));
        is_of_netqos && context.crds.iter().all(|other| other != it)
    });
    for crd in crds {
        kubectl.run(&["delete", crd, "--timeout=60s"])?;
    }
    match context.machine {
        Some(_) => nodes_are_clean(context),
        None => Ok(()),
    }
}

/// Returns an error if something of netqos is left on the nodes of the sandbox, or the upstream plugin is not back.
///
/// # Errors
/// Also returns an error for an existing cluster.
pub fn nodes_are_clean(context: &Context) -> anyhow::Result<()> {
    let cluster = context.cluster()?;
    eventually(Duration::from_secs(30), || {
        let left: Vec<String> = inventory(context)?
            .into_iter()
            .filter(|it| is_of_netqos(it))
            .collect();
        ensure!(left.is_empty(), "left: {left:#?}");
        Ok(())
    })?;
    for node in &cluster.nodes {
        let names = run(node.command("ls")?.arg("/opt/cni/bin"))?;
        ensure!(!names.contains("netqos"), "left in /opt/cni/bin: {names}");
        let plugins = ["/opt/cni/bin/bandwidth", cluster.bandwidth_plugin()];
        run(node.command("cmp")?.args(plugins)).context("the upstream plugin is not back")?;
    }
    Ok(())
}
