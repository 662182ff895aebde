//! Multus' account, and its daemon.

use std::fs;
use std::process::Command;

use anyhow::{Context as _, Result};
use kube::Client;
use kube::api::{Api, DynamicObject, PostParams};
use netqos_faults::Cluster;
use serde_json::{Value, json};

use super::testbed::{LISTS, NODE, Programs, create, resource};
use crate::bench::cluster::process::Process;

const ACCOUNT: &str = "/run/secrets/kubernetes.io/serviceaccount";

/// Makes the account of Multus' manifests, with their rights, and returns a token of it: the API server takes
/// `network-status` of no other.
pub async fn account(client: &Client) -> Result<String> {
    let of_core = json!({"apiGroups": [""], "resources": ["pods", "pods/status"],
                         "verbs": ["get", "list", "update", "watch"]});
    let of_events = json!({"apiGroups": ["", "events.k8s.io"], "resources": ["events"],
                           "verbs": ["create", "patch", "update"]});
    let of_nads = json!({"apiGroups": ["k8s.cni.cncf.io"], "resources": ["*"], "verbs": ["*"]});
    let subject = json!({"kind": "ServiceAccount", "namespace": "kube-system", "name": "multus"});
    let rbac = "rbac.authorization.k8s.io";
    let name = json!({"name": "multus"});
    for object in [
        json!({"apiVersion": "v1", "kind": "ServiceAccount",
               "metadata": {"namespace": "kube-system", "name": "multus"}}),
        json!({"apiVersion": format!("{rbac}/v1"), "kind": "ClusterRole", "metadata": name,
               "rules": [of_core, of_events, of_nads]}),
        json!({"apiVersion": format!("{rbac}/v1"), "kind": "ClusterRoleBinding", "metadata": name,
               "subjects": [subject],
               "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "multus"}}),
    ] {
        create(client, object).await?;
    }
    let kind = resource("v1", "ServiceAccount");
    let accounts: Api<DynamicObject> = Api::namespaced_with(client.clone(), "kube-system", &kind);
    let request =
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let parameters = PostParams::default();
    let answer = accounts.create_subresource("token", "multus", &parameters, &request);
    let answer: Value = answer.await?;
    let token = answer["status"]["token"].as_str();
    Ok(token.context("the API server issued no token")?.to_owned())
}

/// Starts Multus' daemon, as in a pod of its own: it reaches the API server by the variables and files of a pod.
pub fn daemon(cluster: &Cluster, programs: &Programs, token: &str) -> Result<Process> {
    let kubeconfig: Value = serde_json::from_str(&cluster.kubeconfig())?;
    let server = kubeconfig["clusters"][0]["cluster"]["server"].as_str();
    let server = server.context("a kubeconfig without server")?;
    let (host, port) = server
        .trim_start_matches("https://")
        .rsplit_once(':')
        .context("a server without port")?;
    fs::create_dir_all(ACCOUNT)?;
    fs::write(format!("{ACCOUNT}/token"), token)?;
    // The server has signed its certificate itself, and sends that of its authority along.
    let certificates = Command::new("openssl")
        .args([
            "s_client",
            "-showcerts",
            "-connect",
            &format!("{host}:{port}"),
        ])
        .stdin(std::process::Stdio::null())
        .output()
        .context("execute openssl")?;
    fs::write(format!("{ACCOUNT}/ca.crt"), &certificates.stdout)?;
    let config = json!({
        "cniVersion": "1.0.0", "logLevel": "error", "logToStderr": true, "socketDir": "/run/multus/",
        "multusConfigFile": "auto", "cniConfigDir": LISTS, "multusAutoconfigDir": LISTS,
        "multusMasterCNI": "10-pods.conflist", "binDir": programs.plugins, "daemonSocketDir": "/run/multus/",
    });
    fs::write("/run/daemon.json", config.to_string())?;
    Process::spawn(
        Command::new(&programs.daemon)
            .args(["-config", "/run/daemon.json"])
            .env("KUBERNETES_SERVICE_HOST", host)
            .env("KUBERNETES_SERVICE_PORT", port)
            .env("MULTUS_NODE_NAME", NODE),
    )
}
