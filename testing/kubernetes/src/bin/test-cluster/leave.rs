//! netqos is removed as docs/operate.md says, and nothing of it is left.

use std::time::{Duration, Instant};

use anyhow::ensure;

use crate::context::{Context, NETQOS, eventually};
use crate::faults::inventory;
use crate::install::deployed;
use crate::limits;
use crate::pods::Pod;

/// `helm upgrade --set leaving=true`, and `helm uninstall`.
pub fn by_helm(context: &mut Context) -> anyhow::Result<String> {
    let pods = limits::pods(context)?;
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
    let pods = limits::pods(context)?;
    let began = Instant::now();
    let directory = deployed("kustomize/overlays/leaving");
    context
        .kubectl()
        .run(&["apply", "--server-side", "-k", &directory])?;
    wait_for_agents(context)?;
    context.kubectl().run(&["delete", "-k", &directory])?;
    left(context, &pods, began.elapsed())
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
    context.kubectl().run(&[
        "-n",
        NETQOS,
        "rollout",
        "status",
        "daemonset/netqos-agent",
        "--timeout=120s",
    ])?;
    Ok(())
}

/// Removes the namespace and the CRDs, and looks for what nodes still have.
fn nothing_is_left(context: &Context) -> anyhow::Result<()> {
    let kubectl = context.kubectl();
    kubectl.run(&["delete", "namespace", NETQOS, "--ignore-not-found"])?;
    let crds = kubectl.run(&["get", "crd", "-o", "name"])?;
    let crds = crds.lines().filter(|it| {
        ["netqos.io", "k8s.ovn.org", "koordinator.sh"]
            .iter()
            .any(|group| it.ends_with(group))
    });
    for crd in crds {
        kubectl.run(&["delete", crd])?;
    }
    eventually(Duration::from_secs(30), || {
        let left: Vec<String> = inventory(context)?
            .into_iter()
            .filter(|it| {
                let kinds = [" file ", "netqos", " tbf ", " htb "];
                kinds.iter().any(|kind| it.contains(kind))
            })
            .collect();
        ensure!(left.is_empty(), "left: {left:#?}");
        Ok(())
    })?;
    for node in &context.cluster.nodes {
        let output = node.command("ls")?.arg("/opt/cni/bin").output()?;
        let names = String::from_utf8_lossy(&output.stdout);
        ensure!(!names.contains("netqos"), "left in /opt/cni/bin: {names}");
    }
    Ok(())
}
