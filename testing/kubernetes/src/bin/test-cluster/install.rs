//! netqos is installed as docs/install.md says.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::ensure;
use serde_json::json;

use crate::context::{Context, NETQOS, eventually};

/// The directory `deploy`.
pub fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy")
}

/// The path of something in the directory `deploy`.
pub fn deployed(path: &str) -> String {
    deploy().join(path).display().to_string()
}

/// `helm install`.
pub fn by_helm(context: &mut Context) -> anyhow::Result<String> {
    chart(context, &deploy().join("helm/netqos"), &context.values)
}

/// Installs a chart with these values, with the CNI plugin and the CRD of NodeSLO.
pub fn chart(context: &Context, chart: &Path, values: &str) -> anyhow::Result<String> {
    let namespace = json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": NETQOS,
            "labels": {"pod-security.kubernetes.io/enforce": "privileged"},
        },
    });
    context.kubectl().apply(&namespace.to_string())?;
    let began = Instant::now();
    let slo = context
        .crds
        .iter()
        .all(|it| !it.ends_with("slo.koordinator.sh"));
    let plugin = format!("cniPlugin.install=true,nodeSlo.installDefinition={slo}");
    let chart = chart.display().to_string();
    let set = ["--set", &plugin, "--set", values];
    let install = ["install", "netqos", &chart, "-n", NETQOS];
    context.kubectl().helm(&[&install[..], &set].concat())?;
    wait_until_ready(context, began)
}

/// `helm install` with the chart's defaults, as in the README.
pub fn by_default(context: &Context) -> anyhow::Result<String> {
    let began = Instant::now();
    let chart = deployed("helm/netqos");
    let install = ["install", "netqos", &chart, "--namespace", NETQOS];
    let create = ["--create-namespace"];
    context.kubectl().helm(&[&install[..], &create].concat())?;
    wait_until_ready(context, began)
}

/// `kubectl apply -k`.
pub fn by_kustomize(context: &mut Context) -> anyhow::Result<String> {
    let began = Instant::now();
    let directory = deployed("kustomize");
    context
        .kubectl()
        .run(&["apply", "--server-side", "-k", &directory])?;
    wait_until_ready(context, began)
}

/// Waits until all pods of netqos are Ready, and all agents have reported.
fn wait_until_ready(context: &Context, began: Instant) -> anyhow::Result<String> {
    rolled_out(context)?;
    let seconds = began.elapsed().as_secs_f64();
    let reports = eventually(Duration::from_secs(30), || {
        let reports = context
            .kubectl()
            .line("get networkqosnodereports -o name")?;
        let count = reports.lines().count();
        let number = "jsonpath={.status.desiredNumberScheduled}";
        let get = format!("get daemonset/netqos-agent -o {number}");
        let agents = context.kubectl().line_in(NETQOS, &get)?;
        ensure!(
            count > 0 && agents == count.to_string(),
            "{count} node reports of {agents} agents are there"
        );
        Ok(count)
    })?;
    Ok(format!(
        "all pods Ready after {seconds:.1} s, {reports} node reports"
    ))
}

/// Waits until agents and controllers are Ready.
pub fn rolled_out(context: &Context) -> anyhow::Result<()> {
    for workload in ["daemonset/netqos-agent", "deployment/netqos-controller"] {
        let status = format!("rollout status {workload} --timeout=120s");
        context.kubectl().line_in(NETQOS, &status)?;
    }
    Ok(())
}
