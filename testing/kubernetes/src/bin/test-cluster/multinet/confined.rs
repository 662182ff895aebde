//! The API server refuses what an agent writes to pods beside `network-status`.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

use super::{ATTACHMENTS, NAMESPACE, NETWORKS, STATUS, statuses};
use crate::context::{Context, NETQOS, eventually};
use crate::pods::Pod;

/// With its token, an agent writes `network-status` to pods of its node, and nothing else.
pub(super) fn agent_is_confined(context: &Context, pod: &Pod) -> anyhow::Result<String> {
    let other = context.nodes.iter().find(|it| **it != pod.node);
    let other = other.context("two nodes are needed")?;
    let own = token(context, &pod.node)?;
    let forged = json!({"metadata": {"annotations": {STATUS: "[]"}}});
    let attempts = [
        (
            &token(context, other)?,
            forged.clone(),
            "another node's pod",
        ),
        (
            &own,
            json!({"metadata": {"labels": {"app": "paid"}}}),
            "a label",
        ),
        (
            &own,
            json!({"metadata": {"annotations": {NETWORKS: "[]"}}}),
            "another annotation",
        ),
        (
            &own,
            json!({"metadata": {"finalizers": ["netqos.io/stay"]}}),
            "a finalizer",
        ),
        (&own, json!({"status": {"podIP": "10.0.0.1"}}), "the status"),
    ];
    for (token, change, what) in &attempts {
        // Until the API server applies a policy that is new.
        eventually(Duration::from_secs(30), || {
            match write_status(context, token, pod, change)? {
                Err(error) if error.contains("netqos-agent-pods") => Ok(()),
                Err(error) => anyhow::bail!("an agent that writes {what} is refused by: {error}"),
                Ok(()) => anyhow::bail!("an agent may write {what}"),
            }
        })?;
    }
    let written = write_status(context, &own, pod, &forged)?;
    ensure!(
        written.is_ok(),
        "an agent may not write network-status: {written:?}"
    );
    // The agent, whose token this was not, puts it right.
    eventually(Duration::from_secs(30), || {
        let statuses = statuses(context, context.nodes.len())?;
        let entries = statuses.get(&pod.name).map_or(0, Vec::len);
        ensure!(
            entries == ATTACHMENTS.len(),
            "a forged network-status stays"
        );
        Ok(())
    })?;
    Ok(format!(
        "an agent was refused {} of {} writes",
        attempts.len(),
        attempts.len() + 1
    ))
}

/// A token of the agent on a node, as the kubelet gives it to its pod.
fn token(context: &Context, node: &str) -> anyhow::Result<String> {
    let agent = context.agent(node)?;
    let agent = agent.trim_start_matches("pod/");
    let bound = format!("--bound-object-kind=Pod --bound-object-name {agent}");
    let create = format!("create token netqos-agent {bound}");
    let token = context.kubectl().line_in(NETQOS, &create)?;
    Ok(token.trim().to_owned())
}

/// Patches a pod's status with this token, and reads nothing, as kubectl would. The inner error is that of the API server.
fn write_status(
    context: &Context,
    token: &str,
    pod: &Pod,
    change: &Value,
) -> anyhow::Result<Result<(), String>> {
    let view = "config view -o jsonpath={.clusters[0].cluster.server}";
    let server = context.kubectl().line(view)?;
    let mut config = kube::Config::new(server.parse()?);
    config.accept_invalid_certs = true;
    config.auth_info.token = Some(token.to_owned().into());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let client = kube::Client::try_from(config)?;
        let pods: Api<k8s_openapi::api::core::v1::Pod> = Api::namespaced(client, NAMESPACE);
        let patch = Patch::Merge(change);
        let parameters = PatchParams::default();
        let patched = pods.patch_status(&pod.name, &parameters, &patch);
        Ok(patched.await.map(drop).map_err(|error| error.to_string()))
    })
}
