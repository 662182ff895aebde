//! The accounts, roles and admission policies that netqos ships.
#![allow(clippy::unwrap_used, clippy::panic)]

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use netqos_k8s::NetworkQoSNodeReport;
use netqos_kubernetes::{Account, Lease};
use serde_json::json;

async fn config(lease: &Lease) -> kube::Config {
    let kubeconfig = Kubeconfig::from_yaml(&lease.kubeconfig()).unwrap();
    let options = KubeConfigOptions::default();
    kube::Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .unwrap()
}

/// The code of a refusal.
fn code<T: std::fmt::Debug>(answer: kube::Result<T>) -> u16 {
    match answer {
        Err(kube::Error::Api(status)) => status.code,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn agent_token_may_report_of_its_own_node_and_read_pods() {
    let lease = Lease::take().await.unwrap();
    let mut config = config(&lease).await;
    let administrator = Client::try_from(config.clone()).unwrap();
    let nodes: Api<Node> = Api::all(administrator.clone());
    for name in ["node1", "node2"] {
        let node = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
        nodes.create(&PostParams::default(), &node).await.unwrap();
    }
    let account = Account::Agent { node: "node1" };
    let token = account.token(&administrator).await.unwrap();
    config.auth_info.token = Some(token.into());
    let agent = Client::try_from(config).unwrap();

    let reports: Api<NetworkQoSNodeReport> = Api::all(agent.clone());
    let report = |node: &str| {
        Patch::Apply(json!({
            "apiVersion": "netqos.io/v1alpha1",
            "kind": "NetworkQoSNodeReport",
            "metadata": {"name": node},
            "agentVersion": "0.1.0",
            "policies": [],
            "problems": [],
        }))
    };
    let parameters = PatchParams::apply("netqos").force();
    reports
        .patch("node1", &parameters, &report("node1"))
        .await
        .unwrap();
    let refused = reports.patch("node2", &parameters, &report("node2")).await;
    let Err(kube::Error::Api(status)) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(status.code, 403, "{status:?}");
    assert!(status.message.contains("own node alone"), "{status:?}");
    // The policy limits agents only.
    let all: Api<NetworkQoSNodeReport> = Api::all(administrator);
    all.patch("node2", &parameters, &report("node2"))
        .await
        .unwrap();

    let pods: Api<Pod> = Api::namespaced(agent, "default");
    pods.list(&ListParams::default()).await.unwrap();
    let deleted = pods.delete("any", &DeleteParams::default()).await;
    assert_eq!(code(deleted), 403);
    let delete = DeleteParams::default();
    assert_eq!(code(reports.delete("node1", &delete).await), 403);
}
