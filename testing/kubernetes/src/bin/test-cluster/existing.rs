//! The cluster of `$KUBECONFIG`, in place of one in namespaces of this machine.

use anyhow::{Context as _, ensure};
use netqos_kubernetes::cluster::Kubectl;

use crate::context::{Context, NETQOS};
use crate::limits;

/// Prints context and server of the cluster, and prepares it for steps that stop no node and no API server.
///
/// # Errors
/// Returns an error if netqos, or a namespace of the steps, exists already, or if fewer than two nodes take pods.
pub fn open(netqos: Option<&str>, pod_image: &str) -> anyhow::Result<Context> {
    let kubectl = Kubectl::of_environment()?;
    let server = "jsonpath={.clusters[0].cluster.server}";
    eprintln!(
        "context {}, server {}",
        kubectl.run(&["config", "current-context"])?.trim(),
        kubectl.run(&["config", "view", "--minify", "-o", server])?
    );
    let netqos =
        netqos.context("an existing cluster needs --netqos-image, which its nodes can pull")?;
    let (repository, tag) = netqos
        .rsplit_once(':')
        // A port of a registry is no tag.
        .filter(|(_, tag)| !tag.contains('/'))
        .with_context(|| format!("{netqos} is not NAME:TAG"))?;
    let crds = kubectl.run(&["get", "crd", "-o", "name"])?;
    let crds: Vec<String> = crds.lines().map(str::to_owned).collect();
    let agents = ["-A", "-l", "app.kubernetes.io/name=netqos", "-o", "name"];
    let agents = kubectl.run(&[&["get", "daemonsets"][..], &agents].concat())?;
    ensure!(
        agents.is_empty() && crds.iter().all(|it| !it.ends_with(".netqos.io")),
        "netqos is installed already; remove it first: docs/operate.md#leaving"
    );
    // Both are deleted in the end.
    for namespace in [limits::NAMESPACE, NETQOS] {
        let get = [
            "get",
            "namespace",
            namespace,
            "--ignore-not-found",
            "-o",
            "name",
        ];
        ensure!(
            kubectl.run(&get)?.is_empty(),
            "the namespace {namespace} exists already; delete it first"
        );
    }
    let nodes = kubectl.json(&["get", "nodes"])?;
    let nodes = nodes["items"].as_array().into_iter().flatten();
    let nodes =
        nodes.filter(|it| it["spec"]["unschedulable"] != true && it["spec"]["taints"].is_null());
    let nodes: Vec<String> = nodes
        .filter_map(|it| it["metadata"]["labels"]["kubernetes.io/hostname"].as_str())
        .map(str::to_owned)
        .collect();
    ensure!(
        nodes.len() > 1,
        "{} nodes take pods, two are needed",
        nodes.len()
    );
    Ok(Context {
        kubectl,
        nodes,
        pod_image: pod_image.to_owned(),
        values: format!("image.repository={repository},image.tag={tag}"),
        crds,
        machine: None,
        previous: None,
    })
}

/// Removes the pods of the steps.
///
/// # Errors
/// Returns an error if the API server refuses it.
pub fn close(context: &Context) -> anyhow::Result<()> {
    let delete = [
        "delete",
        "namespace",
        limits::NAMESPACE,
        "--ignore-not-found",
        "--timeout=120s",
    ];
    context.kubectl().run(&delete)?;
    Ok(())
}
