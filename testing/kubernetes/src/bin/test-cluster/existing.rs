//! The cluster of `$KUBECONFIG`, in place of one in namespaces of this machine.

use anyhow::{Context as _, ensure};
use netqos_kubernetes::cluster::Kubectl;
use serde_json::Value;

use crate::context::{Context, NETQOS};
use crate::{classes, limits};

/// The namespaces of the steps' pods and policies.
const NAMESPACES: [&str; 5] = [limits::NAMESPACE, "games", "ns1", "shop", "work"];

/// Prints context and server of the cluster, and prepares it for steps that stop no node and no API server.
///
/// # Errors
/// Returns an error if netqos, or a namespace of the steps, exists already, or if fewer than two nodes take pods.
pub fn open(
    netqos: Option<&str>,
    with_tc: Option<&str>,
    pod_image: &str,
) -> anyhow::Result<Context> {
    let kubectl = Kubectl::of_environment()?;
    let server = "jsonpath={.clusters[0].cluster.server}";
    eprintln!(
        "context {}, server {}",
        kubectl.run(&["config", "current-context"])?.trim(),
        kubectl.run(&["config", "view", "--minify", "-o", server])?
    );
    let netqos =
        netqos.context("an existing cluster needs --netqos-image, which its nodes can pull")?;
    let crds = kubectl.run(&["get", "crd", "-o", "name"])?;
    let crds: Vec<String> = crds.lines().map(str::to_owned).collect();
    let agents = ["-A", "-l", "app.kubernetes.io/name=netqos", "-o", "name"];
    let agents = kubectl.run(&[&["get", "daemonsets"][..], &agents].concat())?;
    ensure!(
        agents.is_empty() && crds.iter().all(|it| !it.ends_with(".netqos.io")),
        "netqos is installed already; remove it first: docs/operate.md#leaving"
    );
    let namespaces = kubectl.run(&["get", "namespaces", "-o", "name"])?;
    let exists = |name: &str| {
        let mut names = namespaces
            .lines()
            .filter_map(|it| it.strip_prefix("namespace/"));
        names.any(|it| it == name)
    };
    // All are deleted at the end.
    for namespace in NAMESPACES.into_iter().chain([NETQOS]) {
        ensure!(
            !exists(namespace),
            "the namespace {namespace} exists already; delete it first"
        );
    }
    let has_koordinator =
        exists(classes::KOORDINATOR) || crds.iter().any(|it| it.ends_with(".koordinator.sh"));
    let nodes = kubectl.json(&["get", "nodes"])?;
    let nodes = nodes["items"].as_array().into_iter().flatten();
    let nodes =
        nodes.filter(|it| it["spec"]["unschedulable"] != true && it["spec"]["taints"].is_null());
    // Pods are scheduled by this label, whose value may be another than the name.
    let hostname = |it: &Value| it["metadata"]["labels"]["kubernetes.io/hostname"].clone();
    let nodes: Vec<&Value> = nodes
        .filter(|it| hostname(it) == it["metadata"]["name"])
        .collect();
    ensure!(
        nodes.len() > 1,
        "{} nodes take pods without a toleration, two are needed",
        nodes.len()
    );
    ensure!(
        nodes[0]["metadata"]["labels"][classes::LABEL].is_null(),
        "the first node has the label {}, which a step sets and removes",
        classes::LABEL
    );
    let nodes = nodes
        .iter()
        .filter_map(|it| it["metadata"]["name"].as_str());
    let nodes: Vec<String> = nodes.map(str::to_owned).collect();
    Ok(Context {
        kubectl,
        nodes,
        pod_image: pod_image.to_owned(),
        measuring_image: Some(netqos.to_owned()),
        values: values(netqos)?,
        values_with_tc: with_tc.map(values).transpose()?,
        crds,
        has_koordinator,
        machine: None,
        previous: None,
    })
}

/// Values of the chart for an image.
fn values(image: &str) -> anyhow::Result<String> {
    let (repository, tag) = image
        .rsplit_once(':')
        // A port of a registry is no tag.
        .filter(|(_, tag)| !tag.contains('/'))
        .with_context(|| format!("{image} is not NAME:TAG"))?;
    Ok(format!("image.repository={repository},image.tag={tag}"))
}

/// Removes the pods of the steps, and what a step that failed has left on nodes.
///
/// # Errors
/// Returns an error if the API server refuses it.
pub fn close(context: &Context) -> anyhow::Result<()> {
    let kubectl = context.kubectl();
    let mut delete = vec![
        "delete",
        "namespace",
        "--ignore-not-found",
        "--timeout=120s",
    ];
    delete.extend(NAMESPACES);
    if !context.has_koordinator {
        delete.push(classes::KOORDINATOR);
    }
    let label = format!("{}-", classes::LABEL);
    kubectl.run(&["label", "node", &context.nodes[0], &label])?;
    kubectl.run(&delete)?;
    Ok(())
}
