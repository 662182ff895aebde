//! The cluster of `$KUBECONFIG`, in place of one in namespaces of this machine.

use std::env;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};
use netqos_kubernetes::cluster::{Kubectl, run};
use serde_json::Value;

use crate::context::{Context, NETQOS};
use crate::install::deployed;
use crate::{Kind, STEPS, classes, leave, limits};

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
    let server = "config view --minify -o jsonpath={.clusters[0].cluster.server}";
    eprintln!(
        "context {}, server {}",
        kubectl.line("config current-context")?.trim(),
        kubectl.line(server)?
    );
    let netqos =
        netqos.context("an existing cluster needs --netqos-image, which its nodes can pull")?;
    let crds = kubectl.line("get crd -o name")?;
    let crds: Vec<String> = crds.lines().map(str::to_owned).collect();
    let agents = "get daemonsets -A -l app.kubernetes.io/name=netqos -o name";
    let agents = kubectl.line(agents)?;
    ensure!(
        agents.is_empty() && crds.iter().all(|it| !it.ends_with(".netqos.io")),
        "netqos is installed already; remove it first: docs/operate.md#leaving"
    );
    let namespaces = kubectl.line("get namespaces -o name")?;
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
        pods: 0,
        results: PathBuf::new(),
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
    let label = format!("{}-", classes::LABEL);
    context
        .kubectl()
        .run(&["label", "node", &context.nodes[0], &label])?;
    delete_namespaces(context)
}

fn delete_namespaces(context: &Context) -> anyhow::Result<()> {
    let options = ["--ignore-not-found", "--timeout=120s"];
    let mut delete = [&["delete", "namespace"], &options[..], &NAMESPACES].concat();
    if !context.has_koordinator {
        delete.push(classes::KOORDINATOR);
    }
    context.kubectl().run(&delete)?;
    Ok(())
}

/// Tests the mode for existing clusters on that of the sandbox, after netqos was removed: all refusals and steps. Leaves
/// the cluster unchanged.
pub fn in_sandbox(context: &mut Context) -> anyhow::Result<String> {
    delete_namespaces(context)?;
    let before = cluster_objects(context)?;
    let refusals = refusals(context)?;
    keeps_koordinator(context)?;
    unchanged(context, &before)?;

    let with_tc = format!("{}-tc", image());
    let mut test = this_program(context, &["--image-with-tc", &with_tc, "-o", "json"])?;
    let output = test.stderr(Stdio::inherit()).output()?;
    ensure!(output.status.success(), "a step failed: see above");
    let rows: Vec<Value> = serde_json::from_slice(&output.stdout)?;
    let ran: Vec<&str> = rows.iter().filter_map(|it| it["step"].as_str()).collect();
    let steps = STEPS.iter().filter(|it| it.kind != Kind::Machine);
    let steps: Vec<&str> = steps.map(|it| it.name).collect();
    ensure!(ran == steps, "expected {steps:?}, ran {ran:?}");
    unchanged(context, &before)?;
    leave::nodes_are_clean(context)?;
    Ok(format!(
        "{refusals} refusals; {} steps pass, and leave the cluster unchanged",
        rows.len()
    ))
}

/// The names of cluster-wide objects that netqos has, and the labels of nodes.
fn cluster_objects(context: &Context) -> anyhow::Result<String> {
    const KINDS: &str = "crd,namespaces,clusterroles,clusterrolebindings,validatingwebhookconfigurations,\
        mutatingwebhookconfigurations,validatingadmissionpolicies,validatingadmissionpolicybindings";
    let kubectl = context.kubectl();
    let names = kubectl.run(&["get", KINDS, "-o", "name"])?;
    let labels = "get nodes -o jsonpath={.items[*].metadata.labels}";
    Ok(names + &kubectl.line(labels)?)
}

fn unchanged(context: &Context, before: &str) -> anyhow::Result<()> {
    let after = cluster_objects(context)?;
    ensure!(before == after, "before:\n{before}\nafterwards:\n{after}");
    Ok(())
}

/// The image of netqos in the sandbox.
fn image() -> String {
    format!("localhost/netqos:{}", env!("CARGO_PKG_VERSION"))
}

/// This program, for the cluster in the sandbox as an existing one.
fn this_program(context: &Context, arguments: &[&str]) -> anyhow::Result<Command> {
    let program = env::current_exe()?.display().to_string();
    let programs = &context.cluster()?.programs;
    let mut command = context.kubectl().with_path(&program)?;
    command
        .env("USE_EXISTING_CLUSTER", "true")
        .env("TEST_ASSET_KUBECTL", programs.path("kubectl")?)
        .env("TEST_ASSET_HELM", programs.path("helm")?)
        .args(["--netqos-image", &image()])
        .args(["--pod-image", &context.pod_image])
        .args(arguments);
    Ok(command)
}

/// Returns an error unless this program refuses the cluster in each of some states, after it has printed which cluster
/// it is. Returns the number of states.
fn refusals(context: &Context) -> anyhow::Result<usize> {
    let node = context.nodes[0].as_str();
    let others: Vec<&str> = context.nodes[1..].iter().map(String::as_str).collect();
    let cordon = [&["cordon"], &others[..]].concat();
    let uncordon = [&["uncordon"], &others[..]].concat();
    let (label, unlabel) = (
        format!("{}=tc", classes::LABEL),
        format!("{}-", classes::LABEL),
    );
    let crd = deployed("crds/netqos.io_networkqosquotas.yaml");
    // Nodes last: the taint of a cordoned one is removed some time after `uncordon`.
    let cases: [(&[&str], &[&str], &str); 4] = [
        (&cordon, &uncordon, "two are needed"),
        (
            &["create", "namespace", "games"],
            &["delete", "namespace", "games"],
            "the namespace games exists already",
        ),
        (
            &["create", "-f", &crd],
            &["delete", "-f", &crd],
            "netqos is installed already",
        ),
        (
            &["label", "node", node, &label],
            &["label", "node", node, &unlabel],
            "the first node has the label",
        ),
    ];
    for (change, undo, why) in cases {
        context.kubectl().run(change)?;
        let tested = run(&mut this_program(context, &["--only", "start"])?);
        context.kubectl().run(undo)?;
        let refusal = tested.err().with_context(|| format!("expected: {why}"))?;
        let refusal = refusal.to_string();
        let names_cluster = refusal.contains("context ") && refusal.contains(", server https://");
        ensure!(
            names_cluster && refusal.contains(why),
            "expected {why:?}: {refusal}"
        );
    }
    Ok(cases.len())
}

/// Returns an error unless a CRD of Koordinator stays, and the steps that replace its configuration are left out.
fn keeps_koordinator(context: &Context) -> anyhow::Result<()> {
    let crd = deployed("crds/koordinator");
    context.kubectl().run(&["create", "-f", &crd])?;
    let before = cluster_objects(context)?;
    let steps = STEPS.iter().filter(|it| it.kind == Kind::Classes);
    let steps: Vec<&str> = steps.map(|it| it.name).collect();
    let only = ["--only", &steps.join(","), "-o", "json"];
    let printed = run(&mut this_program(context, &only)?);
    let kept = unchanged(context, &before);
    context.kubectl().run(&["delete", "-f", &crd])?;
    let printed = printed?;
    let ran = steps.iter().find(|it| printed.contains(**it));
    ensure!(ran.is_none(), "ran {ran:?}: {printed}");
    kept
}
